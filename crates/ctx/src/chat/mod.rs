//! `ctx chat`: a full-screen conversation.
//!
//! | file | owns |
//! |---|---|
//! | `state`, `event`, `update`, `keys`, `submit` | the state, and the pure reducer that changes it and asks for effects |
//! | `transcript` | the loaded part of the conversation |
//! | `editor`, `completion`, `slash_commands`, `picker` | what is typed and chosen |
//! | `turn_lines`, `viewport` | the conversation as lines, and the part of them on the screen |
//! | `view`, `overlays` | drawing |
//! | `engine_link`, `follower`, `lists` | effects over the engine, and its events |
//! | `draft_file` | unsent text, kept over the end of the process |
//! | `terminal` | the state of the terminal, restored in every way of leaving |
//!
//! The thread that draws does nothing else, so that a key is shown at once while text streams in.
//! It draws only after a change, and streamed text at most [`FRAMES_PER_SECOND`] times a second.

mod completion;
mod draft_file;
mod editor;
mod engine_link;
mod event;
mod follower;
mod keys;
mod lists;
mod overlays;
mod picker;
mod slash_commands;
mod state;
mod submit;
mod terminal;
mod transcript;
mod turn_lines;
mod update;
mod view;
mod viewport;

#[cfg(test)]
mod update_tests;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ctx_engine::Engine;
use ctx_engine::core::id::SessionId;
use ratatui::crossterm::event as input;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use self::engine_link::EngineLink;
use self::event::{Effect, Event, Scroll};
use self::state::State;
use self::terminal::ChatTerminal;
use self::viewport::Viewport;
use crate::problem::Problem;

pub(crate) use self::overlays::KEYS;

/// Streamed text is drawn this often.
const FRAMES_PER_SECOND: u64 = 30;
/// How often the screen is drawn for the clock alone, and the terminal is looked at.
const TICK: Duration = Duration::from_secs(1);
/// Events that are handled before the screen is drawn.
const EVENTS_PER_FRAME: usize = 1024;
/// How often agent processes of idle sessions are released.
const RELEASE_INTERVAL: Duration = Duration::from_secs(30);

/// What the chat begins with.
pub(crate) struct Start {
    pub(crate) data: PathBuf,
    /// The working directory.
    pub(crate) dir: String,
    /// The session to open; none for a new conversation.
    pub(crate) session: Option<SessionId>,
    /// Provider and model of a new conversation.
    pub(crate) preferred: (Option<String>, Option<String>),
    pub(crate) notice: Option<String>,
}

/// Runs the chat until the user leaves. Returns the session that was open at the end.
pub(crate) fn run(
    engine: &Engine,
    runtime: &Runtime,
    start: Start,
) -> Result<Option<SessionId>, Problem> {
    let (sender, events) = channel();
    let mut chat = Chat::new(engine, runtime, sender.clone(), start);
    runtime.block_on(async { watch_signals(&sender) }).map_err(terminal_problem)?;
    spawn_duties(engine, runtime);
    let mut terminal = ChatTerminal::enter().map_err(terminal_problem)?;
    std::thread::spawn(move || read_input(&sender));
    let result = chat.run(&mut terminal, &events);
    chat.link.finish_drafts();
    drop(terminal);
    // A terminal that is gone is a way of leaving.
    result
        .or_else(|error| if terminal::is_gone() { Ok(()) } else { Err(terminal_problem(error)) })?;
    Ok(chat.state.session())
}

fn terminal_problem(error: std::io::Error) -> Problem {
    Problem::failed("terminal", format!("failed to use the terminal: {error}"))
}

/// Passes keys, pastes and size changes on. Ends with the process.
fn read_input(events: &Sender<Event>) {
    loop {
        let event = match input::read() {
            Ok(input::Event::Key(key)) => Event::Key(key),
            Ok(input::Event::Paste(text)) => Event::Paste(text),
            Ok(input::Event::Resize(..)) => Event::Resize,
            Ok(_) => continue,
            Err(_) => Event::Terminate,
        };
        let ends = matches!(event, Event::Terminate);
        if events.send(event).is_err() || ends {
            return;
        }
    }
}

/// SIGTERM and SIGHUP leave the chat like the user does. Another process may send SIGINT.
fn watch_signals(events: &Sender<Event>) -> std::io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()] {
        let (mut signals, events) = (signal(kind)?, events.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                let _ = events.send(Event::Terminate);
            }
        });
    }
    Ok(())
}

/// Ends the agent processes of idle sessions. Sessions of other processes are left alone.
fn spawn_duties(engine: &Engine, runtime: &Runtime) {
    let engine = engine.clone();
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(RELEASE_INTERVAL).await;
            engine.background().release_idle().await;
        }
    });
}

struct Chat {
    state: State,
    viewport: Viewport,
    link: EngineLink,
    /// Effects and events that the chat causes itself.
    sender: Sender<Event>,
    leaves: bool,
    suspends: bool,
    redraws: bool,
}

impl Chat {
    fn new(engine: &Engine, runtime: &Runtime, sender: Sender<Event>, start: Start) -> Self {
        let link = EngineLink::new(
            engine.clone(),
            runtime.handle().clone(),
            sender.clone(),
            start.data,
            start.dir.clone(),
        );
        let mut state = State {
            dir: start.dir,
            providers: lists::provider_choices(engine),
            default_provider: engine.providers().default.clone(),
            preferred: start.preferred,
            now_ms: engine.now().0,
            ..State::default()
        };
        let mut chat = Self {
            state: State::default(),
            viewport: Viewport::default(),
            link,
            sender,
            leaves: false,
            suspends: false,
            redraws: false,
        };
        match start.session {
            Some(session) => {
                state.is_opening = true;
                chat.link.run(Effect::Open { epoch: state.epoch, session, at: None });
            }
            None => {
                let draft = draft_file::read(&chat.link.draft_path());
                state.editor.set(draft.restored(|_| false));
            }
        }
        if let Some(notice) = start.notice {
            state.inform(notice);
        }
        chat.state = state;
        chat
    }

    fn run(
        &mut self,
        terminal: &mut ChatTerminal,
        events: &Receiver<Event>,
    ) -> std::io::Result<()> {
        let frame = Duration::from_millis(1000 / FRAMES_PER_SECOND);
        let (mut drawn_at, mut is_dirty) = (Instant::now(), true);
        self.draw(terminal)?;
        while !self.leaves {
            let wait = if is_dirty { frame.saturating_sub(drawn_at.elapsed()) } else { TICK };
            let mut is_urgent = false;
            match events.recv_timeout(wait) {
                Ok(event) => {
                    is_dirty = true;
                    is_urgent = self.handle(event);
                    // What is there already is drawn together.
                    for event in events.try_iter().take(EVENTS_PER_FRAME) {
                        is_urgent |= self.handle(event);
                    }
                }
                Err(RecvTimeoutError::Timeout) if !is_dirty => {
                    if terminal::is_gone() {
                        return Ok(());
                    }
                    is_dirty = self.state.is_running();
                    self.handle(Event::Tick);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if std::mem::take(&mut self.suspends) {
                terminal.suspend()?;
                is_urgent = true;
            }
            if std::mem::take(&mut self.redraws) {
                terminal.clear()?;
                is_urgent = true;
            }
            if is_urgent || (is_dirty && drawn_at.elapsed() >= frame) {
                self.draw(terminal)?;
                (drawn_at, is_dirty) = (Instant::now(), false);
                if let Some(side) = self.viewport.near_edge(&self.state) {
                    self.handle(Event::NearEdge(side));
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self, terminal: &mut ChatTerminal) -> std::io::Result<()> {
        let size = terminal.screen.size()?;
        self.state.columns = usize::from(size.width.saturating_sub(view::EDITOR_MARGIN + 1));
        let (state, viewport) = (&self.state, &mut self.viewport);
        terminal.screen.draw(|frame| view::draw(frame, state, viewport))?;
        Ok(())
    }

    /// Returns whether the screen is drawn at once: after input of the user.
    fn handle(&mut self, event: Event) -> bool {
        let is_urgent = matches!(event, Event::Key(_) | Event::Paste(_) | Event::Resize);
        #[cfg(debug_assertions)]
        panic_for_tests(&event);
        let now = self.link.engine.now();
        for effect in update::update(&mut self.state, event, now) {
            self.apply(effect);
        }
        is_urgent
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Scroll(Scroll::Bottom) if self.state.transcript.newer_missing => {
                self.viewport.scroll(&self.state, Scroll::Bottom);
                if let Some(session) = self.state.session() {
                    self.link.run(Effect::Reload { epoch: self.state.epoch, session });
                }
            }
            Effect::Scroll(by) => {
                self.viewport.scroll(&self.state, by);
                // Scrolling at the beginning of what is loaded asks for more.
                if by == Scroll::Top {
                    let _ = self.sender.send(Event::Tick);
                }
            }
            Effect::Quit => self.leaves = true,
            Effect::Suspend => self.suspends = true,
            Effect::Redraw => self.redraws = true,
            effect => self.link.run(effect),
        }
    }
}

/// A way to panic for the test that the terminal is restored then; not in release builds.
#[cfg(debug_assertions)]
fn panic_for_tests(event: &Event) {
    let is_key = matches!(event, Event::Key(key) if key.code == input::KeyCode::F(12));
    if is_key && std::env::var_os("CTX_CHAT_TEST_PANIC").is_some() {
        panic!("a panic that a test asked for");
    }
}
