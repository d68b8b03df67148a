//! Which processes run sessions, and which of them are dead.
//!
//! A process that runs sessions holds a lock on a file of its own for as long as it lives; the kernel lets go of it
//! however the process ends. So on one machine death is known at once. One that only sleeps is taken for dead when
//! its lease has run out; the fence then stops whatever it still tries to write.

use std::fs::{self, File};
use std::path::PathBuf;

use ctx_core::id::NodeId;
use ctx_core::time::Timestamp;
use rusqlite::{Connection, TransactionBehavior, params};

use crate::Error;

use super::open::{Files, locked};

fn path(files: &Files, node: &str) -> PathBuf {
    files.dir.join("nodes").join(node)
}

/// Registers a process; it lives as long as what is returned.
pub(crate) fn join(
    connection: &mut Connection,
    files: &Files,
    node: NodeId,
    until: Timestamp,
) -> Result<File, Error> {
    let name = node.to_string();
    let file = path(files, &name);
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    // Always a file of its own: a process that was taken for dead still holds the lock of its old one.
    let _ = fs::remove_file(&file);
    let held = File::create(&file)?;
    held.lock()?;
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute(
        "INSERT OR REPLACE INTO nodes(id, epoch, host, expires_at) VALUES (?1, 1, ?2, ?3)",
        params![name, std::process::id(), until.0],
    )?;
    tx.commit()?;
    Ok(held)
}

/// Prolongs the lease; `false` when the process was taken for dead meanwhile.
pub(crate) fn beat(
    connection: &mut Connection,
    files: &Files,
    node: NodeId,
    until: Timestamp,
) -> Result<bool, Error> {
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let known = tx.execute(
        "UPDATE nodes SET expires_at = ?2 WHERE id = ?1",
        params![node.to_string(), until.0],
    )?;
    tx.commit()?;
    Ok(known > 0)
}

/// Forgets a process that ends, or one that is dead and whose sessions were taken over.
pub(crate) fn leave(connection: &mut Connection, files: &Files, node: NodeId) -> Result<(), Error> {
    let _lock = locked(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute("DELETE FROM nodes WHERE id = ?1 AND id NOT IN (SELECT owner FROM sessions WHERE owner IS NOT NULL)", [node.to_string()])?;
    tx.commit()?;
    let _ = fs::remove_file(path(files, &node.to_string()));
    Ok(())
}

/// The processes that are dead: gone from this machine, or owning a session under a lease that has run out.
pub(crate) fn dead(
    connection: &Connection,
    files: &Files,
    now: Timestamp,
) -> Result<Vec<NodeId>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, expires_at < ?1 AND id IN (SELECT owner FROM sessions WHERE owner IS NOT NULL) FROM nodes
         UNION SELECT owner, 1 FROM sessions WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM nodes)",
    )?;
    let nodes = statement
        .query_map([now.0], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))?;
    let mut dead = Vec::new();
    for node in nodes {
        let (name, overdue) = node?;
        if overdue || !is_held(&path(files, &name)) {
            dead.push(name.parse().map_err(|e| Error::Damaged(format!("a node's id: {e}")))?);
        }
    }
    Ok(dead)
}

/// Whether somebody holds the lock of a file.
fn is_held(path: &PathBuf) -> bool {
    match File::open(path) {
        Ok(file) => matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)),
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
    }
}
