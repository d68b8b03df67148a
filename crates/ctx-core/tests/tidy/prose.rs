//! The English of comments, longer strings and documents is plain technical English.
//!
//! Plain English is not measured; two signs of its absence are. *Markers* are words and phrases
//! that plain technical English does not need: people where there is a component, speech where
//! there is data, and phrases that hide the technical term. *Short doc lines* have one or two words
//! and repeat a name. Both have a bound for the whole workspace, so a single right use costs
//! nothing.

use std::cmp::Reverse;
use std::path::Path;

use crate::workspace;

/// Markers for every 1,000 words, at most.
const MARKERS_PER_1000_WORDS_MAX: f64 = 2.0;
/// Percentage of `///` lines that may have one or two words.
const SHORT_DOC_LINES_PERCENT_MAX: f64 = 5.0;
/// A string literal with fewer words is a name or a key rather than a sentence.
const STRING_WORDS_MIN: usize = 4;
/// Files and lines that a failure lists.
const EXAMPLES_MAX: usize = 20;

/// Single words, in every form.
const WORDS: &[&str] = &[
    // People where there is a component.
    "whoever",
    "somebody",
    "somebody's",
    "someone",
    "nobody",
    "whatever",
    // Speech and wishes where there is data.
    "told",
    "tell",
    "tells",
    "say",
    "says",
    "said",
    "stand",
    "stands",
    "want",
    "wants",
    // Filler.
    "besides",
];

/// Phrases: each word may have one of several forms.
const PHRASES: &[&[&[&str]]] = &[
    &[&["is", "are", "was"], &["none"]],
    &[&["by"], &["itself", "themselves"]],
    &[&["taken"], &["for", "in"]],
    &[&["take", "takes"], &["in"]],
    &[&["how"], &["it"], &["is"]],
    &[&["so"], &["many", "often", "long"]],
    &[&["what"], &["is"], &["there"]],
    &[&["who"], &["is"], &["there", "who", "dead", "alive"]],
    &[&["for"], &["ever"]],
    &[&["goes", "go", "going"], &["on"]],
    &[&["sleep", "sleeps"], &["away"]],
    &[&["know", "knows"], &["nothing"]],
    &[&["look", "looks"], &["after"]],
    &[&["lead", "leads"], &["to"]],
    &[&["come", "comes"], &["along"]],
    &[&["bring", "brings"], &["along"]],
];

/// Directories whose texts are not prose about this code: tests, data, what is generated.
const SKIPPED: &[&str] = &[
    "target",
    "node_modules",
    ".git",
    "dist",
    "tests",
    "test",
    "golden",
    "fixtures",
    "examples",
    "lexicon",
    "demo",
];

/// What was counted in a text, a file or the workspace.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    words: usize,
    markers: usize,
    doc_lines: usize,
    short_doc_lines: usize,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.markers += other.markers;
        self.doc_lines += other.doc_lines;
        self.short_doc_lines += other.short_doc_lines;
    }

    fn markers_per_1000_words(self) -> f64 {
        1000.0 * self.markers as f64 / self.words.max(1) as f64
    }

    fn short_doc_lines_percent(self) -> f64 {
        100.0 * self.short_doc_lines as f64 / self.doc_lines.max(1) as f64
    }
}

/// Words: a letter, then letters, apostrophes and hyphens.
fn word_count(text: &str) -> usize {
    let mut count = 0;
    let mut in_word = false;
    for c in text.chars() {
        let continues = c.is_ascii_alphabetic() || (in_word && matches!(c, '\'' | '’' | '-'));
        count += usize::from(continues && !in_word);
        in_word = continues;
    }
    count
}

/// How many markers a text has. Markers do not overlap; letter case does not matter.
fn marker_count(text: &str) -> usize {
    let lower = text.to_ascii_lowercase();
    let mut count = 0;
    let mut at = 0;
    while let Some(c) = lower[at..].chars().next() {
        match starts_word(&lower, at).then(|| marker_length(&lower[at..])).flatten() {
            Some(length) => {
                count += 1;
                at += length;
            }
            None => at += c.len_utf8(),
        }
    }
    count
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn starts_word(text: &str, at: usize) -> bool {
    !text[..at].chars().next_back().is_some_and(is_word_char)
}

/// The length of the marker that a text begins with.
fn marker_length(text: &str) -> Option<usize> {
    let word = |words: &[&str], from: usize| {
        let fits = |word: &&&str| {
            let rest = text[from..].strip_prefix(**word);
            rest.is_some_and(|rest| !rest.chars().next().is_some_and(is_word_char))
        };
        words.iter().filter(fits).map(|word| word.len()).max()
    };
    let phrase = |parts: &&[&[&str]]| {
        let mut end = 0;
        for (n, part) in parts.iter().enumerate() {
            let gap = usize::from(n > 0);
            if gap == 1 && !text[end..].starts_with(' ') {
                return None;
            }
            end += gap + word(part, end + gap)?;
        }
        Some(end)
    };
    word(WORDS, 0).or_else(|| PHRASES.iter().find_map(phrase))
}

/// A text without its `code`.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((_, after_code)) = after.split_once('`') else { break };
        out.push_str(before);
        out.push(' ');
        rest = after_code;
    }
    out.push_str(rest);
    out
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = ["///", "//!", "//", "*"].into_iter().find_map(|mark| line.strip_prefix(mark))?;
    Some(text)
}

/// The content of every string literal that begins and ends on a line.
fn strings(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = line[at..].find('"').map(|open| at + open + 1) {
        match string_end(&line[open..]) {
            Some(length) => {
                found.push(&line[open..open + length]);
                at = open + length + 1;
            }
            None => at = open,
        }
    }
    found
}

fn string_end(inside: &str) -> Option<usize> {
    let mut characters = inside.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some(at),
            '\\' => drop(characters.next()?),
            _ => {}
        }
    }
    None
}

/// The prose of a file with its line numbers. Tests at the end of a source file are left out.
fn prose(name: &str, content: &str) -> Vec<(usize, String)> {
    let lines = content.lines().enumerate().map(|(n, line)| (n + 1, line));
    if name.ends_with(".md") {
        let mut fenced = false;
        let outside_of_code = lines.filter(|(_, line)| {
            fenced ^= line.trim_start().starts_with("```");
            !fenced && !line.starts_with("    ")
        });
        return outside_of_code.map(|(n, line)| (n, without_code(line))).collect();
    }
    let mut found = Vec::new();
    for (n, line) in lines.take_while(|(_, line)| !line.contains("#[cfg(test)]")) {
        match comment(line) {
            Some(text) => found.push((n, without_code(text))),
            None => found.extend(
                strings(line)
                    .into_iter()
                    .filter(|text| word_count(text) >= STRING_WORDS_MIN)
                    .map(|text| (n, text.to_owned())),
            ),
        }
    }
    found
}

/// Whether a doc line of a Rust source is short; nothing for other and for empty lines.
fn is_short_doc(line: &str) -> Option<bool> {
    let text = line.trim_start().strip_prefix("///")?.trim();
    (!text.is_empty()).then(|| word_count(text) <= 2)
}

/// A line with markers, for the report.
struct Example {
    density: f64,
    place: String,
}

fn measure(name: &str, content: &str, examples: &mut Vec<Example>) -> Count {
    let mut count = Count::default();
    for (number, text) in prose(name, content) {
        let (words, markers) = (word_count(&text), marker_count(&text));
        count.words += words;
        count.markers += markers;
        if markers > 0 {
            let density = markers as f64 / words.max(1) as f64;
            examples.push(Example { density, place: format!("{name}:{number}: {}", text.trim()) });
        }
    }
    if name.ends_with(".rs") {
        let docs: Vec<bool> = content.lines().filter_map(is_short_doc).collect();
        count.doc_lines = docs.len();
        count.short_doc_lines = docs.into_iter().filter(|short| *short).count();
    }
    count
}

fn is_prose_file(name: &str) -> bool {
    let kind = [".rs", ".ts", ".tsx", ".md"].iter().any(|end| name.ends_with(end));
    kind && name != "CHANGELOG.md" && !name.starts_with("LICENSE")
}

/// What the whole workspace has, and a report of its worst files and lines.
fn measure_workspace(root: &Path) -> (Count, String) {
    let (mut total, mut files, mut examples) = (Count::default(), Vec::new(), Vec::new());
    let paths = workspace::files(root, &|dir| SKIPPED.contains(&dir), &is_prose_file);
    for path in paths {
        let name = workspace::relative(&path);
        let count = measure(&name, &workspace::read(&path), &mut examples);
        total.add(count);
        files.push((count, name));
    }
    (total, report(total, files, examples))
}

fn report(total: Count, mut files: Vec<(Count, String)>, mut examples: Vec<Example>) -> String {
    let mut lines = vec![format!(
        "{:.1} markers per 1,000 words ({} in {}, at most {MARKERS_PER_1000_WORDS_MAX}); \
         {:.1} % of the doc lines have one or two words ({} of {}, at most \
         {SHORT_DOC_LINES_PERCENT_MAX} %)",
        total.markers_per_1000_words(),
        total.markers,
        total.words,
        total.short_doc_lines_percent(),
        total.short_doc_lines,
        total.doc_lines,
    )];
    let mut list = |title: &str, rows: Vec<String>| {
        lines.push(title.to_owned());
        lines.extend(rows.into_iter().take(EXAMPLES_MAX).map(|row| format!("  {row}")));
    };
    files.sort_by_key(|(count, _)| Reverse(count.markers));
    let worst = files.iter().filter(|(count, _)| count.markers > 0);
    list("most markers:", worst.map(|(n, name)| format!("{:4}  {name}", n.markers)).collect());
    files.sort_by_key(|(count, _)| Reverse(count.short_doc_lines));
    let worst = files.iter().filter(|(count, _)| count.short_doc_lines > 0);
    let row = |(n, name): &(Count, String)| format!("{:4}  {name}", n.short_doc_lines);
    list("most short doc lines:", worst.map(row).collect());
    examples.sort_by(|a, b| b.density.total_cmp(&a.density));
    list("lines:", examples.into_iter().map(|one| one.place).collect());
    lines.join("\n")
}

#[test]
fn prose_is_plain_technical_english() {
    let (total, report) = measure_workspace(&workspace::root());
    assert!(total.words > 20_000, "{} words are too few to be all of them", total.words);
    println!("{}", report.lines().next().unwrap_or_default());
    assert!(
        total.markers_per_1000_words() <= MARKERS_PER_1000_WORDS_MAX
            && total.short_doc_lines_percent() <= SHORT_DOC_LINES_PERCENT_MAX,
        "{report}"
    );
}

#[test]
fn words_are_counted_with_apostrophes_and_hyphens() {
    for (text, words) in [
        ("", 0),
        ("one", 1),
        ("the store's write-ahead log", 4),
        ("the store’s log", 3),
        ("4 KiB of 3x2 pages", 4),
        ("- a, b; c_d", 4),
    ] {
        assert_eq!(word_count(text), words, "{text}");
    }
}

#[test]
fn markers_are_whole_words_and_phrases() {
    for (text, markers) in [
        ("Whoever comes first tells the others.", 2),
        ("somebody's store, nobody's", 2),
        ("The text is none, and the log goes on for ever.", 3),
        ("who is dead or who is there", 2),
        ("so many, so often", 2),
        ("The leader writes the batch.", 0),
        ("sayings, wanted, standing, foretold, untold", 0),
        ("so  many", 0),
        ("goes\non", 0),
        ("said_by", 0),
        ("It said: said.", 2),
    ] {
        assert_eq!(marker_count(text), markers, "{text}");
    }
}

#[test]
fn prose_of_a_source_is_its_comments_and_longer_strings() {
    let source = "
//! It says what.
use x; // a comment after code is not read
/// Says `who said it` here.
fn f() {
    let key = \"it said\";
    let text = \"who said \\\"that\\\" to them\"; // said
    let two = (\"one said this thing\", \"and somebody said that\");
}
#[cfg(test)]
mod tests { /* said */ }
// said
";
    let texts: Vec<(usize, String)> = prose("a.rs", source);
    let texts: Vec<(usize, &str)> = texts.iter().map(|(n, text)| (*n, text.as_str())).collect();
    assert_eq!(
        texts,
        [
            (2, " It says what."),
            (4, " Says   here."),
            (7, "who said \\\"that\\\" to them"),
            (8, "one said this thing"),
            (8, "and somebody said that"),
        ]
    );
}

#[test]
fn prose_of_a_document_is_what_is_not_code() {
    let document = "# Said\n\n```\nsaid\n```\n    said\ntext `said` said\n";
    let texts: Vec<usize> = prose("a.md", document)
        .into_iter()
        .filter(|(_, text)| marker_count(text) > 0)
        .map(|(number, _)| number)
        .collect();
    assert_eq!(texts, [1, 7]);
}

#[test]
fn doc_lines_of_one_or_two_words_are_short() {
    assert_eq!(is_short_doc("    /// Which."), Some(true));
    assert_eq!(is_short_doc("/// The `id`."), Some(true));
    assert_eq!(is_short_doc("/// Size in bytes."), Some(false));
    assert_eq!(is_short_doc("///"), None);
    assert_eq!(is_short_doc("// Which."), None);
}

#[test]
fn a_file_of_odd_english_is_over_both_bounds() {
    let mut examples = Vec::new();
    let count = measure("a.rs", "/// Which.\n/// Somebody said so.\n", &mut examples);
    let expected = Count { words: 4, markers: 2, doc_lines: 2, short_doc_lines: 1 };
    assert_eq!(count, expected);
    assert!(count.markers_per_1000_words() > MARKERS_PER_1000_WORDS_MAX);
    assert!(count.short_doc_lines_percent() > SHORT_DOC_LINES_PERCENT_MAX);
    assert_eq!(examples.len(), 1);
    let report = report(count, vec![(count, "a.rs".to_owned())], examples);
    assert!(report.contains("a.rs:2: Somebody said so."), "{report}");
}
