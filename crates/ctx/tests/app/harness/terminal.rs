//! The program on a pseudo terminal: keys go in, and the screen is what a terminal would show.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{wait_for, wait_until};

pub(crate) const ENTER: &str = "\r";
pub(crate) const ESC: &str = "\u{1b}";
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const F2: &str = "\u{1b}OQ";
pub(crate) const F3: &str = "\u{1b}OR";
pub(crate) const F4: &str = "\u{1b}OS";
pub(crate) const DELETE: &str = "\u{1b}[3~";
pub(crate) const DOWN: &str = "\u{1b}[B";
pub(crate) const PAGE_UP: &str = "\u{1b}[5~";

/// Lines of scrollback of the screen; the program has none of its own.
const SCROLLBACK: usize = 0;

struct Output {
    screen: vt100::Parser,
    raw: Vec<u8>,
}

/// A program that runs on a terminal.
pub(crate) struct TerminalProgram {
    child: Child,
    /// None after the terminal is gone.
    master: Option<File>,
    /// The side of the program, to look at its modes.
    slave: OwnedFd,
    output: Arc<Mutex<Output>>,
    closing: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl TerminalProgram {
    /// Starts a command as the leader of a session with a terminal of its own.
    pub(crate) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&master).expect("access to it");
        unlockpt(&master).expect("access to it");
        let path = ptsname(&master, Vec::new()).expect("its path");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave =
            rustix::fs::open(path.as_c_str(), flags, Mode::empty()).expect("its other side");
        tcsetwinsize(&slave, size(columns, rows)).expect("a size");
        let stdio = || Stdio::from(slave.try_clone().expect("a copy"));
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.get_program()).args(command.get_args());
        leader.env_clear().current_dir(command.get_current_dir().expect("a directory"));
        for (name, value) in command.get_envs() {
            leader.envs(value.map(|value| (name, value)));
        }
        leader.env("TERM", "xterm-256color");
        let child =
            leader.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().expect("it starts");
        drop(leader);
        let screen = vt100::Parser::new(count(rows), count(columns), SCROLLBACK);
        let output = Arc::new(Mutex::new(Output { screen, raw: Vec::new() }));
        let closing = Arc::new(AtomicBool::new(false));
        let master = File::from(master);
        let reader = {
            let master = master.try_clone().expect("a copy");
            let (output, closing) = (output.clone(), closing.clone());
            std::thread::spawn(move || read_all(master, &output, &closing))
        };
        Self { child, master: Some(master), slave, output, closing, reader: Some(reader) }
    }

    /// Sends keys as a terminal encodes them.
    pub(crate) fn send(&self, keys: &str) {
        let mut master = self.master.as_ref().expect("the terminal is there");
        master.write_all(keys.as_bytes()).expect("the program reads");
    }

    /// Sends text and Enter.
    pub(crate) fn enter(&self, text: &str) {
        self.send(text);
        self.wait_for(text.lines().last().unwrap_or(text));
        self.send(ENTER);
    }

    /// Pastes text as a terminal with bracketed paste does.
    pub(crate) fn paste(&self, text: &str) {
        self.send(&format!("\u{1b}[200~{text}\u{1b}[201~"));
    }

    /// The text on the screen.
    pub(crate) fn screen(&self) -> String {
        self.output.lock().expect("no panic").screen.screen().contents()
    }

    /// Everything that the program wrote.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.output.lock().expect("no panic").raw.clone()
    }

    /// Whether a text on the screen has a colour of its own.
    pub(crate) fn has_coloured(&self, text: &str) -> bool {
        let output = self.output.lock().expect("no panic");
        let screen = output.screen.screen();
        let (rows, columns) = screen.size();
        let (rows, columns) = (rows.get(), columns.get());
        let of_row = |row: u16| (0..columns).filter_map(move |column| screen.cell(row, column));
        let coloured = |row: u16| -> String {
            let has_colour = |cell: &&vt100::Cell| cell.fgcolor() != vt100::Color::Default;
            of_row(row).filter(has_colour).map(vt100::Cell::contents).collect()
        };
        (0..rows).any(|row| coloured(row).contains(text))
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    #[track_caller]
    pub(crate) fn wait_gone(&self, text: &str) {
        self.wait_until(&format!("no {text}"), |screen| !screen.contains(text));
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(what, || holds(&self.screen()));
        }));
        if found.is_err() {
            panic!("not on the screen: {what}\n{}", self.screen());
        }
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.output
            .lock()
            .expect("no panic")
            .screen
            .screen_mut()
            .set_size(count(rows), count(columns));
        tcsetwinsize(&self.slave, size(columns, rows)).expect("a size");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("it runs");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Closes the terminal, as a window that is closed or a connection that breaks.
    pub(crate) fn hang_up(&mut self) {
        self.closing.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic");
        }
        self.master = None;
    }

    /// Waits for the end of the program.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        wait_for("the program ends", || self.child.try_wait().expect("a child"))
    }

    /// Asserts that the terminal is as the shell left it.
    #[track_caller]
    pub(crate) fn assert_restored(&self) {
        let modes = tcgetattr(&self.slave).expect("its modes").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "raw mode is off");
        // What the program wrote last may still be on its way.
        wait_until("the normal screen, the cursor and no bracketed paste", || {
            let output = self.output.lock().expect("no panic");
            let screen = output.screen.screen();
            !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste()
        });
    }
}

impl Drop for TerminalProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.closing.store(true, Ordering::Release);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn count(lines: u16) -> NonZeroU16 {
    NonZeroU16::new(lines).expect("more than none")
}

const fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn read_all(mut master: File, output: &Mutex<Output>, closing: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    let pause = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !closing.load(Ordering::Acquire) {
        let mut ready = [PollFd::new(&master, PollFlags::IN)];
        if poll(&mut ready, Some(&pause)).unwrap_or(0) == 0 {
            continue;
        }
        match master.read(&mut buffer) {
            Ok(0) | Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
            Ok(read) => {
                let mut output = output.lock().expect("no panic");
                output.screen.process(&buffer[..read]);
                output.raw.extend_from_slice(&buffer[..read]);
            }
        }
    }
}
