//! Notices: what ctx did to a task, as messages of role `system` in a turn of their own. They are
//! part of the transcript and are not sent to a provider.

use crate::commit::CommitType;
use crate::id::{CommitId, MessageId};
use crate::message::{Message, Part, Role};
use crate::session::Session;
use crate::task::Task;
use crate::text_limits::one_line;
use crate::time::Timestamp;

/// Longest description of a task in a notice, in characters.
const DESCRIPTION_MAX_CHARS: usize = 160;

/// A task of this session was sealed. The commands can be run as they are.
pub(super) fn sealed(
    task: &Task,
    commit_type: &CommitType,
    commit: CommitId,
    session: &Session,
) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_./@+=,%".contains(c);
    let session = match session.label.chars().all(is_plain) {
        true => session.label.clone(),
        false => session.id.to_string(),
    };
    format!(
        "The task was sealed as {}: {}\nCommit {commit}. To undo this, reopen the task with \
         `ctx session reopen {session}`.",
        commit_type.name(),
        description(task)
    )
}

/// A task ended without a commit.
pub(super) fn dropped(task: &Task) -> String {
    format!(
        "The task was dropped without a commit, because no work was recorded: {}",
        description(task)
    )
}

/// A sealed task was reopened.
pub(super) fn reopened(task: &Task, commit: CommitId) -> String {
    format!("The task was reopened: {}\nThe commit {commit} is kept.", description(task))
}

/// The user chose to continue the open task.
pub(super) fn continued(task: &Task) -> String {
    format!("The open task continues: {}", description(task))
}

/// A message of ctx in the transcript.
pub(super) fn message(id: MessageId, part: Part, at: Timestamp) -> Message {
    Message { id, role: Role::System, source: None, content: vec![part], created_at: at }
}

fn description(task: &Task) -> String {
    one_line(&task.description, DESCRIPTION_MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::super::tests::model::Model;
    use super::*;
    use crate::id::ObjectId;
    use crate::task::StateName;

    #[test]
    fn the_command_of_a_notice_can_be_run_as_it_is() {
        let mut model = Model::at(Some(StateName::Running));
        let (task, commit) = (model.task().clone(), CommitId(ObjectId::of(&[b"a commit"])));
        let session = &mut model.view.session;
        for (label, name) in [("cli:01AB", "cli:01AB"), ("a b; rm", &session.id.to_string())] {
            session.label = label.to_owned();
            let text = sealed(&task, &CommitType::Normal, commit, session);
            assert!(text.ends_with(&format!("with `ctx session reopen {name}`.")), "{text}");
        }
    }
}
