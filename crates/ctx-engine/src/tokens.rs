//! API tokens: created once and shown once, stored by their hash, revoked permanently.

use ctx_core::id::TokenId;
use ctx_core::token::{SECRET_BYTES, Scope, Token, digest, secret};

use crate::engine::{Engine, Error};

/// A token that was just created. Its secret cannot be shown again.
pub struct NewToken {
    /// The stored part of the token.
    pub token: Token,
    /// The secret that the client sends.
    pub secret: String,
}

/// API tokens: stored by their hash, shown once, revoked for good.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::core::token::Scope;
///
/// let new = engine.tokens().create(Scope::Read, Some("phone".to_owned())).await?;
/// let found = engine.tokens().find(&new.secret).await?.expect("it is valid");
/// engine.tokens().revoke(found.id).await?;
/// assert!(engine.tokens().find(&new.secret).await?.is_none());
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Tokens<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// API tokens: stored by their hash, shown once, revoked permanently.
    pub const fn tokens(&self) -> Tokens<'_> {
        Tokens { engine: self }
    }
}

impl Tokens<'_> {
    /// Creates a token.
    ///
    /// Fails if the name is not valid, there are too many tokens, or no random numbers are
    /// available.
    pub async fn create(self, scope: Scope, name: Option<String>) -> Result<NewToken, Error> {
        let token = Token::new(TokenId(self.engine.new_id()), name, scope, self.engine.now())?;
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(|e| {
            ctx_store::Error::Unavailable(format!("no random numbers available: {e}"))
        })?;
        let secret = secret(bytes);
        self.engine.store().insert_token(&token, digest(&secret)).await?;
        Ok(NewToken { token, secret })
    }

    /// The token with this secret; none where it does not exist or was revoked.
    ///
    /// Fails if the store fails.
    pub async fn find(self, sent: &str) -> Result<Option<Token>, Error> {
        Ok(self.engine.store().token(digest(sent)).await?)
    }

    /// All tokens, oldest first.
    ///
    /// Fails if the store fails.
    pub async fn list(self) -> Result<Vec<Token>, Error> {
        Ok(self.engine.store().tokens().await?)
    }

    /// Revokes a token, effective at once.
    ///
    /// Fails if the token does not exist.
    pub async fn revoke(self, id: TokenId) -> Result<Token, Error> {
        let removed = self.engine.store().delete_token(id).await?;
        Ok(removed
            .ok_or_else(|| ctx_store::Error::NotFound { what: "token", name: id.to_string() })?)
    }
}
