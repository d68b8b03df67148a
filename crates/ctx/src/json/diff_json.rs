//! Two branches as every surface gives them.

use ctx_engine::{Diff as Compared, Side as Branch, Writer};
use serde::Serialize;
use utoipa::ToSchema;

use super::talk::Turn;

/// A file that a branch wrote.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WrittenFile {
    path: String,
    /// `task` where a task observed it, `tool_call` where a tool was called that says so.
    by: &'static str,
}

/// One of two branches after the last turn that both have.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Side {
    session: String,
    label: String,
    title: Option<String>,
    head: Option<String>,
    turn_count: u64,
    /// How many turns it has that the other has not.
    own_turns: u64,
    /// Some of them, oldest first.
    turns: Vec<Turn>,
    files: Vec<WrittenFile>,
}

/// Where two branches part, and what each said and changed after it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Diff {
    /// The last turn that both have; null where they have none in common.
    ancestor: Option<Turn>,
    a: Side,
    b: Side,
    next_cursor: Option<String>,
}

impl Side {
    fn of(side: &Branch) -> Self {
        let session = &side.session;
        let by = |writer: &Writer| match writer {
            Writer::Task => "task",
            Writer::ToolCall => "tool_call",
        };
        Self {
            session: session.id.to_string(),
            label: session.label.clone(),
            title: session.title.clone(),
            head: session.head.map(|head| head.to_string()),
            turn_count: session.turn_count,
            own_turns: side.own,
            turns: side
                .turns
                .iter()
                .map(|turn| Turn::of(turn, Some(session.id.to_string())))
                .collect(),
            files: side
                .files
                .iter()
                .map(|(path, writer)| WrittenFile { path: path.clone(), by: by(writer) })
                .collect(),
        }
    }
}

impl Diff {
    pub(crate) fn of(diff: &Compared, next_cursor: Option<String>) -> Self {
        let [a, b] = &diff.sides;
        Self {
            ancestor: diff.ancestor.as_ref().map(|turn| Turn::of(turn, None)),
            a: Side::of(a),
            b: Side::of(b),
            next_cursor,
        }
    }
}
