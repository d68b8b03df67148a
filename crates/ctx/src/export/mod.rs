//! Sessions for other tools, for people and for programs. One file per form.
//!
//! | file | owns |
//! |---|---|
//! | `transcript` | the form of a turn that all exports share |
//! | `session_reader` | a session, read turn by turn, with or without its secrets |
//! | `tool_export` | a session into the home of a tool |
//! | `claude_code_file`, `codex_rollout`, `pi_file` | files of these tools |
//! | `opencode_rows`, `opencode_database` | rows of the database of OpenCode |
//! | `native_ids`, `native_lines` | ids and lines in the forms of these tools |
//! | `markdown_document`, `html_page`, `html_markdown` | documents for people |
//! | `jsonl_lines` | the generic format that `ctx import --from jsonl` reads |
//! | `new_file` | a file that never replaces another |
//! | `report` | the secrets that were replaced |
//!
//! A session that a tool already has is never changed.

mod claude_code_file;
mod codex_rollout;
mod html_markdown;
mod html_page;
mod jsonl_lines;
mod markdown_document;
mod native_ids;
mod native_lines;
mod new_file;
mod opencode_database;
mod opencode_rows;
mod pi_file;
pub(crate) mod report;
mod session_reader;
mod tool_export;
mod transcript;

pub(crate) use session_reader::{Secrets, SessionReader, TurnOrder};
pub(crate) use tool_export::export_to_tool;
pub(crate) use transcript::Turn;

use std::path::PathBuf;

use ctx_engine::core::session::Session;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::Usage;

use native_ids::NativeIds;

/// A form that is written turn by turn. It appends bytes and never fails.
pub(crate) trait Format: Send {
    /// Appends what precedes the first turn.
    fn start(&mut self, _out: &mut Vec<u8>) {}

    /// Appends a turn.
    fn turn(&mut self, turn: &Turn, out: &mut Vec<u8>);

    /// Appends what follows the last turn.
    fn end(&mut self, _out: &mut Vec<u8>) {}
}

/// The file of a tool.
trait Native: Format {
    /// The id that the tool knows the session by.
    fn id(&self) -> &str;

    /// The path of the file in the home of the tool.
    fn path(&self) -> PathBuf;
}

/// A tool that continues exported sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NativeTool {
    ClaudeCode,
    Codex,
    OpenCode,
    Pi,
}

impl NativeTool {
    pub(crate) const ALL: [Self; 4] = [Self::ClaudeCode, Self::Codex, Self::OpenCode, Self::Pi];

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Pi => "pi",
        }
    }
}

/// A document for people or programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Document {
    Markdown,
    Html,
    Jsonl,
}

impl Document {
    pub(crate) const ALL: [Self; 3] = [Self::Markdown, Self::Html, Self::Jsonl];

    /// The name on the command line and in requests.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Jsonl => "jsonl",
        }
    }

    /// The ending of a file.
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Html => "html",
            Self::Jsonl => "jsonl",
        }
    }

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Markdown => "text/markdown; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Jsonl => "application/jsonl",
        }
    }

    /// The order of turns that the document needs.
    pub(crate) const fn order(self) -> TurnOrder {
        match self {
            Self::Jsonl => TurnOrder::AsRequested,
            Self::Markdown | Self::Html => TurnOrder::Chronological,
        }
    }

    /// Starts the document of a session.
    pub(crate) fn format(self, session: &Session) -> Box<dyn Format> {
        let facts = SessionFacts::of(session);
        match self {
            Self::Markdown => Box::new(markdown_document::MarkdownDocument::new(&facts)),
            Self::Html => Box::new(html_page::HtmlPage::new(&facts)),
            Self::Jsonl => Box::new(jsonl_lines::JsonlLines::new(&facts)),
        }
    }
}

/// The target of an export by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Tool(NativeTool),
    Document(Document),
}

impl Target {
    /// All names, tools first.
    pub(crate) fn names() -> Vec<&'static str> {
        let documents = Document::ALL.into_iter().map(Document::name);
        NativeTool::ALL.into_iter().map(NativeTool::name).chain(documents).collect()
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        let tool = NativeTool::ALL.into_iter().find(|tool| tool.name() == name);
        let document = Document::ALL.into_iter().find(|document| document.name() == name);
        tool.map(Self::Tool).or(document.map(Self::Document))
    }
}

/// Facts about a session for documents.
#[derive(Clone)]
struct SessionFacts {
    id: String,
    label: String,
    title: Option<String>,
    working_dir: Option<String>,
    created_at: Timestamp,
    turn_count: u64,
}

impl SessionFacts {
    fn of(session: &Session) -> Self {
        Self {
            id: session.id.to_string(),
            label: session.label.clone(),
            title: session.title.clone(),
            working_dir: session.working_dir.clone(),
            created_at: session.created_at,
            turn_count: session.turn_count,
        }
    }

    /// The title, or the label.
    fn name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.label)
    }
}

/// What a tool stores about a session.
struct NativeSession {
    ids: NativeIds,
    title: Option<String>,
    working_dir: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// The cost in dollars that a provider reported.
fn cost_of(usage: Option<&Usage>) -> f64 {
    let cost = usage.and_then(|usage| usage.cost.as_deref());
    let number = cost.and_then(|cost| cost.split(' ').next()).and_then(|cost| cost.parse().ok());
    number.filter(|cost: &f64| cost.is_finite() && *cost >= 0.0).unwrap_or(0.0)
}
