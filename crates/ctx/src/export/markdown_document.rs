//! A session as Markdown, for people.

use std::fmt::Write;

use ctx_engine::core::turn::Status;
use serde_json::Value;

use super::transcript::{Call, Entry, PromptPart, Response, ResponsePart, Turn};
use super::{Format, SessionFacts};

pub(super) struct MarkdownDocument {
    facts: SessionFacts,
}

impl MarkdownDocument {
    pub(super) fn new(facts: &SessionFacts) -> Self {
        Self { facts: facts.clone() }
    }
}

impl Format for MarkdownDocument {
    fn start(&mut self, out: &mut Vec<u8>) {
        let facts = &self.facts;
        let mut text = format!("# {}\n\n", one_line(facts.name()));
        let mut fact = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                let _ = writeln!(text, "- {name}: {}", code(value));
            }
        };
        fact("Session", Some(&facts.id));
        fact("Label", Some(&facts.label));
        fact("Directory", facts.working_dir.as_deref());
        fact("Created", Some(&facts.created_at.to_string()));
        fact("Turns", Some(&facts.turn_count.to_string()));
        out.extend_from_slice(text.as_bytes());
    }

    fn turn(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        let mut text = String::new();
        let mut answered = false;
        for entry in &turn.entries {
            match entry {
                Entry::Prompt { at, parts } => prompt(&mut text, &at.to_string(), parts),
                Entry::Response(one) => {
                    if !answered {
                        heading(&mut text, turn);
                        answered = true;
                    }
                    response(&mut text, one);
                }
                Entry::Compaction { summary, .. } => {
                    folded(&mut text, "Summary of everything before", "", summary);
                }
                Entry::Notice { text: notice, .. } => {
                    let _ = write!(text, "\n{}\n", quoted(notice));
                }
                Entry::Record { .. } => {}
            }
        }
        if turn.is_purged {
            text.push_str("\n_The text of this turn was deleted._\n");
        }
        let end = match turn.status {
            Status::Completed => "",
            Status::Failed => "\n_This turn failed._\n",
            Status::Interrupted => "\n_This turn was interrupted._\n",
            Status::Cancelled => "\n_This turn was cancelled._\n",
        };
        text.push_str(end);
        out.extend_from_slice(text.as_bytes());
    }
}

fn prompt(text: &mut String, at: &str, parts: &[PromptPart]) {
    let _ = write!(text, "\n## User\n\n_{at}_\n");
    for part in parts {
        match part {
            PromptPart::Text(words) => {
                let _ = write!(text, "\n{words}\n");
            }
            PromptPart::Image { media_type, bytes } => {
                let _ = write!(text, "\n_Image, {media_type}, {} bytes_\n", bytes.len());
            }
        }
    }
}

fn heading(text: &mut String, turn: &Turn) {
    let by: Vec<&str> =
        [&turn.provider_id, &turn.model].into_iter().flatten().map(String::as_str).collect();
    let by = if by.is_empty() { String::new() } else { format!(" ({})", one_line(&by.join(", "))) };
    let _ = write!(text, "\n## Assistant{by}\n");
}

fn response(text: &mut String, response: &Response) {
    for part in &response.parts {
        match part {
            ResponsePart::Text(words) => {
                let _ = write!(text, "\n{words}\n");
            }
            ResponsePart::Thought { text: words, .. } if words.is_empty() => {}
            ResponsePart::Thought { text: words, .. } => folded(text, "Thoughts", "", words),
            ResponsePart::Error { code, message } => {
                let _ = write!(text, "\n**Error** {}: {message}\n", self::code(code));
            }
            ResponsePart::Plan(entries) => folded(text, "Plan", "json", &pretty(entries)),
            ResponsePart::Image { media_type, bytes } => {
                let _ = write!(text, "\n_Image, {media_type}, {} bytes_\n", bytes.len());
            }
        }
    }
    for call in &response.calls {
        tool_call(text, call);
    }
}

fn tool_call(text: &mut String, call: &Call) {
    let state = if call.is_error { " (failed)" } else { "" };
    let _ = write!(
        text,
        "\n<details>\n<summary>Tool call {}{state}</summary>\n\n{}\n{}\n</details>\n",
        escaped(&call.name),
        fenced("json", &pretty(&call.params)),
        fenced("", &call.output)
    );
}

fn folded(text: &mut String, summary: &str, language: &str, content: &str) {
    let content = fenced(language, content);
    let _ = write!(text, "\n<details>\n<summary>{summary}</summary>\n\n{content}\n</details>\n");
}

/// A block of code whose fence is longer than every fence inside it.
fn fenced(language: &str, content: &str) -> String {
    let longest = content.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if content.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{content}{end}{fence}\n")
}

fn code(text: &str) -> String {
    format!("`{}`", one_line(text).replace('`', "'"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
