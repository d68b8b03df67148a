//! Progress of a task, updated with each step, so that a status query does not read the steps.

use serde::{Deserialize, Serialize};

use crate::step::{Entry, Kind, Step};
use crate::task::State;
use crate::text_limits::one_line;

/// Maximum number of recent lines.
const RECENT_MAX: usize = 5;
/// Maximum length of a line.
const LINE_MAX_CHARS: usize = 160;

/// Counts of observations, and a line for each of the newest ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "each field counts what it is called")]
pub struct Progress {
    pub files_read: u64,
    pub files_written: u64,
    pub commands: u64,
    pub notes: u64,
    pub plans: u64,
    pub relations: u64,
    /// The newest observations, oldest first.
    pub recent: Vec<String>,
    /// The newest completion summary of the agent.
    pub last_summary: Option<String>,
}

impl Progress {
    /// Number of observations of the agent. Messages of users and state changes do not count.
    pub const fn work(&self) -> u64 {
        self.files_read
            + self.files_written
            + self.commands
            + self.notes
            + self.plans
            + self.relations
    }

    /// Adds the observations of a step.
    pub fn add(&mut self, step: &Step) {
        if let State::PendingComplete { summary } = &step.state {
            self.last_summary = Some(summary.clone());
        }
        match step.kind {
            Kind::SessionStart | Kind::State | Kind::Compact => {}
            Kind::FileRead
            | Kind::FileWrite
            | Kind::CommandRun
            | Kind::Note
            | Kind::Plan
            | Kind::Relations => {
                step.payload.iter().for_each(|entry| self.observe(entry));
            }
        }
    }

    fn observe(&mut self, entry: &Entry) {
        match entry {
            Entry::FileRead { path, .. } => {
                self.files_read += 1;
                self.line(&format!("read {path}"));
            }
            Entry::FileWrite { path, content } => {
                self.files_written += 1;
                self.line(&format!(
                    "{} {path}",
                    if content.is_some() { "wrote" } else { "removed" }
                ));
            }
            Entry::Command { argv, exit, .. } => {
                self.commands += 1;
                let outcome = exit.map_or(String::new(), |code| format!(" (exit {code})"));
                self.line(&format!("ran {}{outcome}", argv.join(" ")));
            }
            Entry::Note { text, .. } => {
                self.notes += 1;
                self.line(text);
            }
            Entry::Plan { text } => {
                self.plans += 1;
                self.line(&format!("plan: {text}"));
            }
            Entry::Relation(_) => self.relations += 1,
            Entry::Task { .. } | Entry::Moved { .. } => {}
        }
    }

    fn line(&mut self, line: &str) {
        if self.recent.len() == RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push(one_line(line, LINE_MAX_CHARS));
    }

    /// A text for the user: the counts, then the newest observations.
    pub fn summary(&self) -> String {
        let counts = [
            (self.files_written, "file written", "files written"),
            (self.files_read, "file read", "files read"),
            (self.commands, "command run", "commands run"),
            (self.notes, "note", "notes"),
            (self.plans, "plan", "plans"),
        ];
        let parts: Vec<String> = counts
            .iter()
            .filter(|c| c.0 > 0)
            .map(|(n, one, many)| format!("{n} {}", if *n == 1 { one } else { many }))
            .collect();
        if parts.is_empty() {
            return "nothing recorded yet".to_owned();
        }
        let recent = self.recent.iter().map(|line| format!("\n- {line}"));
        std::iter::once(parts.join(", ")).chain(recent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored_content::Content;
    use crate::task::StateName;

    #[test]
    fn only_observations_of_the_agent_count_as_work() {
        let mut progress = Progress::default();
        progress.observe(&Entry::Task { description: "t".into() });
        progress.observe(&Entry::Moved { from: None, to: StateName::Running });
        assert_eq!((progress.work(), progress.summary().as_str()), (0, "nothing recorded yet"));
        progress.observe(&Entry::FileWrite {
            path: "a.rs".into(),
            content: Some(Content::Text(String::new())),
        });
        assert_eq!(
            (progress.work(), progress.summary().as_str()),
            (1, "1 file written\n- wrote a.rs")
        );
    }

    #[test]
    fn progress_keeps_only_the_newest_lines() {
        let mut progress = Progress::default();
        for n in 0..100 {
            progress.observe(&Entry::Plan { text: format!("{n} {}", "x".repeat(1000)) });
        }
        assert_eq!((progress.plans, progress.recent.len()), (100, RECENT_MAX));
        assert!(progress.recent[0].starts_with("plan: 95"));
        assert!(progress.recent.iter().all(|line| line.chars().count() <= LINE_MAX_CHARS + 1));
    }
}
