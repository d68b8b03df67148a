//! The comparison of two branches.

use ctx_engine::{Diff as EngineDiff, Side as EngineSide, Writer};
use serde::Serialize;
use utoipa::ToSchema;

use super::turn_json::Turn;

/// A file that a branch wrote
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WrittenFile {
    path: String,
    /// `task` if a task observed the write, `tool_call` if a tool call reported it
    by: &'static str,
}

/// One of two branches, after the last common turn
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Side {
    session: String,
    label: String,
    title: Option<String>,
    head: Option<String>,
    turn_count: u64,
    /// Number of turns that the other branch does not have
    own_turns: u64,
    /// One page of these turns, oldest first
    turns: Vec<Turn>,
    files: Vec<WrittenFile>,
}

/// The last common turn of two branches, and the later turns and files of each
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Diff {
    /// The last common turn; null if the branches have none
    ancestor: Option<Turn>,
    a: Side,
    b: Side,
    next_cursor: Option<String>,
}

impl Side {
    fn of(side: &EngineSide) -> Self {
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
    pub(crate) fn of(diff: &EngineDiff, next_cursor: Option<String>) -> Self {
        let [a, b] = &diff.sides;
        Self {
            ancestor: diff.ancestor.as_ref().map(|turn| Turn::of(turn, None)),
            a: Side::of(a),
            b: Side::of(b),
            next_cursor,
        }
    }
}
