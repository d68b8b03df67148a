//! From the payload of a hook to the records of the spool: which store, which files, which bounds.

use std::path::{Path, PathBuf};

use ctx_engine::core::step::tool_note;
use ctx_engine::core::text_limits::{TASK_TEXT_MAX_BYTES, TEXT_MAX_BYTES, one_line};
use serde_json::Value;

use super::changed_files::changed_since;
use super::conversation::Conversation;
use super::hook_event::{Action, HookEvent, path_at, text_at};
use super::observed_files::{Access, observe};
use super::spool::{Entry, Event, Record, Spool};
use super::{HookedTool, variable};
use crate::data_dir;

/// Largest payload that is read.
pub(crate) const PAYLOAD_MAX_BYTES: u64 = 16 << 20;
/// Longest output of a command that is kept. The middle of a longer one is left out.
const OUTPUT_MAX_BYTES: usize = 256 * 1024;
/// Contents of the files of one report that are kept, in bytes; further files are only named.
const CONTENTS_MAX_BYTES: usize = 12 << 20;

/// One call of a hook.
pub(crate) struct Report {
    tool: &'static dyn HookedTool,
    event: HookEvent,
    conversation: String,
    /// The working directories that the tool named, the most exact one first.
    dirs: Vec<PathBuf>,
}

impl Report {
    /// Reads a payload. The event that it names counts more than the one of the command line.
    pub(crate) fn parse(
        tool: &'static dyn HookedTool,
        event: Option<&str>,
        payload: &[u8],
    ) -> Result<Self, String> {
        let payload: Value = serde_json::from_slice(payload)
            .map_err(|e| format!("the payload is not valid JSON: {e}"))?;
        let named = text_at(&payload, "/hook_event_name");
        let event = named.as_deref().or(event).unwrap_or_default();
        let given = path_at(&payload, &["/cwd"]);
        let project = variable("CLAUDE_PROJECT_DIR").or_else(|| variable("GEMINI_PROJECT_DIR"));
        let here = std::env::current_dir().ok();
        Ok(Self {
            tool,
            event: tool.parse(event, &payload),
            conversation: text_at(&payload, "/session_id").unwrap_or_default(),
            dirs: given.into_iter().chain(project).chain(here).collect(),
        })
    }

    /// The data directory of the work: the nearest above one of the working directories.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        self.dirs.iter().find_map(|dir| data_dir::nearest(dir))
    }

    /// The records of this report, in order. Files are read now, because they may change.
    pub(crate) fn records(&self, data: &Path, session: &str, spool: &Spool) -> Vec<Record> {
        let conversation =
            Conversation::new(spool.hooks_dir(), self.tool.name(), &self.conversation);
        let since = conversation.touch();
        let files = Files { root: self.root(data), dir: self.dirs.first().cloned() };
        let events = match &self.event {
            HookEvent::Prompt(text) => {
                let text = without_nul(text);
                conversation.set_prompt(&text);
                prompt_events(&text)
            }
            HookEvent::ToolUse(actions) => {
                let mut entries = files.entries(actions);
                if actions.iter().any(|action| matches!(action, Action::Command { .. })) {
                    files.add_changed(&mut entries, since);
                }
                self.work(entries, &conversation)
            }
            HookEvent::TurnEnd { text } => {
                let mut entries = Vec::new();
                if self.tool.searches_at_turn_end() {
                    files.add_changed(&mut entries, since);
                }
                let text =
                    text.as_deref().map(|text| shortened(&without_nul(text), TEXT_MAX_BYTES));
                let mut events = self.work(entries, &conversation);
                events.push(Event::TurnEnd { text, prompt: conversation.prompt() });
                events
            }
            HookEvent::Closed { reason } => {
                conversation.remove();
                let reason = reason.as_deref().map(|reason| format!(" ({})", one_line(reason, 80)));
                let reason = without_nul(&reason.unwrap_or_default());
                vec![Event::Closed { note: format!("{} ended{reason}", self.tool.title()) }]
            }
            HookEvent::Other => Vec::new(),
        };
        let record = |event| Record { session: session.to_owned(), event };
        events.into_iter().map(record).collect()
    }

    fn work(&self, entries: Vec<Entry>, conversation: &Conversation) -> Vec<Event> {
        if entries.is_empty() {
            return Vec::new();
        }
        let task = || format!("Work of {}", self.tool.title());
        vec![Event::Work { task: conversation.prompt().unwrap_or_else(task), entries }]
    }

    /// The directory that recorded paths are relative to.
    fn root(&self, data: &Path) -> PathBuf {
        if data.file_name().is_some_and(|name| name == data_dir::DIR_NAME) {
            return data_dir::project_root(data);
        }
        let dir = self.dirs.first().cloned().unwrap_or_default();
        dir.canonicalize().unwrap_or(dir)
    }
}

/// A prompt that is too long for one text becomes its beginning.
fn prompt_events(text: &str) -> Vec<Event> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    vec![Event::Prompt { text: shortened(text, TEXT_MAX_BYTES - 100) }]
}

/// The files of a report.
struct Files {
    root: PathBuf,
    dir: Option<PathBuf>,
}

impl Files {
    fn entries(&self, actions: &[Action]) -> Vec<Entry> {
        let mut entries = Vec::new();
        for action in actions {
            match action {
                Action::Read(path) => entries.extend(self.file(path, Access::Read)),
                Action::Changed(path) => entries.extend(self.file(path, Access::Changed)),
                Action::Command { line, .. } if line.trim().is_empty() => {}
                Action::Command { line, exit, output } => entries.push(Entry::Command {
                    argv: vec![shortened(&without_nul(line), TEXT_MAX_BYTES - 100)],
                    exit: *exit,
                    output: output.as_deref().map(|output| shortened(output, OUTPUT_MAX_BYTES)),
                }),
                Action::Plan(text) => entries
                    .push(Entry::Plan { text: shortened(&without_nul(text), TASK_TEXT_MAX_BYTES) }),
                Action::Other { tool, result, is_error } => {
                    entries.push(Entry::Note { text: tool_note(tool, result, *is_error) });
                }
            }
        }
        entries
    }

    fn file(&self, path: &Path, access: Access) -> Option<Entry> {
        let path = self.dir.as_ref().map_or_else(|| path.to_owned(), |dir| dir.join(path));
        observe(&path, data_dir::recorded_path(&self.root, &path), access)
    }

    /// Adds the files that changed since the last hook of the conversation.
    fn add_changed(&self, entries: &mut Vec<Entry>, since: Option<std::time::SystemTime>) {
        let Some(since) = since else { return };
        let (changed, complete) = changed_since(&self.root, since);
        let mut kept = 0;
        for path in changed {
            let recorded = data_dir::recorded_path(&self.root, &path);
            let size = std::fs::metadata(&path).map_or(0, |meta| meta.len() as usize);
            kept += size;
            if kept > CONTENTS_MAX_BYTES {
                entries.push(Entry::Note { text: format!("Wrote {recorded} ({size} bytes)") });
            } else {
                entries.extend(observe(&path, recorded, Access::Changed));
            }
        }
        if !complete {
            let text = "More files may have changed: the search for them was too long".to_owned();
            entries.push(Entry::Note { text });
        }
    }
}

/// No text of a record may contain NUL.
fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}

/// The beginning and the end of a text that is too long.
fn shortened(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let (mut head, mut tail) = (max_bytes / 2, text.len() - max_bytes / 2 + 40);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n… {} bytes left out …\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(shortened("short", 10), "short");
        let long = "ä".repeat(1000);
        let short = shortened(&long, 500);
        assert!(short.len() <= 500 && short.starts_with('ä') && short.ends_with('ä'), "{short}");
        assert!(short.contains("bytes left out"));
    }
}
