//! The terminal: raw mode, alternate screen and bracketed paste while the chat is shown, and their
//! end in every way in which the chat ends, a panic included.

use std::io::{Stdout, Write, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect};

/// Whether the terminal is in the state of the chat.
static ENTERED: AtomicBool = AtomicBool::new(false);

pub(super) type Screen = Terminal<CrosstermBackend<Stdout>>;

/// The terminal in the state of the chat; dropping it restores the terminal.
pub(super) struct ChatTerminal {
    pub(super) screen: Screen,
}

impl ChatTerminal {
    /// Takes the terminal over.
    ///
    /// Fails if it cannot be read or written.
    pub(super) fn enter() -> std::io::Result<Self> {
        restore_on_panic();
        take_over()?;
        let guard = RestoreOnDrop;
        let screen = Terminal::new(CrosstermBackend::new(stdout()))?;
        std::mem::forget(guard);
        Ok(Self { screen })
    }

    /// Gives the terminal to the shell until the process is continued.
    pub(super) fn suspend(&mut self) -> std::io::Result<()> {
        restore();
        let stopped = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        stopped.map_err(std::io::Error::from)?;
        take_over()?;
        self.clear()
    }

    /// Clears the screen: the next frame is drawn completely. `Terminal::clear` would ask the
    /// terminal for the position of the cursor, while another thread reads its answers as keys.
    pub(super) fn clear(&mut self) -> std::io::Result<()> {
        let size = self.screen.size()?;
        self.screen.resize(Rect::from((Position::ORIGIN, size)))
    }
}

struct RestoreOnDrop;

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        restore();
    }
}

impl Drop for ChatTerminal {
    fn drop(&mut self) {
        restore();
    }
}

fn take_over() -> std::io::Result<()> {
    enable_raw_mode()?;
    ENTERED.store(true, Ordering::Release);
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)
}

/// Restores the terminal. Does nothing if that is done already.
pub(super) fn restore() {
    if !ENTERED.swap(false, Ordering::AcqRel) {
        return;
    }
    // Each step is tried even if another one fails: the terminal may be gone.
    let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}

/// A panic of the thread that draws restores the terminal before its message is printed. The
/// message of another thread would destroy the screen; it is not printed.
fn restore_on_panic() {
    let drawing = std::thread::current().id();
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == drawing {
            restore();
            print(panic);
        } else if ENTERED.load(Ordering::Acquire) {
            tracing::error!(%panic, "a thread panicked");
        } else {
            print(panic);
        }
    }));
}

/// Whether the terminal still exists.
pub(super) fn is_gone() -> bool {
    rustix::termios::tcgetattr(rustix::stdio::stdin()).is_err()
}
