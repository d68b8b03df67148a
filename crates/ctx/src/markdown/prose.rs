//! Markdown blocks other than code fences, as lines.

use anstyle::Style;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::table::Table;
use super::wrap::{text_width, wrap_columns, wrap_words};
use super::{CODE, FAINT, HEADING, LINK, Line, MARKER, Span};

/// Columns of the text beside markers and indentation, at least.
const TEXT_WIDTH_MIN: usize = 8;

/// Renders blocks whose control characters are visible already.
pub(super) fn render(text: &str, width: usize) -> Vec<Line> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES;
    let mut out = Prose { width, ..Prose::default() };
    for event in Parser::new_ext(text, options) {
        out.event(event);
    }
    out.flush();
    out.lines
}

/// Indentation of a list item or a quotation.
struct Prefix {
    /// On the first line; later lines have `rest`.
    first: Option<Span>,
    rest: Span,
}

#[derive(Default)]
struct Prose {
    width: usize,
    lines: Vec<Line>,
    inline: Vec<Span>,
    prefixes: Vec<Prefix>,
    /// Numbers of the next items; `None` for a list with bullets.
    lists: Vec<Option<u64>>,
    bold: usize,
    italic: usize,
    struck: usize,
    heading: bool,
    code_block: bool,
    link: Option<(String, usize)>,
    table: Option<Table>,
    /// Whether an item has no content yet, so that no blank line is needed before it.
    fresh_item: bool,
}

impl Prose {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code_block => self.push_code(&text),
            Event::Text(text) => self.push(&text, self.style()),
            Event::Code(text) => self.push(&text, CODE),
            Event::Html(text) | Event::InlineHtml(text) => self.push(text.trim_end(), FAINT),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.push(&text, CODE),
            Event::SoftBreak => self.push(" ", self.style()),
            Event::HardBreak => self.push("\n", self.style()),
            Event::Rule => {
                self.gap();
                self.push(&"─".repeat(self.text_width().min(40)), FAINT);
                self.flush();
            }
            Event::FootnoteReference(name) => self.push(&format!("[{name}]"), LINK),
            Event::TaskListMarker(done) => {
                self.push(if done { "[x] " } else { "[ ] " }, MARKER);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.gap(),
            Tag::HtmlBlock => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                self.heading = true;
                if level > HeadingLevel::H2 {
                    self.push(&"#".repeat(level as usize), FAINT);
                    self.push(" ", HEADING);
                }
            }
            Tag::BlockQuote(_) => {
                self.gap();
                let bar = Span::new("│ ", FAINT);
                self.prefixes.push(Prefix { first: None, rest: bar });
                self.fresh_item = true;
            }
            Tag::CodeBlock(_) => {
                self.gap();
                self.code_block = true;
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::FootnoteDefinition(name) => {
                self.gap();
                self.push(&format!("[{name}] "), LINK);
                self.fresh_item = true;
            }
            Tag::Table(alignments) => {
                self.gap();
                self.table = Some(Table::new(alignments));
            }
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.struck += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((dest_url.into_string(), self.inline.len()));
            }
            _ => {}
        }
    }

    fn start_item(&mut self) {
        self.flush();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number += 1;
                marker
            }
            _ => "• ".to_owned(),
        };
        let rest = Span::plain(" ".repeat(text_width(&marker)));
        self.prefixes.push(Prefix { first: Some(Span::new(marker, MARKER)), rest });
        self.fresh_item = true;
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::FootnoteDefinition => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.heading = false;
            }
            TagEnd::CodeBlock => {
                self.flush();
                self.code_block = false;
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                if self.prefixes.last().is_some_and(|prefix| prefix.first.is_some()) {
                    // An empty item has its marker all the same.
                    self.push_line(Line::new());
                }
                self.prefixes.pop();
                self.fresh_item = false;
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.push_cell(cell);
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    for line in table.lines(self.text_width()) {
                        self.push_line(line);
                    }
                }
            }
            TagEnd::Emphasis => self.italic = self.italic.saturating_sub(1),
            TagEnd::Strong => self.bold = self.bold.saturating_sub(1),
            TagEnd::Strikethrough => self.struck = self.struck.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    /// The address follows the text of a link, unless the text is the address.
    fn end_link(&mut self) {
        let Some((url, from)) = self.link.take() else { return };
        let from = from.min(self.inline.len());
        let text: String = self.inline[from..].iter().map(|span| span.text.as_str()).collect();
        if !url.is_empty() && text != url && url.strip_prefix("mailto:") != Some(text.as_str()) {
            self.push(&format!(" ({url})"), FAINT);
        }
    }

    fn style(&self) -> Style {
        let mut style = match (&self.link, self.heading) {
            (Some(_), _) => LINK,
            (None, true) => HEADING,
            (None, false) => Style::new(),
        };
        if self.bold > 0 {
            style = style.bold();
        }
        if self.italic > 0 {
            style = style.italic();
        }
        if self.struck > 0 {
            style = style.strikethrough();
        }
        style
    }

    fn push(&mut self, text: &str, style: Style) {
        match self.inline.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.inline.push(Span::new(text, style)),
        }
    }

    fn push_code(&mut self, text: &str) {
        for line in text.lines() {
            let width = self.text_width().saturating_sub(2);
            for cut in wrap_columns(&[Span::plain(line)], width) {
                let mut line = vec![Span::plain("  ")];
                line.extend(cut);
                self.push_line(line);
            }
        }
    }

    /// Columns beside the prefixes.
    fn text_width(&self) -> usize {
        let taken: usize = self.prefixes.iter().map(|prefix| text_width(&prefix.rest.text)).sum();
        self.width.saturating_sub(taken).max(TEXT_WIDTH_MIN)
    }

    fn flush(&mut self) {
        if self.inline.is_empty() {
            return;
        }
        let inline = std::mem::take(&mut self.inline);
        for line in wrap_words(&inline, self.text_width()) {
            self.push_line(line);
        }
        self.fresh_item = false;
    }

    fn push_line(&mut self, line: Line) {
        let take = |prefix: &mut Prefix| prefix.first.take().unwrap_or_else(|| prefix.rest.clone());
        let mut whole: Line = self.prefixes.iter_mut().map(take).collect();
        whole.extend(line);
        self.lines.push(whole);
    }

    /// A blank line before a block, except at the beginning and after the marker of an item.
    fn gap(&mut self) {
        self.flush();
        if self.fresh_item {
            self.fresh_item = false;
        } else if !self.lines.is_empty() {
            self.push_line(Line::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain_line;
    use super::*;

    fn plain(text: &str, width: usize) -> Vec<String> {
        render(text, width).iter().map(|line| plain_line(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn blocks_are_laid_out() {
        let table: [(&str, &[&str]); 9] = [
            ("# One\ntext", &["One", "", "text"]),
            ("### Three", &["### Three"]),
            ("- a\n- b\n  - c\n- d", &["• a", "• b", "  • c", "• d"]),
            ("9. a\n10. b", &["9. a", "10. b"]),
            ("> quoted\n> words", &["│ quoted", "│ words"]),
            ("- one two three four", &["• one two", "  three four"]),
            ("a  \nb", &["a", "b"]),
            ("[text](http://x.y) <http://z.w>", &["text", "(http://x.y)", "http://z.w"]),
            ("- [x] done\n- [ ] open", &["• [x] done", "• [ ] open"]),
        ];
        for (text, expected) in table {
            assert_eq!(plain(text, 12), expected, "{text:?}");
        }
    }

    #[test]
    fn emphasis_and_code_have_styles() {
        let lines = render("a **b** `c` *d* ~~e~~", 40);
        let style_of =
            |text: &str| lines[0].iter().find(|span| span.text == text).map(|span| span.style);
        assert_eq!(style_of("b"), Some(Style::new().bold()));
        assert_eq!(style_of("c"), Some(CODE));
        assert_eq!(style_of("d"), Some(Style::new().italic()));
        assert_eq!(style_of("e"), Some(Style::new().strikethrough()));
    }
}
