//! One task per active session. It delivers the inbox, carries out runs, and ends when there is
//! nothing to do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ctx_core::decide::{
    self, Delivered, Invocation, Needs, OpenedRun, SessionView, classifier_input,
};
use ctx_core::id::{MessageId, SessionId};
use ctx_core::intent::{Intent, classify};
use ctx_store::Target;

use crate::engine::{Engine, Error};
use crate::run_slots::RunSlot;
use crate::runner::{self, RunResult};
use crate::shared::{Actor, PlacedRun};

/// Pause between two tries after the store failed.
const STORE_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Consecutive store failures after which the actor stops until the next wake-up.
const STORE_RETRIES: u32 = 20;

impl Engine {
    /// Wakes a session's actor, which then looks at the inbox.
    pub(crate) fn wake(&self, session: SessionId) {
        self.wake_with(session, None);
    }

    /// Hands an opened run to the session's actor, which carries it out.
    pub(crate) fn start_run(&self, session: SessionId, opened_run: Box<OpenedRun>) {
        self.start_placed(session, (opened_run, self.shared().slots.take_always()));
    }

    /// As `start_run`, for a run that has a place.
    pub(crate) fn start_placed(&self, session: SessionId, placed_run: PlacedRun) {
        self.wake_with(session, Some(placed_run));
    }

    fn wake_with(&self, session: SessionId, opened_run: Option<PlacedRun>) {
        if let Some(actor) = self.shared().wake(session, opened_run) {
            let engine = self.clone();
            tokio::spawn(async move { run_actor(engine, session, actor).await });
        }
    }
}

async fn run_actor(engine: Engine, session: SessionId, actor: Arc<Actor>) {
    let mut failures = 0;
    // Whether the transaction that ended the last run saw nothing left to do, and nothing has woken
    // the actor since.
    let mut settled = false;
    loop {
        if engine.shared().shutdown.is_cancelled() {
            // An open run stays open; the next start, or another process, recovers it.
            while !engine.shared().sleep(session, &actor) {
                actor.take_woken();
            }
            return;
        }
        if actor.take_woken() {
            settled = false;
        }
        if let Some(placed_run) = actor.take_opened() {
            settled = run(&engine, session, placed_run, &actor).await;
            continue;
        }
        let slot = if settled { None } else { place(&engine, session) };
        let delivered = match &slot {
            None => Ok(Delivered::Nothing),
            Some(_) => deliver(&engine, session).await,
        };
        match delivered {
            Ok(delivered) => {
                failures = 0;
                match delivered {
                    Delivered::Run(opened_run) => {
                        let slot = slot.unwrap_or_else(|| engine.shared().slots.take_always());
                        settled = run(&engine, session, (opened_run, slot), &actor).await;
                        continue;
                    }
                    Delivered::NotBefore(until) => {
                        drop(slot);
                        let pause = Duration::from_millis(
                            until.0.saturating_sub(engine.now().0).unsigned_abs().max(1),
                        );
                        // A new message may change what is delivered next.
                        let _ = tokio::time::timeout(pause, actor.wake.notified()).await;
                        continue;
                    }
                    Delivered::Notice => continue,
                    Delivered::Asked | Delivered::Nothing => {}
                }
            }
            Err(error) if error.refusal().is_some() || error.code() == "not_found" => {
                tracing::debug!(%session, %error, "no message was delivered");
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(%session, %error, "the inbox could not be read");
                if failures < STORE_RETRIES {
                    tokio::time::sleep(STORE_RETRY_PAUSE).await;
                    continue;
                }
            }
        }
        // Reports of workers wait while the session runs.
        if !settled && let Err(error) = Box::pin(engine.collect_reports(session)).await {
            tracing::warn!(%session, %error, "reports of workers are sent later");
        }
        if settled {
            actor.end_as_idle();
        }
        if engine.shared().sleep(session, &actor) {
            return;
        }
    }
}

/// A place for a run; none if there is no room, or this process is stopping. Another process, or
/// this one later, then delivers the messages that wait.
fn place(engine: &Engine, session: SessionId) -> Option<RunSlot> {
    if engine.shared().slots.is_closed() {
        engine.offer(session);
        return None;
    }
    engine.shared().slots.take()
}

/// Carries out a run. Returns `true` if the transaction that ended it saw nothing left to do. A run
/// that was abandoned is recovered here, since no other process would while this one is alive.
async fn run(
    engine: &Engine,
    session: SessionId,
    (opened_run, _slot): PlacedRun,
    actor: &Arc<Actor>,
) -> bool {
    let run = opened_run.run.id;
    engine.announce_run(session);
    actor.begin_run();
    let result = runner::run(engine, session, opened_run, actor).await;
    actor.end_run();
    match result {
        RunResult::Settled => return true,
        RunResult::Ended => return false,
        RunResult::Abandoned => {}
    }
    while !engine.shared().shutdown.is_cancelled() {
        match engine.recover_run(session, run).await {
            Err(error) if error.code() != "not_found" => {
                tracing::warn!(%session, %error, "an abandoned run could not be ended");
                tokio::time::sleep(STORE_RETRY_PAUSE).await;
            }
            _ => return false,
        }
    }
    false
}

/// Delivers the next message of a session's inbox.
async fn deliver(engine: &Engine, session: SessionId) -> Result<Delivered, Error> {
    engine.ensure_lease().await?;
    let classified = classify_next(engine, session).await?;
    let (run_host, settings) = (engine.shared().run_host(), engine.settings().clone());
    let rule = move |view: &SessionView, invocation: &Invocation| {
        decide::deliver(view, &classified, &run_host, &settings, invocation)
    };
    Ok(engine.decide(Target::Id(session), Needs::MESSAGE, Vec::new(), rule).await?.reply)
}

/// Classifies the next message with a classifier that is too slow for the transaction.
async fn classify_next(
    engine: &Engine,
    session: SessionId,
) -> Result<HashMap<MessageId, Intent>, Error> {
    let mut classified = HashMap::new();
    if engine.classifier().is_rules() {
        return Ok(classified);
    }
    let Some(view) = engine.store().view(&Target::Id(session), Needs::RUN).await? else {
        return Ok(classified);
    };
    if let Some(item) = decide::next_to_classify(&view) {
        let (text, classifier_input) = (item.text(), classifier_input(view.task.as_ref()));
        let intent = engine.classifier().classify(&text, classifier_input).await;
        classified.insert(
            item.message_id,
            intent.unwrap_or_else(|| classify(&text, &classifier_input).intent),
        );
    }
    Ok(classified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{About, Delta, End, Link, Provider, ProviderFeatures, Request};
    use crate::{EngineTimeouts, NewMessage, NewSession, Providers};
    use ctx_core::session::{Activity, Status};

    /// Sends one word and then nothing.
    struct Silent;

    #[async_trait::async_trait]
    impl Provider for Silent {
        fn about(&self) -> About {
            let (can, models) = (ProviderFeatures::default(), Vec::new());
            About { kind: "silent", can, models, context_window: 1000, ..About::default() }
        }

        async fn run(&self, _: Request, link: Link) -> End {
            link.send(Delta::Text("half".to_owned())).await;
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn an_abandoned_run_of_a_living_process_is_terminated() {
        // R238: the lease was lost and renewed, and no other process terminated the run.
        let dir = tempfile::tempdir().expect("a directory");
        Engine::init(dir.path(), "demo").expect("a store");
        let timeouts =
            EngineTimeouts { checkpoint: Duration::from_millis(10), ..EngineTimeouts::default() };
        let engine = Engine::open(dir.path(), crate::Options::default()).expect("a store");
        let engine = engine.with_providers(Providers::only("main", Arc::new(Silent)), timeouts);
        let new = NewSession { label: Some("one".to_owned()), ..NewSession::default() };
        engine.sessions().create(new, Some(NewMessage::text("m")), None).await.expect("made");
        let said = async || {
            engine
                .messages()
                .page("one", crate::Order::Asc, None, 10)
                .await
                .expect("there")
                .messages
                .len()
        };
        while said().await < 2 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        engine.shared().lease.expire();
        engine.shared().abandon_runs();
        let info = engine
            .sessions()
            .wait_until_settled("one", Duration::from_secs(10))
            .await
            .expect("there");
        assert_eq!(
            (info.session.state, info.session.status),
            (Activity::Idle, Status::Suspended),
            "nobody is stuck"
        );
        assert_eq!(said().await, 3, "what was said, and what happened");
    }
}
