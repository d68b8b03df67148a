//! A rule said no. Nothing was changed; the caller is told what, why and what to do instead.

use crate::id::{CommitId, StepId, TurnId};
use crate::task::{InvalidTransition, StateName};
use crate::text::{BadText, one_line};

/// Why a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing is being worked on.
    #[error("there is no open task")]
    NoTask,
    /// Something is being worked on.
    #[error("a task is open already: {}", one_line(description, 80))]
    TaskOpen {
        /// What it is.
        description: String,
    },
    /// The state machine has no such row.
    #[error(transparent)]
    InvalidTransition(#[from] InvalidTransition),
    /// The command is for another state.
    #[error("the task is {from}; only a task that is {wanted} can be {verb}")]
    WrongState {
        /// What was to be done.
        verb: &'static str,
        /// Where the task is.
        from: StateName,
        /// Where it would have to be.
        wanted: StateName,
        /// Where it was to go.
        to: StateName,
    },
    /// Moves are made by rules, not observed.
    #[error("the beginning and the moves of a task cannot be observed")]
    NotObservable,
    /// No question is open.
    #[error("no question is waiting for a choice")]
    NoPrompt,
    /// A question must be answered first.
    #[error("a question is waiting for a choice: {text}")]
    PromptOpen {
        /// What was asked.
        text: String,
    },
    /// Somebody else moved on.
    #[error("another writer has moved on since this one looked")]
    StaleWriter,
    /// A text that cannot be taken.
    #[error("the {what} is not taken: {why}")]
    BadText {
        /// Which text.
        what: &'static str,
        /// Its fault.
        why: BadText,
    },
    /// More than one command may carry.
    #[error("{count} {what} at once, and at most {max} are taken")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// The label is taken.
    #[error("a session is called `{label}` already")]
    LabelInUse {
        /// Which.
        label: String,
    },
    /// No label at all.
    #[error(
        "`{label}` cannot be a label: it must be printable, at most 512 characters, without white space at its ends"
    )]
    BadLabel {
        /// What was given, clipped.
        label: String,
    },
    /// A label that would be taken for an id.
    #[error(
        "`{label}` cannot be a label: it reads as a session's id, and the session could not be called by it"
    )]
    LabelIsAnId {
        /// Which.
        label: String,
    },
    /// There is no such session.
    #[error("there is no such session")]
    NoSession,
    /// The session takes no messages.
    #[error("this session refuses messages: its delivery is set to `refuse`")]
    DeliveryRefused,
    /// The session's history failed verification.
    #[error("the stored history of this session is damaged")]
    SessionBroken,
    /// The run cannot be steered.
    #[error("what runs now cannot take a message in")]
    SteerUnavailable,
    /// As many messages wait as may.
    #[error("{cap} messages are waiting already")]
    InboxFull {
        /// How many.
        cap: usize,
    },
    /// No provider has that name.
    #[error("there is no provider called `{provider}`")]
    UnknownProvider {
        /// Which.
        provider: String,
    },
    /// No persona has that name.
    #[error("there is no persona called `{persona}`")]
    UnknownPersona {
        /// Which.
        persona: String,
    },
    /// The provider cannot call tools.
    #[error("provider `{provider}` cannot take tools")]
    ToolsUnsupported {
        /// Which.
        provider: String,
    },
    /// No name of a tool.
    #[error("`{name}` cannot be the name of a tool: it has 1 to 64 letters, digits, `_` and `-`")]
    BadTool {
        /// What was given, clipped.
        name: String,
    },
    /// A key was used before, for something else.
    #[error("this idempotency key was used for another request")]
    IdempotencyMismatch,
    /// The session waits for no such thing.
    #[error("there is no such suspension")]
    NoSuspension,
    /// It was answered before.
    #[error("this suspension was answered already")]
    SuspensionConsumed,
    /// The answer does not fit what is awaited.
    #[error("the answer is not taken: {why}")]
    BadAnswer {
        /// What is wrong with it.
        why: String,
    },
    /// There is no such message in the inbox.
    #[error("there is no such message in the inbox")]
    NoItem,
    /// The message is on its way already.
    #[error("this message does not wait any more")]
    NotWaiting,
    /// The session must be idle for this.
    #[error("the session is {state}")]
    Busy {
        /// What it does.
        state: &'static str,
    },
    /// There is nothing to run again.
    #[error("there is no message to run again")]
    NothingToRetry,
    /// The turn is not one of those that led to the head.
    #[error("turn {turn} is not in this session's history")]
    NotAnAncestor {
        /// Which.
        turn: TurnId,
    },
    /// What answers keeps a context of its own and has no command to shorten it.
    #[error("what answers in this session keeps its own context and offers no way to shorten it")]
    CompactUnavailable,
    /// There is nothing that a summary could stand for.
    #[error("there is nothing to summarise yet")]
    NothingToCompact,
    /// Nothing stands for earlier turns.
    #[error("the context of this session was never made shorter")]
    NoCompaction,
    /// Pinned turns would fill the context.
    #[error(
        "pinned turns would have {tokens} tokens together, and at most {max} are taken in this session"
    )]
    TooMuchPinned {
        /// So many.
        tokens: u64,
        /// The bound.
        max: u64,
    },
    /// The turn is not pinned.
    #[error("turn {turn} is not pinned")]
    NotPinned {
        /// Which.
        turn: TurnId,
    },
    /// There is no sealed task to open again.
    #[error("there is no sealed task to open again")]
    NothingToReopen,
    /// The task of a bundle was sealed here before.
    #[error("this task was sealed here already, as commit {commit}")]
    AlreadySealed {
        /// Into what.
        commit: CommitId,
    },
    /// The task of a bundle ended here without a commit.
    #[error("this task has ended here already")]
    AlreadyEnded,
    /// The newest step is neither in the bundle nor in the store.
    #[error("step {head} is neither in the bundle nor in this store")]
    MissingHead {
        /// Which.
        head: StepId,
    },
    /// The bundle and the store each have steps that the other lacks.
    #[error("this task has gone on here from step {head}, which the bundle does not have")]
    Diverged {
        /// The newest step here.
        head: StepId,
    },
}

impl Refusal {
    /// The way that does not exist, where that is why.
    pub const fn way(&self) -> Option<InvalidTransition> {
        match self {
            Refusal::InvalidTransition(way) => Some(*way),
            Refusal::WrongState { from, to, .. } => {
                Some(InvalidTransition { from: Some(*from), to: Some(*to) })
            }
            _ => None,
        }
    }

    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Refusal::NoTask => "no_task",
            Refusal::TaskOpen { .. } => "task_open",
            Refusal::InvalidTransition(_) | Refusal::WrongState { .. } => "invalid_transition",
            Refusal::NotObservable => "not_observable",
            Refusal::NoPrompt => "no_prompt",
            Refusal::PromptOpen { .. } => "prompt_open",
            Refusal::StaleWriter => "stale_writer",
            Refusal::BadText { .. } => "bad_text",
            Refusal::TooMany { .. } => "too_many",
            Refusal::LabelInUse { .. } => "label_in_use",
            Refusal::BadLabel { .. } | Refusal::LabelIsAnId { .. } => "bad_label",
            Refusal::NoSession => "no_session",
            Refusal::DeliveryRefused => "delivery_refused",
            Refusal::SessionBroken => "session_error",
            Refusal::SteerUnavailable => "steer_unavailable",
            Refusal::InboxFull { .. } => "inbox_full",
            Refusal::UnknownProvider { .. } => "unknown_provider",
            Refusal::UnknownPersona { .. } => "unknown_persona",
            Refusal::ToolsUnsupported { .. } => "tools_unsupported",
            Refusal::BadTool { .. } => "bad_tool",
            Refusal::IdempotencyMismatch => "idempotency_mismatch",
            Refusal::NoSuspension => "no_suspension",
            Refusal::SuspensionConsumed => "suspension_consumed",
            Refusal::BadAnswer { .. } => "bad_answer",
            Refusal::NoItem => "no_item",
            Refusal::NotWaiting => "not_waiting",
            Refusal::Busy { .. } => "session_busy",
            Refusal::NothingToRetry => "nothing_to_retry",
            Refusal::NotAnAncestor { .. } => "not_an_ancestor",
            Refusal::CompactUnavailable => "compact_unavailable",
            Refusal::NothingToCompact => "nothing_to_compact",
            Refusal::NoCompaction => "no_compaction",
            Refusal::TooMuchPinned { .. } => "too_much_pinned",
            Refusal::NotPinned { .. } => "not_pinned",
            Refusal::NothingToReopen => "nothing_to_reopen",
            Refusal::AlreadySealed { .. } => "already_sealed",
            Refusal::AlreadyEnded => "already_ended",
            Refusal::MissingHead { .. } => "missing_head",
            Refusal::Diverged { .. } => "diverged",
        }
    }
}
