//! Invalid input of every kind is refused with a reason and changes nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::harness::repo::{Repo, failure};

/// The verbs that take a text, with the arguments before it.
const TEXTS: [&[&str]; 5] = [
    &["stage", "note"],
    &["stage", "ask"],
    &["stage", "done"],
    &["stage", "message"],
    &["stage", "observe", "plan"],
];

#[test]
fn an_empty_or_blank_text_is_refused() {
    let repo = Repo::working_on("Add retry logic");
    for verb in TEXTS {
        for blank in ["", " ", "\n\t \u{a0}\u{2003}"] {
            let (exit, error) = repo.refuses([verb, &[blank]].concat());
            assert_eq!((exit, &error["code"]), (2, &json!("bad_text")), "{verb:?} {blank:?}");
        }
    }
    for arguments in [vec!["stage", "compact", "-m", ""], vec!["stage", "abort", "--reason", " "]] {
        assert_eq!(repo.refuses(&arguments).1["code"], "bad_text", "{arguments:?}");
    }
    assert_eq!(Repo::new().refuses(["stage", "start", "  "]).1["code"], "bad_text");
}

#[test]
fn a_text_of_ten_megabytes_is_refused_with_its_bound() {
    let repo = Repo::working_on("Add retry logic");
    let before = repo.everything();
    let large = "x".repeat(10 << 20);
    for verb in TEXTS {
        let (exit, error) =
            failure(&repo.piped([&["--json"], verb, &["-"]].concat(), large.as_bytes()));
        assert_eq!((exit, &error["code"]), (2, &json!("bad_text")), "{verb:?}");
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("1000000")),
            "it names the bound: {error}"
        );
    }
    assert_eq!(repo.everything(), before);
}

#[test]
fn a_text_far_over_the_limit_is_reported_as_too_long_in_any_script() {
    // Reading stops at a limit. Where the limit is inside a character, the text is not invalid
    // UTF-8.
    let repo = Repo::working_on("Add retry logic");
    for letter in ["x", "é", "日", "🚀"] {
        let large = letter.repeat((17 << 20) / letter.len());
        let (exit, error) =
            failure(&repo.piped(["--json", "stage", "note", "-"], large.as_bytes()));
        assert_eq!(exit, 2);
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("1000000")),
            "{letter}: {error}"
        );
    }
}

#[test]
fn a_text_of_the_maximum_length_is_stored_completely() {
    let repo = Repo::working_on("Add retry logic");
    let long = "é".repeat(500_000);
    crate::harness::repo::document(&repo.piped(["--json", "stage", "note", "-"], long.as_bytes()));
    assert!(repo.notes() == [long], "a note of a million bytes is what was written");
    repo.assert_whole();
}

#[test]
fn a_nul_and_invalid_utf8_are_refused() {
    let repo = Repo::working_on("Add retry logic");
    let before = repo.everything();
    for verb in TEXTS {
        for (input, named) in [
            (&b"a\0b"[..], "NUL"),
            (b"\xff\xfe", "UTF-8"),
            (b"caf\xc3", "UTF-8"),
            (b"\xed\xa0\x80", "UTF-8"),
        ] {
            let (exit, error) = failure(&repo.piped([&["--json"], verb, &["-"]].concat(), input));
            assert_eq!((exit, &error["code"]), (2, &json!("bad_text")), "{verb:?} {input:?}");
            assert!(error["message"].as_str().is_some_and(|text| text.contains(named)), "{error}");
        }
    }
    assert_eq!(repo.everything(), before);
}

#[test]
fn an_argument_of_invalid_utf8_is_refused() {
    let repo = Repo::working_on("Add retry logic");
    let odd = OsStr::from_bytes(b"caf\xe9");
    for verb in TEXTS {
        let arguments: Vec<&OsStr> = verb.iter().map(OsStr::new).chain([odd]).collect();
        let (exit, error) = repo.refuses(arguments);
        assert_eq!(exit, 2);
        assert!(error["message"].as_str().is_some_and(|text| text.contains("UTF-8")), "{error}");
    }
}

#[test]
fn an_empty_standard_input_is_an_empty_text() {
    let repo = Repo::working_on("Add retry logic");
    for input in [&b""[..], b"\n", b"\r\n\r\n"] {
        let (exit, error) = failure(&repo.piped(["--json", "stage", "note", "-"], input));
        assert_eq!((exit, &error["code"]), (2, &json!("bad_text")));
    }
}

#[test]
fn control_characters_are_stored_unchanged() {
    let repo = Repo::new();
    let odd = "a\tb\r\nc\u{1b}[31mred\u{7f}\u{202e}x\\n\"'`$(rm)";
    repo.ok(["stage", "start", odd]);
    assert_eq!(repo.task()["description"], odd);
    repo.ok(["stage", "note", odd]);
    assert_eq!(repo.notes(), [odd]);
    repo.assert_whole();
}

#[test]
fn a_stored_text_cannot_control_the_terminal() {
    // Recorded text is printed to a terminal; an escape sequence in it must have no effect.
    let repo = Repo::working_on("Add \u{1b}[2Jretry\u{7}");
    repo.ok(["stage", "note", "\u{1b}]0;title\u{7} and \u{1b}[31mred"]);
    for verb in
        [vec!["stage", "status"], vec!["narrative"], vec!["status"], vec!["search", "title*"]]
    {
        let shown = repo.says(&verb);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{verb:?}: {shown:?}");
    }
}
