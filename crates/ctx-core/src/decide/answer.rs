//! Answer the agent's question: awaiting_user → running (R24, R39, R40).

use crate::refusal::Refusal;
use crate::relation::{Confidence, Edge, Evidence, Label, Node, NodeKind, Tool};
use crate::step::Entry;
use crate::task::{State, StateName, Task};

use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, SessionView};

/// Records the answer as a note and relates the note to the task.
///
/// Fails if the task does not wait for an answer, or the answer is empty or too long.
pub fn answer(view: &SessionView, response: &str, invocation: &Invocation) -> Decided<Task> {
    let response = text("answer", response)?;
    let mut changes = TaskChanges::new(view, invocation);
    respond(&mut changes, &response)?;
    changes.finish_open()
}

pub(super) fn respond(changes: &mut TaskChanges<'_>, response: &str) -> Result<(), Refusal> {
    let task = changes.open_task()?;
    let (task_id, from) = (task.id, task.state.name());
    if from != StateName::AwaitingUser {
        return Err(Refusal::WrongState {
            verb: "answered",
            from,
            wanted: StateName::AwaitingUser,
            to: StateName::Running,
        });
    }
    let note = changes.note(format!("User response: {response}"));
    let Entry::Note { id, .. } = &note else { unreachable!("note() makes notes") };
    let mentions = Entry::Relation(Edge {
        from: Node::new(NodeKind::Note, id),
        to: Node::new(NodeKind::Task, task_id),
        label: Label::Mentions,
        weight: None,
        evidence: Evidence::from_tool(Tool::Human, Confidence::High),
    });
    changes.move_to(State::Running, vec![note, mentions])
}
