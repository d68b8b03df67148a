//! Refusals: why a rule rejected a command. A refused command changes nothing.
//!
//! Messages have the form `what failed: why`. The codes are part of the API and never change.

use crate::id::{CommitId, EntityId, StepId, TurnId};
use crate::policy::Denial;
use crate::task::{InvalidTransition, StateName};
use crate::text_limits::{BadText, one_line};

/// Why a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum Refusal {
    /// The command needs an open task.
    #[error("no task is open")]
    NoTask,
    /// The command needs a session without an open task.
    #[error("another task is open: {}", one_line(description, 80))]
    TaskOpen {
        /// The description of the open task.
        description: String,
    },
    /// The transition table has no such row.
    #[error(transparent)]
    InvalidTransition(#[from] InvalidTransition),
    /// The command needs a task in another state.
    #[error("the task cannot be {verb}: it is {from}, not {wanted}")]
    WrongState {
        /// Past participle of the command.
        verb: &'static str,
        /// The current state of the task.
        from: StateName,
        /// The state that the command needs.
        wanted: StateName,
        /// The state after the command.
        to: StateName,
    },
    /// An observation contains a start or a state change of a task.
    #[error("cannot record observation: only rules start a task or change its state")]
    NotObservable,
    /// The command answers a prompt, but the session has none.
    #[error("no prompt is open")]
    NoPrompt,
    /// The open prompt must be answered first.
    #[error("a prompt must be answered first: {text}")]
    PromptOpen {
        /// The text of the prompt.
        text: String,
    },
    /// The session changed after the caller read it. The caller should reload.
    #[error("write rejected: another writer changed the session first")]
    StaleWriter,
    /// A text is empty, too long or contains NUL.
    #[error("invalid {what}: {why}")]
    BadText {
        /// What the text is, for example `note`.
        what: &'static str,
        why: BadText,
    },
    /// A search query cannot be understood.
    #[error("invalid search query: {why}")]
    BadQuery {
        /// `invalid_regex`, `unknown_filter` or `invalid_filter`.
        code: &'static str,
        why: String,
    },
    /// The cursor of a page belongs to another list.
    #[error("invalid cursor: it does not belong to this list")]
    BadCursor,
    /// A list is too long.
    #[error("too many {what}: {count}, the limit is {max}")]
    TooMany {
        /// What the list contains, for example `tools`.
        what: &'static str,
        count: usize,
        max: usize,
    },
    /// Another session has this label.
    #[error("label `{label}` is already in use: choose another one")]
    LabelInUse { label: String },
    /// The label has forbidden characters or a wrong length.
    #[error(
        "invalid label `{label}`: it must be printable, at most 512 characters, without white \
         space at its ends"
    )]
    BadLabel {
        /// The label, truncated to 80 characters.
        label: String,
    },
    /// The label has the form of a session id. Sessions are looked up by id first, so the label
    /// could not be used.
    #[error("invalid label `{label}`: it has the form of a session id")]
    LabelIsAnId { label: String },
    /// No session has this id or label.
    #[error("session not found")]
    NoSession,
    /// The session is configured to refuse messages.
    #[error("message refused: the delivery of this session is set to `refuse`")]
    DeliveryRefused,
    /// The history of the session failed verification.
    #[error("session is damaged: its stored history failed verification")]
    SessionDamaged,
    /// The run cannot be steered.
    #[error("cannot steer: the current run does not support steering")]
    SteerUnavailable,
    /// The inbox has reached its cap.
    #[error("inbox is full: {cap} messages are waiting")]
    InboxFull {
        /// Maximum number of waiting messages.
        cap: usize,
    },
    /// No provider with this name is configured.
    #[error("unknown provider `{provider}`")]
    UnknownProvider { provider: String },
    /// No persona with this name is configured.
    #[error("unknown persona `{persona}`")]
    UnknownPersona { persona: String },
    /// The provider cannot call tools of the client.
    #[error("cannot use tools: provider `{provider}` does not support them")]
    ToolsUnsupported { provider: String },
    /// The name of a tool is not valid for every API.
    #[error("invalid tool name `{name}`: it must have 1 to 64 letters, digits, `_` and `-`")]
    BadTool {
        /// The name, truncated to 80 characters.
        name: String,
    },
    /// The idempotency key belongs to another request.
    #[error("idempotency key mismatch: the key was used for another request")]
    IdempotencyMismatch,
    /// The session has no suspension with this id.
    #[error("suspension not found")]
    NoSuspension,
    /// The suspension was answered before.
    #[error("suspension was already answered")]
    SuspensionConsumed,
    /// The answer does not match the suspension.
    #[error("invalid answer: {why}")]
    BadAnswer { why: String },
    /// The inbox has no message with this id.
    #[error("message not found in the inbox")]
    NoInboxItem,
    /// Only a waiting message can be edited, moved or withdrawn.
    #[error("cannot change the message: it is no longer waiting")]
    NotWaiting,
    /// The command needs an idle session.
    #[error("session is busy: it is {state}")]
    Busy {
        /// The current state of the session.
        state: &'static str,
    },
    /// The newest turn has no message of a user.
    #[error("cannot retry: there is no message to run again")]
    NothingToRetry,
    /// The turn is not the head and not an ancestor of the head.
    #[error("turn {turn} is not in the history of this session")]
    NotAnAncestor { turn: TurnId },
    /// The agent stores its own context and has no command to compact it.
    #[error("cannot compact: the agent manages its own context and has no command to compact it")]
    CompactUnavailable,
    /// A summary would save no tokens.
    #[error("cannot compact: there is nothing to summarise yet")]
    NothingToCompact,
    /// The session has no compaction.
    #[error("no compaction found: the context of this session was never compacted")]
    NoCompaction,
    /// Pinned turns would use too much of the context window.
    #[error(
        "cannot pin: pinned turns would have {tokens} tokens together, the limit of this \
         session is {max}"
    )]
    PinnedTokensExceeded {
        /// Tokens of all pinned turns including the new one.
        tokens: u64,
        max: u64,
    },
    /// The session has no pin on this turn.
    #[error("turn {turn} is not pinned")]
    NotPinned { turn: TurnId },
    /// Only a dead delivery can be retried.
    #[error("cannot retry the delivery: it is {status}, not dead")]
    NotDead { status: &'static str },
    /// The session has no sealed task.
    #[error("cannot reopen: there is no sealed task")]
    NothingToReopen,
    /// The policies do not admit a message from a channel.
    #[error("the message is not admitted: {denial}")]
    AccessDenied { denial: Denial },
    /// There are no policies, so that no message from a channel is admitted.
    #[error("the message is not admitted: there is no policies.yaml")]
    NoPolicy,
    /// The sender may not answer a permission request.
    #[error("cannot answer the permission request: no policy gives the sender this right")]
    ApprovalDenied,
    #[error("there is no such entity")]
    NoEntity,
    #[error("several entities have the name `{name}`: use an id")]
    AmbiguousName { name: String },
    /// Several records have an id that begins with the given text.
    #[error("ambiguous id `{id}`: it is the beginning of {}", candidates.join(", "))]
    AmbiguousId { id: String, candidates: Vec<String> },
    /// An entity that was merged has no identities and sessions any more.
    #[error("the entity was merged into {into}")]
    EntityMerged { into: EntityId },
    #[error("cannot merge an entity with itself")]
    SameEntity,
    /// An address belongs to one entity only.
    #[error("the address is linked to entity {entity}")]
    IdentityLinked { entity: EntityId },
    #[error("the address is not linked to this entity")]
    NoIdentity,
    #[error("there is no such alias")]
    NoAlias,
    /// The task of a bundle is already sealed in this store.
    #[error("cannot import the task: it is already sealed here as commit {commit}")]
    AlreadySealed { commit: CommitId },
    /// The task of a bundle has ended in this store without a commit.
    #[error("cannot import the task: it has already ended here")]
    AlreadyEnded,
    /// The newest step is neither in the bundle nor in the store.
    #[error("cannot import the task: step {head} is neither in the bundle nor in this store")]
    MissingHead { head: StepId },
    /// The bundle and the store each have steps that the other does not have.
    #[error(
        "cannot import the task: its newest step here is {head}, which the bundle does not have"
    )]
    Diverged {
        /// The newest step in this store.
        head: StepId,
    },
}

impl Refusal {
    /// The invalid transition, if that is the reason.
    pub const fn invalid_transition(&self) -> Option<InvalidTransition> {
        match self {
            Refusal::InvalidTransition(way) => Some(*way),
            Refusal::WrongState { from, to, .. } => {
                Some(InvalidTransition { from: Some(*from), to: Some(*to) })
            }
            _ => None,
        }
    }

    /// The stable error code of the API.
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
            Refusal::BadQuery { code, .. } => code,
            Refusal::BadCursor => "invalid_cursor",
            Refusal::TooMany { .. } => "too_many",
            Refusal::LabelInUse { .. } => "label_in_use",
            Refusal::BadLabel { .. } | Refusal::LabelIsAnId { .. } => "bad_label",
            Refusal::NoSession => "no_session",
            Refusal::DeliveryRefused => "delivery_refused",
            Refusal::SessionDamaged => "session_error",
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
            Refusal::NoInboxItem => "no_item",
            Refusal::NotWaiting => "not_waiting",
            Refusal::Busy { .. } => "session_busy",
            Refusal::NothingToRetry => "nothing_to_retry",
            Refusal::NotAnAncestor { .. } => "not_an_ancestor",
            Refusal::CompactUnavailable => "compact_unavailable",
            Refusal::NothingToCompact => "nothing_to_compact",
            Refusal::NoCompaction => "no_compaction",
            Refusal::PinnedTokensExceeded { .. } => "too_much_pinned",
            Refusal::NotPinned { .. } => "not_pinned",
            Refusal::NotDead { .. } => "not_dead",
            Refusal::NothingToReopen => "nothing_to_reopen",
            Refusal::AccessDenied { denial } => denial.code(),
            Refusal::NoPolicy => "no_policy",
            Refusal::ApprovalDenied => "approval_denied",
            Refusal::NoEntity => "no_entity",
            Refusal::AmbiguousName { .. } => "ambiguous_name",
            Refusal::AmbiguousId { .. } => "ambiguous_id",
            Refusal::EntityMerged { .. } => "entity_merged",
            Refusal::SameEntity => "same_entity",
            Refusal::IdentityLinked { .. } => "identity_linked",
            Refusal::NoIdentity => "no_identity",
            Refusal::NoAlias => "no_alias",
            Refusal::AlreadySealed { .. } => "already_sealed",
            Refusal::AlreadyEnded => "already_ended",
            Refusal::MissingHead { .. } => "missing_head",
            Refusal::Diverged { .. } => "diverged",
        }
    }
}
