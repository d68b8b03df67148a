//! Texts in which `*` matches any number of characters.

/// Whether a pattern matches a whole text. A pattern without `*` matches the same text only.
///
/// It remembers only the last `*`, so the time is bounded by the product of the lengths.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((after, from)) = star {
            star = Some((after, from + 1));
            (p, t) = (after, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_number_of_characters() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("a", "a", true),
            ("a", "A", false),
            ("a", "ab", false),
            ("ab", "a", false),
            ("*", "", true),
            ("*", "a*b", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "bba", true),
            ("*a", "ab", false),
            ("a*c*e", "abcde", true),
            ("a*c*e", "aec", false),
            ("*ab", "aab", true),
            ("*é*", "café!", true),
            ("a**b", "ab", true),
            ("[a-z]?", "b", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_end_in_bounded_time() {
        assert!(!matches(&format!("{}b", "a*".repeat(120)), &"a".repeat(255)));
    }
}
