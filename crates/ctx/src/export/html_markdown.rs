//! Markdown as HTML for the exported page. All text is escaped: HTML in a message stays text, links
//! have a scheme without effects, and images are not loaded.

use std::fmt::Write;

use anstyle::{AnsiColor, Color, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::markdown::Highlighter;

/// Bytes of code beyond which it is not highlighted.
const HIGHLIGHT_MAX_BYTES: usize = 256 << 10;

/// Escapes text for elements and attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Code with the classes of its tokens.
pub(super) fn code_block(language: &str, code: &str) -> String {
    let mut out = String::from("<pre><code>");
    if code.len() > HIGHLIGHT_MAX_BYTES || language.is_empty() {
        out.push_str(&escape(code));
    } else {
        let mut highlighter = Highlighter::new(language);
        for line in code.split_inclusive('\n') {
            let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
            for span in highlighter.line(text) {
                match class_of(span.style) {
                    Some(class) => {
                        let text = escape(&span.text);
                        let _ = write!(out, "<span class=\"{class}\">{text}</span>");
                    }
                    None => out.push_str(&escape(&span.text)),
                }
            }
            out.push_str(end);
        }
    }
    out.push_str("</code></pre>");
    out
}

/// The class of a token by the colour that it has on a terminal.
fn class_of(style: Style) -> Option<&'static str> {
    match style.get_fg_color()? {
        Color::Ansi(AnsiColor::BrightBlack) => Some("k-comment"),
        Color::Ansi(AnsiColor::Green) => Some("k-string"),
        Color::Ansi(AnsiColor::Cyan) => Some("k-number"),
        Color::Ansi(AnsiColor::Magenta) => Some("k-keyword"),
        Color::Ansi(AnsiColor::Yellow) => Some("k-type"),
        Color::Ansi(AnsiColor::Blue) => Some("k-call"),
        Color::Ansi(AnsiColor::Red) => Some("k-removed"),
        _ => None,
    }
}

/// Renders Markdown.
pub(super) fn markdown(text: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut renderer = Renderer::default();
    for event in Parser::new_ext(text, options) {
        renderer.event(event);
    }
    renderer.out
}

#[derive(Default)]
struct Renderer {
    out: String,
    /// Language and text of the open code block.
    code: Option<(String, String)>,
    in_table_head: bool,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.out.push_str(&escape(&text)),
            },
            // HTML of a message is text.
            Event::Html(text) | Event::InlineHtml(text) => self.out.push_str(&escape(&text)),
            Event::Code(code) => {
                let _ = write!(self.out, "<code>{}</code>", escape(&code));
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => self.out.push_str(if done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.out.push_str(&escape(&text));
            }
            Event::FootnoteReference(name) => {
                let _ = write!(self.out, "[{}]", escape(&name));
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::Link { dest_url, .. } => match is_plain_link(&dest_url) {
                true => {
                    let url = escape(&dest_url);
                    let _ = write!(self.out, "<a href=\"{url}\" rel=\"noreferrer noopener\">");
                }
                false => self.out.push_str("<a>"),
            },
            Tag::Image { dest_url, .. } => {
                let _ = write!(self.out, "<span class=\"image\" title=\"{}\">", escape(&dest_url));
            }
            Tag::List(Some(first)) => {
                let _ = write!(self.out, "<ol start=\"{first}\">");
            }
            Tag::TableHead => {
                self.in_table_head = true;
                self.out.push_str("<thead><tr>");
            }
            Tag::TableCell => self.out.push_str(if self.in_table_head { "<th>" } else { "<td>" }),
            tag => {
                if let Some(name) = element(&tag.to_end()) {
                    let _ = write!(self.out, "<{name}>");
                }
            }
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    self.out.push_str(&code_block(&language, &code));
                }
            }
            TagEnd::Link => self.out.push_str("</a>"),
            TagEnd::Image => self.out.push_str("</span>"),
            TagEnd::TableHead => {
                self.in_table_head = false;
                self.out.push_str("</tr></thead>");
            }
            TagEnd::TableCell => {
                self.out.push_str(if self.in_table_head { "</th>" } else { "</td>" });
            }
            tag => {
                if let Some(name) = element(&tag) {
                    let _ = write!(self.out, "</{name}>");
                }
            }
        }
    }
}

fn element(tag: &TagEnd) -> Option<&'static str> {
    Some(match tag {
        TagEnd::Paragraph | TagEnd::HtmlBlock => "p",
        TagEnd::Heading(HeadingLevel::H1 | HeadingLevel::H2) => "h3",
        TagEnd::Heading(HeadingLevel::H3) => "h4",
        TagEnd::Heading(_) => "h5",
        TagEnd::BlockQuote(_) => "blockquote",
        TagEnd::List(true) => "ol",
        TagEnd::List(false) => "ul",
        TagEnd::Item => "li",
        TagEnd::Table => "table",
        TagEnd::TableRow => "tr",
        TagEnd::Emphasis => "em",
        TagEnd::Strong => "strong",
        TagEnd::Strikethrough => "del",
        _ => return None,
    })
}

/// Whether a link leads to a page or an address. Others, such as scripts, have no target.
fn is_plain_link(url: &str) -> bool {
    let lower = url.trim().to_ascii_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_and_scripts_of_a_message_stay_text() {
        let text = "<script>alert(1)</script> <img src=x onerror=a>\n\n[x](javascript:alert(1)) \
                    ![i](http://example.com/i.png) `<b>` [ok](https://example.com/?a=\"b\")";
        let html = markdown(text);
        for forbidden in ["<script", "<img", "href=\"javascript", "src="] {
            let inside = html.replace("src=x", "");
            assert!(!inside.contains(forbidden), "{forbidden} in {html}");
        }
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{html}");
        assert!(html.contains("<a href=\"https://example.com/"), "{html}");
    }

    #[test]
    fn blocks_are_elements_and_code_has_classes() {
        let html = markdown(
            "# Title\n\n- **a**\n- b\n\n```rust\nlet x = \"<s>\"; // c\n```\n\n\
             |a|b|\n|-|-|\n|1|2|\n",
        );
        for part in [
            "<h3>Title</h3>",
            "<li><strong>a</strong></li>",
            "<th>a</th>",
            "<td>1</td>",
            "<span class=\"k-keyword\">let</span>",
            "&lt;s&gt;",
        ] {
            assert!(html.contains(part), "{part} is missing in {html}");
        }
    }
}
