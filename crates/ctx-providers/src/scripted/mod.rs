//! A provider that does what a test tells it, and remembers what it was asked.
//!
//! It is here and not behind `cfg(test)`, because the tests of other crates drive it. Every action but
//! [`Action::Deaf`] hears `cancel`; a run counts until it ends or is dropped.

mod script;

#[cfg(test)]
mod scripted_tests;

pub use script::{Action, Gate, Script};

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ctx_core::id::SessionId;
use ctx_engine::provider::{About, Can, Delta, End, Link, Provider, Request, Stop};

#[derive(Default)]
struct Seen {
    scripts: VecDeque<Script>,
    requests: Vec<Request>,
    running: HashMap<SessionId, usize>,
    running_max: HashMap<SessionId, usize>,
    rested: Vec<SessionId>,
}

type Otherwise = Box<dyn Fn(&Request) -> Script + Send + Sync>;

/// The provider: one script a run, in order; `ok` where there are no more.
pub struct Scripted {
    seen: Arc<Mutex<Seen>>,
    otherwise: Otherwise,
    can: Can,
    context_window: u64,
}

impl Default for Scripted {
    fn default() -> Self {
        Self {
            seen: Arc::default(),
            otherwise: Box::new(|_| Script::new().say("ok")),
            can: Can::default(),
            context_window: 100_000,
        }
    }
}

impl Scripted {
    /// Knows no script yet, and can do nothing special.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says that it can do these things.
    pub const fn can(mut self, can: Can) -> Self {
        self.can = can;
        self
    }

    /// Says that so many tokens fit.
    pub const fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    /// Then plays this.
    pub fn then(self, script: Script) -> Self {
        self.push(script);
        self
    }

    /// Makes the script of a run from its request, where no script is left.
    pub fn otherwise(
        mut self,
        script: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.otherwise = Box::new(script);
        self
    }

    /// Adds a script while it is in use.
    pub fn push(&self, script: Script) {
        lock(&self.seen).scripts.push_back(script);
    }

    /// What it was asked, in order.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.seen).requests.clone()
    }

    /// The most runs of one session that ever were at once.
    pub fn running_max(&self, session: SessionId) -> usize {
        lock(&self.seen).running_max.get(&session).copied().unwrap_or(0)
    }

    /// How many runs there are now.
    pub fn running(&self) -> usize {
        lock(&self.seen).running.values().sum()
    }

    /// The sessions that it was told to rest for, in order.
    pub fn rested(&self) -> Vec<SessionId> {
        lock(&self.seen).rested.clone()
    }

    fn begin(&self, request: &Request) -> (Script, Running) {
        let mut seen = lock(&self.seen);
        seen.requests.push(request.clone());
        let now = seen.running.entry(request.session).or_default();
        *now += 1;
        let now = *now;
        let most = seen.running_max.entry(request.session).or_default();
        *most = now.max(*most);
        let script = seen.scripts.pop_front();
        drop(seen);
        let running = Running { seen: Arc::clone(&self.seen), session: request.session };
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
            ..About::default()
        }
    }

    async fn rest(&self, session: SessionId) {
        lock(&self.seen).rested.push(session);
    }

    async fn run(&self, request: Request, mut link: Link) -> End {
        let (script, _running) = self.begin(&request);
        let cancel = link.cancel.clone();
        for action in script.into_actions() {
            if matches!(action, Action::Deaf) {
                std::future::pending::<()>().await;
            }
            let end = tokio::select! {
                biased;
                () = cancel.cancelled() => Some(End::Cancelled),
                end = act(action, &mut link) => end,
            };
            if let Some(end) = end {
                return end;
            }
        }
        End::Done(Stop::EndTurn)
    }
}

/// Does one thing; an end where it is the last.
async fn act(action: Action, link: &mut Link) -> Option<End> {
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
            if !link.say(Delta::Injected(steer.message_id)).await {
                return Some(End::Cancelled);
            }
            Delta::Text(format!("heard: {}", steer.text))
        }
        Action::Deaf => return None,
        Action::End(end) => return Some(end),
    };
    if link.say(delta).await { None } else { Some(End::Cancelled) }
}

/// A run that counts; dropped with its future, however that ends.
struct Running {
    seen: Arc<Mutex<Seen>>,
    session: SessionId,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(now) = lock(&self.seen).running.get_mut(&self.session) {
            *now -= 1;
        }
    }
}

/// A test that panicked elsewhere must not hide behind a poisoned lock.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
