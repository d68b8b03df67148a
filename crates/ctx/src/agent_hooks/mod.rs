//! Hooks of agents that run outside ctx: what `ctx hook install` changes, and how the reports of
//! the hooks are recorded.
//!
//! | file | owns |
//! |---|---|
//! | `claude_code`, `codex`, `gemini_cli`, `opencode`, `pi` | one tool each: its file, its entries, its payloads |
//! | `plugin_payload` | the payloads of the plugins that are part of ctx |
//! | `hook_event` | what a hook reported, independent of the tool |
//! | `entries`, `json_text` | entries in JSON settings, without changing other bytes |
//! | `installation` | install, uninstall and status of one file |
//! | `observed_files` | contents of files, within bounds |
//! | `changed_files` | files that a command changed |
//! | `conversation` | what is kept between two hooks of a conversation |
//! | `report` | from a payload to the records of the spool |
//! | `spool` | records on disk until the store has them |
//!
//! A hook never delays or breaks an agent. It writes its record to the spool, and then tries to
//! store it. If the store is not available in time, the record stays in the spool for the next
//! hook, verb or server.

mod changed_files;
mod claude_code;
mod codex;
mod conversation;
mod entries;
mod gemini_cli;
mod hook_event;
mod installation;
mod json_text;
mod observed_files;
mod opencode;
mod pi;
mod plugin_payload;
pub(crate) mod report;
pub(crate) mod spool;

use std::path::PathBuf;

use serde_json::Value;

use entries::EntryStyle;
use hook_event::HookEvent;
pub(crate) use installation::Installation;

/// A tool whose hooks ctx can install.
pub(crate) trait HookedTool: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Its name for people.
    fn title(&self) -> &'static str;

    /// The file that `install` changes. `None` if there is no home directory.
    fn file(&self) -> Option<PathBuf>;

    /// What the file contains.
    #[allow(private_interfaces, reason = "only this module calls it")]
    fn form(&self) -> Form;

    /// Reads the payload of an event.
    #[allow(private_interfaces, reason = "only this module calls it")]
    fn parse(&self, event: &str, payload: &Value) -> HookEvent;

    /// Whether files that changed are searched for when an answer ends, because the tool does not
    /// report each change.
    fn searches_at_turn_end(&self) -> bool {
        false
    }

    /// What the user has to do after the installation.
    fn next_step(&self) -> Option<&'static str> {
        None
    }
}

/// How a tool is told to run the hook.
enum Form {
    /// Entries in a JSON file that belongs to the user.
    Entries(EntryStyle),
    /// A file that belongs to ctx, as a template with the path of the program.
    OwnFile(&'static str),
}

/// All tools.
pub(crate) const TOOLS: [&dyn HookedTool; 5] =
    [&claude_code::ClaudeCode, &codex::Codex, &opencode::OpenCode, &gemini_cli::GeminiCli, &pi::Pi];

pub(crate) fn tool(name: &str) -> Option<&'static dyn HookedTool> {
    TOOLS.into_iter().find(|tool| tool.name() == name)
}

/// The path in an environment variable. An empty variable counts as not set.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn home_dir() -> Option<PathBuf> {
    variable("HOME")
}
