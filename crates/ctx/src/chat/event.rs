//! What happens to the chat, and what the chat asks the engine to do. The reducer in `update` maps
//! the one to the other.

use ctx_engine::core::id::{MessageId, SessionId, SuspensionId, TurnId};
use ctx_engine::core::inbox::Mode;
use ctx_engine::core::message::Message;
use ctx_engine::core::prompt;
use ctx_engine::{Info, TextDelta};
use ratatui::crossterm::event::KeyEvent;

use super::draft_file::Draft;
use super::picker::{PickerKind, Row};
use super::transcript::{Side, Turn};

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event {
    Key(KeyEvent),
    Paste(String),
    Resize,
    /// Time passes; sent about once a second while something on the screen depends on it.
    Tick,
    /// A signal, or a terminal that is gone.
    Terminate,
    /// From the follower of a session. Events of an earlier session have an older `epoch`.
    Feed {
        epoch: u64,
        feed: Feed,
    },
    /// A message was stored, or was not.
    Sent {
        ticket: u64,
        result: Result<(SessionId, MessageId), Failure>,
    },
    /// The rows of the list that was asked for.
    Rows {
        kind: PickerKind,
        rows: Vec<Row>,
        selected: usize,
    },
    /// The files of the working directory.
    Files(Vec<String>),
    /// The chat continues in another session.
    Switched(SessionId),
    /// An effect is done, with a message for the user.
    Done(String),
    /// An effect failed.
    Failed(Failure),
    /// The viewport shows the beginning or the end of what is loaded.
    NearEdge(Side),
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// What is known of a session when it is opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) info: Info,
    /// The newest turns, or those around `at`; newest first.
    pub(super) turns: Vec<Turn>,
    /// The turn that is shown first; none shows the end.
    pub(super) at: Option<TurnId>,
    /// Whether there are turns after `turns`.
    pub(super) newer_missing: bool,
    pub(super) open: Vec<Message>,
    pub(super) draft: Draft,
    /// Slash commands of the session's agent, with descriptions.
    pub(super) commands: Vec<(String, String)>,
}

/// From the feed of the session.
#[derive(Debug)]
pub(super) enum Feed {
    Opened(Box<Opened>),
    Info(Box<Info>),
    /// The open turn as the store has it.
    Open(Vec<Message>),
    Turn(Box<Turn>),
    Delta(TextDelta),
    Page {
        side: Side,
        turns: Vec<Turn>,
        reached_end: bool,
    },
    Commands(Vec<(String, String)>),
    Deleted,
    Failed(Failure),
}

/// A change of the view that needs its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scroll {
    Lines(isize),
    Pages(isize),
    Top,
    Bottom,
    /// To the first line of a turn.
    Turn(TurnId),
}

/// What the reducer asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// Follow a session; earlier ones are no longer followed. It opens at a turn or at its end.
    Open {
        epoch: u64,
        session: SessionId,
        at: Option<TurnId>,
    },
    /// Leave the session for a new conversation, which is stored with its first message.
    OpenNew {
        epoch: u64,
    },
    /// Read the session again.
    Reload {
        epoch: u64,
        session: SessionId,
    },
    /// Read the open turn again.
    ReadOpen,
    LoadTurns {
        side: Side,
        from: TurnId,
    },
    /// Create a session with its first message.
    Create {
        ticket: u64,
        text: String,
        provider: Option<String>,
        model: Option<String>,
    },
    Send {
        ticket: u64,
        text: String,
        mode: Option<Mode>,
    },
    Cancel,
    Answer {
        suspension: SuspensionId,
        choice: String,
    },
    AnswerPrompt(prompt::Choice),
    EditQueued {
        id: MessageId,
        text: String,
    },
    Withdraw(MessageId),
    /// To a position from 1.
    MoveQueued {
        id: MessageId,
        to: usize,
    },
    Compact(Option<String>),
    Fork {
        turn: Option<TurnId>,
        title: Option<String>,
    },
    Rewind(TurnId),
    RewindTo(String),
    Retry,
    Rename(String),
    SetModel {
        provider: Option<String>,
        model: Option<String>,
    },
    OpenLabel(String),
    ListSessions,
    ListModels,
    ListTree,
    Search(String),
    /// The files of this directory.
    ListFiles(String),
    SaveDraft(Draft),
    Scroll(Scroll),
    Redraw,
    Suspend,
    Quit,
}
