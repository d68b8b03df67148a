//! Finds the descendants of a process.
//!
//! A process group is not enough: agents start their commands in process groups of their own.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process};

/// All descendants of a process, each after its parent.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name is in parentheses and may contain any character. The parent id is the second
        // field after it.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut pending = vec![root.as_raw_nonzero().get()];
    while let Some(pid) = pending.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            pending.push(child);
        }
    }
    found
}

pub(crate) fn signal_all(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill_process(*process, signal);
    }
}
