//! What `ctx guard` does: runs an agent and ends it, with all that it started, when the process that asked for it dies.
//!
//! A killed ctx cannot end its agents, and many do not notice that nobody speaks to them any more. The guard leads the
//! agent's process group and adopts what the agent leaves behind, so nothing gets away.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, getpid, getppid, kill_process_group, set_child_subreaper,
    waitpid,
};

use crate::process_tree::{descendants, signal_all};

/// The exit code of a command that a signal ended begins here, as shells have it.
pub(crate) const BY_SIGNAL: i32 = 128;
/// How often the guard looks again for what is below it.
const ROUNDS_MAX: u32 = 100;

/// Runs a command until it ends, or until the process `parent` is no more. The answer is its exit code.
///
/// # Errors
/// If the command cannot be started.
pub fn guard(parent: u32, command: &[String]) -> io::Result<i32> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("there is no command"));
    };
    let parent = i32::try_from(parent)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("no such process"))?;
    let watch = watch(parent)?;
    if getppid() != Some(parent) {
        // It died before it could be watched.
        return Ok(1);
    }
    set_child_subreaper(Some(getpid()))?;
    let mut child = Command::new(program).args(arguments).spawn()?;
    std::thread::spawn(move || {
        watch();
        end_all();
        let _ = kill_process_group(getpgrp(), Signal::KILL);
    });
    let status = child.wait()?;
    end_all();
    Ok(status.code().or_else(|| Some(BY_SIGNAL + status.signal()?)).unwrap_or(1))
}

/// Ends everything below the guard; what was started while it did so, too.
fn end_all() {
    for _ in 0..ROUNDS_MAX {
        let left = descendants(getpid());
        if left.is_empty() {
            return;
        }
        signal_all(&left, Signal::KILL);
        // Those that were adopted are the guard's to bury.
        while waitpid(None, WaitOptions::NOHANG).is_ok_and(|buried| buried.is_some()) {}
    }
}

/// Something that returns once a process has ended.
fn watch(process: Pid) -> io::Result<impl FnOnce() + Send + 'static> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{PidfdFlags, pidfd_open};
    let handle = pidfd_open(process, PidfdFlags::empty())?;
    Ok(move || while poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).is_err() {})
}
