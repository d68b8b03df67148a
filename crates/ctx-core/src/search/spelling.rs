//! Suggests words that are spelt almost like a word of a query.

/// Shortest word that is corrected, in characters.
pub const CORRECTED_CHARS_MIN: usize = 3;

/// Number of insertions, deletions, substitutions and transpositions of neighbours that make one
/// word into another; `None` if it is more than `max`.
pub fn distance(a: &str, b: &str, max: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > max {
        return None;
    }
    let mut rows =
        [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<usize>>(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        rows[2][0] = i;
        for j in 1..=b.len() {
            let substituted = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = substituted.min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = least;
        }
        if rows[2].iter().all(|cost| *cost > max) {
            return None;
        }
        rows.rotate_left(1);
    }
    Some(rows[1][b.len()]).filter(|found| *found <= max)
}

/// Errors that a word of this length may have.
pub fn errors_max(word: &str) -> usize {
    if word.chars().count() <= 5 { 1 } else { 2 }
}

/// Beginnings of words among which the meant word is looked for: its first letter may be wrong if
/// the first two are swapped, or one is missing or too many.
pub fn beginnings(word: &str) -> Vec<String> {
    let mut found: Vec<String> = word.chars().take(2).map(String::from).collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_errors() {
        for (a, b, expected) in [
            ("retry", "retry", Some(0)),
            ("retyr", "retry", Some(1)),
            ("rety", "retry", Some(1)),
            ("retrry", "retry", Some(1)),
            ("betry", "retry", Some(1)),
            ("ertyr", "retry", Some(2)),
            ("walrus", "retry", None),
            ("größe", "grösse", Some(2)),
            ("", "ab", Some(2)),
        ] {
            assert_eq!(distance(a, b, 2), expected, "{a} {b}");
            assert_eq!(distance(b, a, 2), expected, "{b} {a}");
        }
    }
}
