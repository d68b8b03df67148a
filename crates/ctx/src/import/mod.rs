//! Reading the sessions of other tools. One file per tool behind the trait [`Tool`].
//!
//! | file | owns |
//! |---|---|
//! | `agent_sessions`, `agent_content` | the database of an older session server |
//! | `assembler` | records to turns |
//! | `json_record` | a record without fields that are not used |
//! | `ledger` | which files were read before |
//! | `lines` | a file of JSON lines, read record by record |
//! | `sources` | which sessions of which tools are on this machine |
//! | `store_source` | one session into the store |
//! | the others | the format of one tool |
//!
//! Nothing is ever written to a source.

mod agent_content;
mod agent_sessions;
mod assembler;
mod claude_code;
mod codex;
mod fields;
mod gemini_cli;
mod generic_lines;
mod goose;
mod json_record;
mod kimi_code;
mod ledger;
mod lines;
mod opencode;
mod pi;
mod qwen_code;
mod reading;
mod sources;
mod sqlite_file;
mod store_source;

pub(crate) use agent_sessions::{
    AGENT_SESSIONS, AgentRecord, imported_status, read_agent_sessions,
};
pub(crate) use ledger::{Change, Entry, Ledger};
pub(crate) use reading::{Facts, Problem as ReadProblem};
pub(crate) use sources::{
    Environment, FileStamp, FoundFile, Source, at_home, below, files_at_home, files_below,
};
pub(crate) use store_source::{
    StoredSource, new_session, redact_facts, redact_turn, session_id, store_source,
};

use std::io;
use std::path::{Path, PathBuf};

use reading::Reading;
use sources::SourcePart;

/// A tool whose sessions can be read.
#[allow(private_interfaces, reason = "only this module reads")]
pub(crate) trait Tool: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// The directories in which the tool stores sessions, by its own variables.
    fn homes(&self, environment: &Environment) -> Vec<PathBuf>;

    /// Whether a file of such a directory contains a session.
    fn is_source(&self, path: &Path) -> bool;

    /// The sessions in a file that contains several; `None` if a file is one session.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn parts(&self, _path: &Path) -> io::Result<Option<Vec<SourcePart>>> {
        Ok(None)
    }

    /// Reads a session.
    ///
    /// # Errors
    /// If the file cannot be read. A bad record is reported to `into` and skipped.
    fn read(&self, source: &Source, into: &mut Reading<'_>) -> io::Result<()>;
}

/// All tools, in the order in which they are listed.
pub(crate) const TOOLS: [&dyn Tool; 9] = [
    &claude_code::ClaudeCode,
    &codex::Codex,
    &opencode::OpenCode,
    &pi::Pi,
    &gemini_cli::GeminiCli,
    &qwen_code::QwenCode,
    &kimi_code::KimiCode,
    &goose::Goose,
    &generic_lines::GenericLines,
];

/// The tool with a name.
pub(crate) fn tool(name: &str) -> Option<&'static dyn Tool> {
    TOOLS.into_iter().find(|tool| tool.name() == name)
}
