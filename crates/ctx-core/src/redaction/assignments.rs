//! Secrets that are recognised by the name that they are assigned to: `DB_PASSWORD=…`,
//! `"api_key": "…"`, `--token …`.
//!
//! Code assigns to such names too (`token = next_token()`), so the value decides as well: the less
//! certain the form of the assignment is, the more the value must look like a secret.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::Redactor;
use super::tokens::is_placeholder;

/// Bytes of the shortest value that is replaced.
const VALUE_MIN: usize = 4;
/// Bytes of the longest value that is replaced because of its name.
const VALUE_MAX: usize = 4096;
/// Bytes of the shortest value without quotes behind a lower-case name.
const BARE_MIN: usize = 12;
/// Bytes of the shortest value that is recognised by its randomness.
const RANDOM_MIN: usize = 24;
/// Shannon entropy of a random value, in bits per character.
const RANDOM_BITS_MIN: f64 = 4.0;

static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x)
        (?P<name> [A-Za-z_] [A-Za-z0-9_.-]{1,80} )
        (?P<operator> \\? ["']? \s{0,3} (?: := | => | = | : ) \s{0,3} )
        (?: \\? (?P<quote> ["'`] ) (?P<quoted> [^"'`\\\r\n]{4,} )
          | (?P<bare> [^\s"'`\\,;(){}\[\]<>&|]{4,} ) )
    "#;
    Regex::new(pattern).expect("the pattern is a constant")
});

static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x)
        --(?P<name> (?: [a-z]+- )*
            (?: password | passwd | passphrase | token | secret | api-?key ) )
        [\x20=] ["']? (?P<bare> [^\s"'`\\,;(){}\[\]<>&|$-][^\s"'`\\,;(){}\[\]<>&|]{3,} )
    "#;
    Regex::new(pattern).expect("the pattern is a constant")
});

/// The kind of a secret by the name of its variable or field; `None` for other names.
static NAMES: LazyLock<[(&'static str, Regex); 3]> = LazyLock::new(|| {
    let compile = |pattern| Regex::new(pattern).expect("the patterns are constants");
    [
        ("aws_secret_key", compile(r"(?i)aws_?secret(?:_?access)?_?key$")),
        (
            "password",
            compile(r"(?i)(?:^|[_.-]|[a-z])(?:password|passwd|passphrase)$|(?i)[_-](?:pass|pwd)$"),
        ),
        (
            "secret",
            compile(
                r"(?ix) (?: ^ | [_.-] | [a-z] ) (?:
                    secret | secret[_-]?key(?:[_-]?base)? | token | api[_-]?key | apikey
                  | access[_-]?key | private[_-]?key | signing[_-]?key | encryption[_-]?key
                  | master[_-]?key | account[_-]?key | auth[_-]?key ) $",
            ),
        ),
    ]
});

/// Replaces the values that are assigned to the names of secrets.
pub(super) fn replace<'a>(text: &'a str, redactor: &mut Redactor) -> Cow<'a, str> {
    let flags = |found: &Captures<'_>| {
        let kind = kind_of(&found["name"].replace('-', "_")).unwrap_or("secret");
        replaced(found, &found["bare"], |value| is_value(value).then_some(kind), redactor)
    };
    let mut text = Cow::Borrowed(text);
    if FLAG.is_match(&text) {
        let changed = FLAG.replace_all(&text, flags).into_owned();
        text = keep_if_equal(text, changed);
    }
    if ASSIGNMENT.is_match(&text) {
        let one = |found: &Captures<'_>| {
            let name = &found["name"];
            match found.name("quoted") {
                Some(quoted) => {
                    let kind = |value: &str| quoted_kind(name, value);
                    replaced(found, quoted.as_str(), kind, redactor)
                }
                None => {
                    let kind = |value: &str| bare_kind(name, &found["operator"], value);
                    replaced(found, &found["bare"], kind, redactor)
                }
            }
        };
        let changed = ASSIGNMENT.replace_all(&text, one).into_owned();
        text = keep_if_equal(text, changed);
    }
    text
}

fn keep_if_equal(text: Cow<'_, str>, changed: String) -> Cow<'_, str> {
    if changed == *text { text } else { Cow::Owned(changed) }
}

/// The kind of secret in a field of a JSON object.
pub(super) fn secret_field(name: &str, value: &str) -> Option<&'static str> {
    quoted_kind(name, value)
}

/// The match with its value replaced. The value is the end of the match.
fn replaced(
    found: &Captures<'_>,
    value: &str,
    kind: impl Fn(&str) -> Option<&'static str>,
    redactor: &mut Redactor,
) -> String {
    let whole = &found[0];
    match kind(value) {
        Some(kind) => {
            let before = &whole[..whole.len() - value.len()];
            format!("{before}{}", redactor.mark(kind))
        }
        None => whole.to_owned(),
    }
}

fn kind_of(name: &str) -> Option<&'static str> {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    NAMES.iter().find(|(_, pattern)| pattern.is_match(name)).map(|(kind, _)| *kind)
}

/// A value in quotes: one word.
fn quoted_kind(name: &str, value: &str) -> Option<&'static str> {
    if let Some(kind) = kind_of(name) {
        let is_word = !value.contains(char::is_whitespace);
        return (is_word && is_value(value) && !is_type_name(value)).then_some(kind);
    }
    (names_a_key(name) && is_random(value)).then_some("high_entropy")
}

/// A value without quotes: of an environment variable, or one that looks like a secret.
fn bare_kind(name: &str, operator: &str, value: &str) -> Option<&'static str> {
    let kind = kind_of(name)?;
    let is_variable = operator == "="
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
    let (digit, letter) = (has(char::is_ascii_digit), has(char::is_ascii_alphabetic));
    let is_secret = if is_variable {
        is_value(value)
    } else if kind == "password" {
        is_value(value) && digit && letter && !value.contains('.')
    } else {
        is_value(value) && digit && letter && value.len() >= BARE_MIN && !value.contains("::")
    };
    is_secret.then_some(kind)
}

/// Whether a value can be a secret at all.
fn is_value(value: &str) -> bool {
    const WORDS: [&str; 12] = [
        "null",
        "none",
        "true",
        "false",
        "undefined",
        "required",
        "optional",
        "string",
        "number",
        "integer",
        "boolean",
        "object",
    ];
    let lower = value.to_ascii_lowercase();
    let is_path = value.starts_with(['/', '~']) || value.starts_with("./");
    let is_reference =
        ["process.env", "os.environ", "env.", "self.", "this.", "secrets.", "vault:"]
            .iter()
            .any(|start| lower.starts_with(start));
    (VALUE_MIN..=VALUE_MAX).contains(&value.len())
        && !WORDS.contains(&lower.as_str())
        && !is_placeholder(value)
        && !is_path
        && !is_reference
        && !value.contains("://")
}

/// A word such as `password` or `access_token`: the name of a field and not a value.
fn is_type_name(value: &str) -> bool {
    kind_of(value).is_some() || value.chars().all(|c| c == '_' || c == '-' || c == ' ')
}

/// Names that are no proof of a secret, but allow one.
fn names_a_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "auth", "cred", "pwd", "passw"].iter().any(|part| name.contains(part))
        && !["public", "keyid", "key_id", "author"].iter().any(|part| name.contains(part))
}

/// Whether a value has no structure: many different characters of all classes. Hashes, UUIDs and
/// ULIDs have letters of one case only.
fn is_random(value: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-');
    let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
    (RANDOM_MIN..=512).contains(&value.len())
        && value.chars().all(is_token)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit)
        && entropy(value) >= RANDOM_BITS_MIN
}

fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let bits = |count: &u32| {
        let share = f64::from(*count) / total;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(bits).sum()
}
