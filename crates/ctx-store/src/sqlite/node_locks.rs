//! Nodes: processes that run sessions, and which of them have ended.
//!
//! A node holds a lock on a file of its own while it lives. The kernel releases the lock however
//! the process ends, so on one machine the end of a process is known at once. A process that is
//! suspended keeps its lock; it counts as dead when its lease expires, and the fence rejects its
//! later writes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ctx_core::id::NodeId;
use ctx_core::time::Timestamp;
use rusqlite::{Connection, TransactionBehavior, params};

use crate::Error;

use super::open::{Files, acquire_write_lock};

/// The locks of the nodes of this process.
#[derive(Default)]
pub(crate) struct NodeLocks(Mutex<HashMap<NodeId, File>>);

impl NodeLocks {
    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<NodeId, File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a node or renews its lease. `false` if it had been removed by another process.
    pub(crate) fn keep_alive(
        &self,
        connection: &mut Connection,
        files: &Files,
        node: NodeId,
        until: Timestamp,
    ) -> Result<bool, Error> {
        let known = self.held().contains_key(&node);
        if known && renew(connection, files, node, until)? {
            return Ok(true);
        }
        let lock = lock_file_of(files, node)?;
        register(connection, files, node, until)?;
        self.held().insert(node, lock);
        Ok(!known)
    }

    /// Releases the lock of a node and removes its row if it owns no session.
    pub(crate) fn leave(
        &self,
        connection: &mut Connection,
        files: &Files,
        node: NodeId,
    ) -> Result<(), Error> {
        self.held().remove(&node);
        let _lock = acquire_write_lock(files)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute(
            "DELETE FROM nodes WHERE id = ?1
               AND id NOT IN (SELECT owner FROM sessions WHERE owner IS NOT NULL)",
            [node.to_string()],
        )?;
        tx.commit()?;
        let _ = fs::remove_file(path_of(files, &node.to_string()));
        Ok(())
    }
}

fn path_of(files: &Files, node: &str) -> PathBuf {
    files.dir.join("nodes").join(node)
}

/// Locks a new file: a node that was declared dead still holds the lock of its old one.
fn lock_file_of(files: &Files, node: NodeId) -> Result<File, Error> {
    let path = path_of(files, &node.to_string());
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let _ = fs::remove_file(&path);
    let lock = File::create(&path)?;
    lock.lock()?;
    Ok(lock)
}

fn register(
    connection: &mut Connection,
    files: &Files,
    node: NodeId,
    until: Timestamp,
) -> Result<(), Error> {
    let _lock = acquire_write_lock(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute(
        "INSERT OR REPLACE INTO nodes(id, epoch, host, expires_at) VALUES (?1, 1, ?2, ?3)",
        params![node.to_string(), std::process::id(), until.0],
    )?;
    Ok(tx.commit()?)
}

/// `false` if the row is gone.
fn renew(
    connection: &mut Connection,
    files: &Files,
    node: NodeId,
    until: Timestamp,
) -> Result<bool, Error> {
    let _lock = acquire_write_lock(files)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let renewed = tx.execute(
        "UPDATE nodes SET expires_at = ?2 WHERE id = ?1",
        params![node.to_string(), until.0],
    )?;
    tx.commit()?;
    Ok(renewed > 0)
}

/// Nodes whose process has ended, or that own a session under an expired lease.
pub(crate) fn dead(
    connection: &Connection,
    files: &Files,
    now: Timestamp,
) -> Result<Vec<NodeId>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, expires_at < ?1
                AND id IN (SELECT owner FROM sessions WHERE owner IS NOT NULL) FROM nodes
         UNION SELECT owner, 1 FROM sessions
               WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM nodes)",
    )?;
    let nodes = statement
        .query_map([now.0], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))?;
    let mut dead = Vec::new();
    for node in nodes {
        let (name, expired) = node?;
        if expired || !is_locked(&path_of(files, &name)) {
            dead.push(name.parse().map_err(|e| Error::Damaged(format!("a node's id: {e}")))?);
        }
    }
    Ok(dead)
}

/// Whether the process of a node lives and its lease has not expired.
pub(crate) fn is_alive(
    connection: &Connection,
    files: &Files,
    node: NodeId,
    now: Timestamp,
) -> Result<bool, Error> {
    let name = node.to_string();
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM nodes WHERE id = ?1 AND expires_at >= ?2)")?;
    let is_leased = statement.query_row(params![name, now.0], |row| row.get(0))?;
    Ok(is_leased && is_locked(&path_of(files, &name)))
}

/// Whether a process holds the lock of a file.
fn is_locked(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)),
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
    }
}
