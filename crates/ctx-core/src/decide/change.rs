//! What a rule can change: the rows that the store writes in one transaction.

use crate::agent_session::AgentSession;
use crate::alias::Alias;
use crate::compaction::Compaction;
use crate::draft;
use crate::id::{EntityId, MessageId, SessionId, SuspensionId, TurnId};
use crate::inbox::Item;
use crate::outbox::Outgoing;
use crate::prompt::Prompt;
use crate::run::Run;
use crate::session::{self, Session};
use crate::suspension::{Answer, Suspension};
use crate::task::Task;
use crate::turn;

use super::{CommitRecord, StepRecord};

/// The key of a history that a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryKey {
    /// The client's token, or the session that it named: keys of others are not found.
    pub scope: String,
    /// One of [`crate::client_history::keys`].
    pub key: String,
    /// The message of the user that ends the history.
    pub message: MessageId,
}

/// One row change of a transaction.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other variants and fields are self-explanatory")]
pub enum Change {
    /// Inserts a session.
    CreateSession(Box<session::New>),
    /// Inserts a turn and moves the session's head to it.
    AppendTurn(Box<turn::Record>),
    /// Inserts turns after the session's head, oldest first, and moves the head to the last one.
    /// Turns that are already stored are shared.
    ImportTurns(Vec<turn::Record>),
    /// Stores in which turn a worker of this session was started.
    LinkWorker {
        /// Label of the worker.
        label: String,
        /// The turn with the tool call that started it.
        turn: TurnId,
    },
    /// Stores that the session has received the report of a worker, unless the worker has another
    /// head by now.
    MarkReported {
        worker: SessionId,
        /// The head that was reported.
        head: TurnId,
    },
    /// Inserts a step of the task that a later [`Change::PutTask`] stores.
    AppendStep(Box<StepRecord>),
    /// Inserts a commit and moves the project's head to it.
    AppendCommit(Box<CommitRecord>),
    /// Inserts or updates a task. An open task becomes the session's task, and its head becomes the
    /// session's STAGE.
    PutTask(Box<Task>),
    /// Sets or clears the open prompt.
    SetPrompt(Option<Box<Prompt>>),
    /// Updates the session's row, except its head, task, prompt and events.
    PutSession(Box<Session>),
    /// Moves the head to an ancestor, or before the first turn.
    MoveHead {
        /// The new head.
        turn: Option<TurnId>,
        /// Number of turns from the root to it; 0 without a turn.
        depth: u64,
    },
    /// Inserts or updates a message in the inbox.
    PutItem(Box<Item>),
    /// Deletes a message from the inbox: it is in the history now, or was withdrawn.
    RemoveItem(MessageId),
    /// Inserts or updates a run.
    PutRun(Box<Run>),
    /// Appends entries to the open turn.
    AppendDrafts(Vec<draft::Entry>),
    /// Deletes the entries of the open turn, which is closed.
    ClearDrafts,
    /// Inserts a suspension.
    PutSuspension(Box<Suspension>),
    /// Marks a suspension as answered or released.
    ConsumeSuspension {
        id: SuspensionId,
        /// `None` if it was released.
        answer: Option<Answer>,
    },
    /// Inserts the compaction that the newest turn represents.
    PutCompaction(Box<Compaction>),
    /// Pins a turn, so that compactions keep it in full.
    Pin {
        turn: TurnId,
        /// Size of the turn in the context window.
        tokens: u64,
    },
    Unpin(TurnId),
    /// Inserts or updates an agent's own session that belongs to this session.
    PutAgentSession(Box<AgentSession>),
    /// Adds an alias of the session.
    PutAlias(Box<Alias>),
    /// Stores that the session receives the direct messages of an entity.
    SetEntity(EntityId),
    /// Stores under which key the history before a message is found.
    PutHistoryKey(Box<HistoryKey>),
    /// Inserts a row of the outbox.
    PutOutgoing(Box<Outgoing>),
    /// Deletes the session and its rows.
    DeleteSession,
}
