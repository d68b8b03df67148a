//! What a test tells the scripted provider to do, and where it is to wait.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::message::ToolStatus;
use ctx_core::step;
use ctx_core::turn::Usage;
use ctx_engine::provider::End;
use serde_json::Value;
use tokio::sync::Semaphore;

/// A place where a run waits until the test lets it pass.
#[derive(Debug, Clone)]
pub struct Gate {
    open: Arc<Semaphore>,
    reached: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: Arc::new(Semaphore::new(0)), reached: Arc::new(Semaphore::new(0)) }
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets one run pass, now or when it comes.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    /// Waits until a run stands at it; each arrival is told once.
    pub async fn reached(&self) {
        take_one(&self.reached).await;
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        take_one(&self.open).await;
    }
}

/// Nobody closes these semaphores, so there is no error to tell.
async fn take_one(semaphore: &Semaphore) {
    if let Ok(permit) = semaphore.acquire().await {
        permit.forget();
    }
}

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Action {
    /// Says something.
    Say(String),
    /// Thinks something.
    Think {
        /// The words.
        text: String,
        /// The provider's own item.
        raw: Option<Value>,
    },
    /// Calls a tool.
    Call {
        /// Unique within the run.
        id: String,
        /// Which.
        name: String,
        /// With what.
        params: Value,
    },
    /// Tells how a call stands.
    Status {
        /// Which.
        id: String,
        /// How.
        status: ToolStatus,
    },
    /// Tells what a tool of its own answered.
    Result {
        /// Which call.
        id: String,
        /// The answer.
        content: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// Tells its plan.
    Plan(Value),
    /// Tells what it cost.
    Usage(Usage),
    /// Tells something it did.
    Observe(step::Entry),
    /// Waits.
    Pause(Duration),
    /// Waits until the test lets it pass.
    Gate(Gate),
    /// Waits for one message from outside, and repeats it after `heard: `.
    InjectSteers,
    /// Waits for ever and does not even hear `cancel`: what must be dropped.
    Deaf,
    /// Ends; what comes after it is not done.
    End(End),
}

/// What is done in one run; without an [`Action::End`] it ends as done.
#[derive(Debug, Clone, Default)]
pub struct Script(Vec<Action>);

impl Script {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// And then anything.
    pub fn and(mut self, action: Action) -> Self {
        self.0.push(action);
        self
    }

    /// And then says something.
    pub fn say(self, text: &str) -> Self {
        self.and(Action::Say(text.to_owned()))
    }

    /// And then calls a tool.
    pub fn call(self, id: &str, name: &str, params: Value) -> Self {
        self.and(Action::Call { id: id.to_owned(), name: name.to_owned(), params })
    }

    /// And then waits at a gate.
    pub fn gate(self, gate: &Gate) -> Self {
        self.and(Action::Gate(gate.clone()))
    }

    /// And then ends.
    pub fn end(self, end: End) -> Self {
        self.and(Action::End(end))
    }

    pub(super) fn into_actions(self) -> Vec<Action> {
        self.0
    }
}

impl From<Vec<Action>> for Script {
    fn from(actions: Vec<Action>) -> Self {
        Self(actions)
    }
}
