//! Messages that wait for a session, and what becomes of one that comes while the session is busy.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::MessageId;
use crate::intent::Intent;
use crate::message::{Part, Source};
use crate::session::Activity;
use crate::time::{Span, Timestamp};

/// What a message wants if the session is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Ends the run, keeps what it made, goes first.
    Interrupt,
    /// Goes into the running turn, or nowhere.
    Steer,
    /// Waits, one message a turn.
    Followup,
    /// Waits, and shares a turn with those collected beside it.
    Collect,
    /// Goes into the running turn where it can, else waits.
    SteerBacklog,
    /// Waits, in order.
    Queue,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 6] = [
        Self::Interrupt,
        Self::Steer,
        Self::Followup,
        Self::Collect,
        Self::SteerBacklog,
        Self::Queue,
    ];

    /// As it is written.
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

    /// The mode of a message that names none (R160).
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
                "`{text}` is not a queue mode; the modes are {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

/// What becomes of a message (design section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// A run starts with it.
    Run,
    /// It waits its turn.
    Wait,
    /// The run is ended, and it goes first.
    Interrupt,
    /// It goes into the running turn.
    Steer,
    /// It can go nowhere.
    Refuse,
    /// What the session waits for is released, and it goes first.
    Release,
}

/// The table: a mode, what happens now, whether the run can be steered, and whether the message named its
/// mode itself.
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

/// Where an item is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// In the queue.
    Waiting,
    /// In the open turn.
    Taken,
    /// On its way into the running turn.
    Steering,
    /// Kept by a question; handled after the choice.
    Held,
    /// The cap dropped it; readable for a while.
    Dropped,
}

/// A tool that the client brings along: the model may call it, the client answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// A JSON Schema of its parameters.
    #[serde(default)]
    pub parameters: Value,
}

/// What a message wants for its own run only.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// Another provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Another model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools of the client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
}

/// A message in the inbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its id in history for ever.
    pub message_id: MessageId,
    /// Its place; smaller goes first.
    pub position: i64,
    /// What it wants if the session is busy.
    pub mode: Mode,
    /// Where it came from.
    pub source: Source,
    /// What it says.
    pub content: Vec<Part>,
    /// What it is taken for; nothing yet where somebody slower judges.
    pub intent: Option<Intent>,
    /// What it wants for its run.
    pub overrides: Overrides,
    /// Where it is.
    pub state: ItemState,
    /// When it came.
    pub enqueued_at: Timestamp,
}

impl Item {
    /// Its words.
    pub fn text(&self) -> String {
        words(&self.content)
    }

    /// The same message, saying something else; its pictures stay.
    pub fn saying(self, text: String) -> Self {
        let pictures = self.content.into_iter().filter(|part| matches!(part, Part::Image { .. }));
        let content = std::iter::once(Part::Text { text }).chain(pictures).collect();
        Self { content, ..self }
    }
}

/// What stands for the words of a message that is nothing but pictures.
pub const PICTURE: &str = "[a picture]";

/// The words of what was sent.
pub fn words(content: &[Part]) -> String {
    let words: Vec<&str> = content.iter().filter_map(Part::words).collect();
    let words = words.join("\n");
    if words.trim().is_empty() && has_pictures(content) { PICTURE.to_owned() } else { words }
}

/// Whether something is to be looked at.
pub fn has_pictures(content: &[Part]) -> bool {
    content.iter().any(|part| matches!(part, Part::Image { .. }))
}

/// What is done with one message too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtCap {
    /// The oldest goes.
    Old,
    /// The new one goes.
    New,
    /// The oldest are folded into one that says what they said.
    Summarize,
    /// The sender is told.
    #[default]
    Reject,
}

/// How an inbox behaves (R167).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The most messages that may wait.
    pub cap: usize,
    /// What is done with one more.
    pub at_cap: AtCap,
    /// How long collected messages are waited for.
    pub debounce: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cap: 20, at_cap: AtCap::Reject, debounce: Span(1000) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admission_table_is_whole() {
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
            for said in [false, true] {
                for can in [false, true] {
                    assert_eq!(admit(mode, Idle, can, said), idle, "{mode} idle");
                }
                assert_eq!(admit(mode, Running, false, said), running, "{mode} running");
                assert_eq!(admit(mode, Running, true, said), steerable, "{mode} steerable");
            }
            for can in [false, true] {
                assert_eq!(admit(mode, Suspended, can, false), suspended, "{mode} suspended");
                assert_eq!(admit(mode, Suspended, can, true), named, "{mode} suspended, named");
            }
        }
    }

    #[test]
    fn who_sends_decides_the_mode() {
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
