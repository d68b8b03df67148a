//! Implements `ctx guard`: runs an agent, and ends it with all of its descendants when the parent
//! process dies.
//!
//! After a SIGKILL ctx cannot end its agents, and many agents do not notice that their pipes were
//! closed. The guard is the leader of the agent's process group and a subreaper: orphaned
//! descendants become its children, so that it finds all of them.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getpid, getppid, kill_process_group, set_child_subreaper,
    waitpid,
};

use crate::process_tree::{descendants, signal_all};

/// Exit code of a command that a signal ended is this plus the signal number, as in a shell.
pub(crate) const SIGNAL_EXIT_BASE: i32 = 128;
/// Maximum number of passes over the descendants; each pass finds processes started meanwhile.
const PASSES_MAX: u32 = 100;

/// Runs a command until it exits or the process `parent` dies, and returns its exit code.
///
/// # Errors
/// If the command cannot be started or `parent` is not a process.
pub fn run_guarded(parent: u32, command: &[String]) -> io::Result<i32> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("the command is empty"));
    };
    let parent = i32::try_from(parent)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("no such process"))?;
    let watch = watch(parent)?;
    if getppid() != Some(parent) {
        // The parent died before it could be watched.
        return Ok(1);
    }
    set_child_subreaper(Some(getpid()))?;
    let mut child = Command::new(program).args(arguments).spawn()?;
    std::thread::spawn(move || {
        watch();
        kill_descendants();
        let _ = kill_process_group(getpgrp(), Signal::KILL);
    });
    let status = child.wait()?;
    kill_descendants();
    Ok(status.code().or_else(|| Some(SIGNAL_EXIT_BASE + status.signal()?)).unwrap_or(1))
}

/// Kills all descendants of the guard, those started meanwhile included.
fn kill_descendants() {
    for _ in 0..PASSES_MAX {
        let left = descendants(getpid());
        if left.is_empty() {
            return;
        }
        signal_all(&left, Signal::KILL);
        // Orphans are children of the guard, which must reap them.
        while waitpid(None, WaitOptions::NOHANG).is_ok_and(|reaped| reaped.is_some()) {}
    }
}

/// A function that returns after the process has ended.
fn watch(process: Pid) -> io::Result<impl FnOnce() + Send + 'static> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    let handle = pidfd_open(process, PidfdFlags::empty())?;
    Ok(move || while poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).is_err() {})
}
