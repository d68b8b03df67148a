//! Records the reports of agents that run outside ctx, each exactly once.

use ctx_core::decide::{self, Needs, OutsideReport, SessionView};
use ctx_core::id::SessionId;
use ctx_core::object::Object;
use ctx_core::refusal::Refusal;
use ctx_core::task::Task;
use ctx_store::{Executed, Once, OnceKey, Write};
use serde_json::Value;

use crate::engine::Error;
use crate::recorder::Recorder;

/// The scope of the keys of reports.
const SCOPE: &str = "outside work";

/// What an agent outside ctx did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutsideEvent {
    /// The user sent this prompt.
    Prompt(String),
    /// The agent used a tool: the observations of the recorder that were not flushed.
    Work {
        /// Description of the task that is opened if none is open.
        task: String,
    },
    /// The agent ended its answer.
    TurnEnd {
        /// Its final text, if known.
        text: Option<String>,
        /// The prompt that it answered, if known.
        prompt: Option<String>,
    },
    /// The conversation was closed, with this note.
    Closed(String),
}

impl Recorder {
    /// Records what an agent outside ctx did, in one transaction. A report with a key that was used
    /// before changes nothing. Returns whether this call recorded it.
    ///
    /// Fails if a text is not valid, or the store fails. Its observations are dropped then.
    pub async fn report_outside(&mut self, event: OutsideEvent, key: &str) -> Result<bool, Error> {
        let (entries, objects) = self.take_pending();
        let report = match event {
            OutsideEvent::Prompt(text) => OutsideReport::Prompt { text },
            OutsideEvent::Work { task } => OutsideReport::Work { entries, task },
            OutsideEvent::TurnEnd { text, prompt } => OutsideReport::TurnEnd { text, prompt },
            OutsideEvent::Closed(note) => OutsideReport::Closed { note },
        };
        let engine = self.engine().clone();
        let (settings, invocation) = (engine.settings().clone(), engine.invocation());
        let write = Write {
            target: self.target().clone(),
            needs: Needs::SEAL,
            objects,
            now: invocation.now,
        };
        let request = Object::blob(key.as_bytes().to_vec()).id();
        let key = OnceKey { scope: SCOPE.to_owned(), key: key.to_owned(), request, max_age: None };
        let once = Some(Once { key, answer: |_: SessionId, _: &Option<Task>| Value::Null });
        let rule = move |view: Option<&SessionView>| {
            let view = view.ok_or(Refusal::NoSession)?;
            decide::report_outside_work(view, &report, &settings, &invocation)
        };
        Ok(matches!(engine.execute_once(write, once, rule).await?, Executed::Written(_)))
    }
}
