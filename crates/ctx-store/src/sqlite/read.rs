//! What surfaces look at: short reads, bounded pages, every object checked against its name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ctx_core::commit::Commit;
use ctx_core::decide::{Needs, SessionView};
use ctx_core::id::{CommitId, ObjectId, SessionId, StepId, TaskId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::step::Step;
use ctx_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{CommitQuery, Error, Health, PAGE_MAX, Sentence, StoredStep, StoredTurn, Target};

use super::hashes::{Table, locate};
use super::open::{Files, SCHEMA, meta};
use super::rows;
use super::segment::{self, Place};
use super::shorten;
use super::{behind, erasing};

pub(crate) fn view(
    connection: &Connection,
    target: &Target,
    needs: Needs,
) -> Result<Option<SessionView>, Error> {
    rows::find_session(connection, target)?
        .map(|found| rows::view(connection, &found, needs))
        .transpose()
}

fn checked(id: ObjectId, object: Object) -> Result<Object, Error> {
    object.check(id).map_err(|fault| Error::DamagedObject { id, why: fault.to_string() })?;
    Ok(object)
}

/// The object in a row of a table.
pub(crate) fn object_at(
    connection: &Connection,
    table: Table,
    row: i64,
) -> Result<Option<Object>, Error> {
    if table == Table::Turns {
        let mut statement =
            connection.prepare_cached("SELECT version, header FROM turns WHERE id = ?1")?;
        let found = statement
            .query_row([row], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
            .optional()?;
        return Ok(found.map(|(version, header)| Object {
            kind: Kind::Turn,
            version,
            bytes: header.into_bytes(),
        }));
    }
    let sql =
        format!("SELECT version, seg, off, len, packing, size FROM {} WHERE id = ?1", table.name());
    let found = connection
        .prepare_cached(&sql)?
        .query_row([row], |row| Ok((row.get(0)?, Place::from_row(row, 1)?)))
        .optional()?;
    let Some((version, Some(place))) = found else { return Ok(None) };
    Ok(Some(Object { kind: table.kind(), version, bytes: place.read(connection)? }))
}

pub(crate) fn object(
    connection: &Connection,
    side: &Connection,
    id: ObjectId,
) -> Result<Option<Object>, Error> {
    for table in Table::ALL {
        if let Some(row) = locate(connection, side, table, id)? {
            let named = |error| match error {
                Error::Damaged(why) => Error::DamagedObject { id, why },
                other => other,
            };
            return object_at(connection, table, row)
                .map_err(named)?
                .map(|object| checked(id, object))
                .transpose();
        }
    }
    Ok(None)
}

pub(crate) fn idle_tasks(
    connection: &Connection,
    since: Timestamp,
    limit: usize,
) -> Result<Vec<SessionId>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT sessions.id FROM tasks JOIN sessions ON sessions.task = tasks.row WHERE tasks.last_activity_at < ?1 LIMIT ?2",
    )?;
    let ids = statement
        .query_map(params![since.0, limit.min(PAGE_MAX) as i64], |row| row.get::<_, String>(0))?;
    ids.map(|id| id?.parse().map_err(|e| Error::Damaged(format!("a session's id: {e}")))).collect()
}

pub(crate) fn turns(
    connection: &Connection,
    side: &Connection,
    head: TurnId,
    depth: Option<u64>,
    limit: usize,
) -> Result<Vec<StoredTurn>, Error> {
    let mut at = Some(
        locate(connection, side, Table::Turns, head.0)?
            .ok_or(Error::NotFound { what: "turn", name: head.to_string() })?,
    );
    if let Some(depth) = depth {
        let mut walk =
            connection.prepare_cached("SELECT parent, depth FROM turns WHERE id = ?1")?;
        while let Some(row) = at {
            let (parent, here): (Option<i64>, u64) =
                walk.query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if here <= depth {
                break;
            }
            at = parent;
        }
    }
    let mut turns = Vec::new();
    while let (Some(row), true) = (at, turns.len() < limit) {
        let (turn, parent) = stored_turn(connection, row)?;
        at = parent;
        turns.push(turn);
    }
    Ok(turns)
}

/// The turn in a row, and the row of its parent.
pub(super) fn stored_turn(
    connection: &Connection,
    row: i64,
) -> Result<(StoredTurn, Option<i64>), Error> {
    let mut statement = connection.prepare_cached(
        "SELECT hash, version, header, parent, depth, body_version, seg, off, len, packing, size FROM turns WHERE id = ?1",
    )?;
    let mut found = statement.query([row])?;
    let found =
        found.next()?.ok_or_else(|| Error::Damaged(format!("turn row {row} is missing")))?;
    let id = rows::hash(found.get(0)?)?;
    let header = checked(
        id,
        Object {
            kind: Kind::Turn,
            version: found.get(1)?,
            bytes: found.get::<_, String>(2)?.into_bytes(),
        },
    )?;
    let header: ctx_core::turn::Header = decode(id, &header)?;
    let body = match Place::from_row(found, 6)? {
        None => None,
        Some(place) => {
            let bytes = place.read(connection)?;
            Some(checked(
                header.body,
                Object { kind: Kind::TurnBody, version: found.get(5)?, bytes },
            )?)
        }
    };
    let compaction = match header.kind {
        ctx_core::turn::Kind::Compaction => shorten::compaction(connection, row)?,
        ctx_core::turn::Kind::Normal => None,
    };
    Ok((
        StoredTurn { id: TurnId(id), depth: found.get(4)?, header, body, compaction },
        found.get(3)?,
    ))
}

fn decode<T: serde::de::DeserializeOwned>(id: ObjectId, object: &Object) -> Result<T, Error> {
    object.decode().map_err(|fault| Error::DamagedObject { id, why: fault.to_string() })
}

pub(crate) fn steps(
    connection: &Connection,
    task: TaskId,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredStep>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT steps.hash, steps.version, steps.seq, steps.seg, steps.off, steps.len, steps.packing, steps.size
         FROM steps JOIN tasks ON tasks.row = steps.task WHERE tasks.id = ?1 AND steps.seq > ?2 ORDER BY steps.seq LIMIT ?3",
    )?;
    let mut found =
        statement.query(params![task.to_string(), after, limit.min(PAGE_MAX) as i64])?;
    let mut steps = Vec::new();
    while let Some(row) = found.next()? {
        let id = rows::hash(row.get(0)?)?;
        let place = Place::from_row(row, 3)?
            .ok_or_else(|| Error::Damaged(format!("step {id} has no body")))?;
        let object = checked(
            id,
            Object { kind: Kind::Step, version: row.get(1)?, bytes: place.read(connection)? },
        )?;
        steps.push(StoredStep {
            id: StepId(id),
            seq: row.get(2)?,
            step: decode(id, &object)?,
            object,
        });
    }
    Ok(steps)
}

pub(crate) fn commits(
    connection: &Connection,
    before: i64,
    query: &CommitQuery,
) -> Result<Vec<(CommitId, Commit)>, Error> {
    let types = serde_json::to_string(&query.types).map_err(|e| Error::Internal(e.to_string()))?;
    let mut statement = connection.prepare_cached(
        "SELECT id, hash FROM commits WHERE id < ?1 AND (?2 IS NULL OR project = ?2)
         AND (?3 = '[]' OR commit_type IN (SELECT value FROM json_each(?3))) ORDER BY id DESC LIMIT ?4",
    )?;
    let mut found = statement.query(params![
        before,
        query.project,
        types,
        query.limit.min(PAGE_MAX + 1) as i64
    ])?;
    let mut commits = Vec::new();
    while let Some(row) = found.next()? {
        let id = rows::hash(row.get(1)?)?;
        let object = object_at(connection, Table::Commits, row.get(0)?)?
            .ok_or_else(|| Error::Damaged(format!("commit {id} has no body")))?;
        commits.push((CommitId(id), decode(id, &checked(id, object)?)?));
    }
    Ok(commits)
}

pub(crate) fn narrative(
    connection: &Connection,
    from: Timestamp,
    to: Timestamp,
    limit: usize,
) -> Result<Vec<Sentence>, Error> {
    let mut statement =
        connection.prepare_cached("SELECT id, hash FROM steps WHERE notes > 0 AND at >= ?1 AND at < ?2 ORDER BY at, id LIMIT ?3")?;
    let mut found = statement.query(params![from.0, to.0, limit as i64])?;
    let mut sentences = Vec::new();
    while let Some(row) = found.next()? {
        let id = rows::hash(row.get(1)?)?;
        let object = object_at(connection, Table::Steps, row.get(0)?)?
            .ok_or_else(|| Error::Damaged(format!("step {id} has no body")))?;
        let step: Step = decode(id, &checked(id, object)?)?;
        let sentence = |text: &str| Sentence {
            at: step.timestamp,
            task: step.task,
            step: StepId(id),
            text: text.to_owned(),
        };
        sentences.extend(step.notes().map(sentence));
    }
    sentences.truncate(limit);
    Ok(sentences)
}

/// A copy of one moment, whole or not there at all, while writers go on. It is one file: segments that are files of their own
/// here are in the database there.
pub(crate) fn backup(connection: &Connection, files: &Files, to: &Path) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::ReadOnly(format!("{} exists already", to.display())));
    }
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}.part", ulid::Ulid::new()));
    let part = Path::new(&name);
    let written = copy(connection, files, part).and_then(|()| Ok(fs::hard_link(part, to)?));
    let _ = fs::remove_file(part);
    written?;
    if let Some(dir) = to.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

fn copy(connection: &Connection, files: &Files, part: &Path) -> Result<(), Error> {
    use std::os::unix::fs::OpenOptionsExt;
    // Made empty first: the copy must never be readable by others, not even while it grows.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    let name = part
        .to_str()
        .ok_or_else(|| Error::ReadOnly(format!("{} is not a name SQLite takes", part.display())))?;
    let _whole = erasing::hold(files);
    connection.execute("VACUUM INTO ?1", [name])?;
    let mut copy = Connection::open(part)?;
    // Else what is erased there would stay in pages that nothing uses.
    copy.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
    for number in files.segment_numbers()? {
        let tx = copy.transaction()?;
        segment::take_in(&tx, number, &files.segment(number))?;
        tx.commit()?;
    }
    erasing::erase_in_copy(&mut copy)?;
    copy.close().map_err(|(_, error)| error)?;
    fs::File::open(part)?.sync_all()?;
    Ok(())
}

/// What a file takes, holes left out.
fn on_disk(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.blocks() * 512)
}

pub(crate) fn health(
    connection: &Connection,
    side: &Connection,
    files: &Files,
) -> Result<Health, Error> {
    let count = |table: &str| -> Result<u64, Error> {
        Ok(connection.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0))?)
    };
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
    Ok(Health {
        schema: SCHEMA,
        project: meta(connection, "project")?.unwrap_or_default(),
        database_bytes: bytes(&files.database()),
        wal_bytes: bytes(&files.wal()),
        segment_bytes: files
            .segment_numbers()?
            .into_iter()
            .map(|number| on_disk(&files.segment(number)))
            .sum(),
        search_bytes: bytes(&files.search()),
        sessions: count("sessions")?,
        turns: count("turns")?,
        steps: count("steps")?,
        commits: count("commits")?,
        blobs: count("blobs")?,
        unindexed: behind::lag(connection, side)?,
        sqlite: rusqlite::version().to_owned(),
    })
}
