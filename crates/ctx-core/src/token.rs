//! Tokens: who may ask over the network, and for what (design, section 10).
//!
//! A token is 256 random bits. What is stored is its BLAKE3 hash: slow hashes are for secrets that can be guessed, and
//! this one cannot, so a thief of the store gains nothing and a request costs a microsecond. A token is looked up by that
//! hash; how long the look takes says nothing about the token, because nobody can steer a hash towards a stored one.

use serde::{Deserialize, Serialize};

use crate::id::{ObjectId, TokenId};
use crate::refusal::Refusal;
use crate::text::check;
use crate::time::Timestamp;

/// How many random bytes make a token.
pub const SECRET_BYTES: usize = 32;
/// The most tokens that a store keeps.
pub const TOKENS_MAX: usize = 1000;
/// The longest name, in bytes.
const NAME_MAX_BYTES: usize = 200;
/// What every token begins with, so that a leaked one is known for what it is.
const PREFIX: &str = "ctx_";

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look.
    Read,
    /// Everything but deleting sessions and administration.
    Write,
    /// Everything.
    Admin,
}

impl Scope {
    /// Every scope, the least first.
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Admin];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Whether it is enough for what needs `needed`.
    pub fn reaches(self, needed: Scope) -> bool {
        self >= needed
    }
}

/// Refuses a new token if the store keeps `count` already.
///
/// # Errors
/// If there are [`TOKENS_MAX`] tokens.
pub const fn admit(count: u64) -> Result<(), Refusal> {
    let count = count as usize;
    if count < TOKENS_MAX {
        return Ok(());
    }
    Err(Refusal::TooMany { what: "tokens", count: count + 1, max: TOKENS_MAX })
}

/// A token as it is kept: everything but the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is revoked by.
    pub id: TokenId,
    /// What it is for, for people.
    pub name: Option<String>,
    /// What it may do.
    pub scope: Scope,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Token {
    /// A token that is to be kept.
    ///
    /// # Errors
    /// If its name is none.
    pub fn new(
        id: TokenId,
        name: Option<String>,
        scope: Scope,
        created_at: Timestamp,
    ) -> Result<Self, Refusal> {
        if let Some(name) = &name {
            check(name, NAME_MAX_BYTES)
                .map_err(|why| Refusal::BadText { what: "name of the token", why })?;
        }
        Ok(Self { id, name, scope, created_at })
    }
}

/// The token that is shown once.
pub fn secret(bytes: [u8; SECRET_BYTES]) -> String {
    bytes.iter().fold(PREFIX.to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// What is stored of a token, and looked up.
pub fn digest(secret: &str) -> ObjectId {
    ObjectId::of(&[b"ctx token\0", secret.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reaches_what_is_below_it() {
        for (have, reached) in [
            (Scope::Read, [true, false, false]),
            (Scope::Write, [true, true, false]),
            (Scope::Admin, [true; 3]),
        ] {
            assert_eq!(Scope::ALL.map(|needed| have.reaches(needed)), reached, "{have:?}");
        }
    }

    #[test]
    fn what_is_stored_does_not_hold_the_token() {
        let secret = secret([0xab; SECRET_BYTES]);
        assert_eq!(secret.len(), 4 + 2 * SECRET_BYTES);
        assert!(!digest(&secret).to_string().contains("abab"));
        assert_ne!(digest(&secret), digest("ctx_"));
    }

    #[test]
    fn a_name_is_a_line_or_none() {
        let made = |name: &str| {
            Token::new(TokenId(ulid::Ulid(1)), Some(name.to_owned()), Scope::Read, Timestamp(1))
        };
        assert!(made("laptop").is_ok());
        assert!(made("").is_err() && made(&"x".repeat(201)).is_err());
    }

    #[test]
    fn a_store_keeps_a_bounded_number_of_tokens() {
        assert!(admit(TOKENS_MAX as u64 - 1).is_ok());
        assert!(matches!(admit(TOKENS_MAX as u64), Err(Refusal::TooMany { .. })));
    }
}
