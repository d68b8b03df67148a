//! A session as one HTML file: folding, search, highlighted code, light and dark. It makes no
//! request: its content security policy allows only its own style, its own script and its images.

use std::fmt::Write;

use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::Status;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::html_markdown::{code_block, escape, markdown};
use super::native_lines::{base64, data_url};
use super::transcript::{Call, Entry, PromptPart, Response, ResponsePart, Turn};
use super::{Format, SessionFacts};

const STYLE: &str = include_str!("html_page.css");
const SCRIPT: &str = include_str!("html_page.js");
/// Media types that a browser draws and cannot execute.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Lines of a result that are shown without unfolding.
const SUMMARY_MAX_CHARS: usize = 100;

pub(super) struct HtmlPage {
    facts: SessionFacts,
    number: u64,
}

impl HtmlPage {
    pub(super) fn new(facts: &SessionFacts) -> Self {
        Self { facts: facts.clone(), number: 0 }
    }
}

impl Format for HtmlPage {
    fn start(&mut self, out: &mut Vec<u8>) {
        let hash = |text: &str| base64(digest(&SHA256, text.as_bytes()).as_ref());
        let facts = &self.facts;
        let title = escape(facts.name());
        let plural = if facts.turn_count == 1 { "" } else { "s" };
        let turns = format!("{} turn{plural}", facts.turn_count);
        let mut about = vec![facts.created_at.to_string(), turns];
        about.extend(facts.working_dir.clone());
        about.push(facts.label.clone());
        let about: Vec<String> = about.iter().map(|one| escape(one)).collect();
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
             form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <header><h1>{title}</h1><p>{}</p>\n<div class=\"tools\">\
             <input id=\"search\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\">\
             <output id=\"found\"></output>\
             <button id=\"unfold\" type=\"button\">Unfold all</button>\
             <button id=\"theme\" type=\"button\">Light or dark</button></div></header>\n<main>\n",
            hash(STYLE),
            hash(SCRIPT),
            about.join(" · ")
        );
        out.extend_from_slice(page.as_bytes());
    }

    fn turn(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        self.number += 1;
        let mut html = format!("<section class=\"turn\" id=\"turn-{}\">\n", self.number);
        let mut answered = false;
        for entry in &turn.entries {
            match entry {
                Entry::Prompt { at, parts } => prompt(&mut html, *at, parts),
                Entry::Response(one) => {
                    if !answered {
                        author(&mut html, turn, one.at);
                        answered = true;
                    }
                    response(&mut html, one);
                }
                Entry::Compaction { summary, .. } => {
                    let body = markdown(summary);
                    folded(&mut html, "summary", "Summary of everything before", &body);
                }
                Entry::Notice { text, .. } => {
                    let _ = writeln!(html, "<div class=\"notice\">{}</div>", markdown(text));
                }
                Entry::Record { .. } => {}
            }
        }
        let end = match (turn.is_purged, turn.status) {
            (true, _) => Some("The text of this turn was deleted."),
            (_, Status::Completed) => None,
            (_, Status::Failed) => Some("This turn failed."),
            (_, Status::Interrupted) => Some("This turn was interrupted."),
            (_, Status::Cancelled) => Some("This turn was cancelled."),
        };
        if let Some(end) = end {
            let _ = writeln!(html, "<p class=\"end\">{end}</p>");
        }
        html.push_str("</section>\n");
        out.extend_from_slice(html.as_bytes());
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let end = format!("</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n");
        out.extend_from_slice(end.as_bytes());
    }
}

fn prompt(html: &mut String, at: Timestamp, parts: &[PromptPart]) {
    let _ = write!(html, "<article class=\"user\"><h2>User <time>{at}</time></h2>");
    for part in parts {
        match part {
            PromptPart::Text(text) => html.push_str(&markdown(text)),
            PromptPart::Image { media_type, bytes } => html.push_str(&image(media_type, bytes)),
        }
    }
    html.push_str("</article>\n");
}

fn author(html: &mut String, turn: &Turn, at: Timestamp) {
    let by: Vec<String> =
        [&turn.provider_id, &turn.model].into_iter().flatten().map(|one| escape(one)).collect();
    let _ = writeln!(
        html,
        "<h2 class=\"agent\">Assistant <small>{}</small> <time>{}</time></h2>",
        by.join(" · "),
        at
    );
}

fn response(html: &mut String, response: &Response) {
    for part in &response.parts {
        match part {
            ResponsePart::Text(text) => {
                let _ = writeln!(html, "<article class=\"agent\">{}</article>", markdown(text));
            }
            ResponsePart::Thought { text, .. } if text.is_empty() => {}
            ResponsePart::Thought { text, .. } => {
                folded(html, "thought", "Thoughts", &markdown(text));
            }
            ResponsePart::Error { code, message } => {
                let (code, message) = (escape(code), escape(message));
                let _ = writeln!(html, "<p class=\"error\"><b>{code}</b> {message}</p>");
            }
            ResponsePart::Plan(entries) => {
                folded(html, "plan", "Plan", &code_block("json", &pretty(entries)));
            }
            ResponsePart::Image { media_type, bytes } => html.push_str(&image(media_type, bytes)),
        }
    }
    for call in &response.calls {
        tool_call(html, call);
    }
}

fn tool_call(html: &mut String, call: &Call) {
    let params: String = call.params.to_string().chars().take(SUMMARY_MAX_CHARS).collect();
    let class = if call.is_error { "tool failed" } else { "tool" };
    let title = format!("<b>{}</b> <code>{}</code>", escape(&call.name), escape(&params));
    let body =
        format!("{}{}", code_block("json", &pretty(&call.params)), code_block("", &call.output));
    folded(html, class, &title, &body);
}

/// A part that is folded at first. `title` and `body` are HTML.
fn folded(html: &mut String, class: &str, title: &str, body: &str) {
    let _ = writeln!(html, "<details class=\"{class}\"><summary>{title}</summary>{body}</details>");
}

fn image(media_type: &str, bytes: &[u8]) -> String {
    if !IMAGES.contains(&media_type) {
        return format!("<p class=\"end\">Image, {} bytes</p>", bytes.len());
    }
    format!("<p><img alt=\"Image of the user\" src=\"{}\"></p>", data_url(media_type, bytes))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}
