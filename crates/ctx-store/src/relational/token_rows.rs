//! Rows of `tokens`: API tokens under the hash of their secret.

use ctx_core::id::{ObjectId, TokenId};
use ctx_core::token::{Token, admit};

use crate::Error;
use crate::driver::{Db, Row, Tx, args};

use super::{from_id, from_name};

fn token(row: Row<'_>) -> Result<Token, Error> {
    Ok(Token {
        id: from_id("a token's id", row.get(0)?)?,
        name: row.get(1)?,
        scope: from_name("a token's scope", row.get(2)?)?,
        created_at: row.get(3)?,
    })
}

/// Stores a token.
///
/// # Errors
/// If there are too many tokens.
pub(crate) fn insert(tx: &mut dyn Tx, token: &Token, digest: ObjectId) -> Result<(), Error> {
    let db: &dyn Db = tx;
    admit(db.int("SELECT COUNT(*) FROM tokens", args![])?.unwrap_or(0).unsigned_abs())?;
    tx.execute(
        "INSERT INTO tokens(id, hash, name, scope, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        args![
            &token.id.to_string(),
            &digest,
            token.name.as_ref(),
            token.scope.name(),
            token.created_at,
        ],
    )?;
    Ok(())
}

pub(crate) fn by_digest(db: &dyn Db, digest: ObjectId) -> Result<Option<Token>, Error> {
    db.row("SELECT id, name, scope, created_at FROM tokens WHERE hash = ?1", args![&digest], token)
}

/// Every token, oldest first.
pub(crate) fn list(db: &dyn Db) -> Result<Vec<Token>, Error> {
    db.rows("SELECT id, name, scope, created_at FROM tokens ORDER BY id", args![], token)
}

/// Deletes a token and returns it.
pub(crate) fn delete(tx: &mut dyn Tx, id: TokenId) -> Result<Option<Token>, Error> {
    let id = id.to_string();
    let db: &dyn Db = tx;
    let found =
        db.row("SELECT id, name, scope, created_at FROM tokens WHERE id = ?1", args![&id], token)?;
    tx.execute("DELETE FROM tokens WHERE id = ?1", args![&id])?;
    Ok(found)
}
