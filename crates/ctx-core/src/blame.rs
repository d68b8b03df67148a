//! Which recorded change wrote each line of a file.
//!
//! The recorded states of the file are followed in the order of time. A line that stays, or that is
//! moved inside the file, keeps its origin; a line that a write adds has the origin of that write;
//! a line that appears between two records has none. At the end the file itself is compared with
//! the last state. A line counts as the same if it differs only in white space at its end, and in
//! the file itself also if only its indentation differs.

use std::collections::{HashMap, VecDeque};

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Larger files are not compared.
pub const FILE_MAX_BYTES: usize = 4 << 20;
/// Lines of two states, without their common beginning and end, up to which the shortest
/// difference is searched for. Beyond, equal lines are matched in their order.
const DIFF_MAX_LINES: usize = 6_000;
/// Letters and digits of a line that is recognised wherever it is.
const DISTINCT_MIN_CHARS: usize = 4;

/// A recorded change of a file. `origin` is a number that the caller chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// The file was written with this content.
    Written {
        /// The whole content.
        text: String,
        /// Identifies the writer.
        origin: usize,
    },
    /// The file was read with this content.
    Seen {
        /// The whole content.
        text: String,
    },
    /// A part of the file was replaced.
    Edited {
        /// The part before.
        before: String,
        /// The part after.
        after: String,
        /// Identifies the writer.
        origin: usize,
    },
    /// The file was deleted.
    Deleted,
}

/// The origin of each line of `file`; `None` for a line of which nothing is recorded.
pub fn blame(changes: &[FileChange], file: &str) -> Vec<Option<usize>> {
    let mut history = FileHistory::default();
    for change in changes {
        history.apply(change);
    }
    history.compare(file)
}

/// The lines that the last of these changes added, by number from 1, if it wrote the whole file.
pub fn added_lines(before: Option<&str>, after: &str) -> Vec<usize> {
    let mut changes: Vec<FileChange> =
        before.map(|text| FileChange::Seen { text: text.to_owned() }).into_iter().collect();
    changes.push(FileChange::Written { text: after.to_owned(), origin: 0 });
    let origins = blame(&changes, after);
    (1..).zip(origins).filter(|(_, origin)| origin.is_some()).map(|(line, _)| line).collect()
}

#[derive(Clone)]
struct Line {
    text: String,
    origin: Option<usize>,
}

/// A file after some of its changes.
#[derive(Default)]
pub struct FileHistory {
    lines: Vec<Line>,
    /// Whether a whole content was recorded.
    is_known: bool,
    /// The newest change that added a line with a text, without white space at its ends.
    added: HashMap<String, usize>,
}

impl FileHistory {
    /// Follows the next change.
    pub fn apply(&mut self, change: &FileChange) {
        match change {
            FileChange::Written { text, origin } => self.replace(text, Some(*origin)),
            FileChange::Seen { text } => self.replace(text, None),
            FileChange::Deleted => (self.lines, self.is_known) = (Vec::new(), true),
            FileChange::Edited { before, after, origin } => {
                let text = self.text();
                match self.is_known && !before.is_empty() && text.contains(before.as_str()) {
                    true => self.replace(&text.replacen(before.as_str(), after, 1), Some(*origin)),
                    false => self.note_part(before, after, *origin),
                }
            }
        }
    }

    fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        lines.join("\n")
    }

    /// Notes the lines that an edit of an unknown file adds.
    fn note_part(&mut self, before: &str, after: &str, origin: usize) {
        let known: Vec<&str> = before.lines().map(str::trim).collect();
        for line in after.lines().filter(|line| is_distinct(line)) {
            if !known.contains(&line.trim()) {
                self.added.insert(line.trim().to_owned(), origin);
            }
        }
    }

    fn replace(&mut self, text: &str, writer: Option<usize>) {
        let new: Vec<&str> = text.lines().map(str::trim_end).collect();
        let mut origins = self.matched(&new, |line| line.to_owned());
        let lines = new.iter().zip(&mut origins).map(|(text, origin)| {
            if origin.is_none()
                && let Some(writer) = writer
                && is_distinct(text)
            {
                self.added.insert(text.trim().to_owned(), writer);
            }
            Line { text: (*text).to_owned(), origin: origin.unwrap_or(writer) }
        });
        self.lines = lines.collect();
        self.is_known = true;
    }

    /// The origin of each line of the file as it is now; `None` for a line of which nothing is
    /// recorded.
    pub fn compare(&self, file: &str) -> Vec<Option<usize>> {
        let new: Vec<&str> = file.lines().map(str::trim_end).collect();
        let matched = match self.is_known {
            true => self.matched(&new, |line| line.trim().to_owned()),
            false => vec![None; new.len()],
        };
        let of = |(text, origin): (&&str, Option<Option<usize>>)| match origin {
            Some(origin) => origin,
            None => self.added.get(text.trim()).copied(),
        };
        new.iter().zip(matched).map(of).collect()
    }

    /// For each new line the origin of the line of this state that it continues. The outer `None`
    /// is a line without one. `key` decides which lines are the same when lines are moved.
    #[allow(clippy::option_option, reason = "a line that stays may have no origin")]
    fn matched(&self, new: &[&str], key: impl Fn(&str) -> String) -> Vec<Option<Option<usize>>> {
        let old: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        let pairs = same_lines(&old, new);
        let mut matched = vec![None; new.len()];
        let mut left: HashMap<String, VecDeque<usize>> = HashMap::new();
        let mut is_used = vec![false; old.len()];
        for (from, to) in pairs {
            matched[to] = Some(self.lines[from].origin);
            is_used[from] = true;
        }
        for (at, line) in old.iter().enumerate().filter(|(at, _)| !is_used[*at]) {
            if is_distinct(line) {
                left.entry(key(line)).or_default().push_back(at);
            }
        }
        for (text, slot) in new.iter().zip(&mut matched).filter(|(_, slot)| slot.is_none()) {
            if let Some(from) = left.get_mut(&key(text)).and_then(VecDeque::pop_front) {
                *slot = Some(self.lines[from].origin);
            }
        }
        matched
    }
}

/// Whether a line is recognised without its neighbours: a lone bracket is not.
fn is_distinct(line: &str) -> bool {
    line.chars().filter(|c| c.is_alphanumeric()).take(DISTINCT_MIN_CHARS).count()
        == DISTINCT_MIN_CHARS
}

/// Pairs of equal lines in the same order: number in `old`, number in `new`.
fn same_lines(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let first = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - first;
    let ends = old.iter().rev().zip(new.iter().rev()).take(rest);
    let last = ends.take_while(|(a, b)| a == b).count();
    let (middle_old, middle_new) = (&old[first..old.len() - last], &new[first..new.len() - last]);
    let mut pairs: Vec<(usize, usize)> = (0..first).map(|n| (n, n)).collect();
    let middle = match middle_old.len() + middle_new.len() <= DIFF_MAX_LINES {
        true => shortest_difference(middle_old, middle_new),
        false => in_order(middle_old, middle_new),
    };
    pairs.extend(middle.into_iter().map(|(a, b)| (first + a, first + b)));
    pairs.extend((1..=last).map(|n| (old.len() - n, new.len() - n)));
    pairs
}

fn shortest_difference(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let equal = |op: DiffOp| match op {
        DiffOp::Equal { old_index, new_index, len } => {
            (0..len).map(|n| (old_index + n, new_index + n)).collect()
        }
        _ => Vec::new(),
    };
    capture_diff_slices(Algorithm::Patience, old, new).into_iter().flat_map(equal).collect()
}

/// Matches each new line with the next equal old line. Fast for any number of lines.
fn in_order(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let mut places: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (at, line) in old.iter().enumerate() {
        places.entry((*line).to_owned()).or_default().push_back(at);
    }
    let take = |(to, line): (usize, &&str)| {
        places.get_mut(*line).and_then(VecDeque::pop_front).map(|from| (from, to))
    };
    new.iter().enumerate().filter_map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, origin: usize) -> FileChange {
        FileChange::Written { text: text.to_owned(), origin }
    }

    fn seen(text: &str) -> FileChange {
        FileChange::Seen { text: text.to_owned() }
    }

    fn edited(before: &str, after: &str, origin: usize) -> FileChange {
        FileChange::Edited { before: before.to_owned(), after: after.to_owned(), origin }
    }

    const A: &str = "fn alpha() {}";
    const B: &str = "fn beta() {}";
    const C: &str = "fn gamma() {}";

    fn text(lines: &[&str]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn each_line_has_the_change_that_introduced_it_and_kept_it() {
        let whole = |lines: &[&str], origin| written(&text(lines), origin);
        type Case<'a> = (&'a str, Vec<FileChange>, Vec<&'a str>, Vec<Option<usize>>);
        let table: [Case<'_>; 14] = [
            ("nothing is recorded", vec![], vec![A], vec![None]),
            ("one write", vec![whole(&[A, B], 1)], vec![A, B], vec![Some(1), Some(1)]),
            (
                "a second session adds a line",
                vec![whole(&[A], 1), whole(&[A, B], 2)],
                vec![A, B],
                vec![Some(1), Some(2)],
            ),
            (
                "what was read before the write has no origin",
                vec![seen(&text(&[A])), whole(&[A, B], 1)],
                vec![A, B],
                vec![None, Some(1)],
            ),
            (
                "a line that a person added",
                vec![whole(&[A, C], 1)],
                vec![A, B, C],
                vec![Some(1), None, Some(1)],
            ),
            (
                "a line that a person changed",
                vec![whole(&[A, B, C], 1)],
                vec![A, "fn changed() {}", C],
                vec![Some(1), None, Some(1)],
            ),
            (
                "moved lines",
                vec![whole(&[A, B], 1), whole(&[A, B, C], 2)],
                vec![C, A, B],
                vec![Some(2), Some(1), Some(1)],
            ),
            (
                "lines that a later session moved",
                vec![whole(&[A, B, C], 1), whole(&[C, A, B], 2)],
                vec![C, A, B],
                vec![Some(1), Some(1), Some(1)],
            ),
            (
                "written twice: deleted by the second, written again by the third",
                vec![whole(&[A, B], 1), whole(&[A], 2), whole(&[A, B], 3)],
                vec![A, B],
                vec![Some(1), Some(3)],
            ),
            (
                "deleted and written again by a person",
                vec![whole(&[A, B], 1), whole(&[A], 2)],
                vec![A, B],
                vec![Some(1), Some(1)],
            ),
            (
                "the file was deleted and written again",
                vec![whole(&[A, B], 1), FileChange::Deleted, whole(&[A], 2)],
                vec![A],
                vec![Some(2)],
            ),
            (
                "indented by a person",
                vec![whole(&[A, B], 1)],
                vec!["  fn alpha() {}", B],
                vec![Some(1), Some(1)],
            ),
            (
                "edits of a known file",
                vec![seen(&text(&[A, B])), edited(B, C, 4)],
                vec![A, C],
                vec![None, Some(4)],
            ),
            (
                "edits of an unknown file",
                vec![edited(A, &text(&[A, B]), 4)],
                vec![A, B, C],
                vec![None, Some(4), None],
            ),
        ];
        for (what, changes, file, expected) in table {
            assert_eq!(blame(&changes, &text(&file)), expected, "{what}");
            let windows = text(&file).replace('\n', "\r\n");
            assert_eq!(blame(&changes, &windows), expected, "{what}, with CRLF");
        }
    }

    #[test]
    fn white_space_at_the_end_of_a_line_does_not_matter() {
        let changes = [written("fn alpha() {}\r\n\r\nfn beta() {}  \r\n", 1)];
        let file = "fn alpha() {}\t\n\nfn beta() {}";
        assert_eq!(blame(&changes, file), [Some(1); 3]);
        assert_eq!(blame(&changes, ""), []);
    }

    #[test]
    fn a_new_bracket_is_not_taken_for_a_deleted_one() {
        let changes = [written("fn one() {\n}\n", 1), written("fn one() {\n}\nfn two() {\n}\n", 2)];
        let expected = [Some(1), Some(1), Some(2), Some(2)];
        assert_eq!(blame(&changes, "fn one() {\n}\nfn two() {\n}\n"), expected);
    }

    #[test]
    fn a_file_with_many_changed_lines_is_compared_in_time() {
        let file =
            |word: &str| (0..40_000).map(|n| format!("{word} line {n}\n")).collect::<String>();
        let kept = |text: &str| format!("{text}a line that stays\n{text}");
        let changes = [written(&kept(&file("old")), 1), written(&kept(&file("new")), 2)];
        let origins = blame(&changes, &kept(&file("new")));
        assert_eq!(origins.iter().filter(|origin| **origin == Some(1)).count(), 1);
        assert_eq!(origins[40_000], Some(1));
    }

    #[test]
    fn added_lines_are_those_that_the_text_before_does_not_have() {
        assert_eq!(added_lines(Some(&text(&[A, C])), &text(&[A, B, C])), [2]);
        assert_eq!(added_lines(None, &text(&[A, B])), [1, 2]);
    }
}
