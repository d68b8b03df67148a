//! Scripts of the scripted provider, and gates at which they wait.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::message::ToolStatus;
use ctx_core::step;
use ctx_core::turn::Usage;
use ctx_engine::provider::End;
use serde_json::Value;
use tokio::sync::Semaphore;

/// A point at which a run waits until the test opens the gate.
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
    /// A gate that is closed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets one run pass, now or when it reaches the gate.
    pub fn open(&self) {
        self.open.add_permits(1);
    }

    /// Waits until a run reaches the gate. Each arrival completes one call.
    pub async fn reached(&self) {
        acquire_one(&self.reached).await;
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        acquire_one(&self.open).await;
    }
}

/// Waits for a permit. The semaphores are never closed, so there is no error.
async fn acquire_one(semaphore: &Semaphore) {
    if let Ok(permit) = semaphore.acquire().await {
        permit.forget();
    }
}

/// A step of a script.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "most variants are the deltas of the same name")]
pub enum Action {
    Say(String),
    Think {
        text: String,
        raw: Option<Value>,
    },
    Call {
        id: String,
        name: String,
        params: Value,
    },
    Status {
        id: String,
        status: ToolStatus,
    },
    Result {
        id: String,
        content: String,
        is_error: bool,
    },
    Plan(Value),
    Usage(Usage),
    Observe(step::Entry),
    Pause(Duration),
    /// Waits until the test opens the gate.
    Gate(Gate),
    /// Waits for one steering message and repeats it after `heard: `.
    InjectSteers,
    /// Never ends, not even on cancellation: the run must be dropped.
    Deaf,
    /// Ends the run; later actions are ignored.
    End(End),
}

/// The actions of one run. Without an [`Action::End`] the run ends with `Done(EndTurn)`.
#[derive(Debug, Clone, Default)]
pub struct Script(Vec<Action>);

impl Script {
    /// An empty script.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends an action.
    pub fn and(mut self, action: Action) -> Self {
        self.0.push(action);
        self
    }

    /// Appends [`Action::Say`].
    pub fn say(self, text: &str) -> Self {
        self.and(Action::Say(text.to_owned()))
    }

    /// Appends [`Action::Call`].
    pub fn call(self, id: &str, name: &str, params: Value) -> Self {
        self.and(Action::Call { id: id.to_owned(), name: name.to_owned(), params })
    }

    /// Appends [`Action::Gate`].
    pub fn gate(self, gate: &Gate) -> Self {
        self.and(Action::Gate(gate.clone()))
    }

    /// Appends [`Action::End`].
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
