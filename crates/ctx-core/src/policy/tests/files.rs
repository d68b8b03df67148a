//! Tests of the file format: its shapes, limits and errors.

use super::*;

fn error(yaml: &str) -> PolicyError {
    Policies::parse(yaml).expect_err(yaml)
}

#[test]
fn a_file_has_one_of_four_shapes() {
    let names = |yaml: &str| policies(yaml).names().map(str::to_owned).collect::<Vec<_>>();
    for (yaml, expected) in [
        ("", vec![]),
        ("# nothing\n", vec![]),
        ("---\n---\n", vec![]),
        ("policies:\n", vec![]),
        ("policies:\n  - name: a\n  - name: b\n", vec!["a", "b"]),
        ("- name: a\n- name: b\n", vec!["a", "b"]),
        ("name: a\npriority: 7\n", vec!["a"]),
        ("priority: 7\nname: a\n", vec!["a"]),
        (
            "name: a\n---\n- name: b\n- name: c\n---\npolicies:\n- name: d\n",
            vec!["a", "b", "c", "d"],
        ),
        ("{\"policies\": [{\"name\": \"a\"}]}", vec!["a"]),
        ("- &base\n  name: a\n  priority: 60\n- <<: *base\n  name: b\n", vec!["a", "b"]),
        ("name: 12\n", vec!["12"]),
        ("name: a\nsession:\n  key: dm:{principal.entity_id}\n", vec!["a"]),
        ("name: a\nmatch: {}\npermissions: {}\nsession: {}\nmodifiers: {}\n", vec!["a"]),
    ] {
        assert_eq!(names(yaml), expected, "{yaml}");
    }
}

#[test]
fn an_error_names_the_line_and_the_policy() {
    for (yaml, line, policy, part) in [
        (
            "# x\n- name: ok\n- name: known-dm\n  session:\n    key: 'dm:{delivery.foo}'\n",
            Some(5),
            Some("known-dm"),
            "unknown variable `{delivery.foo}`",
        ),
        ("name: a\nsession: {key: 'dm:{delivery.channel'}", Some(2), Some("a"), "without a `}`"),
        ("name: a\nsession: {key: 'dm:x}'}", Some(2), Some("a"), "without a `{`"),
        ("name: a\nsession: {key: 'dm:{}'}", Some(2), Some("a"), "unknown variable `{}`"),
        ("name: a\nsession: {key: ''}", Some(2), Some("a"), "fixed prefix"),
        ("name: a\nsession: {key: ':x'}", Some(2), Some("a"), "fixed prefix"),
        ("name: a\nsession: {key: '{delivery.channel}:x'}", Some(2), Some("a"), "fixed prefix"),
        ("name: a\nsession: {key: 'dm{delivery.channel}:x'}", Some(2), Some("a"), "fixed prefix"),
        ("name: a\nsession: {key: 01JCZ5V0S3E8Q4T6W7X8Y9ZABC}", Some(2), Some("a"), "fixed prefix"),
        ("name: a\nsession: {key: 'worker:{delivery.channel}'}", Some(2), Some("a"), "`worker:`"),
        ("name: a\nsession: {key: 'dm:a b'}", Some(2), Some("a"), "' '"),
        ("name: a\nsession: {key: 'dm:a~merged'}", Some(2), Some("a"), "'~'"),
        ("name: a\nsession: {key: 'system:{delivery.sender_id}'}", Some(2), Some("a"), "choose"),
        (
            "name: a\nsession: {key: 'dm:{delivery.sender_id}:{delivery.channel}'}",
            Some(2),
            Some("a"),
            "choose",
        ),
        ("- name: a\n- name: b\n- name: a\n", Some(3), Some("a"), "the same name"),
        ("- name: ''\n", Some(1), None, "name is empty"),
        ("- priority: 5\n  name: ' '\n", Some(2), None, "name is empty"),
        ("- name: a\n  priority: 101\n", Some(2), Some("a"), "priority `101` is not"),
        ("- name: a\n  priority: -1\n", Some(2), Some("a"), "priority `-1` is not"),
        ("- name: a\n  priority: high\n", Some(2), Some("a"), "priority `high` is not"),
        ("- name: a\n- efect: deny\n  name: b\n", Some(2), Some("b"), "efect"),
        ("name: a\nmatch: {sender: x}\n", Some(2), Some("a"), "sender"),
        ("name: a\neffect: maybe\n", Some(2), Some("a"), "maybe"),
        ("name: a\nmatch:\n  principal: {type: friend}\n", Some(3), Some("a"), "`friend`"),
        ("name: a\nmatch: {delivery: {peer_kind: DM}}", Some(2), Some("a"), "`DM`"),
        ("name: a\nmatch: {delivery: {channel: }}", Some(2), Some("a"), "no value"),
        ("name: a\nmatch: {delivery: {channel: []}}", Some(2), Some("a"), "empty value"),
        ("name: a\nmatch: {delivery: {channel: ['']}}", Some(2), Some("a"), "empty value"),
        ("name: a\nmatch: {delivery: {channel: {a: b}}}", Some(2), Some("a"), "list of texts"),
        ("name: a\nmatch: {delivery: {thread: }}", Some(2), Some("a"), "no value"),
        ("name: a\nmatch:\n", Some(2), Some("a"), "no value"),
        ("name: a\nmatch:\n  principal:\n", Some(3), Some("a"), "no value"),
        ("name: a\neffect:\n", Some(2), Some("a"), "no value"),
        ("name: a\nsession: {key: ~}", Some(2), Some("a"), "no value"),
        ("name: a\npermissions: {tools: }", Some(2), Some("a"), "no value"),
        ("name: a\nmatch: {delivery: {thread: yes}}", Some(2), Some("a"), "boolean"),
        ("name: a\nmatch: {principal: {entity_id: mom}}", Some(2), Some("a"), "ULID"),
        ("name: a\nmatch: {conditions: {utc_hours: '9-17'}}", Some(2), Some("a"), "utc_hours"),
        ("name: a\nmatch: {conditions: {utc_hours: '25:00-26:00'}}", Some(2), Some("a"), "utc"),
        ("name: a\nmatch: {conditions: {utc_hours: '08:00-08:00'}}", Some(2), Some("a"), "utc"),
        ("name: a\nmodifiers: {queue_mode: fast}", Some(2), Some("a"), "unknown queue mode"),
        ("name: a\nsession: {persona: ''}", Some(2), Some("a"), "persona is empty"),
        ("- priority: 5\n", Some(1), None, "name"),
        ("policies: []\nother: 1\n", Some(2), None, "other"),
        ("policys: []\n", Some(1), None, "policys"),
        ("just text", None, None, "policies"),
        ("- name: a\n- [\n", Some(2), None, "unclosed"),
        ("- name: a\n  name: b\n", Some(2), None, "name"),
    ] {
        let error = error(yaml);
        assert_eq!((error.line, error.policy.as_deref()), (line, policy), "{yaml}\n{error}");
        assert!(error.message.contains(part), "{yaml}\n{error}");
        assert!(!error.message.contains('\n'), "{error}");
    }
}

#[test]
fn an_error_is_printed_in_one_line() {
    let printed = error("\nname: known-dm\nsession: {key: 'dm:{delivery.foo}'}").to_string();
    let start = "policies.yaml line 3, policy `known-dm`: unknown variable `{delivery.foo}`";
    assert!(printed.starts_with(start), "{printed}");
    let bare = PolicyError { line: None, policy: None, message: "x".into() };
    assert_eq!(bare.to_string(), "policies.yaml: x");
}

#[test]
fn files_have_limits() {
    let list = |n: usize| (0..n).map(|n| format!("- name: p{n}\n")).collect::<String>();
    assert_eq!(policies(&list(POLICIES_MAX)).len(), POLICIES_MAX);
    let many = error(&list(POLICIES_MAX + 1));
    assert_eq!((many.line, many.message.contains("1000 policies")), (Some(1001), true), "{many}");
    let documents = |n: usize| (0..n).map(|n| format!("---\nname: p{n}\n")).collect::<String>();
    assert_eq!(policies(&documents(POLICIES_MAX)).len(), POLICIES_MAX);
    error(&documents(POLICIES_MAX + 2));
    let big = format!("name: a\n#{}", "x".repeat(FILE_MAX_BYTES));
    assert!(error(&big).message.contains("bytes"));
    let long = format!("name: a\nsession: {{key: 'dm:{}'}}", "x".repeat(TEMPLATE_MAX_CHARS));
    assert!(error(&long).message.contains("512 characters"));
    let name = format!("name: {}", "x".repeat(300));
    assert!(error(&name).message.contains("255 characters"));
    error(&"[".repeat(100_000));
    error(&"{a: ".repeat(10_000));
    error(&format!("name: a\nmatch: {}", "{match: ".repeat(50)));
}

#[test]
fn anchors_that_multiply_are_refused_quickly() {
    let mut bomb = String::from("- name: a\n  match:\n    delivery:\n      channel: &a0 [x, x]\n");
    for n in 1..30 {
        let before = n - 1;
        bomb.push_str(&format!("- &a{n} [*a{before}, *a{before}, *a{before}, *a{before}]\n"));
    }
    let mut flat = String::from("- name: a\n  permissions: {tools: {deny: &d [");
    flat.push_str(&"x, ".repeat(5000));
    flat.push_str("]}}\n");
    for n in 0..900 {
        flat.push_str(&format!("- name: p{n}\n  permissions: {{tools: {{deny: *d}}}}\n"));
    }
    let mut merge = String::from("- &m0\n  name: a\n  effect: allow\n");
    for n in 1..500 {
        merge.push_str(&format!("- &m{n}\n  <<: [*m{0}, *m{0}, *m{0}]\n  name: b\n", n - 1));
    }
    let cycle = "- &a\n  name: a\n  match: *a\n";
    let start = std::time::Instant::now();
    for yaml in [bomb.as_str(), &flat, &merge, cycle] {
        error(yaml);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(3), "{:?}", start.elapsed());
}
