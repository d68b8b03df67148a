//! The schema version of a store.
//!
//! `meta.schema` holds the version that a store has, `meta.min_writer` the oldest version whose
//! programs may write it. The schema is checked when a store is opened, the minimum writer in every
//! write transaction, so that an old program beside a new one refuses to write.

use crate::Error;
use crate::driver::{Db, args};

/// The schema that this program writes.
pub(crate) const SCHEMA: u32 = 1;

/// The schema of the store.
pub(crate) fn stored(db: &dyn Db) -> Result<u32, Error> {
    let sql = "SELECT value FROM meta WHERE key = 'schema'";
    db.row(sql, args![], |row| row.get::<String>(0))?
        .and_then(|schema| schema.parse().ok())
        .ok_or_else(|| Error::Damaged("its schema version cannot be read".to_owned()))
}

/// Fails if programs of this schema may not write the store.
pub(crate) fn check_writer(db: &dyn Db) -> Result<(), Error> {
    let sql = "SELECT value FROM meta WHERE key = 'min_writer'";
    let found = db.row(sql, args![], |row| row.get::<String>(0))?;
    match found.and_then(|version| version.parse().ok()).unwrap_or(u32::MAX) {
        found if found > SCHEMA => Err(Error::TooNew { found, known: SCHEMA }),
        _ => Ok(()),
    }
}
