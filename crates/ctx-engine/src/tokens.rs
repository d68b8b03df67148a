//! Tokens: made once and shown once, known again by their hash, revoked for good.

use ctx_core::id::TokenId;
use ctx_core::token::{SECRET_BYTES, Scope, Token, digest, secret};
use ulid::Ulid;

use crate::engine::{Engine, Error};

/// A token that was just made; nobody can show it again.
pub struct NewToken {
    /// What is kept of it.
    pub token: Token,
    /// What the client sends.
    pub secret: String,
}

impl Engine {
    /// Makes a token.
    ///
    /// # Errors
    /// If the name is none, there are too many, or the machine has no random numbers.
    pub async fn create_token(
        &self,
        scope: Scope,
        name: Option<String>,
    ) -> Result<NewToken, Error> {
        let token = Token::new(TokenId(Ulid::new()), name, scope, self.now())?;
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|e| ctx_store::Error::Unavailable(format!("no random numbers: {e}")))?;
        let secret = secret(bytes);
        self.store().insert_token(&token, digest(&secret)).await?;
        Ok(NewToken { token, secret })
    }

    /// The token that a client sent; nothing where it is none or was revoked.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn token(&self, sent: &str) -> Result<Option<Token>, Error> {
        Ok(self.store().token(digest(sent)).await?)
    }

    /// Every token, oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        Ok(self.store().tokens().await?)
    }

    /// Revokes a token, at once and for good.
    ///
    /// # Errors
    /// If there is none.
    pub async fn revoke_token(&self, id: TokenId) -> Result<Token, Error> {
        let removed = self.store().delete_token(id).await?;
        Ok(removed
            .ok_or_else(|| ctx_store::Error::NotFound { what: "token", name: id.to_string() })?)
    }
}
