//! The lines of a turn: what was asked, answers as Markdown, thoughts and tool calls folded or
//! unfolded, errors, and how the turn ended.

use std::collections::HashMap;

use anstyle::{AnsiColor, Style};
use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role, Source, ToolStatus};
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::text_limits::one_line;
use ctx_engine::core::turn::Status;
use serde_json::Value;

use crate::json::variant_name;
use crate::markdown::{GrowingText, Line, Span, visible, wrap_words};

/// Columns before the text.
pub(super) const MARGIN: usize = 2;
/// Lines of an unfolded tool result.
const RESULT_LINES_MAX: usize = 200;
/// Characters of a folded tool call.
const TOOL_CHARS: usize = 160;

const FAINT: Style = Style::new().dimmed();
const USER: Style = AnsiColor::Cyan.on_default().bold();
const USER_TEXT: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

/// Which parts are shown in full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Unfolded {
    pub(super) tools: bool,
    pub(super) thoughts: bool,
}

/// A text of a message, by message and number of the part.
pub(super) type TextKey = (MessageId, usize);

/// Lines with one indentation.
pub(super) enum Block {
    Lines(Vec<Line>),
    /// A Markdown text, indented by [`MARGIN`].
    Text(TextKey, GrowingText),
    /// A message of the user, with the size of its text.
    Question(TextKey, usize, Vec<Line>),
}

impl Block {
    pub(super) fn lines(&self) -> &[Line] {
        match self {
            Block::Lines(lines) | Block::Question(_, _, lines) => lines,
            Block::Text(_, text) => text.lines(),
        }
    }

    pub(super) const fn indent(&self) -> usize {
        match self {
            Block::Lines(_) | Block::Question(..) => 0,
            Block::Text(..) => MARGIN,
        }
    }
}

/// Texts of the open turn that are rendered already.
#[derive(Default)]
pub(super) struct RenderedTexts {
    answers: HashMap<TextKey, GrowingText>,
    questions: HashMap<TextKey, (usize, Vec<Line>)>,
}

impl RenderedTexts {
    pub(super) fn of(blocks: impl Iterator<Item = Block>) -> Self {
        let mut texts = Self::default();
        for block in blocks {
            match block {
                Block::Text(key, text) => drop(texts.answers.insert(key, text)),
                Block::Question(key, bytes, lines) => {
                    texts.questions.insert(key, (bytes, lines));
                }
                Block::Lines(_) => {}
            }
        }
        texts
    }
}

/// The blocks of a turn. `status` is that of a finished turn.
pub(super) fn blocks(
    messages: &[Message],
    status: Option<Status>,
    unfolded: Unfolded,
    width: usize,
    mut rendered: RenderedTexts,
) -> Vec<Block> {
    let mut out = Blocks { width: width.max(MARGIN + 10), unfolded, blocks: Vec::new() };
    let results = results(messages);
    for message in messages {
        for (n, part) in message.content.iter().enumerate() {
            let key = (message.id, n);
            out.part(message, part, &results, key, &mut rendered);
        }
    }
    let end = match status {
        Some(Status::Interrupted) => Some("interrupted"),
        Some(Status::Cancelled) => Some("stopped"),
        _ => None,
    };
    if let Some(end) = end {
        out.push(vec![vec![Span::new(format!("  ({end})"), WARN)]]);
    }
    out.blocks
}

/// A message that is being sent.
pub(super) fn unsent_block(text: &str, width: usize) -> Block {
    let mut lines = user_lines(text, None, width);
    lines.insert(0, Line::new());
    lines.push(vec![Span::new("  (sending)", FAINT)]);
    Block::Lines(lines)
}

/// Results by the id of their call.
fn results(messages: &[Message]) -> HashMap<&str, (&Content, bool)> {
    let parts = messages.iter().flat_map(|message| &message.content);
    let result = |part| match part {
        &Part::ToolResult { ref tool_call_id, ref content, is_error } => {
            Some((tool_call_id.as_str(), (content, is_error)))
        }
        _ => None,
    };
    parts.filter_map(result).collect()
}

struct Blocks {
    width: usize,
    unfolded: Unfolded,
    blocks: Vec<Block>,
}

impl Blocks {
    fn part(
        &mut self,
        message: &Message,
        part: &Part,
        results: &HashMap<&str, (&Content, bool)>,
        key: TextKey,
        rendered: &mut RenderedTexts,
    ) {
        match part {
            Part::Text { text } if text.trim().is_empty() => {}
            Part::Text { text } if message.role == Role::User => {
                let known = rendered.questions.remove(&key).filter(|it| it.0 == text.len());
                let lines = known.map(|(_, lines)| lines);
                let lines = lines.unwrap_or_else(|| user_lines(text, message.source, self.width));
                self.gap();
                self.blocks.push(Block::Question(key, text.len(), lines));
            }
            Part::Text { text } if message.role == Role::System => {
                self.push(prefixed("· ", text, FAINT, FAINT, self.width));
            }
            Part::Text { text } => {
                let mut lines = rendered.answers.remove(&key).unwrap_or_default();
                lines.update(text.trim_start_matches('\n'), self.width - MARGIN);
                self.gap();
                self.blocks.push(Block::Text(key, lines));
            }
            Part::Thought { text, .. } if text.trim().is_empty() => {}
            Part::Thought { text, .. } => self.push(self.thought(text)),
            Part::ToolCall { id, name, params, status } => {
                let result = results.get(id.as_str()).copied();
                let lines = self.tool_call(name, params, *status, result);
                // Calls in a row stay together.
                if matches!(self.blocks.last(), Some(Block::Lines(last)) if is_tool_call(last)) {
                    self.blocks.push(Block::Lines(lines));
                } else {
                    self.push(lines);
                }
            }
            Part::ToolResult { .. } | Part::Record { .. } => {}
            Part::Error { code, message, .. } => {
                let text = format!("{message} [{code}]");
                self.push(prefixed("✗ ", &text, BAD, BAD, self.width));
            }
            Part::Plan { entries } => self.push(self.plan(entries)),
            Part::Image { media_type, bytes, .. } => {
                let size = bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
                let text = format!("[{}{size}]", visible(media_type));
                self.push(vec![vec![Span::new(format!("  {text}"), FAINT)]]);
            }
            Part::Summary { text } => self.push(self.summary(text)),
        }
    }

    /// Adds lines after a blank one.
    fn push(&mut self, lines: Vec<Line>) {
        self.gap();
        self.blocks.push(Block::Lines(lines));
    }

    fn gap(&mut self) {
        self.blocks.push(Block::Lines(vec![Line::new()]));
    }

    fn thought(&self, text: &str) -> Vec<Line> {
        if !self.unfolded.thoughts {
            let words = text.split_whitespace().count();
            let label = format!("  ∴ thought, {words} words · Ctrl-T shows");
            return vec![vec![Span::new(label, FAINT)]];
        }
        prefixed("∴ ", text.trim(), FAINT, FAINT.italic(), self.width)
    }

    fn summary(&self, text: &str) -> Vec<Line> {
        let rule = "  ── earlier turns were summarized ──";
        let mut lines = vec![vec![Span::new(rule, WARN)]];
        if self.unfolded.thoughts {
            lines.extend(prefixed("  ", text.trim(), FAINT, FAINT, self.width));
        } else if let Some(line) = lines.first_mut() {
            line.push(Span::new(" Ctrl-T shows", FAINT));
        }
        lines
    }

    fn plan(&self, entries: &Value) -> Vec<Line> {
        let text = |entry: &Value| {
            let text = ["content", "text", "title"]
                .iter()
                .find_map(|name| entry[*name].as_str())
                .map_or_else(|| entry.to_string(), str::to_owned);
            let mark = match entry["status"].as_str() {
                Some("completed") => "☑ ",
                Some("in_progress") => "▸ ",
                _ => "☐ ",
            };
            prefixed(mark, &text, GOOD, Style::new(), self.width)
        };
        match entries.as_array() {
            Some(entries) => entries.iter().flat_map(text).collect(),
            None => prefixed("☐ ", &entries.to_string(), GOOD, FAINT, self.width),
        }
    }

    fn tool_call(
        &self,
        name: &str,
        params: &Value,
        status: ToolStatus,
        result: Option<(&Content, bool)>,
    ) -> Vec<Line> {
        let (mark, style) = match status {
            ToolStatus::Completed => ("● ", GOOD),
            ToolStatus::Failed => ("● ", BAD),
            ToolStatus::Unknown => ("? ", WARN),
            ToolStatus::Pending | ToolStatus::Running => ("○ ", WARN),
        };
        let input = match params {
            Value::Null => String::new(),
            Value::Object(fields) if fields.is_empty() => String::new(),
            params if self.unfolded.tools => String::new() + &pretty(params),
            params => one_line(&short_params(params), TOOL_CHARS),
        };
        let title = format!("{} {}", one_line(name, TOOL_CHARS), input);
        let mut lines = if self.unfolded.tools {
            prefixed(mark, &title, style, Style::new(), self.width)
        } else {
            one_row(mark, &title, style, self.width)
        };
        lines.extend(self.tool_result(status, result));
        lines
    }

    fn tool_result(&self, status: ToolStatus, result: Option<(&Content, bool)>) -> Vec<Line> {
        let Some((content, is_error)) = result else {
            return match status {
                ToolStatus::Unknown => {
                    vec![vec![Span::new("    └ interrupted: the outcome is unknown", WARN)]]
                }
                _ => Vec::new(),
            };
        };
        let style = if is_error { BAD } else { FAINT };
        let text = match content {
            Content::Text(text) => text.trim_end().to_owned(),
            Content::Blob { blob, bytes } => format!("{bytes} bytes: ctx show {}", blob.0.short()),
            Content::Omitted { bytes, .. } => format!("{bytes} bytes, not stored"),
        };
        let count = text.lines().count();
        if !self.unfolded.tools {
            let more =
                if count > 1 { format!(" (+{} lines, Ctrl-O)", count - 1) } else { String::new() };
            let room = self.width.saturating_sub(6 + more.len());
            let first = one_line(text.lines().next().unwrap_or(""), room.max(8));
            return vec![vec![Span::new(format!("    └ {}{more}", visible(&first)), style)]];
        }
        let mut lines = Vec::new();
        for line in text.lines().take(RESULT_LINES_MAX) {
            let spans = [Span::new(visible(line).into_owned(), style)];
            for cut in wrap_words(&spans, self.width.saturating_sub(4)) {
                let mut whole = vec![Span::plain("    ")];
                whole.extend(cut);
                lines.push(whole);
            }
        }
        if count > RESULT_LINES_MAX {
            let rest = format!("    … {} more lines", count - RESULT_LINES_MAX);
            lines.push(vec![Span::new(rest, FAINT)]);
        }
        lines
    }
}

fn is_tool_call(lines: &[Line]) -> bool {
    let first = lines.first().and_then(|line| line.first());
    first.is_some_and(|span| ["● ", "○ ", "? "].contains(&span.text.as_str()))
}

/// The values of parameters, without their names.
fn short_params(params: &Value) -> String {
    match params {
        Value::Object(fields) => {
            let value = |value: &Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            fields.values().map(value).collect::<Vec<_>>().join(" ").replace('\n', " ")
        }
        other => other.to_string(),
    }
}

fn pretty(params: &Value) -> String {
    serde_json::to_string_pretty(params).unwrap_or_else(|_| params.to_string())
}

fn user_lines(text: &str, source: Option<Source>, width: usize) -> Vec<Line> {
    let mut lines = prefixed("❯ ", text.trim_end(), USER, USER_TEXT, width);
    if let Some(source) = source.filter(|source| *source != Source::Human) {
        lines.push(vec![Span::new(format!("  (from: {})", variant_name(&source)), FAINT)]);
    }
    lines
}

/// Text with a mark before its first line.
fn prefixed(mark: &str, text: &str, mark_style: Style, style: Style, width: usize) -> Vec<Line> {
    let spans = [Span::new(visible(text).into_owned(), style)];
    let mut lines = wrap_words(&spans, width.saturating_sub(MARGIN));
    for (n, line) in lines.iter_mut().enumerate() {
        let first = if n == 0 { Span::new(mark, mark_style) } else { Span::plain("  ") };
        line.insert(0, first);
    }
    lines
}

/// Text on one line, cut at the width.
fn one_row(mark: &str, text: &str, style: Style, width: usize) -> Vec<Line> {
    let mut lines = prefixed(mark, text, style, Style::new(), width.saturating_sub(1));
    if lines.len() > 1 {
        lines.truncate(1);
        lines[0].push(Span::new("…", FAINT));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::transcript::tests::message;
    use super::*;
    use crate::markdown::plain_line;

    fn shown(messages: &[Message], status: Option<Status>, unfolded: Unfolded) -> String {
        let blocks = blocks(messages, status, unfolded, 60, RenderedTexts::default());
        let indent = |block: &Block| " ".repeat(block.indent());
        let lines = blocks.iter().flat_map(|block| {
            block.lines().iter().map(move |line| indent(block) + &plain_line(line) + "\n")
        });
        lines.collect()
    }

    fn with(parts: Vec<Part>) -> Message {
        Message { content: parts, ..message(7, Role::Assistant, "") }
    }

    fn call(name: &str, result: &str) -> Vec<Part> {
        let params = serde_json::json!({"path": "src/main.rs"});
        let id = name.to_owned();
        let status = ToolStatus::Completed;
        let content = Content::Text(result.to_owned());
        vec![
            Part::ToolCall { id: id.clone(), name: name.to_owned(), params, status },
            Part::ToolResult { tool_call_id: id, content, is_error: false },
        ]
    }

    #[test]
    fn tool_calls_and_thoughts_are_folded_until_asked_for() {
        let thought = Part::Thought { text: "let me see".to_owned(), raw: None };
        let parts = Some(thought).into_iter().chain(call("read", "one\ntwo\nthree"));
        let messages = [with(parts.collect())];
        let folded = shown(&messages, None, Unfolded::default());
        assert!(folded.contains("● read src/main.rs"), "{folded}");
        assert!(folded.contains("└ one (+2 lines, Ctrl-O)"), "{folded}");
        assert!(folded.contains("thought, 3 words") && !folded.contains("let me"), "{folded}");
        let all = Unfolded { tools: true, thoughts: true };
        let unfolded = shown(&messages, None, all);
        for text in ["let me see", "\"path\": \"src/main.rs\"", "    two", "    three"] {
            assert!(unfolded.contains(text), "{text} in {unfolded}");
        }
    }

    #[test]
    fn the_end_of_a_turn_is_shown() {
        let messages = [message(1, Role::User, "hi"), message(2, Role::Assistant, "half an ans")];
        for (status, text) in
            [(Status::Interrupted, "(interrupted)"), (Status::Cancelled, "(stopped)")]
        {
            assert!(
                shown(&messages, Some(status), Unfolded::default()).ends_with(&format!("{text}\n"))
            );
        }
        assert!(!shown(&messages, Some(Status::Completed), Unfolded::default()).contains('('));
        let error = Part::Error {
            code: "rate_limited".to_owned(),
            message: "too many requests".to_owned(),
            provider_id: None,
        };
        let failed = shown(&[with(vec![error])], Some(Status::Failed), Unfolded::default());
        assert!(failed.contains("✗ too many requests [rate_limited]"), "{failed}");
    }

    #[test]
    fn escape_sequences_of_messages_and_tools_are_visible() {
        let bad = "\u{1b}]52;c;aGk=\u{7}";
        let mut parts = call(bad, bad);
        parts.push(Part::Thought { text: bad.to_owned(), raw: None });
        parts.push(Part::Error { code: bad.into(), message: bad.into(), provider_id: None });
        parts.push(Part::Plan { entries: serde_json::json!([{"content": bad}]) });
        let messages = [message(1, Role::User, bad), message(2, Role::System, bad), with(parts)];
        for tools in [false, true] {
            let shown = shown(&messages, None, Unfolded { tools, thoughts: true });
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
            assert!(shown.matches('␛').count() >= 6, "{shown}");
        }
    }
}
