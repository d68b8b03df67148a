//! Rows of `sessions`, `session_aliases` and `session_history`.

use ctx_core::id::{NodeId, RunId, SessionId, TurnId};
use ctx_core::session::{self, Parent, Routing, Session};
use ctx_core::time::Timestamp;

use crate::driver::{Arg, Db, Row, Tx, args, limit_arg};
use crate::{Due, Error, HeadMove, Hidden, PAGE_MAX, SessionQuery, Target};

use super::{from_id, from_json, from_name, not_found, to_json, to_name};

/// A row of `sessions`, with the row numbers that it refers to.
pub(crate) struct SessionRow {
    pub(crate) row: i64,
    pub(crate) head_row: Option<i64>,
    pub(crate) task_row: Option<i64>,
    pub(crate) prompt: Option<String>,
    pub(crate) last_event: Option<i64>,
    pub(crate) last_move: Option<i64>,
    pub(crate) last_run: Option<RunId>,
    pub(crate) session: Session,
}

macro_rules! select_session {
    ($condition:literal) => {
        concat!(
            "SELECT s.row, s.id, s.label, s.title, s.project, s.working_dir, s.status, s.state,
                    s.head, h.hash, s.turn_count, s.persona, s.provider_id, s.model, s.origin,
                    s.seq, s.fence, s.created_at, s.updated_at, s.last_activity_at, s.task,
                    s.pending_prompt, s.last_event, s.options, s.delivery, s.track_tasks, s.owner,
                    s.parent_session_label, s.parent_turn_id, s.spawn_tool_call_id, s.unreported,
                    s.routing_key, s.entity, s.policy, s.merged_into, s.tool_rights,
                    s.envelope, s.last_move, s.last_run
             FROM sessions s LEFT JOIN turns h ON h.id = s.head WHERE ",
            $condition
        )
    };
}

fn session_row(row: Row<'_>) -> Result<SessionRow, Error> {
    let session = Session {
        id: from_id("a session's id", row.get(1)?)?,
        label: row.get(2)?,
        title: row.get(3)?,
        project: row.get(4)?,
        working_dir: row.get(5)?,
        status: from_name("a session's status", row.get(6)?)?,
        state: from_name("a session's state", row.get(7)?)?,
        head: row.get::<Option<_>>(9)?.map(TurnId),
        turn_count: row.get(10)?,
        persona: row.get(11)?,
        provider_id: row.get(12)?,
        model: row.get(13)?,
        origin: from_name("a session's origin", row.get(14)?)?,
        parent: parent(row)?,
        routing: routing(row)?,
        tool_rights: row
            .get::<Option<&str>>(35)?
            .map(|text| from_json("a session's tool rights", text))
            .transpose()?
            .unwrap_or_default(),
        envelope: row
            .get::<Option<&str>>(36)?
            .map(|text| from_json("a session's envelope", text))
            .transpose()?,
        options: row
            .get::<Option<&str>>(23)?
            .map(|text| from_json("a session's options", text))
            .transpose()?
            .unwrap_or_default(),
        delivery: from_name("a session's delivery", row.get(24)?)?,
        track_tasks: row.get(25)?,
        owner: row
            .get::<Option<&str>>(26)?
            .map(|node| from_id("a session's owner", node))
            .transpose()?,
        unreported: row.get(30)?,
        seq: row.get(15)?,
        fence: row.get(16)?,
        created_at: row.get(17)?,
        updated_at: row.get(18)?,
        last_activity_at: row.get(19)?,
    };
    Ok(SessionRow {
        row: row.get(0)?,
        head_row: row.get(8)?,
        task_row: row.get(20)?,
        prompt: row.get(21)?,
        last_event: row.get(22)?,
        last_move: row.get(37)?,
        last_run: row
            .get::<Option<&str>>(38)?
            .map(|run| from_id("a session's run", run))
            .transpose()?,
        session,
    })
}

fn parent(row: Row<'_>) -> Result<Option<Parent>, Error> {
    let Some(session) = row.get(27)? else { return Ok(None) };
    let turn = row
        .get::<Option<&str>>(28)?
        .map(|turn| from_id("a session's parent turn", turn))
        .transpose()?;
    Ok(Some(Parent { session, turn, tool_call: row.get(29)? }))
}

fn routing(row: Row<'_>) -> Result<Routing, Error> {
    let entity = row.get::<Option<&str>>(32)?;
    Ok(Routing {
        key: row.get(31)?,
        entity: entity.map(|entity| from_id("a session's entity", entity)).transpose()?,
        policy: row.get(33)?,
        merged_into: row.get(34)?,
    })
}

/// By id, or by label and then by alias: a session shadows an alias of the same name.
pub(crate) fn find(db: &dyn Db, target: &Target) -> Result<Option<SessionRow>, Error> {
    match target {
        Target::Id(id) => db.row(select_session!("s.id = ?1"), args![&id.to_string()], session_row),
        // The way from a sender to its session is in `identity_rows`.
        Target::Inbound(_) => Ok(None),
        Target::Label(label) => {
            match db.row(select_session!("s.label = ?1"), args![label], session_row)? {
                Some(found) => Ok(Some(found)),
                None => db.row(
                    select_session!(
                        "s.label = (SELECT session_label FROM session_aliases WHERE alias = ?1)"
                    ),
                    args![label],
                    session_row,
                ),
            }
        }
    }
}

pub(crate) fn is_label_taken(db: &dyn Db, label: &str) -> Result<bool, Error> {
    Ok(find(db, &Target::Label(label.to_owned()))?.is_some())
}

fn row_of(db: &dyn Db, session: SessionId) -> Result<Option<i64>, Error> {
    db.int("SELECT row FROM sessions WHERE id = ?1", args![&session.to_string()])
}

/// The row number of a session that must exist.
pub(crate) fn known_row(db: &dyn Db, session: SessionId) -> Result<i64, Error> {
    row_of(db, session)?.ok_or_else(|| not_found("session", session))
}

/// A page of sessions, those with the newest activity first. The default session of the command
/// line is left out until it has a turn or waits for a person, because the user did not create it;
/// a query for every status includes it.
pub(crate) fn list(db: &dyn Db, query: &SessionQuery) -> Result<Vec<SessionRow>, Error> {
    let statuses = query.statuses.iter().map(to_name).collect::<Result<Vec<_>, _>>()?;
    let (at, after) = match &query.after {
        Some((at, id)) => (at.0, row_of(db, *id)?.unwrap_or(i64::MAX)),
        None => (i64::MAX, i64::MAX),
    };
    let words = query.words.as_ref().map(|words| like_pattern(words));
    db.rows(
        select_session!(
            "(s.last_activity_at, s.row) < (?1, ?2) /*pg AND s.active_hour <= ?1 / 3600000*/
               AND (?3 <> 0 OR s.status IN LIST(?4))
               AND (?3 <> 0 OR ?8 <> 0 OR s.label NOT IN ('main', 'main:' || s.project)
                    OR s.origin <> 'cli' OR s.turn_count > 0)
               AND (?5 IS NULL OR s.project = ?5)
               AND (?6 IS NULL OR (s.parent_session_label = ?6 AND s.origin <> 'fork'))
               AND (?7 IS NULL OR lower(s.label) LIKE ?7 ESCAPE '\\'
                    OR lower(s.title) LIKE ?7 ESCAPE '\\' OR lower(s.project) LIKE ?7 ESCAPE '\\')
               AND (?8 = 0 OR s.state = 'suspended' OR s.pending_prompt IS NOT NULL
                    OR (SELECT t.state ->> 'name' FROM tasks t WHERE t.row = s.task)
                       IN ('awaiting_user', 'pending_complete'))
               AND (?10 IS NULL OR s.working_dir = ?10)
             ORDER BY /*pg s.active_hour DESC,*/ s.last_activity_at DESC, s.row DESC LIMIT ?9"
        ),
        args![
            at,
            after,
            statuses.is_empty(),
            statuses.as_slice(),
            query.project.as_ref(),
            query.parent.as_ref(),
            words.as_ref(),
            query.waiting,
            limit_arg(query.limit.min(PAGE_MAX + 1)),
            query.working_dir.as_ref(),
        ],
        session_row,
    )
}

/// The number of sessions that a query without a cursor matches.
pub(crate) fn count(db: &dyn Db, query: &SessionQuery) -> Result<u64, Error> {
    let statuses = query.statuses.iter().map(to_name).collect::<Result<Vec<_>, _>>()?;
    let words = query.words.as_ref().map(|words| like_pattern(words));
    let count = db.int(
        "SELECT COUNT(*) FROM sessions s
         WHERE (?1 <> 0 OR s.status IN LIST(?2))
           AND (?1 <> 0 OR ?6 <> 0 OR s.label NOT IN ('main', 'main:' || s.project)
                OR s.origin <> 'cli' OR s.turn_count > 0)
           AND (?3 IS NULL OR s.project = ?3)
           AND (?4 IS NULL OR (s.parent_session_label = ?4 AND s.origin <> 'fork'))
           AND (?5 IS NULL OR lower(s.label) LIKE ?5 ESCAPE '\\'
                OR lower(s.title) LIKE ?5 ESCAPE '\\' OR lower(s.project) LIKE ?5 ESCAPE '\\')
           AND (?6 = 0 OR s.state = 'suspended' OR s.pending_prompt IS NOT NULL
                OR (SELECT t.state ->> 'name' FROM tasks t WHERE t.row = s.task)
                   IN ('awaiting_user', 'pending_complete'))",
        args![
            statuses.is_empty(),
            statuses.as_slice(),
            query.project.as_ref(),
            query.parent.as_ref(),
            words.as_ref(),
            query.waiting,
        ],
    )?;
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// The sessions with a working directory that are neither archived nor damaged, those with the
/// newest activity first.
pub(crate) fn in_directory(db: &dyn Db, dir: &str, limit: usize) -> Result<Vec<SessionId>, Error> {
    db.rows(
        "SELECT id FROM sessions WHERE working_dir = ?1
           AND status IN ('active', 'suspended') ORDER BY last_activity_at DESC, row DESC LIMIT ?2",
        args![dir, limit_arg(limit.min(PAGE_MAX))],
        |row| from_id("a session's id", row.get(0)?),
    )
}

/// A LIKE pattern that matches the words anywhere, in lower case.
fn like_pattern(words: &str) -> String {
    let escaped = words.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{}%", escaped.to_lowercase())
}

/// The number of sessions that the default list leaves out.
pub(crate) fn hidden(db: &dyn Db) -> Result<Hidden, Error> {
    let mut hidden = Hidden::default();
    db.query(
        "SELECT status, COUNT(*) FROM sessions WHERE status IN ('archived', 'error')
         GROUP BY status",
        args![],
        &mut |row| {
            match row.get(0)? {
                "archived" => hidden.archived = row.get(1)?,
                _ => hidden.error = row.get(1)?,
            }
            Ok(())
        },
    )?;
    Ok(hidden)
}

/// Sessions that need background work.
pub(crate) fn due(db: &dyn Db, due: &Due, limit: usize) -> Result<Vec<SessionId>, Error> {
    let limit = limit_arg(limit.min(PAGE_MAX));
    let read = |row: Row<'_>| from_id("a session's id", row.get(0)?);
    match due {
        Due::Unattended { dead, after } => {
            let dead: Vec<String> = dead.iter().map(NodeId::to_string).collect();
            // A pre-filter: whether a message can be delivered is decided by the rule.
            db.rows(
                "SELECT id FROM (
                   SELECT id FROM sessions WHERE owner IN LIST(?1)
                     /*pg AND row IN (SELECT session FROM runs WHERE ended_at IS NULL)*/
                   UNION
                   SELECT s.id FROM inbox i JOIN sessions s ON s.row = i.session
                   WHERE i.state IN ('waiting', 'held') AND s.state = 'idle' AND s.delivery = 'open'
                     AND s.pending_prompt IS NULL AND s.status IN ('active', 'suspended')
                   UNION
                   SELECT id FROM sessions WHERE unreported <> 0 AND state = 'idle') AS unattended
                 WHERE id > ?3 ORDER BY id LIMIT ?2",
                args![dead.as_slice(), limit, &after.map(|id| id.to_string()).unwrap_or_default()],
                read,
            )
        }
        Due::IdleSessions { since } => db.rows(
            "SELECT s.id FROM sessions s
             WHERE s.last_activity_at < ?1 /*pg AND s.active_hour <= ?1 / 3600000*/
               AND s.status IN ('active', 'suspended')
               AND s.state = 'idle' AND NOT EXISTS (
                 SELECT 1 FROM inbox i WHERE i.session = s.row AND i.state IN ('waiting', 'held'))
             LIMIT ?2",
            args![*since, limit],
            read,
        ),
        Due::IdleTasks { since } => db.rows(
            "SELECT sessions.id FROM tasks JOIN sessions ON sessions.task = tasks.row
             WHERE tasks.last_activity_at < ?1 LIMIT ?2",
            args![*since, limit],
            read,
        ),
    }
}

/// The moves of a session's head, newest first.
pub(crate) fn head_moves(
    db: &dyn Db,
    session: SessionId,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<HeadMove>, Error> {
    let (session, limit) = (known_row(db, session)?, limit.min(PAGE_MAX + 1));
    let before = before.unwrap_or(i64::MAX);
    let mut found = Vec::new();
    let mut next = newest_move(db, session, before)?;
    while let (Some(at), true) = (next, found.len() < limit) {
        let (prev, one) = db
            .row(
                "SELECT h.prev, t.hash, h.changed_at
                 FROM session_history h LEFT JOIN turns t ON t.id = h.turn WHERE h.id = ?1",
                args![at],
                |row| {
                    let turn = row.get::<Option<_>>(1)?.map(TurnId);
                    Ok((row.get(0)?, HeadMove { row: at, turn, at: row.get(2)? }))
                },
            )?
            .ok_or_else(|| missing_move(at))?;
        next = prev;
        if at < before {
            found.push(one);
        }
    }
    Ok(found)
}

fn missing_move(row: i64) -> Error {
    Error::Damaged(format!("head move {row} is missing"))
}

/// The move from which those before a cursor are read: the one before it, or the newest if the
/// cursor is no move of the session.
fn newest_move(db: &dyn Db, session: i64, before: i64) -> Result<Option<i64>, Error> {
    let cursor = "SELECT prev FROM session_history WHERE id = ?2 AND session = ?1";
    if let Some(prev) = db.int(cursor, args![session, before])? {
        return Ok(Some(prev));
    }
    db.int("SELECT last_move FROM sessions WHERE row = ?1", args![session])
}

/// Inserts a session and returns its row number.
pub(crate) fn insert(tx: &mut dyn Tx, new: &session::New, head: Option<i64>) -> Result<i64, Error> {
    let parent = new.parent.as_ref();
    tx.insert(
        "INSERT INTO sessions(row, id, label, title, project, working_dir, status, state, head,
             turn_count, persona, provider_id, model, origin, created_at, updated_at,
             last_activity_at, track_tasks, parent_session_label,
             parent_turn_id, spawn_tool_call_id, routing_key, entity, policy, base)
         VALUES (1 + (SELECT MAX(row) FROM (
               SELECT COALESCE(MAX(row), 0) AS row FROM sessions
               UNION ALL SELECT COALESCE(MAX(row), 0) FROM deleted_sessions) AS used),
             ?1, ?2, ?3, ?4, ?5, 'active', 'idle', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?20, ?13,
             ?14, ?15, ?16, ?17, ?18, ?19, ?6)",
        args![
            &new.id.to_string(),
            &new.label,
            new.title.as_ref(),
            &new.project,
            new.working_dir.as_ref(),
            head,
            new.turn_count,
            new.persona.as_ref(),
            new.provider_id.as_ref(),
            new.model.as_ref(),
            &to_name(&new.origin)?,
            new.created_at,
            new.tracks_tasks(),
            parent.map(|parent| &parent.session),
            parent.and_then(|parent| parent.turn).map(|turn| turn.to_string()).as_ref(),
            parent.and_then(|parent| parent.tool_call.as_ref()),
            new.routing.key.as_ref(),
            new.routing.entity.map(|entity| entity.to_string()).as_ref(),
            new.routing.policy.as_ref(),
            new.last_activity_at.unwrap_or(new.created_at),
        ],
    )
}

/// The columns of a session that are written with every batch.
pub(crate) struct Progress<'a> {
    pub(crate) head: Option<i64>,
    pub(crate) turn_count: u64,
    pub(crate) task: Option<i64>,
    pub(crate) prompt: Option<&'a String>,
    pub(crate) seq: u64,
    pub(crate) last_event: Option<i64>,
    pub(crate) updated_at: Timestamp,
    pub(crate) last_move: Option<i64>,
    pub(crate) last_run: Option<RunId>,
    /// `None` for a new session, whose row has it already ([`rename`] has the reason).
    pub(crate) last_activity_at: Option<Timestamp>,
}

macro_rules! update_session {
    ($($more:tt)*) => {
        concat!(
            "UPDATE sessions SET head = ?2, turn_count = ?3, task = ?4, pending_prompt = ?5,
               seq = ?6, last_event = ?7, updated_at = ?8, last_move = ?9, last_run = ?10",
            $($more)*
            " WHERE row = ?1"
        )
    };
}

macro_rules! conversation_columns {
    () => {
        ", title = ?11, working_dir = ?12, status = ?13, state = ?14, persona = ?15,
           provider_id = ?16, model = ?17, options = ?18, delivery = ?19, track_tasks = ?20,
           owner = ?21, fence = ?22, unreported = ?23, tool_rights = ?24, envelope = ?25"
    };
}

/// Writes the progress of a session and, if the batch changes them, also the columns of the
/// conversation except the label. One statement instead of two: each encodes the whole row.
pub(crate) fn update(
    tx: &mut dyn Tx,
    row: i64,
    session: Option<&Session>,
    to: &Progress<'_>,
) -> Result<(), Error> {
    let last_run = to.last_run.map(|run| run.to_string());
    let mut values = vec![
        row.into(),
        to.head.into(),
        to.turn_count.into(),
        to.task.into(),
        to.prompt.into(),
        to.seq.into(),
        to.last_event.into(),
        to.updated_at.into(),
        to.last_move.into(),
        last_run.as_ref().into(),
    ];
    let activity = to.last_activity_at.map(Arg::from);
    let Some(session) = session else {
        values.extend(activity);
        let sql = match activity {
            Some(_) => update_session!(", last_activity_at = ?11",),
            None => update_session!(),
        };
        tx.execute(sql, &values)?;
        return Ok(());
    };
    let options = if session.options.is_empty() { None } else { Some(to_json(&session.options)?) };
    let rights = &session.tool_rights;
    let tool_rights = if rights.is_empty() { None } else { Some(to_json(rights)?) };
    let (status, state) = (to_name(&session.status)?, to_name(&session.state)?);
    let delivery = to_name(&session.delivery)?;
    let owner = session.owner.map(|node| node.to_string());
    let envelope = session.envelope.as_ref().map(to_json).transpose()?;
    values.extend([
        session.title.as_ref().into(),
        session.working_dir.as_ref().into(),
        Arg::from(&status),
        Arg::from(&state),
        session.persona.as_ref().into(),
        session.provider_id.as_ref().into(),
        session.model.as_ref().into(),
        options.as_ref().into(),
        Arg::from(&delivery),
        session.track_tasks.into(),
        owner.as_ref().into(),
        session.fence.into(),
        session.unreported.into(),
        tool_rights.as_ref().into(),
        envelope.as_ref().into(),
    ]);
    values.extend(activity);
    let sql = match activity {
        Some(_) => update_session!(conversation_columns!(), ", last_activity_at = ?26",),
        None => update_session!(conversation_columns!(),),
    };
    tx.execute(sql, &values)?;
    Ok(())
}

/// Writes the label. It is not part of [`update`]: SQLite writes the index of each column that a
/// statement sets, also if the value stays the same.
pub(crate) fn rename(tx: &mut dyn Tx, row: i64, label: &str) -> Result<(), Error> {
    tx.execute("UPDATE sessions SET label = ?2 WHERE row = ?1", args![row, label])?;
    Ok(())
}

/// Records the stored turn that an import continues.
pub(crate) fn set_base(tx: &mut dyn Tx, session: i64, turn: i64) -> Result<(), Error> {
    tx.execute("UPDATE sessions SET base = ?2 WHERE row = ?1", args![session, turn])?;
    Ok(())
}

/// Inserts a move of the head after the move `prev`. The caller writes its row to the session.
pub(crate) fn insert_head_move(
    tx: &mut dyn Tx,
    session: i64,
    prev: Option<i64>,
    turn: Option<i64>,
    now: Timestamp,
) -> Result<i64, Error> {
    tx.insert(
        "INSERT INTO session_history(session, prev, turn, changed_at) VALUES (?1, ?2, ?3, ?4)",
        args![session, prev, turn, now],
    )
}

/// Deletes every row of a session except its events, tasks and turns. The turns are queued for
/// [`super::purge`].
pub(crate) fn delete(tx: &mut dyn Tx, row: i64, id: &str, now: Timestamp) -> Result<(), Error> {
    const DELETE: [&str; 11] = [
        "DELETE FROM session_aliases
         WHERE session_label = (SELECT label FROM sessions WHERE row = ?1)",
        "DELETE FROM inbox WHERE session = ?1",
        "DELETE FROM runs WHERE run_id IN (
           WITH RECURSIVE linked(run_id, prev) AS (
             SELECT run_id, prev FROM runs
             WHERE run_id = (SELECT last_run FROM sessions WHERE row = ?1)
             UNION ALL SELECT r.run_id, r.prev FROM runs r JOIN linked ON r.run_id = linked.prev)
           SELECT run_id FROM linked)",
        "DELETE FROM drafts WHERE session = ?1",
        "DELETE FROM suspensions WHERE session = ?1",
        "DELETE FROM session_history WHERE id IN (
           WITH RECURSIVE moves(id, prev) AS (
             SELECT id, prev FROM session_history
             WHERE id = (SELECT last_move FROM sessions WHERE row = ?1)
             UNION ALL SELECT h.id, h.prev FROM session_history h JOIN moves ON h.id = moves.prev)
           SELECT id FROM moves)",
        "DELETE FROM agent_sessions WHERE session = ?1",
        "DELETE FROM pins WHERE session = ?1",
        "DELETE FROM history_keys WHERE session = ?1",
        "DELETE FROM outbox WHERE session = ?1",
        "DELETE FROM sessions WHERE row = ?1",
    ];
    tx.execute(
        "INSERT INTO deleted_sessions(row, id, label, deleted_at)
         SELECT row, id, label, ?2 FROM sessions WHERE row = ?1",
        args![row, now],
    )?;
    tx.execute(
        "INSERT INTO purging(turn)
         WITH RECURSIVE moves(id, prev, turn) AS (
           SELECT id, prev, turn FROM session_history
           WHERE id = (SELECT last_move FROM sessions WHERE row = ?1)
           UNION ALL
           SELECT h.id, h.prev, h.turn FROM session_history h JOIN moves ON h.id = moves.prev)
         SELECT DISTINCT turn FROM moves WHERE turn IS NOT NULL
         ON CONFLICT DO NOTHING",
        args![row],
    )?;
    tx.execute(
        "UPDATE tasks SET ended_at = ?2 WHERE session = ?1 AND ended_at IS NULL",
        args![row, now],
    )?;
    tx.execute("DELETE FROM refs WHERE name = ?1", args![&format!("STAGE:{id}")])?;
    for sql in DELETE {
        tx.execute(sql, &[Arg::Int(row)])?;
    }
    Ok(())
}
