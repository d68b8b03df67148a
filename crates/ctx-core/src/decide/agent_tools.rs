//! The tools that ctx gives to agents: which a session offers, and what a worker or a manager may
//! do with them (R186–R193). A refusal here is an answer for the agent, not an error of the run.

use std::path::Path;

use crate::refusal::Refusal;
use crate::session::{Activity, Session};
use crate::token::Scope;
use crate::worker::{BUSY_MAX, DEPTH_MAX, DISPATCH, MANAGER, is_inside};

use super::ProviderCatalog;

/// One of ctx's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the names of the tools")]
pub enum AgentTool {
    AskUser,
    FinishTask,
    DispatchToAgent,
    SendMessageToAgent,
    GetAgentStatus,
    SearchConversations,
    Note,
    StartTask,
    UpdateTask,
    GetTask,
    Search,
    ListSessions,
    ReadSession,
    ReadTurn,
    ReadCommit,
    ContextPack,
}

/// The facts about a session that decide which tools its agent gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolOffer {
    /// Whether messages of users change a task.
    pub track_tasks: bool,
    /// The number of managers above the session.
    pub depth: usize,
    /// Whether it is the conversation of a person on channels. Such a session must not read the
    /// conversations of others.
    pub has_entity: bool,
    /// Whether the agent reads the tools over MCP, on demand. A request to a model would carry all
    /// of them each time.
    pub over_mcp: bool,
}

impl AgentTool {
    /// In the order in which they are offered.
    pub const ALL: [AgentTool; 16] = [
        Self::AskUser,
        Self::FinishTask,
        Self::DispatchToAgent,
        Self::SendMessageToAgent,
        Self::GetAgentStatus,
        Self::SearchConversations,
        Self::Note,
        Self::StartTask,
        Self::UpdateTask,
        Self::GetTask,
        Self::Search,
        Self::ListSessions,
        Self::ReadSession,
        Self::ReadTurn,
        Self::ReadCommit,
        Self::ContextPack,
    ];

    /// The name by which an agent calls the tool.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AskUser => "ask_user",
            Self::FinishTask => "finish_task",
            Self::DispatchToAgent => DISPATCH,
            Self::SendMessageToAgent => "send_message_to_agent",
            Self::GetAgentStatus => "get_agent_status",
            Self::SearchConversations => "search_conversations",
            Self::Note => "note",
            Self::StartTask => "start_task",
            Self::UpdateTask => "update_task",
            Self::GetTask => "get_task",
            Self::Search => "search",
            Self::ListSessions => "list_sessions",
            Self::ReadSession => "read_session",
            Self::ReadTurn => "read_turn",
            Self::ReadCommit => "read_commit",
            Self::ContextPack => "context_pack",
        }
    }

    /// The tool with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Whether the agent of a session gets the tool.
    pub const fn is_offered(self, offer: ToolOffer) -> bool {
        match self {
            Self::AskUser | Self::FinishTask => offer.track_tasks,
            Self::DispatchToAgent => offer.depth < DEPTH_MAX,
            Self::SendMessageToAgent | Self::GetAgentStatus => true,
            Self::SearchConversations => offer.has_entity,
            Self::Note => offer.track_tasks && offer.over_mcp,
            // The run itself starts and updates the task.
            Self::StartTask | Self::UpdateTask | Self::GetTask => false,
            _ => offer.over_mcp && !offer.has_entity,
        }
    }

    /// Whether the tool is offered to agents that ctx does not run.
    pub const fn is_offered_outside(self) -> bool {
        !matches!(self, Self::SearchConversations)
    }

    /// Whether the tool reads the store and concerns no session of its caller.
    pub const fn is_memory(self) -> bool {
        matches!(
            self,
            Self::Search
                | Self::ListSessions
                | Self::ReadSession
                | Self::ReadTurn
                | Self::ReadCommit
                | Self::ContextPack
        )
    }

    /// The scope of a token that may call the tool. A read token starts and changes nothing.
    pub const fn scope(self) -> Scope {
        match self {
            Self::GetAgentStatus | Self::SearchConversations | Self::GetTask => Scope::Read,
            tool if tool.is_memory() => Scope::Read,
            _ => Scope::Write,
        }
    }
}

/// Whether a tool only states where the task stands, so that its result is not work. Agents that
/// use the tools over MCP put a prefix before the name.
pub fn states_task(name: &str) -> bool {
    let own = name.rsplit("__").next().unwrap_or(name);
    matches!(
        AgentTool::named(own),
        Some(AgentTool::AskUser | AgentTool::FinishTask | AgentTool::Note)
    )
}

/// Why an agent's call of a tool is refused, in words for the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant explains it")]
pub enum ToolRefusal {
    #[error("workers may be at most {DEPTH_MAX} deep: do this task yourself")]
    TooDeep,
    #[error(
        "{busy} of your workers are running and at most {BUSY_MAX} may run at once: wait until one \
            has ended"
    )]
    TooManyWorkers { busy: usize },
    #[error("this session has no working directory, so its workers cannot have one")]
    NoDirectory,
    #[error("working_dir must be a directory inside {own}, the working directory of this session")]
    OutsideDirectory { own: String },
    #[error("you have no manager: this session was not started by an agent")]
    NoManager,
    #[error("`{name}` is no worker of yours; {workers}")]
    NotAWorker { name: String, workers: String },
    #[error("`{name}` is no agent; the agents are {agents}")]
    NoSuchAgent { name: String, agents: String },
}

/// Only the run that holds the session's fence may act for it.
///
/// Fails if another run has the fence.
pub const fn check_fence(session: &Session, fence: u64) -> Result<(), Refusal> {
    if session.fence == fence { Ok(()) } else { Err(Refusal::StaleWriter) }
}

/// Whether a session may start another worker. `depth` is the number of managers above it,
/// `workers` are the sessions that it started.
///
/// Fails if it is too deep, or too many of its workers are not idle.
pub fn check_dispatch(depth: usize, workers: &[Session]) -> Result<(), ToolRefusal> {
    if depth >= DEPTH_MAX {
        return Err(ToolRefusal::TooDeep);
    }
    let busy = workers.iter().filter(|worker| worker.state != Activity::Idle).count();
    if busy >= BUSY_MAX { Err(ToolRefusal::TooManyWorkers { busy }) } else { Ok(()) }
}

/// A worker works inside its manager's directory. Both paths are as they are on disk, links
/// followed.
///
/// Fails if the worker's directory is not one, or is outside.
pub fn check_worker_dir(
    own: &str,
    inner: &Path,
    outer: &Path,
    is_dir: bool,
) -> Result<(), ToolRefusal> {
    if is_dir && is_inside(inner, outer) {
        Ok(())
    } else {
        Err(ToolRefusal::OutsideDirectory { own: own.to_owned() })
    }
}

/// The agent that a worker runs on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct WorkerAgent {
    pub provider_id: Option<String>,
    pub model: Option<String>,
    pub persona: Option<String>,
}

/// The agent of a worker: `to` names a provider or a persona. Without it, and for a persona, the
/// worker has its manager's provider. A manager's model is kept only together with its provider.
///
/// Fails if there is no such provider or persona.
pub fn worker_agent(
    manager: &Session,
    to: Option<&str>,
    model: Option<String>,
    catalog: &ProviderCatalog,
) -> Result<WorkerAgent, ToolRefusal> {
    let provider = to.filter(|to| catalog.providers.contains_key(*to));
    let persona = to.filter(|to| provider.is_none() && catalog.personas.iter().any(|it| it == to));
    if let (Some(name), None, None) = (to, provider, persona) {
        let agents = catalog.providers.keys().chain(&catalog.personas);
        let agents = agents.map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(ToolRefusal::NoSuchAgent { name: name.to_owned(), agents });
    }
    let own = manager.provider_id.as_deref();
    let same = provider.is_none() || provider == own.or(Some(&catalog.default));
    Ok(WorkerAgent {
        provider_id: provider.or(own).map(str::to_owned),
        model: model.or_else(|| manager.model.clone().filter(|_| same)),
        persona: persona.map(str::to_owned),
    })
}

/// The label of the session that an agent's message goes to: its manager, or one of its own
/// workers.
///
/// Fails if it has no manager, or no such worker.
pub fn recipient(own: &Session, to: &str, workers: &[Session]) -> Result<String, ToolRefusal> {
    match (to, own.manager()) {
        (MANAGER, Some(parent)) => Ok(parent.session.clone()),
        (MANAGER, None) => Err(ToolRefusal::NoManager),
        (name, _) => own_worker(name, workers).map(|()| name.to_owned()),
    }
}

/// Checks that a label is that of a worker of the session.
///
/// Fails if it is not; the refusal names the workers.
pub fn own_worker(label: &str, workers: &[Session]) -> Result<(), ToolRefusal> {
    if workers.iter().any(|worker| worker.label == label) {
        return Ok(());
    }
    let labels: Vec<&str> = workers.iter().map(|worker| worker.label.as_str()).collect();
    let workers = match labels.as_slice() {
        [] => "you have none".to_owned(),
        labels => format!("your workers are: {}", labels.join(", ")),
    };
    Err(ToolRefusal::NotAWorker { name: label.to_owned(), workers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::ProviderCapabilities;
    use crate::decide::tests::model::session;
    use crate::session::Parent;

    fn worker(label: &str, state: Activity) -> Session {
        Session { label: label.to_owned(), state, ..session() }
    }

    #[test]
    fn a_tool_is_known_by_its_name() {
        for tool in AgentTool::ALL {
            assert_eq!(AgentTool::named(tool.name()), Some(tool));
        }
        assert_eq!(AgentTool::named("bash"), None);
    }

    #[test]
    fn task_tools_need_tracked_tasks_and_dispatch_needs_depth() {
        let plain = ToolOffer { track_tasks: false, depth: 0, has_entity: false, over_mcp: false };
        let offered = |track_tasks, depth| {
            let offer = ToolOffer { track_tasks, depth, ..plain };
            let all = AgentTool::ALL.into_iter();
            all.filter(|tool| tool.is_offered(offer)).map(AgentTool::name).collect()
        };
        let (status, message) = ("get_agent_status", "send_message_to_agent");
        let names: Vec<&str> = offered(true, 0);
        assert_eq!(names, ["ask_user", "finish_task", DISPATCH, message, status]);
        let names: Vec<&str> = offered(false, DEPTH_MAX - 1);
        assert_eq!(names, [DISPATCH, message, status]);
        let names: Vec<&str> = offered(false, DEPTH_MAX);
        assert_eq!(names, [message, status]);
        assert!(AgentTool::SearchConversations.is_offered(ToolOffer { has_entity: true, ..plain }));
        // The conversation of a person reads no conversation of another person.
        for (has_entity, expected) in [(false, true), (true, false)] {
            let offer = ToolOffer { over_mcp: true, has_entity, ..plain };
            assert_eq!(AgentTool::Search.is_offered(offer), expected, "{has_entity}");
        }
    }

    #[test]
    fn a_read_token_starts_and_changes_nothing() {
        let reading = AgentTool::ALL.into_iter().filter(|tool| tool.scope() == Scope::Read);
        let names: Vec<&str> = reading.map(AgentTool::name).collect();
        assert_eq!(
            names,
            [
                "get_agent_status",
                "search_conversations",
                "get_task",
                "search",
                "list_sessions",
                "read_session",
                "read_turn",
                "read_commit",
                "context_pack",
            ]
        );
    }

    #[test]
    fn workers_are_bounded_in_depth_and_number() {
        let busy = |count: usize| vec![worker("w", Activity::Running); count];
        for (depth, workers, expected) in [
            (0, busy(0), Ok(())),
            (DEPTH_MAX - 1, busy(BUSY_MAX - 1), Ok(())),
            (DEPTH_MAX, busy(0), Err(ToolRefusal::TooDeep)),
            (0, busy(BUSY_MAX), Err(ToolRefusal::TooManyWorkers { busy: BUSY_MAX })),
            (0, vec![worker("w", Activity::Idle); BUSY_MAX], Ok(())),
        ] {
            assert_eq!(check_dispatch(depth, &workers), expected, "{depth} {}", workers.len());
        }
    }

    #[test]
    fn a_worker_stays_inside_its_managers_directory() {
        for (inner, is_dir, allowed) in [
            ("/work", true, true),
            ("/work/sub", true, true),
            ("/work/sub", false, false),
            ("/worker", true, false),
            ("/", true, false),
        ] {
            let found = check_worker_dir("/work", Path::new(inner), Path::new("/work"), is_dir);
            assert_eq!(found.is_ok(), allowed, "{inner} {is_dir}");
        }
    }

    #[test]
    fn a_managers_model_goes_with_its_provider_only() {
        let text = |text: &str| Some(text.to_owned());
        let manager = Session { provider_id: text("a"), model: text("a-large"), ..session() };
        let providers = ["a", "b"].map(|name| (name.to_owned(), ProviderCapabilities::default()));
        let catalog = ProviderCatalog {
            default: "a".to_owned(),
            providers: providers.into(),
            personas: vec!["atlas".to_owned()],
        };
        let agent = |provider_id: &str, model: Option<&str>, persona: Option<&str>| {
            let (model, persona) = (model.map(str::to_owned), persona.map(str::to_owned));
            Ok(WorkerAgent { provider_id: text(provider_id), model, persona })
        };
        let stranger = ToolRefusal::NoSuchAgent { name: "x".into(), agents: "a, b, atlas".into() };
        for (to, model, expected) in [
            (None, None, agent("a", Some("a-large"), None)),
            (Some("a"), None, agent("a", Some("a-large"), None)),
            (Some("b"), None, agent("b", None, None)),
            (Some("b"), text("b-small"), agent("b", Some("b-small"), None)),
            (Some("atlas"), None, agent("a", Some("a-large"), Some("atlas"))),
            (Some("x"), None, Err(stranger)),
        ] {
            assert_eq!(worker_agent(&manager, to, model, &catalog), expected, "{to:?}");
        }
    }

    #[test]
    fn agents_write_to_their_manager_and_their_own_workers_only() {
        let parent = Parent { session: "boss".to_owned(), turn: None, tool_call: None };
        let own = Session { parent: Some(parent), ..session() };
        let workers = [worker("w1", Activity::Idle), worker("w2", Activity::Idle)];
        let stranger = ToolRefusal::NotAWorker {
            name: "x".into(),
            workers: "your workers are: w1, w2".into(),
        };
        for (from, to, expected) in [
            (&own, "manager", Ok("boss".to_owned())),
            (&own, "w2", Ok("w2".to_owned())),
            (&own, "x", Err(stranger)),
            (&session(), "manager", Err(ToolRefusal::NoManager)),
        ] {
            assert_eq!(recipient(from, to, &workers), expected, "{to}");
        }
    }

    #[test]
    fn a_run_that_lost_its_fence_may_not_act() {
        let session = Session { fence: 7, ..session() };
        assert_eq!(check_fence(&session, 7), Ok(()));
        assert_eq!(check_fence(&session, 6), Err(Refusal::StaleWriter));
    }

    #[test]
    fn only_the_tools_about_the_state_of_the_task_are_not_work() {
        for name in ["ask_user", "finish_task", "mcp__ctx__finish_task", "mcp__ctx__note"] {
            assert!(states_task(name), "{name}");
        }
        for name in ["dispatch_to_agent", "write_file", "finish_task_list", ""] {
            assert!(!states_task(name), "{name}");
        }
    }
}
