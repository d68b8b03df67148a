//! Follows a session until nothing happens in it any more, and prints what happens. Ctrl-C ends the run, once more leaves.

use std::time::Duration;

use ctx_engine::core::decide::{Event, Patch};
use ctx_engine::core::id::SessionId;
use ctx_engine::core::session::Activity;
use ctx_engine::{Engine, FeedEvent, FeedItem, Follow, Info};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::problem::Problem;

use super::printer::Printer;

/// After so long without news the session itself is looked at.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// A session that is followed.
pub(in crate::cli) struct Stream {
    engine: Engine,
    session: SessionId,
    follow: Follow,
    /// The newest event that was printed.
    seen: u64,
    interrupts: Signal,
    cancelled: bool,
    pub(in crate::cli) printer: Printer,
}

impl Stream {
    /// Follows from after an event. Open it before anything is sent, so that nothing is missed.
    pub(in crate::cli) async fn open(
        engine: &Engine,
        info: &Info,
        printer: Printer,
    ) -> Result<Self, Problem> {
        let session = info.session.id;
        let follow = engine.events().follow(&session.to_string(), Some(info.session.seq)).await?;
        let interrupts = signal(SignalKind::interrupt())
            .map_err(|e| Problem::failed("internal", format!("no signals: {e}")))?;
        Ok(Self {
            engine: engine.clone(),
            session,
            follow,
            seen: info.session.seq,
            interrupts,
            cancelled: false,
            printer,
        })
    }

    /// Another exchange begins: the next Ctrl-C is its first.
    pub(in crate::cli) const fn renew(&mut self) {
        self.cancelled = false;
    }

    /// Whether Ctrl-C was pressed.
    pub(in crate::cli) const fn was_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Prints until the session is idle or waits for somebody.
    pub(in crate::cli) async fn settled(&mut self) -> Result<Info, Problem> {
        let name = self.session.to_string();
        loop {
            let info = self.engine.sessions().get(&name).await?;
            let quiet = !info.is_busy() && info.session.seq <= self.seen;
            // Its workers run in this process: who leaves now would cut them off.
            if quiet
                && (info.session.state == Activity::Suspended
                    || !self.engine.runs().has_workers_here(&info.session.label).await?)
            {
                self.printer.end_line()?;
                return Ok(info);
            }
            self.news(&info).await?;
        }
    }

    /// Prints until something stored has happened, or nothing for a while.
    async fn news(&mut self, info: &Info) -> Result<(), Problem> {
        loop {
            tokio::select! {
                item = self.follow.next() => match item? {
                    Some(FeedItem::Words(words)) => self.printer.words(&words)?,
                    Some(FeedItem::Event(event)) => {
                        self.seen = event.seq;
                        return show(&self.engine, &mut self.printer, &event).await;
                    }
                    None => return Err(ctx_engine::core::Refusal::NoSession.into()),
                },
                () = tokio::time::sleep(QUIET) => return self.nudge(info).await,
                _ = self.interrupts.recv() => return self.interrupt().await,
            }
        }
    }

    /// Nothing happens: whoever ran the session may be dead, or have left our message to us.
    async fn nudge(&self, info: &Info) -> Result<(), Problem> {
        match info.session.state {
            Activity::Running => self.engine.runs().end_orphaned(self.session).await?,
            Activity::Idle if info.is_busy() => drop(
                self.engine.sessions().update(&self.session.to_string(), Patch::default()).await?,
            ),
            Activity::Idle | Activity::Suspended => {}
        }
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), Problem> {
        if self.cancelled {
            return Err(left());
        }
        self.cancelled = true;
        let name = self.session.to_string();
        tokio::select! {
            done = self.engine.runs().cancel_with_workers(&name) => done.map(drop).map_err(Problem::from),
            _ = self.interrupts.recv() => Err(left()),
        }
    }

    /// A line from the terminal; nothing at its end, or when Ctrl-C ended what it was for.
    pub(in crate::cli) async fn line(&mut self, prompt: &str) -> Result<Option<String>, Problem> {
        self.printer.end_line()?;
        tokio::select! {
            line = super::terminal::line(prompt) => line,
            _ = self.interrupts.recv() => self.interrupt().await.map(|()| None),
        }
    }
}

fn left() -> Problem {
    Problem::failed("left", "left before the end; what was said up to here is kept")
        .hint("`ctx session show SESSION` shows it, `ctx session retry SESSION` asks again")
}

/// Prints what an event stands for.
pub(super) async fn show(
    engine: &Engine,
    printer: &mut Printer,
    event: &FeedEvent,
) -> Result<(), Problem> {
    match &event.event {
        Event::ToolCallStarted { name, .. } => printer.tool(name),
        Event::ToolCallCompleted { is_error: true, .. } => printer.tool_failed(),
        Event::TurnCommitted { turn: Some(turn) } => {
            let status = engine.messages().turn(*turn).await?.header.status;
            let messages = engine.messages().turn_messages(*turn).await?.unwrap_or_default();
            printer.turn(&messages, status)
        }
        _ => Ok(()),
    }
}
