//! A provider for tests: plays scripts and records requests.
//!
//! It is not behind `cfg(test)` because the tests of other crates use it. Every action except
//! [`Action::Deaf`] ends on cancellation. A run counts as running until it ends or is dropped.

mod script;

#[cfg(test)]
mod scripted_tests;

pub use script::{Action, Gate, Script};

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ctx_core::id::SessionId;
use ctx_engine::provider::{About, Delta, End, Link, Provider, ProviderFeatures, Request, Stop};

#[derive(Default)]
struct State {
    scripts: VecDeque<Script>,
    requests: Vec<Request>,
    running: HashMap<SessionId, usize>,
    running_max: HashMap<SessionId, usize>,
    rested: Vec<SessionId>,
}

type ScriptSource = Box<dyn Fn(&Request) -> Script + Send + Sync>;

/// The provider. Each run plays the next script; without one, it answers `ok`.
pub struct Scripted {
    state: Arc<Mutex<State>>,
    otherwise: ScriptSource,
    can: ProviderFeatures,
    context_window: u64,
    repeatable: bool,
}

impl Default for Scripted {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            otherwise: Box::new(|_| Script::new().say("ok")),
            can: ProviderFeatures::default(),
            context_window: 100_000,
            repeatable: false,
        }
    }
}

impl Scripted {
    /// A provider without scripts and capabilities.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the reported capabilities.
    pub const fn can(mut self, can: ProviderFeatures) -> Self {
        self.can = can;
        self
    }

    /// Sets the reported context window in tokens.
    pub const fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    /// Reports that its requests have no effects, as a model does.
    pub const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Appends a script.
    pub fn then(self, script: Script) -> Self {
        self.push(script);
        self
    }

    /// Sets a function that creates the script of a run after the last one was played.
    pub fn otherwise(
        mut self,
        script: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.otherwise = Box::new(script);
        self
    }

    /// Appends a script to a provider that is already in use.
    pub fn push(&self, script: Script) {
        lock(&self.state).scripts.push_back(script);
    }

    /// All requests, in order.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.state).requests.clone()
    }

    /// Maximum number of simultaneous runs of one session so far.
    pub fn running_max(&self, session: SessionId) -> usize {
        lock(&self.state).running_max.get(&session).copied().unwrap_or(0)
    }

    /// Number of current runs.
    pub fn running(&self) -> usize {
        lock(&self.state).running.values().sum()
    }

    /// The sessions for which [`Provider::rest`] was called, in order.
    pub fn rested(&self) -> Vec<SessionId> {
        lock(&self.state).rested.clone()
    }

    fn start_run(&self, request: &Request) -> (Script, RunCounter) {
        let mut state = lock(&self.state);
        state.requests.push(request.clone());
        let now = state.running.entry(request.session).or_default();
        *now += 1;
        let now = *now;
        let max = state.running_max.entry(request.session).or_default();
        *max = now.max(*max);
        let script = state.scripts.pop_front();
        drop(state);
        let running = RunCounter { state: Arc::clone(&self.state), session: request.session };
        (script.unwrap_or_else(|| (self.otherwise)(request)), running)
    }
}

#[async_trait]
impl Provider for Scripted {
    fn about(&self) -> About {
        About {
            kind: "scripted",
            can: self.can,
            models: vec!["scripted".to_owned()],
            model: Some("scripted".to_owned()),
            context_window: self.context_window,
            unavailable: None,
            repeatable: self.repeatable,
            ..About::default()
        }
    }

    async fn rest(&self, session: SessionId) {
        lock(&self.state).rested.push(session);
    }

    async fn run(&self, request: Request, mut link: Link) -> End {
        let (script, _running) = self.start_run(&request);
        let cancel = link.cancel.clone();
        for action in script.into_actions() {
            if matches!(action, Action::Deaf) {
                std::future::pending::<()>().await;
            }
            let end = tokio::select! {
                biased;
                () = cancel.cancelled() => Some(End::Cancelled),
                end = perform(action, &mut link) => end,
            };
            if let Some(end) = end {
                return end;
            }
        }
        End::Done(Stop::EndTurn)
    }
}

/// Performs an action; the end of the run, if the action ends it.
async fn perform(action: Action, link: &mut Link) -> Option<End> {
    let delta = match action {
        Action::Say(text) => Delta::Text(text),
        Action::Think { text, raw } => Delta::Thought { text, raw },
        Action::Call { id, name, params } => Delta::ToolCall { id, name, params },
        Action::Status { id, status } => Delta::ToolStatus { id, status },
        Action::Result { id, content, is_error } => Delta::ToolResult { id, content, is_error },
        Action::Plan(plan) => Delta::Plan(plan),
        Action::Usage(usage) => Delta::Usage(usage),
        Action::Observe(entry) => Delta::Observed(entry),
        Action::Pause(span) => {
            tokio::time::sleep(span).await;
            return None;
        }
        Action::Gate(gate) => {
            gate.pass().await;
            return None;
        }
        Action::InjectSteers => {
            let steer = link.steers.recv().await?;
            if !link.send(Delta::Injected(steer.message_id)).await {
                return Some(End::Cancelled);
            }
            Delta::Text(format!("heard: {}", steer.text))
        }
        Action::Deaf => return None,
        Action::End(end) => return Some(end),
    };
    if link.send(delta).await { None } else { Some(End::Cancelled) }
}

/// Counts a run until its future is dropped.
struct RunCounter {
    state: Arc<Mutex<State>>,
    session: SessionId,
}

impl Drop for RunCounter {
    fn drop(&mut self) {
        if let Some(now) = lock(&self.state).running.get_mut(&self.session) {
            *now -= 1;
        }
    }
}

/// Ignores poisoning, so that the first panic of a test is the reported one.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
