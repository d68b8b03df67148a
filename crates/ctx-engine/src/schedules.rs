//! Schedules: messages that a timer sends.
//!
//! A tick gives one message. The message is submitted under an idempotency key with the name of the
//! schedule and the time of the tick; then the tick is stored as over. A crash between the two
//! repeats the submission, which has no effect under the same key. The key also lets several
//! processes run the schedules of one store.

use std::collections::HashMap;

use ctx_core::id::ObjectId;
use ctx_core::inbox::Mode;
use ctx_core::message::Source;
use ctx_core::schedule::{Rule, ScheduleState};
use ctx_core::time::Timestamp;

use crate::engine::{Engine, Error};
use crate::submit::{Key, NewMessage, NewSession};

/// A schedule of the configuration.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Schedule {
    /// Unique among the schedules of a store.
    pub name: String,
    pub rule: Rule,
    /// The text of each message.
    pub text: String,
    /// The session that gets the messages. It is created if no session has its label.
    pub session: NewSession,
}

/// A schedule with its ticks.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct ListedSchedule {
    pub schedule: Schedule,
    /// The first tick after now. For a schedule that no server has seen yet, as if one saw it now.
    pub next_tick: Option<Timestamp>,
    /// The newest tick that is over.
    pub last_tick: Option<Timestamp>,
}

/// Schedules: messages that a timer sends.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::core::schedule::{Rule, system_label};
/// use ctx_engine::{NewSession, Schedule};
///
/// let label = Some(system_label("report"));
/// let engine = engine.with_schedules(vec![Schedule {
///     name: "report".to_owned(),
///     rule: Rule::Cron("0 9 * * 1-5".parse().expect("an expression")),
///     text: "Write the daily report".to_owned(),
///     session: NewSession { label, ..NewSession::default() },
/// }]);
/// assert_eq!(engine.schedules().run_due().await?, 0, "its first tick is the next one");
/// assert!(engine.schedules().list().await?[0].next_tick.is_some());
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Schedules<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Schedules: messages that a timer sends.
    pub const fn schedules(&self) -> Schedules<'_> {
        Schedules { engine: self }
    }
}

impl Schedules<'_> {
    /// Whether there are any schedules.
    pub(crate) fn is_empty(self) -> bool {
        self.engine.configured_schedules().is_empty()
    }

    /// The configured schedules with their ticks, in the order of the configuration.
    ///
    /// Fails if the store fails.
    pub async fn list(self) -> Result<Vec<ListedSchedule>, Error> {
        let (now, known) = (self.engine.now(), self.known().await?);
        let listed = |schedule: &Schedule| {
            let state =
                known.get(&schedule.name).copied().unwrap_or_else(|| ScheduleState::new(now));
            ListedSchedule {
                schedule: schedule.clone(),
                next_tick: schedule.rule.next(&state, now),
                last_tick: state.last_tick,
            }
        };
        Ok(self.engine.configured_schedules().iter().map(listed).collect())
    }

    /// Sends the messages that are due, at most one of each schedule. Returns how many were sent.
    ///
    /// A tick whose message the session refuses is over: it is logged and not repeated. Fails if
    /// the store fails; the other schedules are carried out then, and the tick is due again.
    pub async fn run_due(self) -> Result<usize, Error> {
        let (now, known) = (self.engine.now(), self.known().await?);
        let (mut sent, mut failure) = (0, None);
        for schedule in self.engine.configured_schedules().iter() {
            match self.run_if_due(schedule, known.get(&schedule.name), now).await {
                Ok(is_sent) => sent += usize::from(is_sent),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(sent), Err)
    }

    async fn known(self) -> Result<HashMap<String, ScheduleState>, Error> {
        Ok(self.engine.store().schedules().await?.into_iter().collect())
    }

    async fn run_if_due(
        self,
        schedule: &Schedule,
        known: Option<&ScheduleState>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let store = self.engine.store();
        let name = &schedule.name;
        let Some(state) = known else {
            store.see_schedule(name, now).await?;
            return Ok(false);
        };
        let Some(tick) = schedule.rule.due(state, now) else { return Ok(false) };
        let is_sent = match self.send(schedule, tick).await {
            // Another process, or this one before a crash, has sent it.
            Ok(submitted) if submitted.replayed => false,
            Ok(_) => true,
            Err(error) if error.refusal().is_some() => {
                tracing::warn!(schedule = name, %tick, %error, "a tick was refused");
                false
            }
            Err(error) => return Err(error),
        };
        store.set_last_tick(name, tick).await?;
        Ok(is_sent)
    }

    async fn send(
        self,
        schedule: &Schedule,
        tick: Timestamp,
    ) -> Result<crate::submit::Submitted, Error> {
        let message = NewMessage {
            mode: Some(Mode::Followup),
            source: Source::Timer,
            ..NewMessage::text(&schedule.text)
        };
        let key = format!("schedule {} {tick}", schedule.name);
        // The key alone identifies the tick: its text may have changed since a crash.
        let request = ObjectId::of(&[key.as_bytes()]);
        let key = Some(Key { key, request });
        self.engine.messages().submit_to_label(schedule.session.clone(), message, key).await
    }
}
