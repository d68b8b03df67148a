//! The inbox: messages that wait for a session, and how a message to a busy session is admitted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::draft::Entry;
use crate::id::MessageId;
use crate::identity::Envelope;
use crate::intent::Intent;
use crate::message::{Part, Source};
use crate::policy::ToolRights;
use crate::session::Activity;
use crate::time::{Span, Timestamp};

/// The queue mode: how a message is delivered if the session is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Ends the run, keeps its output, and is delivered next.
    Interrupt,
    /// Is added to the running turn, or refused.
    Steer,
    /// Waits. Each message becomes one turn.
    Followup,
    /// Waits. Consecutive messages with this mode become one turn.
    Collect,
    /// Is added to the running turn if possible, otherwise waits.
    SteerBacklog,
    /// Waits in arrival order.
    Queue,
}

impl Mode {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const ALL: [Mode; 6] = [
        Self::Interrupt,
        Self::Steer,
        Self::Followup,
        Self::Collect,
        Self::SteerBacklog,
        Self::Queue,
    ];

    /// The name in JSON, in the database and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Steer => "steer",
            Self::Followup => "followup",
            Self::Collect => "collect",
            Self::SteerBacklog => "steer-backlog",
            Self::Queue => "queue",
        }
    }

    /// The mode of a message without an explicit mode (R160).
    pub const fn default_for(source: Source, tracks_tasks: bool) -> Self {
        match source {
            Source::Human if tracks_tasks => Self::SteerBacklog,
            Source::Human => Self::Interrupt,
            Source::Agent | Source::Timer | Source::Trigger => Self::Followup,
            Source::Webhook | Source::Event => Self::Queue,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| {
            format!(
                "unknown queue mode `{text}`; the modes are {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

/// How a message is admitted (design section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Start a run with it.
    Run,
    /// Add it to the end of the inbox.
    Wait,
    /// End the run and put the message at the front of the inbox.
    Interrupt,
    /// Add it to the running turn.
    Steer,
    /// Reject it: the run cannot be steered.
    Refuse,
    /// Release the suspensions and put the message at the front of the inbox.
    Release,
}

/// The admission table. `named` is true if the sender set the mode explicitly.
pub const fn admit(mode: Mode, state: Activity, can_steer: bool, named: bool) -> Admission {
    match (state, mode) {
        (Activity::Idle, _) => Admission::Run,
        (Activity::Running, Mode::Interrupt) => Admission::Interrupt,
        (Activity::Running, Mode::Steer | Mode::SteerBacklog) if can_steer => Admission::Steer,
        (Activity::Running, Mode::Steer) => Admission::Refuse,
        (Activity::Running, Mode::SteerBacklog | Mode::Followup | Mode::Collect | Mode::Queue) => {
            Admission::Wait
        }
        (Activity::Suspended, Mode::Interrupt) if named => Admission::Release,
        (Activity::Suspended, _) => Admission::Wait,
    }
}

/// The state of an inbox item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// Waits for delivery.
    Waiting,
    /// Part of the unfinished turn.
    Taken,
    /// Will be added to the running turn.
    Steering,
    /// Waits for the answer to a prompt and is handled after the choice.
    Held,
    /// Dropped because the inbox was full. It stays readable for a limited time.
    Dropped,
}

/// A tool of the client. The model may call it, and the client returns the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the parameters.
    #[serde(default)]
    pub parameters: Value,
}

/// Settings that apply only to the run of one message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Overrides {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools of the client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Label of the worker that sent the message or that it reports. The run of such a message
    /// changes no task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_worker: Option<String>,
    /// The envelope of a message from a channel. The answer goes to where the message was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
    /// What the sender may do. `None` if nothing restricts the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rights: Option<Rights>,
    /// Instructions of the client, which precede the system prompt of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The beginning of the answer, which the client brings: the turn is open with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<Entry>,
}

/// The rights that policies give to the sender of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// The tools that the agent may call in the run of the message: those that all of them permit.
    pub tools: Vec<ToolRights>,
    /// Whether the sender may answer permission requests.
    pub approve: bool,
}

/// A message in the inbox.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Item {
    /// The id of the message. It does not change when the message becomes part of a turn.
    pub message_id: MessageId,
    /// Sort key within the inbox, ascending. Negative positions are those of messages that were put
    /// at the front.
    pub position: i64,
    pub mode: Mode,
    pub source: Source,
    pub content: Vec<Part>,
    /// The classification. `None` until a slower classifier has answered, and for messages that are
    /// not classified.
    pub intent: Option<Intent>,
    pub overrides: Overrides,
    pub state: ItemState,
    pub enqueued_at: Timestamp,
}

impl Item {
    /// The text of the message, see [`text_of`].
    pub fn text(&self) -> String {
        text_of(&self.content)
    }

    /// Replaces the text and keeps the images.
    pub fn with_text(self, text: String) -> Self {
        let images = self.content.into_iter().filter(|part| matches!(part, Part::Image { .. }));
        let content = std::iter::once(Part::Text { text }).chain(images).collect();
        Self { content, ..self }
    }
}

/// Replaces the text of a message that contains only images.
pub const IMAGE_PLACEHOLDER: &str = "[an image]";

/// The text parts joined by newlines, or a placeholder if there are only images.
pub fn text_of(content: &[Part]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(Part::searchable_text).collect();
    let text = texts.join("\n");
    if text.trim().is_empty() && has_images(content) { IMAGE_PLACEHOLDER.to_owned() } else { text }
}

/// Whether the content has an image.
pub fn has_images(content: &[Part]) -> bool {
    content.iter().any(|part| matches!(part, Part::Image { .. }))
}

/// What happens to a message when the inbox is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverflowPolicy {
    /// Drop the oldest waiting message.
    Old,
    /// Drop the new message.
    New,
    /// Replace the oldest messages by one with a line for each.
    Summarize,
    /// Refuse the new message.
    #[default]
    Reject,
}

/// Settings of all inboxes (R167).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of waiting messages per session.
    pub cap: usize,
    /// What happens to a message above the cap.
    pub at_cap: OverflowPolicy,
    /// How long a `collect` message waits for further messages before delivery.
    pub debounce: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cap: 20, at_cap: OverflowPolicy::Reject, debounce: Span(1000) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_table_covers_every_mode_and_state() {
        // R153–R159, R239–R241
        use Activity::{Idle, Running, Suspended};
        use Admission::{Interrupt, Refuse, Release, Run, Steer, Wait};
        // mode, idle, running, running and steerable, suspended, suspended and named
        let table = [
            (Mode::Interrupt, Run, Interrupt, Interrupt, Wait, Release),
            (Mode::Steer, Run, Refuse, Steer, Wait, Wait),
            (Mode::SteerBacklog, Run, Wait, Steer, Wait, Wait),
            (Mode::Followup, Run, Wait, Wait, Wait, Wait),
            (Mode::Queue, Run, Wait, Wait, Wait, Wait),
            (Mode::Collect, Run, Wait, Wait, Wait, Wait),
        ];
        assert_eq!(table.len(), Mode::ALL.len());
        for (mode, idle, running, steerable, suspended, named) in table {
            for explicit in [false, true] {
                for can in [false, true] {
                    assert_eq!(admit(mode, Idle, can, explicit), idle, "{mode} idle");
                }
                assert_eq!(admit(mode, Running, false, explicit), running, "{mode} running");
                assert_eq!(admit(mode, Running, true, explicit), steerable, "{mode} steerable");
            }
            for can in [false, true] {
                assert_eq!(admit(mode, Suspended, can, false), suspended, "{mode} suspended");
                assert_eq!(admit(mode, Suspended, can, true), named, "{mode} suspended, named");
            }
        }
    }

    #[test]
    fn source_decides_the_default_mode() {
        // R160
        let table = [
            (Source::Human, Mode::Interrupt, Mode::SteerBacklog),
            (Source::Agent, Mode::Followup, Mode::Followup),
            (Source::Timer, Mode::Followup, Mode::Followup),
            (Source::Trigger, Mode::Followup, Mode::Followup),
            (Source::Webhook, Mode::Queue, Mode::Queue),
            (Source::Event, Mode::Queue, Mode::Queue),
        ];
        for (source, chat, tracked) in table {
            assert_eq!(
                (Mode::default_for(source, false), Mode::default_for(source, true)),
                (chat, tracked),
                "{source:?}"
            );
        }
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).expect("json"), mode.name());
        }
    }
}
