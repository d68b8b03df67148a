//! Positions of values in a JSON text, and edits that leave every other byte as it is.
//!
//! Comments and trailing commas are accepted, because some tools accept them in their settings.

use std::ops::Range;

/// Deeper nesting is refused.
const DEPTH_MAX: usize = 128;

/// A value and its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    /// A number, `true`, `false` or `null`.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: String,
    /// From the key to the end of the value.
    pub(super) span: Range<usize>,
    pub(super) node: Node,
}

impl Node {
    pub(super) fn member(&self, key: &str) -> Option<&Member> {
        match &self.value {
            Value::Object(members) => members.iter().find(|member| member.key == key),
            _ => None,
        }
    }

    pub(super) fn elements(&self) -> &[Node] {
        match &self.value {
            Value::Array(elements) => elements,
            _ => &[],
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.value {
            Value::Object(members) => members.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            Value::Text(_) | Value::Other => false,
        }
    }

    /// Whether a string anywhere inside has this property.
    pub(super) fn any_text(&self, property: &impl Fn(&str) -> bool) -> bool {
        match &self.value {
            Value::Object(members) => members.iter().any(|it| it.node.any_text(property)),
            Value::Array(elements) => elements.iter().any(|it| it.any_text(property)),
            Value::Text(text) => property(text),
            Value::Other => false,
        }
    }

    /// Adds the keys and the values inside, without the layout.
    pub(super) fn collect_parts(&self, text: &str, parts: &mut Vec<String>) {
        match &self.value {
            Value::Object(members) => {
                for member in members {
                    parts.push(member.key.clone());
                    member.node.collect_parts(text, parts);
                }
            }
            Value::Array(elements) => elements.iter().for_each(|it| it.collect_parts(text, parts)),
            Value::Text(value) => parts.push(value.clone()),
            Value::Other => parts.push(text[self.span.clone()].to_owned()),
        }
    }

    /// The places of the direct children, with their keys.
    fn children(&self) -> Vec<Range<usize>> {
        match &self.value {
            Value::Object(members) => members.iter().map(|it| it.span.clone()).collect(),
            Value::Array(elements) => elements.iter().map(|it| it.span.clone()).collect(),
            Value::Text(_) | Value::Other => Vec::new(),
        }
    }
}

/// Parses a text. The error names the line.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut parser = Parser { text, bytes: text.as_bytes(), at: 0 };
    let found = parser.value(0).and_then(|node| {
        parser.skip_blank()?;
        if parser.at == text.len() { Ok(node) } else { Err("unexpected text after the value") }
    });
    found.map_err(|why| {
        let line = 1 + text[..parser.at.min(text.len())].matches('\n').count();
        format!("line {line}: {why}")
    })
}

/// The text with a child added at the end of an object or array. `child` has no indentation; its
/// lines are indented as the text is.
pub(super) fn insert_child(text: &str, parent: &Node, child: &str) -> String {
    let style = Style::of(text);
    let outer = indent_at(text, parent.span.start);
    let inner = format!("{outer}{}", style.unit);
    let child = style.indented(child, &inner);
    let close = parent.span.end - 1;
    let (at, before, after) = match parent.children().last() {
        // Comments after the last child stay behind it.
        Some(last) => (last.end, format!(",{}{inner}", style.line), String::new()),
        None => {
            let open = parent.span.start + 1;
            let blank = text[open..close].trim().is_empty();
            let at = if blank { open } else { close };
            (at, format!("{}{inner}", style.line), format!("{}{outer}", style.line))
        }
    };
    let rest = if parent.is_empty() && at != close { &text[close..] } else { &text[at..] };
    format!("{}{before}{child}{after}{rest}", &text[..at])
}

/// The text without a child of `parent`, given by its place, and without one comma beside it.
pub(super) fn remove_child(text: &str, parent: &Node, child: &Range<usize>) -> String {
    let children = parent.children();
    let index = children.iter().position(|span| span == child).unwrap_or(0);
    let (start, end) = match (index.checked_sub(1).map(|i| &children[i]), children.get(index + 1)) {
        (Some(previous), _) => (comma(text, previous.end, child.start), child.end),
        (None, Some(next)) => (child.start, next.start),
        (None, None) => (parent.span.start + 1, parent.span.end - 1),
    };
    format!("{}{}", &text[..start], &text[end..])
}

/// The place of the comma between two children. Comments between them may contain commas.
fn comma(text: &str, from: usize, to: usize) -> usize {
    let mut parser = Parser { text, bytes: text.as_bytes(), at: from };
    match parser.skip_blank() {
        Ok(()) if parser.at < to && parser.bytes[parser.at] == b',' => parser.at,
        _ => from,
    }
}

/// How a text is written.
struct Style {
    unit: String,
    line: &'static str,
}

impl Style {
    fn of(text: &str) -> Self {
        let indented = text.lines().find_map(|line| {
            let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
            (blank > 0 && line.trim_start().starts_with(['"', '}', ']'])).then(|| &line[..blank])
        });
        let unit = indented.unwrap_or("  ").to_owned();
        Self { unit, line: if text.contains("\r\n") { "\r\n" } else { "\n" } }
    }

    /// Lines that are indented by two spaces, in this style.
    fn indented(&self, lines: &str, outer: &str) -> String {
        let line = |line: &str| {
            let rest = line.trim_start_matches(' ');
            format!("{}{rest}", self.unit.repeat((line.len() - rest.len()) / 2))
        };
        lines.lines().map(line).collect::<Vec<_>>().join(&format!("{}{outer}", self.line))
    }
}

/// The indentation of the line that contains a position.
fn indent_at(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[start..];
    line[..line.len() - line.trim_start_matches([' ', '\t']).len()].to_owned()
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space, comments and a byte order mark.
    fn skip_blank(&mut self) -> Result<(), &'static str> {
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                self.at += 2 + rest.find("*/").ok_or("a comment has no end")?;
            } else if self.at == 0 && rest.starts_with('\u{feff}') {
                self.at += 3;
            } else if self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.at += 1;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, &'static str> {
        if depth > DEPTH_MAX {
            return Err("too deeply nested");
        }
        self.skip_blank()?;
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => Value::Object(self.object(depth)?),
            Some(b'[') => Value::Array(self.array(depth)?),
            Some(b'"') => Value::Text(self.string()?),
            Some(_) => self.scalar()?,
            None => return Err("a value is missing"),
        };
        Ok(Node { span: start..self.at, value })
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Member>, &'static str> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.skip_blank()?;
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(members);
                }
                Some(b'"') => {}
                _ => return Err("a key or `}` is missing"),
            }
            let start = self.at;
            let key = self.string()?;
            self.skip_blank()?;
            if self.peek() != Some(b':') {
                return Err("`:` is missing");
            }
            self.at += 1;
            let node = self.value(depth + 1)?;
            members.push(Member { key, span: start..self.at, node });
            self.separator(b'}')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, &'static str> {
        let mut elements = Vec::new();
        self.at += 1;
        loop {
            self.skip_blank()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(elements);
            }
            elements.push(self.value(depth + 1)?);
            self.separator(b']')?;
        }
    }

    /// A comma, or the end of the container, which is not consumed.
    fn separator(&mut self, end: u8) -> Result<(), &'static str> {
        let before = self.at;
        self.skip_blank()?;
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(byte) if byte == end => self.at = before,
            _ => return Err("`,` is missing"),
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, &'static str> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'\\') => self.at += 2,
                Some(b'"') => break,
                Some(b'\n') | None => return Err("a string has no end"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let raw = self.text.get(start..self.at).ok_or("a string has no end")?;
        serde_json::from_str(raw).map_err(|_| "a string is not valid")
    }

    fn scalar(&mut self) -> Result<Value, &'static str> {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
            .unwrap_or(rest.len());
        if serde_json::from_str::<serde_json::Value>(&rest[..length]).is_err() {
            return Err("a value is not valid");
        }
        self.at += length;
        Ok(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_between_comments() {
        let text = "// a, b\n{\"a\": [1, /* , */ \"x\\\"y\",], \"b\": {}}\n";
        let root = parse(text).expect("valid");
        let a = root.member("a").expect("a member");
        assert_eq!(&text[a.span.clone()], "\"a\": [1, /* , */ \"x\\\"y\",]");
        assert_eq!(a.node.elements()[1].value, Value::Text("x\"y".to_owned()));
        assert!(root.member("b").is_some_and(|b| b.node.is_empty()));
    }

    #[test]
    fn invalid_texts_are_refused_with_their_line() {
        for (text, line) in [
            ("", 1),
            ("{", 1),
            ("{\"a\": 1\n\"b\": 2}", 2),
            ("{}\n{}", 2),
            ("{\"a\": nul}", 1),
            ("{\"a\": \"x\n\"}", 1),
            ("/* {}", 1),
            ("{'a': 1}", 1),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(&format!("line {line}: ")), "{text}: {error}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn an_insertion_follows_the_style_of_the_text() {
        for (text, expected) in [
            ("{}", "{\n  \"k\": [\n    1\n  ]\n}"),
            ("{ }\n", "{\n  \"k\": [\n    1\n  ]\n}\n"),
            ("{\r\n\t\"a\": 1\r\n}\r\n", "{\r\n\t\"a\": 1,\r\n\t\"k\": [\r\n\t\t1\r\n\t]\r\n}\r\n"),
            ("{\n  \"a\": 1 // one\n}", "{\n  \"a\": 1,\n  \"k\": [\n    1\n  ] // one\n}"),
            ("{\n    \"a\": 1,\n}", "{\n    \"a\": 1,\n    \"k\": [\n        1\n    ],\n}"),
            ("{ // none\n}", "{ // none\n\n  \"k\": [\n    1\n  ]\n}"),
        ] {
            let made = insert_child(text, &parse(text).expect("valid"), "\"k\": [\n  1\n]");
            assert_eq!(made, expected);
            parse(&made).expect("still valid");
        }
    }

    #[test]
    fn a_removal_takes_one_comma_with_it() {
        for (text, index, expected) in [
            ("[1]", 0, "[]"),
            ("[1, 2]", 0, "[2]"),
            ("[1, 2]", 1, "[1]"),
            ("[1, /* , */ 2, 3]", 1, "[1, 3]"),
            ("[1 /* , */, 2]", 1, "[1 /* , */]"),
        ] {
            let root = parse(text).expect("valid");
            let child = root.elements()[index].span.clone();
            assert_eq!(remove_child(text, &root, &child), expected);
        }
    }
}
