//! Follows a session until it is idle or suspended and prints its events. The first Ctrl-C cancels
//! the run, the second exits. If another process runs the session, the first one only detaches.

use std::time::Duration;

use ctx_engine::core::decide::{Event, Patch};
use ctx_engine::core::id::SessionId;
use ctx_engine::core::session::Activity;
use ctx_engine::{Engine, FeedEvent, FeedItem, Follow, Info};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::problem::Problem;

use super::live_printer::LivePrinter;
use super::transcript::session_argument;

/// Lines that end a conversation instead of being sent.
const LEAVE_COMMANDS: [&str; 2] = ["/quit", "/exit"];
/// After this time without an event the session row is read again.
pub(super) const QUIET: Duration = Duration::from_secs(1);

pub(in crate::cli) struct SessionFollower {
    engine: Engine,
    session: SessionId,
    follow: Follow,
    /// `seq` of the newest event that was printed.
    seen: u64,
    interrupts: Signal,
    cancelled: bool,
    /// Whether the user has left the conversation.
    left: bool,
    pub(in crate::cli) printer: LivePrinter,
}

impl SessionFollower {
    /// Follows the events after those in `info`. Call it before sending, to miss no event.
    pub(in crate::cli) async fn start(
        engine: &Engine,
        info: &Info,
        printer: LivePrinter,
    ) -> Result<Self, Problem> {
        let session = info.session.id;
        let follow = engine.events().follow(&session.to_string(), Some(info.session.seq)).await?;
        let interrupts = signal(SignalKind::interrupt()).map_err(|e| {
            Problem::failed("internal", format!("failed to install a signal handler: {e}"))
        })?;
        Ok(Self {
            engine: engine.clone(),
            session,
            follow,
            seen: info.session.seq,
            interrupts,
            cancelled: false,
            left: false,
            printer,
        })
    }

    /// Call it before the next message: the next Ctrl-C then cancels again instead of exiting.
    pub(in crate::cli) const fn reset_cancelled(&mut self) {
        self.cancelled = false;
    }

    pub(in crate::cli) const fn was_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Prints events until the session is idle or suspended.
    pub(in crate::cli) async fn follow_until_settled(&mut self) -> Result<Info, Problem> {
        let name = self.session.to_string();
        loop {
            let info = self.engine.sessions().get(&name).await?;
            let quiet = !info.is_busy() && info.session.seq <= self.seen;
            // Workers run in this process, so exiting now would interrupt them.
            if quiet
                && (info.session.state == Activity::Suspended
                    || !self.engine.runs().has_workers_here(&info.session.label).await?)
            {
                self.printer.end_line()?;
                return Ok(info);
            }
            self.print_next(&info).await?;
        }
    }

    /// Prints deltas until the next stored event or until [`QUIET`] has passed.
    async fn print_next(&mut self, info: &Info) -> Result<(), Problem> {
        loop {
            tokio::select! {
                item = self.follow.next() => match item? {
                    Some(FeedItem::Delta(words)) => self.printer.print_delta(&words)?,
                    Some(FeedItem::Event(event)) => {
                        self.seen = event.seq;
                        return print_event(&self.engine, &mut self.printer, &event).await;
                    }
                    None => return Err(ctx_engine::core::Refusal::NoSession.into()),
                },
                () = tokio::time::sleep(QUIET) => {
                    self.printer.print_held_word()?;
                    return self.take_over(info).await;
                }
                _ = self.interrupts.recv() => return self.interrupt().await,
            }
        }
    }

    /// No event arrived: the process that owned the session may have died, or may have exited
    /// before it ran our message. Take the session over in both cases.
    async fn take_over(&self, info: &Info) -> Result<(), Problem> {
        match info.session.state {
            Activity::Running => self.engine.runs().end_orphaned(self.session).await?,
            Activity::Idle if info.is_busy() => {
                drop(
                    self.engine
                        .sessions()
                        .update(&self.session.to_string(), Patch::default())
                        .await?,
                );
            }
            Activity::Idle | Activity::Suspended => {}
        }
        Ok(())
    }

    async fn interrupt(&mut self) -> Result<(), Problem> {
        if self.cancelled {
            return Err(exited_early());
        }
        self.printer.end_line()?;
        let info = self.engine.sessions().get(&self.session.to_string()).await?;
        if info.session.state == Activity::Running && !self.engine.runs().is_here(self.session) {
            return Err(detached(&info));
        }
        self.cancelled = true;
        let name = self.session.to_string();
        tokio::select! {
            done = self.engine.runs().cancel_with_workers(&name) => {
                done.map(drop).map_err(Problem::from)
            }
            _ = self.interrupts.recv() => Err(exited_early()),
        }
    }

    /// Whether the user has left the conversation: by Ctrl-D or a command to leave.
    pub(in crate::cli) const fn has_left(&self) -> bool {
        self.left
    }

    /// Reads a line from the terminal. `None` at the end of the input, at a command to leave, or
    /// after Ctrl-C.
    pub(in crate::cli) async fn read_line(
        &mut self,
        prompt: &str,
    ) -> Result<Option<String>, Problem> {
        self.printer.end_line()?;
        tokio::select! {
            line = super::terminal_prompts::read_line(prompt) => {
                let line = line?.filter(|line| !LEAVE_COMMANDS.contains(&line.as_str()));
                self.left = line.is_none();
                Ok(line)
            }
            _ = self.interrupts.recv() => self.interrupt().await.map(|()| None),
        }
    }
}

fn exited_early() -> Problem {
    Problem::interrupted("left", "Exited before the run ended. Its output so far is stored.")
}

/// Another process runs the session: Ctrl-C here must not cancel its run.
fn detached(info: &Info) -> Problem {
    let session = session_argument(info);
    Problem::interrupted(
        "detached",
        format!(
            "Detached. The run goes on in another process; follow it with \
             `ctx session tail {session}`, or cancel it with `ctx session cancel {session}`."
        ),
    )
}

/// Prints tool calls and finished turns; other events print nothing.
pub(super) async fn print_event(
    engine: &Engine,
    printer: &mut LivePrinter,
    event: &FeedEvent,
) -> Result<(), Problem> {
    match &event.event {
        Event::ToolCallStarted { name, .. } => printer.print_tool_call(name),
        Event::ToolCallCompleted { is_error: true, .. } => printer.print_tool_failure(),
        Event::TurnCommitted { turn: Some(turn) } => {
            let status = engine.messages().turn(*turn).await?.header.status;
            let messages = engine.messages().turn_messages(*turn).await?.unwrap_or_default();
            printer.print_turn(&messages, status)
        }
        _ => Ok(()),
    }
}
