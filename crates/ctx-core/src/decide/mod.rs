//! The rules, one file per command. Each is a pure function of the stored state, the command, the
//! time and a seed for ids.
//!
//! A rule returns a [`Decision`]: changes that the store applies in one transaction, events for the
//! feed, and a reply for the caller. It runs *inside* that transaction, on the rows that the
//! transaction read, so the state cannot change between the check and the write. It may run more
//! than once (after a rollback) and must decide the same each time; that is why time and ids are
//! arguments.

mod abort;
mod add_compaction;
mod adopt_run;
mod agent_tools;
mod answer;
mod append_turn;
mod archive;
mod ask;
mod cancel;
mod change;
mod checkpoint;
mod choose;
mod cleanup;
mod close_task;
mod collect_reports;
mod confirm;
mod create_session;
mod delete_session;
mod deliver;
mod delivery;
mod done;
mod edit_inbox;
mod end_run;
mod event;
mod fork;
mod import;
mod import_session;
mod incorporate;
mod interrupt;
mod mark_reported;
mod message;
mod more;
mod notice;
mod observe;
mod outgoing;
mod outside_work;
mod pin;
mod receive;
mod recover;
mod release_owner;
mod reopen;
mod request_compaction;
mod resume;
mod retry;
mod rewind;
mod run_rights;
mod seal;
mod session_changes;
mod set_state;
mod start;
mod submit;
mod submit_history;
mod suspend;
mod task_changes;
mod terminate_run;
mod update_session;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use abort::abort;
pub use add_compaction::{Compacted, NewCompaction, add_compaction};
pub use adopt_run::{OfferedRun, adopt_run};
pub use agent_tools::{
    AgentTool, ToolOffer, ToolRefusal, WorkerAgent, check_dispatch, check_fence, check_worker_dir,
    own_worker, recipient, states_task, worker_agent,
};
pub use answer::answer;
pub use append_turn::append_turn;
pub use archive::{archive, archive_idle, unarchive};
pub use ask::ask;
pub use cancel::cancel;
pub use change::{Change, HistoryKey};
pub use checkpoint::{Checkpoint, checkpoint};
pub use choose::choose;
pub use cleanup::cleanup;
pub use close_task::{ClosedTask, abandon_task, confirm_task};
pub use collect_reports::{WorkerReport, collect_reports, expects_more_reports};
pub use confirm::confirm;
pub use create_session::{create_session, default_label};
pub use delete_session::delete_session;
pub use deliver::{Delivered, deliver};
pub use delivery::{DeliveryBlock, classifier_input, delivery_block, is_busy, next_to_classify};
pub use done::done;
pub use edit_inbox::{edit_item, move_item, withdraw_item};
pub use end_run::{EndedRun, RunEnd, end_run};
pub use event::{Event, PromptEnd};
pub use fork::{Fork, fork};
pub use import::{Import, import};
pub use import_session::{
    SessionToImport, extend_session, import_session, import_session_as, import_task, move_task,
    replace_last_turn, restart_import,
};
pub use incorporate::{Incorporated, incorporate};
pub use interrupt::interrupt;
pub use mark_reported::{mark_reported, report_due, report_is_held, report_is_lost};
pub use message::{Action, Classified, Handled, classified_message, message};
pub use more::more;
pub use observe::{OBSERVATIONS_MAX, check_observations, observe, observed_content};
pub use outside_work::{OutsideReport, report_outside_work};
pub use pin::{PINS_MAX, pin, unpin};
pub use receive::{Receive, Received, receive};
pub use recover::{Recovered, recover};
pub use release_owner::release_owner;
pub use reopen::reopen;
pub use request_compaction::{CompactSupport, check_compact_command, request_compaction};
pub use resume::{answer_session_prompt, resume};
pub use retry::{HeadBefore, retry, retry_items};
pub use rewind::{rewind, undo_rewind};
pub use seal::seal;
pub use session_changes::{RunHost, item_message};
pub use set_state::{Moved, set_state};
pub use start::start;
pub use submit::{ClassifyMode, RunPolicy, Submit, SubmitTarget, submit};
pub use submit_history::{HistoryTarget, SubmittedHistory, create_with_history, submit_history};
pub use suspend::{Suspending, suspend};
pub use terminate_run::{
    RECOVERIES_MAX, TerminationCause, is_orphaned, recover_run, runs_again, terminate_run,
};
pub use update_session::{FIELD_MAX_CHARS, Patch, check_provider_and_persona, update_session};

use std::collections::BTreeMap;

use serde::Serialize;

use crate::agent_session::AgentSession;
use crate::commit::{Commit, FileTouch};
use crate::draft;
use crate::id::{CommitId, IdGenerator, MessageId, StepId, SuspensionId, TaskId, TurnId};
use crate::inbox::{self, Admission, Item};
use crate::intent::Intent;
use crate::object::{Named, Object};
use crate::pin::Pin;
use crate::prompt::Prompt;
use crate::refusal::Refusal;
use crate::run::Run;
use crate::session::{Activity, Session};
use crate::stale;
use crate::step::Step;
use crate::suspension::{Answer, Suspension};
use crate::task::Task;
use crate::time::Timestamp;
use crate::turn;
use crate::worker::WorkerState;

/// The input of a rule, read in the transaction that stores its decision. Fields that the command's
/// [`Needs`] do not name are empty.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct SessionView {
    pub session: Session,
    /// The open task.
    pub task: Option<Task>,
    /// The open prompt.
    pub prompt: Option<Prompt>,
    /// The newest commit of the session's project.
    pub project_head: Option<CommitId>,
    /// Files that the open task touched. Only for commands that may seal the task.
    pub files: Vec<FileTouch>,
    /// The first turn after the start of the open task. Only for commands that may seal the task.
    pub first_turn: Option<TurnId>,
    /// Number of turns from `first_turn` to the head.
    pub turns_since: u64,
    /// The stored task with the id that [`Needs::import`] names.
    pub known_task: Option<Task>,
    /// Whether `known_task` has the step that [`Needs::import`] names.
    pub has_import_head: bool,
    /// The open run, or the run that a suspended session will resume.
    pub run: Option<Run>,
    /// Open suspensions, oldest first.
    pub suspensions: Vec<Suspension>,
    /// Suspensions of the open turn that are answered while others are still open; with
    /// [`Needs::resumed`], those whose answers opened the run.
    pub answered: Vec<(Suspension, Answer)>,
    /// Whether the suspension that [`Needs::suspension`] names is already answered or released.
    pub suspension_consumed: bool,
    /// Messages in the inbox, in order, without those that the inbox cap dropped.
    pub inbox: Vec<Item>,
    /// Entries of the open turn.
    pub drafts: Vec<draft::Entry>,
    /// Pinned turns, oldest first.
    pub pins: Vec<Pin>,
    /// The position of the turn that [`Needs::turn`] names.
    pub turn: Option<TurnPosition>,
    /// Whether a session or an alias has the label that [`Needs::label`] names.
    pub label_taken: bool,
    /// The agent's own session that [`Needs::agent_session`] names.
    pub agent_session: Option<AgentSession>,
    /// The workers of the session that are not finished, oldest first.
    pub workers: Vec<WorkerState>,
    /// The labels of the conversations with the entity of the session, this one included; `None`
    /// if they were not read.
    pub entity_sessions: Option<Vec<String>>,
}

/// A stored turn relative to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnPosition {
    /// The turn that the command names.
    pub turn: TurnId,
    /// Number of turns from the root to it, from 1.
    pub depth: u64,
    /// For [`TurnNeed::Ancestor`]: it is the head or an ancestor of it. For
    /// [`TurnNeed::Descendant`]: it is the head or a descendant of it. For
    /// [`TurnNeed::ForkPoint`]: it is in the session's tree.
    pub reachable: bool,
    /// For [`TurnNeed::ForkPoint`]: the session's pins of the turn and of its ancestors.
    pub pins: Vec<Pin>,
}

/// A turn whose position a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnNeed {
    /// Whether it leads to the head.
    Ancestor(TurnId),
    /// Whether the head leads to it.
    Descendant(TurnId),
    /// Whether it is in the session's tree, and which pins lead to it.
    ForkPoint(TurnId),
}

impl TurnNeed {
    /// The turn.
    pub const fn turn(self) -> TurnId {
        match self {
            Self::Ancestor(turn) | Self::Descendant(turn) | Self::ForkPoint(turn) => turn,
        }
    }
}

impl SessionView {
    /// A view in which all other fields are empty.
    pub const fn bare(session: Session) -> Self {
        Self {
            session,
            task: None,
            prompt: None,
            project_head: None,
            files: Vec::new(),
            first_turn: None,
            turns_since: 0,
            known_task: None,
            has_import_head: false,
            run: None,
            suspensions: Vec::new(),
            answered: Vec::new(),
            suspension_consumed: false,
            inbox: Vec::new(),
            drafts: Vec::new(),
            pins: Vec::new(),
            turn: None,
            label_taken: false,
            entity_sessions: None,
            agent_session: None,
            workers: Vec::new(),
        }
    }
}

/// The rows that a command needs besides the row of the session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// The open task, the open prompt and the newest commit of the project.
    pub open_task: bool,
    /// The files and turns of the open task, for commands that may seal it.
    pub to_seal: bool,
    /// The task with this id, and whether it has this step.
    pub import: Option<(TaskId, StepId)>,
    /// The open run, the suspensions and the inbox.
    pub conversation: bool,
    /// The open run alone.
    pub run: bool,
    /// The answers that opened the run, if it resumes a turn.
    pub resumed: bool,
    /// The entries of the open turn.
    pub drafts: Drafts,
    /// Whether this suspension is already answered or released.
    pub suspension: Option<SuspensionId>,
    /// The pinned turns.
    pub pins: bool,
    /// The position of a turn.
    pub turn: Option<TurnNeed>,
    /// Whether a session or an alias has this label.
    pub label: Option<String>,
    /// The inbox also contains the messages that the inbox cap dropped.
    pub dropped: bool,
    /// The own session of a provider's agent on a host: provider id and host.
    pub agent_session: Option<(String, String)>,
    /// The unfinished workers of the session.
    pub workers: bool,
    /// The conversations with the entity of an idle session, for the run that may open.
    pub entity_sessions: bool,
}

impl Needs {
    /// Only the row of the session.
    pub const NOTHING: Needs = Needs {
        open_task: false,
        to_seal: false,
        import: None,
        conversation: false,
        run: false,
        resumed: false,
        drafts: Drafts::No,
        suspension: None,
        pins: false,
        turn: None,
        label: None,
        dropped: false,
        agent_session: None,
        workers: false,
        entity_sessions: false,
    };
    /// For commands on the open task.
    pub const WORK: Needs = Needs { open_task: true, ..Self::NOTHING };
    /// For commands that may seal the open task.
    pub const SEAL: Needs = Needs { to_seal: true, ..Self::WORK };
    /// For commands that accept or deliver a message.
    pub const MESSAGE: Needs = Needs {
        conversation: true,
        drafts: Drafts::IfSuspended,
        entity_sessions: true,
        ..Self::SEAL
    };
    /// For a process that carries out a run which another process opened.
    pub const ADOPT: Needs = Needs { drafts: Drafts::Always, resumed: true, ..Self::MESSAGE };
    /// For the text of a run, whose rule sees neither the inbox nor the task.
    pub const TEXT: Needs = Needs { run: true, ..Self::NOTHING };
    /// For writes of a run.
    pub const RUN: Needs = Needs { conversation: true, ..Self::WORK };
    /// For commands on pinned turns.
    pub const PINS: Needs = Needs { pins: true, ..Self::NOTHING };
    /// For the end of a run.
    pub const END: Needs = Needs { workers: true, pins: true, ..Self::RUN };
    /// For the end of a run that may seal the open task.
    pub const SEALING_END: Needs = Needs { to_seal: true, ..Self::END };
    /// For the report of a worker to its manager.
    pub const REPORT: Needs = Needs { workers: true, ..Self::RUN };
    /// For commands that store the reports of workers as a message of their manager.
    pub const COLLECT: Needs = Needs { workers: true, ..Self::MESSAGE };
    /// For commands that may close the open turn.
    pub const CLOSE: Needs = Needs { conversation: true, drafts: Drafts::Always, ..Self::SEAL };
}

/// Whether the rule needs the open turn, which may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the other variants are self-explanatory")]
pub enum Drafts {
    #[default]
    No,
    /// Only if the session is suspended.
    IfSuspended,
    Always,
}

/// The configured providers and personas, as far as rules need them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderCatalog {
    /// The provider of runs for which none is named.
    pub default: String,
    /// Capabilities by provider name.
    pub providers: BTreeMap<String, ProviderCapabilities>,
    /// The names of the personas.
    pub personas: Vec<String>,
}

/// Capabilities of a provider that rules depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProviderCapabilities {
    /// Whether messages can be added to a running turn.
    pub can_steer: bool,
    /// Whether it can call tools of the client.
    pub supports_tools: bool,
    /// Whether a request has no effects of its own, so that it can be sent again after a crash.
    pub repeatable: bool,
}

/// Time and ids for one execution of a rule.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The current time.
    pub now: Timestamp,
    /// Generates ids from a seed, so that a second execution yields the same ids.
    pub ids: IdGenerator,
}

/// What to do with a request for a new task while another is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnNewTask {
    /// Open a prompt with two choices.
    #[default]
    Ask,
    /// Seal the open task and start the new one.
    Auto,
}

/// What to do with a message that cannot be classified, in a session with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnclear {
    /// Deliver it; the task does not change.
    #[default]
    Deliver,
    /// Open a prompt with two choices, and deliver it after the choice.
    Ask,
}

/// Settings of the user that rules depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Settings {
    /// After which idle times a task is asked about and sealed.
    pub stale: stale::Config,
    pub on_new_task: OnNewTask,
    pub on_unclear: OnUnclear,
    pub inbox: inbox::Settings,
}

/// A step to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// The hash of `object`.
    pub id: StepId,
    /// Its place in the task's chain, from 1.
    pub seq: u64,
    /// The step in decoded form.
    pub step: Step,
    /// The canonical bytes that are stored and hashed.
    pub object: Object,
}

/// A commit to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitRecord {
    /// The hash of `object`.
    pub id: CommitId,
    /// The commit in decoded form.
    pub commit: Commit,
    /// The canonical bytes that are stored and hashed.
    pub object: Object,
}

/// The result of an accepted message.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The message's permanent id.
    pub message_id: MessageId,
    /// Its place in the inbox, from 1; none where it is not waiting.
    pub position: Option<usize>,
    /// The session's state after this message.
    pub state: Activity,
    /// What keeps the inbox from being delivered after this message.
    pub delivery_block: Option<DeliveryBlock>,
    /// Its classification; none where it is not classified, or not yet.
    pub intent: Option<Intent>,
    /// How the message was admitted.
    pub admission: Admission,
    /// The prompt that is open now.
    pub prompt: Option<Prompt>,
    /// The run that was opened with it; the caller has to carry it out.
    pub opened_run: Option<Box<OpenedRun>>,
}

/// A run that was opened and has to be carried out.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct OpenedRun {
    pub run: Run,
    /// The session as the transaction changed it. Its `seq` is the number of the newest event
    /// before the transaction.
    pub session: Session,
    /// The labels of the conversations with the entity of the session; `None` if they were not
    /// read.
    pub entity_sessions: Option<Vec<String>>,
    /// The messages that started the turn, in order.
    pub items: Vec<Item>,
    /// The turn that the new one follows.
    pub head: Option<TurnId>,
    /// The open turn so far, where the run resumes one.
    pub drafts: Vec<draft::Entry>,
    /// The suspensions that were answered, where the run resumes one.
    pub resumes: Vec<(Suspension, Answer)>,
}

/// What one transaction stores: all of it or nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Row changes, applied in this order.
    pub changes: Vec<Change>,
    /// Events for the feed, in this order.
    pub events: Vec<Event>,
    /// Turn bodies and blobs that the rule itself encoded and the changes refer to.
    pub objects: Vec<Named>,
}

/// What a rule decided: a [`Batch`] for the store and a reply for the caller.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields of `Batch`, and the reply")]
pub struct Decision<R> {
    pub changes: Vec<Change>,
    pub events: Vec<Event>,
    pub objects: Vec<Named>,
    pub reply: R,
}

impl<R> Decision<R> {
    /// The same decision with another reply.
    pub(crate) fn map<S>(self, reply: impl FnOnce(R) -> S) -> Decision<S> {
        let Self { changes, events, objects, reply: old } = self;
        Decision { changes, events, objects, reply: reply(old) }
    }

    /// A decision that stores nothing.
    pub const fn unchanged(reply: R) -> Self {
        Self { changes: Vec::new(), events: Vec::new(), objects: Vec::new(), reply }
    }

    /// A decision of the given batch and reply.
    pub fn new(batch: Batch, reply: R) -> Self {
        let Batch { changes, events, objects } = batch;
        Self { changes, events, objects, reply }
    }

    /// The batch for the store and the reply for the caller.
    pub fn into_parts(self) -> (Batch, R) {
        let Self { changes, events, objects, reply } = self;
        (Batch { changes, events, objects }, reply)
    }
}

/// What every rule returns. Each rule has a reply type of its own, or `()`.
pub type Decided<R> = Result<Decision<R>, Refusal>;

/// The time of a session's newest activity after a write, or `None` if the write does not count as
/// activity. Every write that changes something counts, except one that only stores more text of
/// the open turn: the start and the end of its run count.
pub fn activity(changes: &[Change], events: &[Event], now: Timestamp) -> Option<Timestamp> {
    let text_only = changes.iter().all(|change| matches!(change, Change::AppendDrafts(_)));
    (!text_only || !events.is_empty()).then_some(now)
}

/// The changes that add a turn: the turn, and the back-links of the workers that it started.
fn add_turn(record: turn::Record) -> impl Iterator<Item = Change> {
    let turn = record.id;
    let links: Vec<Change> = record
        .spawned
        .iter()
        .map(|label| Change::LinkWorker { label: label.clone(), turn })
        .collect();
    std::iter::once(Change::AppendTurn(Box::new(record))).chain(links)
}
