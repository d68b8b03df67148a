//! Short ids: the shortest unique beginning of an id, and the beginnings that a user may give.
//!
//! The first ten characters of a ULID are its time: ids of one day begin alike. Its short id is
//! therefore the beginning of its last sixteen characters, which are random.

/// Fewest characters of an abbreviated id.
pub const SHORT_MIN: usize = 4;
/// Characters of a ULID before its random half.
pub const ULID_TIME_CHARS: usize = 10;
/// Characters of a ULID.
pub const ULID_CHARS: usize = 26;
/// Hex digits of a hash.
pub const HASH_DIGITS: usize = 64;
/// Candidates that the error about an ambiguous id lists.
pub const CANDIDATES_MAX: usize = 8;

/// The text in upper case, if a ULID or its random half can begin with it.
pub fn ulid_beginning(text: &str) -> Option<String> {
    let is_digit = |byte: u8| {
        byte.is_ascii_alphanumeric()
            && !matches!(byte.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U')
    };
    let fits = (SHORT_MIN..=ULID_CHARS).contains(&text.len()) && text.bytes().all(is_digit);
    fits.then(|| text.to_ascii_uppercase())
}

/// The text in lower case, if a hash can begin with it.
pub fn hash_beginning(text: &str) -> Option<String> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fits = (SHORT_MIN..=HASH_DIGITS).contains(&text.len()) && is_hex;
    fits.then(|| text.to_ascii_lowercase())
}

/// The random half of a ULID in its text form.
pub fn random_half(ulid: &str) -> &str {
    ulid.get(ULID_TIME_CHARS..).unwrap_or(ulid)
}

/// Whether the ULID or its random half begins with `beginning`, which is in upper case.
pub fn ulid_begins_with(ulid: &str, beginning: &str) -> bool {
    ulid.starts_with(beginning) || random_half(ulid).starts_with(beginning)
}

/// The shortest beginning of `id` that none of the others has. All of `id` if one of them begins
/// with it.
pub fn shortest_unique<'a>(id: &str, others: impl IntoIterator<Item = &'a str>) -> String {
    let common = |other: &str| id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let longest = others.into_iter().map(common).max().unwrap_or(0);
    id.chars().take((longest + 1).max(SHORT_MIN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_an_id_can_begin_with_are_beginnings() {
        assert_eq!(ulid_beginning("k7q2"), Some("K7Q2".to_owned()));
        assert_eq!(ulid_beginning("01kabcdefghjkmnpqrstvwxyz0").as_deref().map(str::len), Some(26));
        for text in ["", "abc", "main", "a b c", "k7q2-", "0lou", "ééé", &"0".repeat(27)] {
            assert_eq!(ulid_beginning(text), None, "{text}");
        }
        assert_eq!(hash_beginning("ABCD"), Some("abcd".to_owned()));
        for text in ["abc", "abcg", "ab d", &"0".repeat(65)] {
            assert_eq!(hash_beginning(text), None, "{text}");
        }
    }

    #[test]
    fn the_shortest_beginning_differs_from_every_other_id() {
        assert_eq!(shortest_unique("abcdefgh", []), "abcd");
        assert_eq!(shortest_unique("abcdefgh", ["zzzz", "abcdx"]), "abcde");
        assert_eq!(shortest_unique("abcdefgh", ["abcdefgx", "abcdx"]), "abcdefgh");
        assert_eq!(shortest_unique("abcd", ["abcd"]), "abcd");
    }

    #[test]
    fn either_half_of_a_ulid_can_be_given() {
        let id = "01KAAAAAAAK7Q2XXXXXXXXXXXX";
        assert!(ulid_begins_with(id, "K7Q2") && ulid_begins_with(id, "01KA"));
        assert!(!ulid_begins_with(id, "Q2XX"));
    }
}
