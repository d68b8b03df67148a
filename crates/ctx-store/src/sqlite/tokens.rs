//! Tokens, by the hash of their secret.

use ctx_core::id::{ObjectId, TokenId};
use ctx_core::refusal::Refusal;
use ctx_core::time::Timestamp;
use ctx_core::token::{TOKENS_MAX, Token};
use rusqlite::{Connection, Row, TransactionBehavior, params};

use crate::Error;

use super::open::{Files, check_min_writer, locked};
use super::rows::named;

const COLUMNS: &str = "SELECT id, name, scope, created_at FROM tokens";

fn token(row: &Row<'_>) -> Result<Token, Error> {
    let (id, scope): (String, String) = (row.get(0)?, row.get(2)?);
    Ok(Token {
        id: id.parse().map_err(|e| Error::Damaged(format!("a token's id: {e}")))?,
        name: row.get(1)?,
        scope: named("a token's scope", &scope)?,
        created_at: Timestamp(row.get(3)?),
    })
}

fn one(
    connection: &Connection,
    condition: &str,
    key: &[&dyn rusqlite::ToSql],
) -> Result<Option<Token>, Error> {
    let mut statement = connection.prepare_cached(&format!("{COLUMNS} WHERE {condition}"))?;
    let mut rows = statement.query(key)?;
    rows.next()?.map(token).transpose()
}

pub(crate) fn put(
    connection: &mut Connection,
    files: &Files,
    token: &Token,
    digest: ObjectId,
) -> Result<(), Error> {
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    let count: usize = tx.query_row("SELECT COUNT(*) FROM tokens", [], |row| row.get(0))?;
    if count >= TOKENS_MAX {
        return Err(Error::Refused(Refusal::TooMany {
            what: "tokens",
            count: count + 1,
            max: TOKENS_MAX,
        }));
    }
    tx.execute(
        "INSERT INTO tokens(id, hash, name, scope, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            token.id.to_string(),
            digest.as_bytes(),
            token.name,
            token.scope.name(),
            token.created_at.0
        ],
    )?;
    Ok(tx.commit()?)
}

pub(crate) fn by_digest(connection: &Connection, digest: ObjectId) -> Result<Option<Token>, Error> {
    one(connection, "hash = ?1", params![digest.as_bytes()])
}

/// Every token, oldest first: an id begins with the time.
pub(crate) fn all(connection: &Connection) -> Result<Vec<Token>, Error> {
    let mut statement = connection.prepare_cached(&format!("{COLUMNS} ORDER BY id"))?;
    let mut rows = statement.query([])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(token(row)?);
    }
    Ok(tokens)
}

pub(crate) fn remove(
    connection: &mut Connection,
    files: &Files,
    id: TokenId,
) -> Result<Option<Token>, Error> {
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    check_min_writer(&tx)?;
    let found = one(&tx, "id = ?1", params![id.to_string()])?;
    tx.execute("DELETE FROM tokens WHERE id = ?1", [id.to_string()])?;
    tx.commit()?;
    Ok(found)
}
