//! The state of the chat: what is loaded of the session, what is typed, and what is open on the
//! screen. It changes only in the reducer.

use ctx_engine::Info;
use ctx_engine::core::id::{MessageId, SessionId};
use ctx_engine::core::inbox::{Admission, Mode, admit};
use ctx_engine::core::message::Source;
use ctx_engine::core::prompt::Prompt;
use ctx_engine::core::session::{Activity, Status};
use ctx_engine::core::suspension::{Kind, Suspension};
use ctx_engine::core::time::Timestamp;

use super::completion::Completion;
use super::draft_file::Draft;
use super::editor::Editor;
use super::picker::Picker;
use super::transcript::Transcript;

/// How long the second Ctrl-C may take.
pub(super) const LEAVE_MS: u64 = 3000;

/// A provider that `/model` can select.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProviderChoice {
    pub(super) name: String,
    pub(super) model: Option<String>,
    pub(super) models: Vec<String>,
    pub(super) unavailable: Option<String>,
}

/// A message that was sent and is not seen in the session yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sending {
    pub(super) ticket: u64,
    pub(super) text: String,
    pub(super) mode: Option<Mode>,
    /// Set once the message is stored.
    pub(super) stored: Option<MessageId>,
    /// Whether it waits for the session to be created.
    pub(super) is_held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoticeKind {
    Info,
    Problem,
}

/// A line above the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) kind: NoticeKind,
    pub(super) text: String,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Counts the sessions that were opened, to tell late events of earlier ones.
    pub(super) epoch: u64,
    /// The session; none in a conversation that is not stored yet.
    pub(super) info: Option<Info>,
    /// Whether the session is being read.
    pub(super) is_opening: bool,
    pub(super) transcript: Transcript,
    pub(super) sending: Vec<Sending>,
    pub(super) tickets: u64,
    pub(super) editor: Editor,
    /// The waiting message that the editor changes.
    pub(super) editing: Option<MessageId>,
    pub(super) completion: Option<Completion>,
    pub(super) picker: Option<Picker>,
    pub(super) shows_help: bool,
    pub(super) shows_tools: bool,
    pub(super) shows_thoughts: bool,
    pub(super) notice: Option<Notice>,
    /// The selected option of what the session waits for.
    pub(super) option: Option<usize>,
    pub(super) leaving_since: Option<Timestamp>,
    pub(super) files: Option<Vec<String>>,
    pub(super) agent_commands: Vec<(String, String)>,
    pub(super) providers: Vec<ProviderChoice>,
    pub(super) default_provider: String,
    /// Provider and model of a conversation that is not stored yet.
    pub(super) preferred: (Option<String>, Option<String>),
    pub(super) dir: String,
    /// Width of the editor in columns.
    pub(super) columns: usize,
    /// The time of the newest event.
    pub(super) now_ms: i64,
}

/// What the session waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pending<'a> {
    Suspension(&'a Suspension),
    Prompt(&'a Prompt),
}

impl State {
    pub(super) const fn now(&self) -> Timestamp {
        Timestamp(self.now_ms)
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.info.as_ref().map(|info| info.session.id)
    }

    pub(super) fn is_running(&self) -> bool {
        self.info.as_ref().is_some_and(|info| info.session.state == Activity::Running)
    }

    /// The question that a person can answer here.
    pub(super) fn pending(&self) -> Option<Pending<'_>> {
        let info = self.info.as_ref()?;
        let by_person =
            |it: &&Suspension| matches!(it.awaited.kind, Kind::Permission | Kind::Question);
        let suspension = info.suspensions.iter().find(by_person).map(Pending::Suspension);
        suspension.or_else(|| info.prompt.as_ref().map(Pending::Prompt))
    }

    /// Labels of the options of what the session waits for.
    pub(super) fn options(&self) -> Vec<String> {
        match self.pending() {
            Some(Pending::Suspension(suspension)) => {
                suspension.awaited.options.iter().map(|offer| offer.label.clone()).collect()
            }
            Some(Pending::Prompt(prompt)) => prompt
                .choices()
                .map(|choice| match choice {
                    ctx_engine::core::prompt::Choice::Continue => "Continue that work".to_owned(),
                    ctx_engine::core::prompt::Choice::StartFresh => {
                        "Save it and start fresh".to_owned()
                    }
                })
                .to_vec(),
            None => Vec::new(),
        }
    }

    /// What Enter does now.
    pub(super) fn enter_hint(&self) -> &'static str {
        if self.editing.is_some() {
            return "Enter saves the waiting message";
        }
        if let Some(Pending::Suspension(suspension)) = self.pending()
            && suspension.awaited.options.is_empty()
        {
            return "Enter answers";
        }
        let Some(info) = &self.info else { return "Enter sends" };
        if info.prompt.is_some() {
            return "Enter queues";
        }
        let mode = Mode::default_for(Source::Human, info.session.track_tasks);
        let can_steer = info.run.as_ref().is_some_and(|run| run.can_steer);
        match admit(mode, info.session.state, can_steer, false) {
            Admission::Run => "Enter sends",
            Admission::Wait => "Enter queues",
            Admission::Interrupt | Admission::Release => "Enter stops the run and sends",
            Admission::Steer => "Enter steers",
            Admission::Refuse => "Enter is refused now",
        }
    }

    /// Whether the newest turn was cut off, so that a retry is offered.
    pub(super) fn offers_retry(&self) -> bool {
        use ctx_engine::core::turn::Status as TurnStatus;
        let interrupted = self.info.as_ref().is_some_and(|info| {
            info.session.status == Status::Suspended && info.session.state == Activity::Idle
        });
        let last = self.transcript.turns.back().map(|turn| turn.status);
        let idle = !self.is_running() && self.sending.is_empty();
        idle && (interrupted || matches!(last, Some(TurnStatus::Failed | TurnStatus::Interrupted)))
    }

    /// Provider and model that the next message uses.
    pub(super) fn provider_and_model(&self) -> (String, Option<String>) {
        let (provider, model) = match &self.info {
            Some(info) => match &info.run {
                Some(run) => (Some(run.provider_id.clone()), run.model.clone()),
                None => (info.session.provider_id.clone(), info.session.model.clone()),
            },
            None => self.preferred.clone(),
        };
        let provider = provider.unwrap_or_else(|| self.default_provider.clone());
        let default = self.providers.iter().find(|known| known.name == provider);
        let model = model.or_else(|| default.and_then(|known| known.model.clone()));
        (provider, model)
    }

    /// What is kept of the editor for the next start.
    pub(super) fn draft(&self) -> Draft {
        let unsent = self.sending.iter().filter(|sent| sent.stored.is_none());
        Draft {
            // The text of a waiting message is stored with it.
            text: if self.editing.is_some() {
                String::new()
            } else {
                self.editor.text().to_owned()
            },
            sending: unsent.map(|sent| sent.text.clone()).collect(),
        }
    }

    pub(super) fn inform(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { kind: NoticeKind::Info, text: text.into() });
    }

    pub(super) fn report(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { kind: NoticeKind::Problem, text: text.into() });
    }
}
