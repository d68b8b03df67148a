//! Adds the items of a provider's stream to the open turn.

use ctx_core::agent_session::AgentSession;
use ctx_core::decide::{Event, states_task};
use ctx_core::draft::Entry;
use ctx_core::id::{MessageId, NoteId};
use ctx_core::inbox::Item;
use ctx_core::message::{Role, Source, ToolStatus};
use ctx_core::run::Phase;
use ctx_core::step;
use ctx_core::stored_content::Content;
use ctx_core::turn::Usage;
use tokio::time::Instant;

use super::{Runner, UnshownText};
use crate::provider::Delta;

/// Number of bytes of new text after which a checkpoint is stored at once.
const CHECKPOINT_BYTES: usize = 4096;

impl Runner<'_> {
    pub(crate) fn begin_message(&mut self, role: Role, source: Option<Source>) -> MessageId {
        match self.message {
            Some((id, open)) if open == role => id,
            _ => self.open_message(MessageId(self.engine.new_id()), role, source),
        }
    }

    fn open_message(&mut self, id: MessageId, role: Role, source: Option<Source>) -> MessageId {
        self.entry(Entry::Message { id, role, source, at: self.engine.now() });
        self.message = Some((id, role));
        id
    }

    pub(crate) fn entry(&mut self, entry: Entry) {
        let entry = entry.readable();
        self.since.get_or_insert_with(Instant::now);
        self.new_bytes += entry.approximate_bytes();
        self.draft.add(entry.clone());
        match (self.new.entries.last_mut(), &entry) {
            // Text between two checkpoints is stored as one entry.
            (Some(Entry::Text { text: before }), Entry::Text { text }) => before.push_str(text),
            _ => self.new.entries.push(entry),
        }
    }

    fn show_when_stored(&mut self, message_id: MessageId, thought: bool, text: &str) {
        match self.unshown.last_mut() {
            Some(last) if last.message_id == message_id && last.thought == thought => {
                last.text.push_str(text);
            }
            _ => self.unshown.push(UnshownText { message_id, thought, text: text.to_owned() }),
        }
    }

    pub(crate) async fn take(&mut self, delta: Delta, steered: &[Item]) {
        let speaks =
            !matches!(delta, Delta::AgentSession(_) | Delta::CanSteer(_) | Delta::Compacted { .. });
        if speaks && self.phase == Phase::Processing {
            self.phase = Phase::Streaming;
            self.new.phase = Some(Phase::Streaming);
            self.since.get_or_insert_with(Instant::now);
        }
        let run_id = self.opened_run.run.id;
        let mut boundary = false;
        match delta {
            Delta::Text(text) => {
                self.shown = true;
                let id = self.begin_message(Role::Assistant, None);
                self.show_when_stored(id, false, &text);
                self.entry(Entry::Text { text });
            }
            Delta::Thought { text, raw } => {
                self.shown = true;
                let id = self.begin_message(Role::Assistant, None);
                if !text.is_empty() {
                    self.show_when_stored(id, true, &text);
                }
                self.entry(Entry::Thought { text, raw });
            }
            Delta::ToolCall { id, name, params } => {
                self.shown = true;
                boundary = true;
                self.begin_message(Role::Assistant, None);
                self.new.events.push(Event::ToolCallStarted {
                    run_id,
                    tool_call_id: id.clone(),
                    name: name.clone(),
                });
                self.entry(Entry::ToolCall { id, name, params });
            }
            Delta::ToolInput { id, name, params } => {
                self.new.events.push(Event::ToolCallUpdated {
                    run_id,
                    tool_call_id: id.clone(),
                    status: ToolStatus::Running,
                });
                self.entry(Entry::ToolInput { id, name, params });
            }
            Delta::ToolStatus { id, status } => {
                self.new.events.push(Event::ToolCallUpdated {
                    run_id,
                    tool_call_id: id.clone(),
                    status,
                });
                self.entry(Entry::ToolStatus { id, status });
            }
            Delta::ToolResult { id, content, is_error } => {
                boundary = true;
                self.tool_result(id, content, is_error);
            }
            Delta::Plan(entries) => {
                self.begin_message(Role::Assistant, None);
                self.new.events.push(Event::PlanUpdated { run_id });
                self.entry(Entry::Plan { entries });
            }
            Delta::Usage(call) => {
                let usage = Usage::after(self.earlier_usage.as_ref(), call);
                self.new.events.push(Event::UsageUpdated { run_id, usage: usage.clone() });
                self.entry(Entry::Usage { usage });
            }
            Delta::Observed(mut entry) => {
                self.since.get_or_insert_with(Instant::now);
                if let Some(content) = entry.content_mut()
                    && let Content::Text(text) = content
                {
                    let (split, blob) = Content::split(std::mem::take(text).into_bytes());
                    *content = split;
                    self.blobs.extend(blob);
                }
                self.new.observed.push(entry);
            }
            Delta::AgentSession(id) => {
                // Rare. Boxed, so that the future of this function, which is moved for each delta,
                // stays small.
                let own = Box::pin(self.own_conversation(id)).await;
                boundary = own.is_some();
                self.agent_session = own.clone();
                self.new.agent = own;
            }
            Delta::Compacted { summary, trigger, tokens_before, tokens_after } => {
                let (before, after) = (tokens_before.unwrap_or(0), tokens_after.unwrap_or(0));
                Box::pin(self.agent_compacted(summary, trigger, before, after)).await;
            }
            Delta::CanSteer(can_steer) => {
                boundary = true;
                self.new.can_steer = Some(can_steer);
            }
            Delta::Injected(id) => {
                boundary = true;
                if let Some(item) = steered.iter().find(|item| item.message_id == id) {
                    self.open_message(id, Role::User, Some(item.source));
                    self.entry(Entry::Text { text: item.text() });
                    self.new.injected.push(id);
                    self.message = None;
                }
            }
        }
        if boundary || self.new_bytes >= CHECKPOINT_BYTES {
            self.checkpoint().await;
        }
    }

    pub(crate) fn tool_result(&mut self, id: String, content: String, is_error: bool) {
        let run_id = self.opened_run.run.id;
        self.begin_message(Role::Tool, None);
        self.new.events.push(Event::ToolCallCompleted {
            run_id,
            tool_call_id: id.clone(),
            is_error,
        });
        let name = self.draft.tool_name(&id);
        if !states_task(name) {
            let text = step::tool_note(name, &content, is_error);
            self.new.observed.push(step::Entry::Note { id: NoteId(self.engine.new_id()), text });
        }
        self.entry(Entry::ToolResult { id, content, is_error });
    }

    /// The agent's own session after the prompt: it has seen the history up to the head, and the
    /// open turn may be incomplete.
    async fn own_conversation(&mut self, id: String) -> Option<AgentSession> {
        let session = self.row().await.ok()?;
        Some(AgentSession {
            provider_id: self.opened_run.run.provider_id.clone(),
            host: self.engine.shared().host.clone(),
            working_dir: session.working_dir,
            id,
            synced_turn: self.opened_run.head,
            clean: false,
        })
    }
}
