//! Bounds on the shape of sources: how wide a line and how long a file may be.

use crate::rust_source::lex;
use crate::workspace;

/// `max_width` of `rustfmt.toml`, which leaves comments and strings alone.
const COLUMNS_MAX: usize = 100;
/// A file under `src` with more lines holds more than one subject.
const LINES_MAX: usize = 600;
/// Lines that a failure lists.
const EXAMPLES_MAX: usize = 40;

/// Numbers of the lines that are too wide and could be broken.
///
/// A line cannot be broken where it is one long word (an address, a hash, a path), where it is a
/// row of a table in a doc comment, or where it ends inside a raw string, whose line ends are part
/// of its value.
fn wide_lines(source: &str) -> Vec<usize> {
    if source.lines().all(|line| line.chars().count() <= COLUMNS_MAX) {
        return Vec::new();
    }
    let raw_strings = lex(source).raw_strings;
    let mut start = 0;
    let mut wide = Vec::new();
    for (number, line) in source.split('\n').enumerate() {
        let at_bound = line.char_indices().nth(COLUMNS_MAX).map(|(at, _)| start + at);
        if let Some(at) = at_bound
            && !is_one_word(line)
            && !is_table_row(line)
            && !raw_strings.iter().any(|raw| raw.contains(&at))
        {
            wide.push(number + 1);
        }
        start += line.len() + 1;
    }
    wide
}

/// Whether a line, without the mark of a comment, has no space to break at.
fn is_one_word(line: &str) -> bool {
    let text = line.trim().trim_start_matches(['/', '!', '*', '-', ' ']);
    !text.contains(char::is_whitespace)
}

/// Whether a line is a row of a Markdown table in a doc comment.
fn is_table_row(line: &str) -> bool {
    let text = line.trim();
    (text.starts_with("//! |") || text.starts_with("/// |")) && text.ends_with('|')
}

#[test]
fn lines_have_at_most_100_columns() {
    let mut wide = Vec::new();
    for file in workspace::rust_files() {
        let name = workspace::relative(&file);
        wide.extend(wide_lines(&workspace::read(&file)).iter().map(|n| format!("{name}:{n}")));
    }
    let shown = &wide[..wide.len().min(EXAMPLES_MAX)];
    assert!(
        wide.is_empty(),
        "{} lines have more than {COLUMNS_MAX} columns; break comments and strings:\n  {}",
        wide.len(),
        shown.join("\n  ")
    );
}

#[test]
fn source_files_have_at_most_600_lines() {
    let long: Vec<String> = workspace::rust_files()
        .iter()
        .filter(|file| workspace::relative(file).contains("/src/"))
        .map(|file| (workspace::read(file).lines().count(), workspace::relative(file)))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, name)| format!("{name}: {lines}"))
        .collect();
    assert!(
        long.is_empty(),
        "files of more than {LINES_MAX} lines; move the second subject out:\n  {}",
        long.join("\n  ")
    );
}

#[test]
fn a_wide_line_is_found_unless_it_cannot_be_broken() {
    let long = "x".repeat(COLUMNS_MAX);
    let words = "word ".repeat(COLUMNS_MAX / 5);
    let exactly = format!("// {}", "x".repeat(COLUMNS_MAX - 3));
    for (source, wide) in [
        (exactly.clone(), vec![]),
        (format!("{exactly} y"), vec![1]),
        (format!("fn f() {{}}\n/// {words} end"), vec![2]),
        (format!("    let text = \"{words}\";"), vec![1]),
        (format!("    let text = r\"{words}\";"), vec![]),
        (format!("    let text = r#\"\n{words} {words}\n\"#;"), vec![]),
        (format!("    \"{long}\","), vec![]),
        (format!("//! | {words} | {words} |"), vec![]),
        (format!("// | {words} | {words} |"), vec![1]),
        (format!("//! | {words} | {words}"), vec![1]),
        (format!("//! https://example.org/{long}"), vec![]),
        (format!("/// - {long}"), vec![]),
        (format!("// {}", "ä".repeat(COLUMNS_MAX - 3)), vec![]),
    ] {
        assert_eq!(wide_lines(&source), wide, "{source}");
    }
}
