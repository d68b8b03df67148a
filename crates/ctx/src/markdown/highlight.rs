//! Colours of source code: comments, strings, numbers, keywords, types and calls. It works line by
//! line and knows families of languages, not their grammars.

use anstyle::{AnsiColor, Style};

use super::Span;

const COMMENT: Style = AnsiColor::BrightBlack.on_default();
const STRING: Style = AnsiColor::Green.on_default();
const NUMBER: Style = AnsiColor::Cyan.on_default();
const KEYWORD: Style = AnsiColor::Magenta.on_default();
const TYPE: Style = AnsiColor::Yellow.on_default();
const CALL: Style = AnsiColor::Blue.on_default();
const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();

/// What the languages of a family have in common.
struct Family {
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static [char],
    keywords: &'static [&'static str],
}

const C_LIKE: Family = Family {
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    quotes: &['"', '\'', '`'],
    keywords: &[
        "abstract",
        "async",
        "await",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "constexpr",
        "continue",
        "default",
        "defer",
        "delete",
        "do",
        "else",
        "enum",
        "export",
        "extends",
        "extern",
        "false",
        "final",
        "finally",
        "for",
        "func",
        "function",
        "go",
        "goto",
        "if",
        "implements",
        "import",
        "in",
        "instanceof",
        "interface",
        "let",
        "map",
        "namespace",
        "new",
        "nil",
        "null",
        "operator",
        "override",
        "package",
        "private",
        "protected",
        "public",
        "range",
        "return",
        "select",
        "static",
        "struct",
        "super",
        "switch",
        "template",
        "this",
        "throw",
        "throws",
        "true",
        "try",
        "type",
        "typedef",
        "typeof",
        "union",
        "using",
        "var",
        "virtual",
        "void",
        "while",
        "yield",
    ],
};

const RUST: Family = Family {
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    quotes: &['"'],
    keywords: &[
        "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum",
        "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move",
        "mut", "pub", "ref", "return", "self", "Self", "static", "struct", "super", "trait",
        "true", "type", "unsafe", "use", "where", "while",
    ],
};

const PYTHON: Family = Family {
    line_comments: &["#"],
    block_comment: Some(("\"\"\"", "\"\"\"")),
    quotes: &['"', '\''],
    keywords: &[
        "and", "as", "assert", "async", "await", "begin", "break", "class", "continue", "def",
        "del", "do", "elif", "else", "elsif", "end", "except", "False", "finally", "for", "from",
        "global", "if", "import", "in", "is", "lambda", "module", "nil", "None", "nonlocal", "not",
        "or", "pass", "raise", "require", "rescue", "return", "self", "then", "True", "try",
        "unless", "until", "while", "with", "yield",
    ],
};

const SHELL: Family = Family {
    line_comments: &["#"],
    block_comment: None,
    quotes: &['"', '\''],
    keywords: &[
        "case", "cd", "do", "done", "echo", "elif", "else", "esac", "exit", "export", "false",
        "fi", "for", "function", "if", "in", "local", "return", "set", "sudo", "then", "true",
        "until", "while",
    ],
};

const SQL: Family = Family {
    line_comments: &["--"],
    block_comment: Some(("/*", "*/")),
    quotes: &['\'', '"'],
    keywords: &[
        "add",
        "all",
        "alter",
        "and",
        "as",
        "asc",
        "begin",
        "between",
        "by",
        "case",
        "commit",
        "create",
        "cross",
        "delete",
        "desc",
        "distinct",
        "drop",
        "else",
        "end",
        "exists",
        "from",
        "group",
        "having",
        "in",
        "index",
        "inner",
        "insert",
        "into",
        "is",
        "join",
        "key",
        "left",
        "like",
        "limit",
        "not",
        "null",
        "on",
        "or",
        "order",
        "outer",
        "primary",
        "references",
        "right",
        "select",
        "set",
        "table",
        "then",
        "union",
        "unique",
        "update",
        "using",
        "values",
        "view",
        "when",
        "where",
        "with",
    ],
};

const DATA: Family = Family {
    line_comments: &["#", "//"],
    block_comment: None,
    quotes: &['"', '\''],
    keywords: &["false", "null", "true", "yes", "no"],
};

/// Colours the lines of one block of code.
pub(crate) struct Highlighter {
    family: Option<&'static Family>,
    is_diff: bool,
    ignores_case: bool,
    /// Whether a comment or string over several lines is open.
    in_block: bool,
}

impl Highlighter {
    /// For the word after the fence; an unknown language has no colours.
    pub(crate) fn new(language: &str) -> Self {
        let name = language.to_ascii_lowercase();
        let family = match name.as_str() {
            "rust" | "rs" => Some(&RUST),
            "c" | "h" | "cpp" | "c++" | "cc" | "cs" | "csharp" | "java" | "kotlin" | "kt"
            | "go" | "golang" | "js" | "jsx" | "javascript" | "ts" | "tsx" | "typescript"
            | "swift" | "php" | "scala" | "dart" | "zig" | "css" | "proto" => Some(&C_LIKE),
            "python" | "py" | "ruby" | "rb" | "elixir" | "ex" => Some(&PYTHON),
            "sh" | "bash" | "shell" | "zsh" | "fish" | "console" | "dockerfile" | "make"
            | "makefile" => Some(&SHELL),
            "sql" | "postgres" | "postgresql" | "sqlite" | "lua" | "haskell" => Some(&SQL),
            "json" | "jsonc" | "toml" | "yaml" | "yml" | "ini" | "conf" => Some(&DATA),
            _ => None,
        };
        let ignores_case = std::ptr::eq(family.unwrap_or(&DATA), &SQL);
        let is_diff = matches!(name.as_str(), "diff" | "patch");
        Self { family, is_diff, ignores_case, in_block: false }
    }

    /// The spans of one line, which has no line break.
    pub(crate) fn line(&mut self, line: &str) -> Vec<Span> {
        if self.is_diff {
            return vec![Span::new(line, diff_style(line))];
        }
        let Some(family) = self.family else { return vec![Span::plain(line)] };
        let mut spans = Vec::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (length, style) = self.token(family, rest);
            let (token, after) = rest.split_at(length);
            match spans.last_mut() {
                Some(Span { text, style: last }) if *last == style => text.push_str(token),
                _ => spans.push(Span::new(token, style)),
            }
            rest = after;
        }
        spans
    }

    /// Length in bytes and style of the first token; the text is not empty.
    fn token(&mut self, family: &Family, text: &str) -> (usize, Style) {
        if let Some((open, close)) = family.block_comment {
            let style = if open == "/*" { COMMENT } else { STRING };
            let begins = !self.in_block && text.starts_with(open);
            if self.in_block || begins {
                let from = if begins { open.len() } else { 0 };
                let end = text[from..].find(close).map(|at| from + at + close.len());
                self.in_block = end.is_none();
                return (end.unwrap_or(text.len()), style);
            }
        }
        if family.line_comments.iter().any(|mark| text.starts_with(mark)) {
            return (text.len(), COMMENT);
        }
        let first = text.chars().next().unwrap_or(' ');
        if family.quotes.contains(&first) {
            return (string_length(text, first), STRING);
        }
        if first.is_ascii_digit() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            return (length_while(text, is_part), NUMBER);
        }
        if first.is_alphabetic() || first == '_' {
            let length = length_while(text, |c| c.is_alphanumeric() || c == '_');
            return (length, self.word_style(family, &text[..length], &text[length..]));
        }
        let is_other = |c: char| {
            !c.is_alphanumeric()
                && c != '_'
                && !family.quotes.contains(&c)
                && !matches!(c, '/' | '#' | '-')
        };
        (length_while(text, is_other).max(first.len_utf8()), Style::new())
    }

    fn word_style(&self, family: &Family, word: &str, after: &str) -> Style {
        let lower = word.to_ascii_lowercase();
        let name = if self.ignores_case { lower.as_str() } else { word };
        if family.keywords.contains(&name) {
            KEYWORD
        } else if after.starts_with('(') || after.starts_with("!(") {
            CALL
        } else if word.starts_with(char::is_uppercase) && !self.ignores_case {
            TYPE
        } else {
            Style::new()
        }
    }
}

fn diff_style(line: &str) -> Style {
    match line.chars().next() {
        Some('+') => ADDED,
        Some('-') => REMOVED,
        Some('@') => NUMBER,
        _ => Style::new(),
    }
}

fn length_while(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// Length of a string literal with its quotes; an unclosed one ends with the line.
fn string_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::super::plain_line;
    use super::*;

    #[test]
    fn tokens_have_the_style_of_their_kind() {
        let table = [
            (
                "rust",
                "let x = call(1); // why",
                vec![("let", KEYWORD), ("call", CALL), ("1", NUMBER), ("// why", COMMENT)],
            ),
            (
                "python",
                "def f(): return 'a\\'b'  # note",
                vec![("def", KEYWORD), ("'a\\'b'", STRING), ("# note", COMMENT)],
            ),
            ("sql", "Select a From Users", vec![("Select", KEYWORD), ("From", KEYWORD)]),
            ("go", "type Name struct", vec![("Name", TYPE), ("struct", KEYWORD)]),
            ("diff", "+added", vec![("+added", ADDED)]),
        ];
        for (language, line, expected) in table {
            let spans = Highlighter::new(language).line(line);
            assert_eq!(plain_line(&spans), line, "no character is lost");
            for (token, style) in expected {
                let found = spans.iter().any(|span| span.text == token && span.style == style);
                assert!(found, "{language}: {token} in {spans:?}");
            }
        }
    }

    #[test]
    fn a_comment_goes_on_over_lines() {
        let mut code = Highlighter::new("c");
        assert_eq!(code.line("int a; /* one").last().map(|span| span.style), Some(COMMENT));
        assert_eq!(code.line("two */ return b;")[0], Span::new("two */", COMMENT));
        assert!(!code.in_block);
    }

    #[test]
    fn any_text_keeps_its_characters() {
        for language in ["rust", "python", "sh", "sql", "json", "c", "unknown", "diff"] {
            for line in ["", "/", "#", "--", "'", "\"", "日本 'x", "a/b-c#d", "`x`", "é1_"] {
                assert_eq!(plain_line(&Highlighter::new(language).line(line)), line);
            }
        }
    }
}
