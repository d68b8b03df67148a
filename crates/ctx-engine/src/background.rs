//! Background duties of a long-running process: its lease, recovery of dead processes, events of
//! other processes, the timers, the schedules, and the start of the courier.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::decide::{self, Event, Invocation, Needs, SessionView, TerminationCause};
use ctx_core::id::{NodeId, RunId, SessionId};
use ctx_core::session::Activity;
use ctx_core::time::{Span, Timestamp};
use ctx_store::{Due, FeedQuery, Target};
use tokio::time::Instant;

use crate::engine::{Engine, Error};

/// How often the feed is polled for writes of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long a committed write of this process may take until it is recorded as its own.
const OWN_WRITE_DELAY: Duration = Duration::from_millis(50);
/// How long the actors of a process that ends may take to store the end of their runs.
const STOP_MAX: Duration = Duration::from_secs(3);
/// How long the store may then take to store the end of the process.
const LEAVE_MAX: Duration = Duration::from_secs(3);
/// How often a process that drains looks at its runs.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// How often dead processes and expired timers are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How long the history of a session is kept in memory after its last run.
const HISTORY_IDLE: Span = Span::minutes(1);
/// How often due schedules are looked for, and the pause after a failure.
const SCHEDULE_INTERVAL: Duration = Duration::from_millis(200);
const SCHEDULE_RETRY: Duration = Duration::from_secs(1);
/// Most sessions that one query returns.
const PAGE: usize = 500;
/// Sessions that are recovered at the same time, so that their writes share a sync.
const RECOVERED_AT_ONCE: usize = 64;
/// Most events that one query returns.
const EVENTS: usize = 1000;

/// Background work of a long-running process, and its end.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// engine.background().start().await?;
/// assert_eq!(engine.background().awake_sessions(), 0);
/// engine.background().shutdown().await;
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Background<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Background work of a long-running process, and its end.
    pub const fn background(&self) -> Background<'_> {
        Background { engine: self }
    }
}

impl Background<'_> {
    /// Number of sessions with an actor in this process.
    pub fn awake_sessions(self) -> usize {
        self.engine.shared().awake()
    }

    /// Number of sessions that are followed or run in this process.
    pub fn open_channels(self) -> usize {
        self.engine.shared().feed.open_channels()
    }

    /// Starts the background duties, until shutdown. Recovery runs before this returns.
    ///
    /// Fails if the store cannot be read.
    pub async fn start(self) -> Result<(), Error> {
        self.engine.ensure_lease().await?;
        let mut mark = self.engine.store().newest_feed_row().await?;
        self.engine.shared().set_watching();
        self.engine.listen_to_nodes().await;
        self.engine.background().recover().await?;
        self.engine.start_courier();
        if !self.engine.schedules().is_empty() {
            tokio::spawn(self.engine.clone().keep_schedules());
        }
        let engine = self.engine.clone();
        tokio::spawn(async move {
            let mut swept = Instant::now();
            loop {
                tokio::select! {
                    () = engine.shared().shutdown.cancelled() => return,
                    () = engine.shared().slots.freed.notified() => {
                        if let Err(error) = engine.run_waiting().await {
                            tracing::warn!(%error, "waiting messages could not be read");
                        }
                        continue;
                    }
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
                if let Err(error) = engine.read_foreign_events(&mut mark).await {
                    tracing::warn!(%error, "the feed could not be read");
                }
                if swept.elapsed() >= SWEEP_INTERVAL && !engine.shared().slots.is_closed() {
                    swept = Instant::now();
                    if let Err(error) = engine.sweep().await {
                        tracing::warn!(%error, "a timer failed");
                    }
                }
            }
        });
        Ok(())
    }

    /// Ends the runs of dead processes, runs those again of which nothing is stored, and wakes
    /// sessions with deliverable messages. Returns how many sessions were looked at.
    ///
    /// Fails if the store fails.
    pub async fn recover(self) -> Result<usize, Error> {
        let dead: Vec<NodeId> = self.engine.dead_nodes().await?;
        let (mut count, mut after) = (0, None);
        loop {
            let due = Due::Unattended { dead: dead.clone(), after };
            let sessions = self.engine.store().due(due, PAGE).await?;
            for some in sessions.chunks(RECOVERED_AT_ONCE) {
                self.engine.recover_sessions(some, &dead).await?;
            }
            count += sessions.len();
            after = sessions.last().copied();
            if sessions.len() < PAGE {
                break;
            }
        }
        if !dead.is_empty() {
            self.engine.store().release_outgoing(&dead, self.engine.now()).await?;
            self.engine.shared().outbox_filled.notify_one();
        }
        for node in dead {
            self.engine.store().remove_node(node).await?;
        }
        Ok(count)
    }

    /// Releases the agent processes of idle sessions (R208). The sessions do not change.
    pub async fn release_idle(self) {
        let before = Timestamp(
            self.engine
                .now()
                .0
                .saturating_sub_unsigned(self.engine.shared().timeouts.process_idle.0),
        );
        for rest in self.engine.release_processes(before) {
            let _ = rest.await;
        }
    }

    /// Archives sessions that were idle for the given time (R209). Returns how many.
    ///
    /// Fails if the store fails.
    pub async fn archive_idle(self, idle: Span) -> Result<usize, Error> {
        let since = Timestamp(self.engine.now().0.saturating_sub_unsigned(idle.0));
        let sessions = self.engine.store().due(Due::IdleSessions { since }, PAGE).await?;
        let mut archived = 0;
        for session in sessions {
            let rule = move |view: &SessionView, invocation: &Invocation| {
                decide::archive_idle(view, since, invocation)
            };
            match self.engine.decide(Target::Id(session), Needs::CLOSE, Vec::new(), rule).await {
                Ok(written) => archived += usize::from(written.reply),
                Err(error) if error.refusal().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(archived)
    }

    /// Starts no more runs, and waits until the open ones have ended, at most for the given time.
    /// Messages that are accepted meanwhile are left to other processes or to the next start.
    pub async fn drain(self, longest: Duration) {
        let slots = &self.engine.shared().slots;
        slots.close();
        let until = Instant::now() + longest;
        let (lease, length) = (&self.engine.shared().lease, self.engine.shared().timeouts.lease);
        // Without its lease, this process has stopped its runs.
        while slots.taken() > 0 && Instant::now() < until && !lease.is_overdue(length) {
            tokio::time::sleep(DRAIN_POLL).await;
        }
    }

    /// Stops this process. The turn of an open run keeps what was stored of it and is closed as
    /// interrupted. A run of which nothing is stored stays open if the next start, or another
    /// process, runs it again.
    pub async fn shutdown(self) {
        self.engine.shared().shutdown.cancel();
        let until = Instant::now() + STOP_MAX;
        while self.engine.shared().awake() > 0 && Instant::now() < until {
            let _ = tokio::time::timeout(
                Duration::from_millis(20),
                self.engine.shared().all_actors_stopped.notified(),
            )
            .await;
        }
        for rest in self.engine.release_processes(Timestamp(i64::MAX)) {
            let _ = tokio::time::timeout_at(until, rest).await;
        }
        if tokio::time::timeout(LEAVE_MAX, self.leave()).await.is_err() {
            tracing::warn!("the store does not answer: open runs are left to the next start");
        }
    }

    /// Gives up what belongs to this process in the store.
    async fn leave(self) {
        if self.engine.shared().lease.end().await {
            if let Err(error) = self.engine.end_own_runs().await {
                tracing::warn!(%error, "open runs are left to the next start");
            }
            let (node, now) = (self.engine.shared().node, self.engine.now());
            let _ = self.engine.store().release_outgoing(&[node], now).await;
            let _ = self.engine.store().remove_node(node).await;
        }
    }
}

impl Engine {
    /// Passes events of other processes to our followers and runs.
    async fn read_foreign_events(&self, mark: &mut i64) -> Result<(), Error> {
        let now = self.store().newest_feed_row().await?;
        let from = std::mem::replace(mark, now);
        if now <= from {
            return Ok(());
        }
        if self.shared().feed.has_foreign_rows(from, now) {
            // A run of this process sends its last text after its commit and before its events.
            tokio::time::sleep(OWN_WRITE_DELAY).await;
        }
        let Some(own) = self.shared().feed.take_foreign_rows(from, now) else { return Ok(()) };
        let mut after = from;
        while after < now {
            let mut events = self.store().feed(FeedQuery::All { after }, EVENTS).await?;
            let Some(last) = events.last() else { break };
            after = last.row;
            // Later rows are left to the next poll: those of this process are not in `own`.
            events.retain(|event| event.row <= now && !own.contains(&event.row));
            for event in &events {
                if let Event::RunResumed { run_id, .. } = event.event
                    && self.adopt_own_run(event.session, run_id).await?
                {
                    continue;
                }
                if !self.shared().is_awake(event.session)
                    && matches!(
                        event.event,
                        Event::RunCancelled { .. }
                            | Event::RunResumed { .. }
                            | Event::RunStarted { .. }
                            | Event::SessionDeleted { .. }
                    )
                {
                    // Another process continues the session, or it was deleted: our agent process
                    // does not know that history.
                    self.forget(event.session);
                }
                match event.event {
                    Event::MessageQueued { .. }
                    | Event::PromptAnswered { .. }
                    | Event::SessionUpdated => self.wake(event.session),
                    _ => self.shared().recheck(event.session),
                }
            }
            // The owner sends these between the texts to which they belong.
            events.retain(|event| !self.shared().nodes.is_relayed(event.session));
            self.shared().feed.publish(events);
        }
        Ok(())
    }

    /// Runs messages of idle sessions, as many as there is room for.
    async fn run_waiting(&self) -> Result<(), Error> {
        let free = self.shared().slots.free();
        if free > 0 {
            let due = Due::Unattended { dead: Vec::new(), after: None };
            for session in self.store().due(due, free.min(PAGE)).await? {
                self.wake(session);
            }
        }
        Ok(())
    }

    pub(crate) async fn dead_nodes(&self) -> Result<Vec<NodeId>, Error> {
        let mut dead = self.store().dead_nodes(self.now()).await?;
        dead.retain(|node| *node != self.shared().node);
        Ok(dead)
    }

    async fn recover_sessions(&self, sessions: &[SessionId], dead: &[NodeId]) -> Result<(), Error> {
        let dead: Arc<[NodeId]> = dead.into();
        let recover = |session: SessionId| {
            let (engine, dead) = (self.clone(), dead.clone());
            tokio::spawn(async move {
                engine.end_orphaned_run(session, &dead).await?;
                if let Err(error) = engine.report(session).await {
                    tracing::warn!(%session, %error, "the report about a worker is sent later");
                }
                if engine.shared().slots.free() > 0 {
                    engine.wake(session);
                }
                Ok(())
            })
        };
        let recovering: Vec<_> = sessions.iter().copied().map(recover).collect();
        let mut result = Ok(());
        for task in recovering {
            let done = task
                .await
                .unwrap_or_else(|error| Err(ctx_store::Error::Internal(error.to_string()).into()));
            result = result.and(done);
        }
        result
    }

    /// Ends the run of a session whose process is dead.
    pub(crate) async fn end_orphaned_run(
        &self,
        session: SessionId,
        dead: &[NodeId],
    ) -> Result<(), Error> {
        let Some(view) = self.store().view(&Target::Id(session), Needs::RUN).await? else {
            return Ok(());
        };
        match (view.run, view.session.owner) {
            (Some(run), _) if decide::is_orphaned(&view.session, dead) => {
                self.recover_run(session, run.id).await
            }
            (_, Some(owner)) if dead.contains(&owner) => self.release_session(session, owner).await,
            _ => Ok(()),
        }
    }

    /// Makes a session without a run, which belongs to a process, belong to none.
    async fn release_session(&self, session: SessionId, owner: NodeId) -> Result<(), Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::release_owner(view, owner, invocation)
        };
        match self.decide(Target::Id(session), Needs::NOTHING, Vec::new(), rule).await {
            Err(error) if error.refusal().is_none() && error.code() != "not_found" => Err(error),
            _ => Ok(()),
        }
    }

    /// Ends a run that no process carries out. Its messages are run again here, or its turn is
    /// closed as interrupted.
    pub(crate) async fn recover_run(&self, session: SessionId, run: RunId) -> Result<(), Error> {
        self.ensure_lease().await?;
        let run_host = self.shared().run_host();
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::recover_run(view, run, &run_host, invocation)
        };
        match self.open_run(Target::Id(session), Needs::CLOSE, None, rule).await {
            Ok(Some(again)) => {
                let again = again.submitted.run_id;
                tracing::info!(%session, %run, ?again, "a process ended before anything of a run \
                    was stored: the run is repeated");
                Ok(())
            }
            Ok(None) => {
                tracing::info!(%session, %run, "the run of a dead process was ended; its turn is \
                    marked as interrupted");
                Ok(())
            }
            // Another process was faster.
            Err(error) if error.refusal().is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Closes the open turns of this process, which is stopping. A run that the next start repeats
    /// stays open.
    async fn end_own_runs(&self) -> Result<(), Error> {
        let own = vec![self.shared().node];
        let mut after = None;
        loop {
            let due = Due::Unattended { dead: own.clone(), after };
            let sessions = self.store().due(due, PAGE).await?;
            for session in &sessions {
                let view = self.store().view(&Target::Id(*session), Needs::CLOSE).await?;
                let Some(view) = view.filter(|view| decide::is_orphaned(&view.session, &own))
                else {
                    continue;
                };
                let Some(run) = view.run.as_ref() else { continue };
                if !decide::runs_again(&view, run, &self.shared().run_host().catalog) {
                    self.terminate_run(*session, run.id, TerminationCause::ProcessLost).await?;
                }
            }
            after = sessions.last().copied();
            if sessions.len() < PAGE {
                return Ok(());
            }
        }
    }

    pub(crate) async fn terminate_run(
        &self,
        session: SessionId,
        run: RunId,
        cut: TerminationCause,
    ) -> Result<(), Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::terminate_run(view, run, cut, invocation)
        };
        match self.decide(Target::Id(session), Needs::CLOSE, Vec::new(), rule).await {
            Err(error) if error.refusal().is_none() => Err(error),
            // Another process was faster.
            _ => Ok(()),
        }
    }

    /// Runs the schedules until shutdown, in a task of its own: a sweep may take long.
    async fn keep_schedules(self) {
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = self.shared().shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = match self.schedules().run_due().await {
                Ok(_) => SCHEDULE_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "a schedule failed");
                    SCHEDULE_RETRY
                }
            };
        }
    }

    /// Applies the timers: seals stale tasks, archives idle sessions, removes turns of deleted
    /// sessions.
    async fn sweep(&self) -> Result<(), Error> {
        self.background().recover().await?;
        // Not awaited: an agent process may take long to stop.
        let engine = self.clone();
        tokio::spawn(async move { engine.background().release_idle().await });
        let seal_after = self.settings().stale.seal_after;
        let sealed = self.tasks().cleanup_stale(seal_after).await?;
        if sealed.sealed > 0 {
            tracing::info!(count = sealed.sealed, "stale tasks were sealed");
        }
        let unused_since = Timestamp(self.now().0.saturating_sub_unsigned(HISTORY_IDLE.0));
        self.shared().histories().drop_older(unused_since);
        self.background().archive_idle(self.shared().timeouts.archive_after).await?;
        self.store().purge(self.now()).await?;
        Ok(())
    }

    /// Whether an agent of this process waits for an answer to a suspension of the session.
    async fn keeps_suspended(&self, session: SessionId) -> bool {
        let view = self.store().view(&Target::Id(session), Needs::NOTHING).await;
        view.ok().flatten().is_some_and(|view| {
            view.session.state == Activity::Suspended
                && view.session.owner == Some(self.shared().node)
        })
    }

    /// All at once, so that a process that is slow to stop does not delay the others.
    fn release_processes(&self, before: Timestamp) -> Vec<tokio::task::JoinHandle<()>> {
        let rest = |(session, name): (SessionId, String)| {
            let (engine, provider) = (self.clone(), self.shared().provider(&name)?);
            Some(tokio::spawn(async move {
                provider.rest(session).await;
                // The provider ends a process that waits by a timeout of its own.
                if engine.keeps_suspended(session).await {
                    engine.shared().process_used(session, &name, engine.now());
                    return;
                }
                if let Err(error) = engine.release_session(session, engine.shared().node).await {
                    tracing::warn!(%session, %error, "the session stays with this process");
                }
            }))
        };
        self.shared().take_idle_processes(before).into_iter().filter_map(rest).collect()
    }
}
