//! API tokens: authorisation of clients (design section 10).
//!
//! A token is 256 random bits, and only its BLAKE3 hash is stored. A slow hash is not needed,
//! because such a secret cannot be guessed. Tokens are looked up by hash. The time of the lookup
//! reveals nothing about a token, because a client cannot choose the hash of its input.

use serde::{Deserialize, Serialize};

use crate::id::{ObjectId, TokenId};
use crate::refusal::Refusal;
use crate::text_limits::check;
use crate::time::Timestamp;

/// Number of random bytes of a token.
pub const SECRET_BYTES: usize = 32;
/// Maximum number of tokens in a store.
pub const TOKENS_MAX: usize = 1000;
/// Maximum length of a name.
const NAME_MAX_BYTES: usize = 200;
/// Prefix of every token, so that secret scanners recognise a leaked one.
const PREFIX: &str = "ctx_";

/// The permissions of a token. Each scope includes the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read sessions, tasks and events.
    Read,
    /// Everything except deleting sessions and administration.
    Write,
    /// Everything, including administration.
    Admin,
}

impl Scope {
    /// All scopes in ascending order.
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Admin];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// Whether this scope permits an operation that requires `needed`.
    pub fn permits(self, needed: Scope) -> bool {
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

/// A stored token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Token {
    /// Identifies the token in lists and when it is revoked.
    pub id: TokenId,
    /// The purpose of the token, chosen by the user.
    pub name: Option<String>,
    pub scope: Scope,
    pub created_at: Timestamp,
}

impl Token {
    /// Creates the record of a new token.
    ///
    /// # Errors
    /// If the name is empty or too long.
    pub fn new(
        id: TokenId,
        name: Option<String>,
        scope: Scope,
        created_at: Timestamp,
    ) -> Result<Self, Refusal> {
        if let Some(name) = &name {
            check(name, NAME_MAX_BYTES)
                .map_err(|why| Refusal::BadText { what: "token name", why })?;
        }
        Ok(Self { id, name, scope, created_at })
    }
}

/// The text form of a token. It is shown only once.
pub fn secret(bytes: [u8; SECRET_BYTES]) -> String {
    bytes.iter().fold(PREFIX.to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// The stored hash of a token.
pub fn digest(secret: &str) -> ObjectId {
    ObjectId::of(&[b"ctx token\0", secret.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_includes_lower_scopes() {
        for (have, reached) in [
            (Scope::Read, [true, false, false]),
            (Scope::Write, [true, true, false]),
            (Scope::Admin, [true; 3]),
        ] {
            assert_eq!(Scope::ALL.map(|needed| have.permits(needed)), reached, "{have:?}");
        }
    }

    #[test]
    fn the_stored_hash_does_not_contain_the_token() {
        let secret = secret([0xab; SECRET_BYTES]);
        assert_eq!(secret.len(), 4 + 2 * SECRET_BYTES);
        assert!(!digest(&secret).to_string().contains("abab"));
        assert_ne!(digest(&secret), digest("ctx_"));
    }

    #[test]
    fn an_empty_or_long_name_is_rejected() {
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
