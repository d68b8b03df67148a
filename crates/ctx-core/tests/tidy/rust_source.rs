//! A lexer for Rust that is just good enough for the rules about sources.

/// A token, or a part of the source that the rules look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier, a keyword or a number.
    Word(String),
    /// The content of a string literal, without its quotes and as it is written.
    Text(String),
    /// Any other character.
    Mark(char),
}

/// The tokens of a source, and its raw strings.
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    /// Byte ranges of raw strings: they cannot be broken into lines without changing the value.
    pub(crate) raw_strings: Vec<std::ops::Range<usize>>,
}

/// Splits a source into tokens. Comments, white space and character literals are left out.
pub(crate) fn lex(source: &str) -> Lexed {
    let mut lexed = Lexed { tokens: Vec::new(), raw_strings: Vec::new() };
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment_length(rest)
        } else if let Some((open, hashes)) = raw_string_start(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let inside = rest[open..].find(&close).unwrap_or(rest.len() - open);
            lexed.tokens.push(Token::Text(rest[open..open + inside].to_owned()));
            let length = (open + inside + close.len()).min(rest.len());
            lexed.raw_strings.push(at..at + length);
            length
        } else if first == '"' {
            let inside = string_length(&rest[1..]);
            lexed.tokens.push(Token::Text(rest[1..1 + inside].to_owned()));
            (inside + 2).min(rest.len())
        } else if first == '\'' {
            character_length(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            lexed.tokens.push(Token::Word(rest[..end].to_owned()));
            end
        } else {
            if !first.is_whitespace() {
                lexed.tokens.push(Token::Mark(first));
            }
            first.len_utf8()
        };
        at += length;
    }
    lexed
}

fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Where the content of a raw string begins, and how many `#` close it.
fn raw_string_start(rest: &str) -> Option<(usize, usize)> {
    let after = ["r", "br", "cr"].into_iter().find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let is_string = after[hashes..].starts_with('"');
    is_string.then(|| (rest.len() - after.len() + hashes + 1, hashes))
}

/// The length of a string's content, up to its closing quote.
fn string_length(inside: &str) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    inside.len()
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let inside = &rest[1..];
    let Some(first) = inside.chars().next() else { return 1 };
    if first == '\\' {
        // The escaped character may itself be a quote.
        let after = inside.char_indices().nth(2).map_or(inside.len(), |(at, _)| at);
        return inside[after..].find('\'').map_or(rest.len(), |at| 1 + after + at + 1);
    }
    if inside[first.len_utf8()..].starts_with('\'') { first.len_utf8() + 2 } else { 1 }
}

#[test]
fn comments_strings_and_lifetimes_are_told_apart() {
    let words = |source: &str| -> Vec<String> {
        let words = lex(source).tokens.into_iter().filter_map(|token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        });
        words.collect()
    };
    assert_eq!(
        words("mod a; // mod b;\n/* mod c; /* mod d; */ */ mod e;"),
        ["mod", "a", "mod", "e"]
    );
    assert_eq!(words("let s = \"mod a; \\\" mod b;\"; c"), ["let", "s", "c"]);
    assert_eq!(words("r#\"mod \"a\";\"# b r\"c\" br\"d\""), ["b"]);
    assert_eq!(words("f('\\'', '\"', 'x', '\\u{1F600}') g"), ["f", "g"]);
    assert_eq!(words("fn f<'a>(x: &'a str)"), ["fn", "f", "a", "x", "a", "str"]);
    assert_eq!(words("r#type"), ["r", "type"]);
    let raw_strings = lex("x r#\"ab\"#").raw_strings;
    assert_eq!((raw_strings.len(), &raw_strings[0]), (1, &(2..9)));
}
