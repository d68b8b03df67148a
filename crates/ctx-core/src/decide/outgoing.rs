//! What a decision sends to channels: one row of the outbox per recipient, stored in the same
//! transaction as the turn, the prompt or the suspension.

use crate::draft::Draft;
use crate::id::{MessageId, OutgoingId};
use crate::inbox::{Item, ItemState};
use crate::outbox::{Body, Kind, Outgoing, Recipient, ReplyTo, Spoken, Status, joined, recipients};
use crate::run::Run;
use crate::session::Activity;
use crate::suspension::{self, Suspension};
use crate::turn;

use super::Change;
use super::session_changes::SessionChanges;

/// Where the answer to a message goes, if it came from a channel.
fn reply_to(item: &Item) -> Option<ReplyTo> {
    let envelope = item.overrides.envelope.clone()?;
    Some(ReplyTo { message_id: item.message_id, envelope })
}

/// The recipients of the messages.
fn recipients_of(items: &[Item]) -> Vec<(Recipient, Vec<MessageId>)> {
    recipients(items.iter().filter_map(reply_to))
}

/// Adds a message to those that the run answers.
pub(super) fn add_message(run: &mut Run, item: &Item) {
    run.replies.added.extend(reply_to(item));
}

impl SessionChanges<'_> {
    fn send(&mut self, kind: Kind, to: Recipient, body: Body) {
        let outgoing = Outgoing {
            id: OutgoingId(self.tasks.next_id()),
            session: self.session.id,
            label: self.session.label.clone(),
            kind,
            to,
            body: body.bounded(),
            status: Status::Pending,
            attempts: 0,
            next_attempt_at: self.now(),
            claimed_by: None,
            last_error: None,
            created_at: self.now(),
            delivered_at: None,
        };
        self.push(Change::PutOutgoing(Box::new(outgoing)));
    }

    /// The recipients of the open turn: of the messages that started it and of those that were
    /// added to it.
    fn recipients_of_turn(&self, run: Option<&Run>) -> Vec<(Recipient, Vec<MessageId>)> {
        let taken = self.inbox.iter().filter(|item| item.state == ItemState::Taken);
        let added = run.map(|run| run.replies.added.clone()).unwrap_or_default();
        recipients(taken.filter_map(reply_to).chain(added))
    }

    /// Sends the answer of the turn that was just added. Its messages are still in the inbox.
    pub(super) fn send_reply(&mut self, run: Option<&Run>, spoken: &Spoken, status: turn::Status) {
        let Some(text) = spoken.reply(status) else { return };
        for (to, message_ids) in self.recipients_of_turn(run) {
            let (text, turn) = (text.clone(), self.turn);
            self.send(Kind::Reply, to, Body { text, turn, message_ids, ..Body::default() });
        }
    }

    /// Sends the answer of ctx itself to messages of a turn without a run. While another turn is
    /// open, theirs does not exist yet.
    pub(super) fn send_notices(&mut self, items: &[Item], text: &str) {
        if text.is_empty() {
            return;
        }
        let turn = self.turn.filter(|_| self.session.state == Activity::Idle);
        for (to, message_ids) in recipients_of(items) {
            let body = Body { text: text.to_owned(), turn, message_ids, ..Body::default() };
            self.send(Kind::Reply, to, body);
        }
    }

    /// Sends the prompt that was just opened to those whose messages opened it.
    pub(super) fn send_prompt(&mut self, items: &[Item]) {
        let Some(prompt) = self.tasks.prompt().cloned() else { return };
        for (to, message_ids) in recipients_of(items) {
            let body = Body {
                text: prompt.text.clone(),
                message_ids,
                prompt_id: Some(prompt.id),
                choices: prompt.choices().to_vec(),
                ..Body::default()
            };
            self.send(Kind::Prompt, to, body);
        }
    }

    /// Sends the permissions and questions that the open run waits for. The first one carries what
    /// the agent has said so far; the reply at the end of the turn does not repeat it.
    pub(super) fn send_suspensions(&mut self, draft: Draft, suspensions: &[Suspension]) {
        let asked: Vec<(Kind, &Suspension)> = suspensions
            .iter()
            .filter_map(|suspension| match suspension.awaited.kind {
                suspension::Kind::Permission => Some((Kind::Permission, suspension)),
                suspension::Kind::Question => Some((Kind::Question, suspension)),
                suspension::Kind::ToolResult | suspension::Kind::Event => None,
            })
            .collect();
        let Some(run) = self.run.clone() else { return };
        let recipients = self.recipients_of_turn(Some(&run));
        if asked.is_empty() || recipients.is_empty() {
            return;
        }
        let may_approve = |id: &MessageId| {
            let mut items = self.inbox.iter().filter(|item| item.message_id == *id);
            items.any(|item| item.overrides.rights.as_ref().is_none_or(|rights| rights.approve))
        };
        let approvers: Vec<bool> =
            recipients.iter().map(|(_, messages)| messages.iter().any(may_approve)).collect();
        let spoken = Spoken::of(&draft.messages, run.replies.sent_until);
        let mut before = spoken.text.as_str();
        for (kind, suspension) in asked {
            let question = suspension.question();
            for ((to, message_ids), may_approve) in recipients.iter().zip(&approvers) {
                let body = Body {
                    may_answer: Some(*may_approve || kind != Kind::Permission),
                    text: joined(before, &question),
                    message_ids: message_ids.clone(),
                    suspension_id: Some(suspension.id),
                    options: suspension.awaited.options.clone(),
                    question: Some(question.clone()),
                    ..Body::default()
                };
                self.send(kind, to.clone(), body);
            }
            before = "";
        }
        if let (Some(last), Some(run)) = (spoken.last, self.run.as_mut()) {
            run.replies.sent_until = Some(last);
        }
    }
}
