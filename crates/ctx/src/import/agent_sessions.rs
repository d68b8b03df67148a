//! The database of an older session server: `Repository`, `AgentSession` and `AgentMessage` (R211
//! to R213). All of it is read in one snapshot, session by session.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use ctx_engine::ImportedTurn;
use ctx_engine::core::message::{Part, Source as MessageSource};
use ctx_engine::core::session::Status;
use ctx_engine::core::time::Timestamp;
use rusqlite::Row;
use serde_json::{Map, Value, json};

use super::agent_content::{Piece, pieces};
use super::assembler::{Assembler, Mark, Parent, Verbatim};
use super::reading::Facts;
use super::sqlite_file::{SqliteFile, column_text};

/// The name on the command line, and the beginning of labels.
pub(crate) const AGENT_SESSIONS: &str = "agent-sessions";

/// Columns without which the tables cannot be read.
const REQUIRED: [(&str, &[&str]); 2] = [
    ("AgentSession", &["id", "status"]),
    ("AgentMessage", &["id", "sessionId", "role", "content"]),
];
/// Columns of a session that never change. They are kept verbatim with its first turn.
const LASTING: [&str; 5] = ["id", "repoId", "agentType", "agentVersion", "createdAt"];

/// What is read, in order: a session, then its turns.
pub(crate) enum AgentRecord {
    /// The next session, with the status that it had on the server.
    Session {
        /// What is known about it.
        facts: Box<Facts>,
        /// The name of its status on the server.
        status: String,
    },
    /// A turn of the session before it.
    Turn(Box<ImportedTurn>),
    /// Something that could not be used.
    Problem(String),
}

/// The status of a session by the status on the server.
pub(crate) fn imported_status(status: &str, completed: Status) -> Status {
    Status::from_legacy_name(status, completed)
}

/// Reads the database and passes its records on.
///
/// # Errors
/// If the file is not such a database, cannot be read, or `emit` fails.
pub(crate) fn read_agent_sessions(
    path: &Path,
    emit: &mut dyn FnMut(AgentRecord) -> io::Result<()>,
) -> io::Result<()> {
    let database = SqliteFile::open(path)?;
    for (table, needed) in REQUIRED {
        let columns = database.columns(table)?;
        if let Some(missing) = needed.iter().find(|name| !columns.iter().any(|has| has == *name)) {
            let why = format!("it has no column `{missing}` in a table `{table}`");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    }
    let repositories = repositories(&database)?;
    let mut ids = Vec::new();
    database.each("SELECT id FROM AgentSession ORDER BY rowid", &[], |row| {
        ids.push(column_text(row, "id").unwrap_or_default());
        Ok(())
    })?;
    for id in &ids {
        read_session(&database, id, &repositories, emit)?;
    }
    let mut orphans = 0_u64;
    let unknown = "SELECT COUNT(*) AS count FROM AgentMessage
                   WHERE sessionId NOT IN (SELECT id FROM AgentSession)";
    database.each(unknown, &[], |row| {
        orphans = row.get("count").unwrap_or(0);
        Ok(())
    })?;
    if orphans > 0 {
        let why = format!("{orphans} messages belong to no session and were skipped");
        emit(AgentRecord::Problem(why))?;
    }
    Ok(())
}

/// Repositories by id, as they are kept with a session.
fn repositories(database: &SqliteFile) -> io::Result<HashMap<String, Value>> {
    let mut found = HashMap::new();
    if database.columns("Repository")?.is_empty() {
        return Ok(found);
    }
    database.each("SELECT * FROM Repository", &[], |row| {
        if let Some(id) = column_text(row, "id") {
            let about = json!({
                "id": id,
                "name": column_text(row, "name"),
                "path": column_text(row, "path"),
            });
            found.insert(id, about);
        }
        Ok(())
    })?;
    Ok(found)
}

fn read_session(
    database: &SqliteFile,
    id: &str,
    repositories: &HashMap<String, Value>,
    emit: &mut dyn FnMut(AgentRecord) -> io::Result<()>,
) -> io::Result<()> {
    let mut session = AgentSession::default();
    database.each("SELECT * FROM AgentSession WHERE id = ?1", &[id], |row| {
        session = AgentSession::of(row, repositories);
        Ok(())
    })?;
    let mut first = None;
    let prompts = "SELECT content FROM AgentMessage WHERE sessionId = ?1 AND role = 'user'
                   ORDER BY timestamp, rowid LIMIT 1";
    database.each(prompts, &[id], |row| {
        first = column_text(row, "content");
        Ok(())
    })?;
    for piece in pieces(&first.unwrap_or_default()) {
        if let Piece::Text(text) = piece {
            session.facts.note_prompt(&text);
        }
    }
    let facts = Box::new(session.facts.clone());
    emit(AgentRecord::Session { facts, status: session.status.clone() })?;
    let mut turns = SessionTurns::new(id);
    turns.note("session", &session.lasting, session.facts.created_at, Verbatim::Housekeeping);
    let messages = "SELECT * FROM AgentMessage WHERE sessionId = ?1 ORDER BY timestamp, rowid";
    database.each(messages, &[id], |row| {
        turns.message(row);
        for turn in turns.assembler.take() {
            emit(AgentRecord::Turn(Box::new(turn)))?;
        }
        Ok(())
    })?;
    if let Some(resume) = &session.resume {
        turns.note("resume", resume, None, Verbatim::Unknown);
    }
    for turn in turns.assembler.finish() {
        emit(AgentRecord::Turn(Box::new(turn)))?;
    }
    if turns.assembler.duplicates > 0 {
        let count = turns.assembler.duplicates;
        emit(AgentRecord::Problem(format!(
            "session {id}: {count} repeated messages were skipped"
        )))?;
    }
    Ok(())
}

/// A row of `AgentSession`.
#[derive(Default)]
struct AgentSession {
    facts: Facts,
    status: String,
    /// What never changes.
    lasting: Value,
    /// How the agent resumes the session, if it can.
    resume: Option<Value>,
}

impl AgentSession {
    fn of(row: &Row<'_>, repositories: &HashMap<String, Value>) -> Self {
        let id = column_text(row, "id").unwrap_or_default();
        let repository = column_text(row, "repoId").and_then(|repo| repositories.get(&repo));
        let path = repository.and_then(|found| found.get("path")).and_then(Value::as_str);
        let mut facts = Facts { id, working_dir: path.map(str::to_owned), ..Facts::default() };
        facts.created_at = column_time(row, "createdAt");
        facts.updated_at = column_time(row, "lastActiveAt").or(column_time(row, "updatedAt"));
        let mut lasting: Map<String, Value> = LASTING
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), column_text(row, name)?.into())))
            .collect();
        if let Some(repository) = repository {
            lasting.insert("repository".to_owned(), repository.clone());
        }
        let resume = column_text(row, "resumeData").map(|data| {
            json!({"supportsResume": column_text(row, "supportsResume"), "resumeData": data})
        });
        Self {
            facts,
            status: column_text(row, "status").unwrap_or_default(),
            lasting: Value::Object(lasting),
            resume,
        }
    }
}

/// The turns of one session.
struct SessionTurns {
    assembler: Assembler,
    /// Tool calls that were added.
    calls: HashSet<String>,
    /// Tool calls that have a result.
    results: HashSet<String>,
}

impl SessionTurns {
    fn new(id: &str) -> Self {
        Self {
            assembler: Assembler::new(AGENT_SESSIONS, id),
            calls: HashSet::new(),
            results: HashSet::new(),
        }
    }

    fn note(&mut self, kind: &str, record: &Value, at: Option<Timestamp>, how: Verbatim) {
        let mark = Mark { id: kind, parent: Parent::Previous, at };
        self.assembler.verbatim(mark, kind, &record.to_string(), how);
    }

    fn message(&mut self, row: &Row<'_>) {
        let id = column_text(row, "id").unwrap_or_default();
        let role = column_text(row, "role").unwrap_or_default();
        let raw = column_text(row, "content").unwrap_or_default();
        let at = column_time(row, "timestamp");
        for (n, piece) in pieces(&raw).into_iter().enumerate() {
            let id = if n == 0 { id.clone() } else { format!("{id} {n}") };
            let mark = Mark { id: &id, parent: Parent::Previous, at };
            self.piece(mark, &role, piece, &raw);
        }
    }

    fn piece(&mut self, mark: Mark<'_>, role: &str, piece: Piece, raw: &str) {
        let turns = &mut self.assembler;
        match (role, piece) {
            ("user", Piece::Text(text)) => {
                turns.prompt(mark, vec![Part::Text { text }], MessageSource::Human);
            }
            ("agent" | "assistant", Piece::Text(text)) => {
                turns.answer(mark, vec![Part::Text { text }], None);
            }
            ("system", Piece::Text(text)) => turns.system(mark, vec![Part::Text { text }]),
            (_, Piece::Plan(entries)) => turns.answer(mark, vec![Part::Plan { entries }], None),
            (_, Piece::Tool(tool)) => {
                let call = tool.id.clone().unwrap_or_else(|| mark.id.to_owned());
                let is_new = self.calls.insert(call.clone());
                if is_new {
                    turns.answer(mark, vec![tool.call(&call)], None);
                }
                let Some(output) = tool.output.filter(|_| self.results.insert(call.clone())) else {
                    if !is_new {
                        turns.verbatim(mark, "tool", raw, Verbatim::Unknown);
                    }
                    return;
                };
                let id = format!("{} result", mark.id);
                let mark = if is_new { Mark { id: &id, ..mark } } else { mark };
                turns.result(mark, &call, output.into_bytes(), tool.is_error);
            }
            (_, Piece::Text(_) | Piece::Other) => {
                let kind = if role.is_empty() { "message" } else { role };
                turns.verbatim(mark, kind, raw, Verbatim::Unknown);
            }
        }
    }
}

/// The time of a column: milliseconds since 1970, or a text as RFC 3339 or SQLite writes it.
fn column_time(row: &Row<'_>, column: &str) -> Option<Timestamp> {
    use rusqlite::types::ValueRef;
    match row.get_ref(column).ok()? {
        ValueRef::Integer(at) => Some(Timestamp(at)),
        ValueRef::Real(at) => Some(Timestamp(at as i64)),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).ok()?.trim();
            let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
                let local = text.parse::<jiff::civil::DateTime>().ok()?;
                Some(local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
            });
            at.map(|at| Timestamp(at.as_millisecond())).or_else(|| text.parse().ok().map(Timestamp))
        }
        _ => None,
    }
}
