//! `ctx policy check` and `ctx policy explain`.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

const POLICIES: &str = r#"
- name: known-dm
  match: {principal: {type: known}, delivery: {peer_kind: dm}}
  session: {key: "dm:{principal.entity_id}", persona: atlas}
- name: unknown-dm
  match: {principal: {type: unknown}, delivery: {peer_kind: dm}}
  session: {key: "dm:{delivery.channel}:{delivery.sender_id}"}
  permissions: {tools: {deny: [shell]}}
  modifiers: {queue_mode: collect}
- name: group-session
  match: {delivery: {peer_kind: [group, channel]}}
  session: {key: "group:{delivery.channel}:{delivery.peer_id}"}
- name: group-thread
  priority: 60
  match: {delivery: {peer_kind: group, thread: true}}
  session: {key: "group:{delivery.channel}:{delivery.peer_id}:thread:{delivery.thread_id}"}
- name: family
  priority: 10
  match: {principal: {relationship: family}}
  permissions: {tools: {allow: ["read_*"]}, approve: true}
- name: spam
  priority: 90
  match: {conditions: {text_starts_with: "BUY"}}
  effect: deny
"#;

fn repo() -> Repo {
    let repo = Repo::new();
    repo.write(".ctx/policies.yaml", POLICIES);
    repo
}

fn explain(repo: &Repo, arguments: &[&str]) -> Value {
    repo.ok([&["policy", "explain", "--channel", "irc"], arguments].concat())
}

#[test]
fn check_lists_the_policies_in_the_order_of_evaluation() {
    let repo = repo();
    let checked = repo.ok(["policy", "check"]);
    let policies: Vec<_> = checked["policies"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["name"].as_str(), one["priority"].as_u64(), one["effect"].as_str()))
        .map(|(name, priority, effect)| {
            (name.expect("a name"), priority.expect("a number"), effect.expect("an effect"))
        })
        .collect();
    assert_eq!(
        policies,
        [
            ("spam", 90, "deny"),
            ("group-thread", 60, "allow"),
            ("known-dm", 50, "allow"),
            ("unknown-dm", 50, "allow"),
            ("group-session", 50, "allow"),
            ("family", 10, "allow"),
        ]
    );
    assert_eq!(checked["count"], 6);
    let warning = checked["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("`known-dm` sets the persona `atlas`"), "{warning}");
    let text = repo.says(["policy", "check"]);
    for part in ["6 policies", "   90  deny   spam", "   50  allow  known-dm", "warning: policy"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    repo.configure("[personas.atlas]\nsystem_prompt = \"You are Atlas.\"\n");
    assert_eq!(repo.ok(["policy", "check"])["warnings"], json!([]));
}

#[test]
fn check_names_the_file_the_line_the_policy_and_the_fault() {
    let repo = Repo::new();
    let file = repo.write("other.yaml", "- name: ok\n- name: bad\n  priority: 101\n");
    let file = file.to_str().expect("a path");
    let (exit, error) = repo.fails(["policy", "check", file]);
    assert_eq!((exit, &error["code"]), (1, &json!("bad_policies")));
    assert_eq!((&error["line"], &error["policy"]), (&json!(3), &json!("bad")));
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.starts_with(&format!("{file}, line 3, policy `bad`: priority `101`")),
        "{message}"
    );
    for missing in [vec!["policy", "check"], vec!["policy", "check", "no-such.yaml"]] {
        let (exit, error) = repo.fails(missing);
        assert_eq!((exit, &error["code"]), (1, &json!("no_policy")), "{error}");
    }
    repo.write("bomb.yaml", format!("a: &a [x]\n{}", "b: [*a, *a, *a]\n".repeat(5000)));
    assert_eq!(repo.fails(["policy", "check", "bomb.yaml"]).1["code"], "bad_policies");
    repo.write("none.yaml", "policies: []\n");
    assert_eq!(repo.ok(["policy", "check", "none.yaml"])["count"], 0);
}

#[test]
fn explain_shows_each_policy_and_the_result() {
    // R118, R128
    let repo = repo();
    let unknown = explain(&repo, &["--sender", "mallory"]);
    assert_eq!(unknown["principal"]["type"], "unknown");
    let access = &unknown["result"]["access"];
    assert_eq!(
        (&access["policy"], &access["label"], &access["queue_mode"], &access["approve"]),
        (&json!("unknown-dm"), &json!("dm:irc:mallory"), &json!("collect"), &json!(false))
    );
    assert_eq!(access["tools"], json!({"allow": null, "deny": ["shell"]}));
    let rules = unknown["rules"].as_array().expect("a list");
    let matched: Vec<_> = rules
        .iter()
        .filter(|rule| rule["matched"] == true)
        .map(|rule| rule["policy"].as_str().expect("a name"))
        .collect();
    assert_eq!((rules.len(), matched), (6, vec!["unknown-dm"]));
    for rule in rules {
        assert!(rule["reason"].as_str().is_some_and(|why| !why.is_empty()), "{rule}");
    }

    let mom = repo.ok(["entity", "add", "Mom", "--relationship", "family"]);
    repo.ok(["entity", "link", "Mom", "--channel", "irc", "--sender", "mom"]);
    let known = explain(&repo, &["--sender", "mom"]);
    let access = &known["result"]["access"];
    assert_eq!(access["label"], format!("dm:{}", mom["id"].as_str().expect("an id")));
    assert_eq!((&access["persona"], &access["approve"]), (&json!("atlas"), &json!(true)));
    assert_eq!(access["tools"]["allow"], json!(["read_*"]));

    let label = |arguments: &[&str]| {
        explain(&repo, arguments)["result"]["access"]["label"].as_str().map(str::to_owned)
    };
    let group = ["--sender", "mom", "--peer", "#x"];
    assert_eq!(label(&group).as_deref(), Some("group:irc:#x"), "a peer is a group by default");
    assert_eq!(
        label(&[&group[..], &["--thread", "7"]].concat()).as_deref(),
        Some("group:irc:#x:thread:7")
    );
    assert_eq!(
        label(&[&group[..], &["--peer-kind", "channel", "--thread", "7"]].concat()).as_deref(),
        Some("group:irc:#x")
    );
    assert_eq!(
        label(&["--sender", "x", "--account", "libera"]).as_deref(),
        Some("dm:irc/libera:x")
    );
    let spam = explain(&repo, &["--sender", "mom", "--text", "BUY now"]);
    assert_eq!(spam["result"]["denial"], json!({"reason": "denied", "policy": "spam"}));
    let sessions = repo.ok(["session", "list", "--all"])["sessions"].clone();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "only `main`, which init made");
}

#[test]
fn explain_is_readable_on_a_terminal() {
    let repo = repo();
    let verb = ["policy", "explain", "--channel", "irc", "--sender", "a\u{1b}[31m:b"];
    let text = repo.says(verb);
    for part in [
        "sender        irc:a%1B[31m%3Ab\n",
        "principal     unknown\n",
        "· known-dm        50  allow  principal.type must be known, but it is unknown\n",
        "✓ unknown-dm      50  allow  matches: principal.type must be unknown",
        "result        allowed\n",
        "label         dm:irc:a%1B[31m%3Ab\n",
        "persona       default\n",
        "queue mode    collect\n",
        "tools allowed all\n",
        "tools denied  shell\n",
        "may approve   no\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let denied = repo.says(verb.into_iter().chain(["--text", "BUY"]));
    assert!(denied.contains("result        denied [access_denied]\n"), "{denied}");
    assert!(denied.contains("reason        policy `spam` denies the message\n"), "{denied}");
}

#[test]
fn explain_needs_policies_and_a_valid_envelope() {
    let repo = Repo::new();
    let verb = ["policy", "explain", "--channel", "irc", "--sender"];
    let (exit, error) = repo.fails(verb.into_iter().chain(["mom"]));
    assert_eq!((exit, &error["code"]), (1, &json!("no_policy")));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("policies.yaml")), "{error}");
    repo.write(".ctx/policies.yaml", "- name: x\n  nonsense: 1\n");
    assert_eq!(repo.fails(verb.into_iter().chain(["mom"])).1["code"], "bad_policies");
    repo.write(".ctx/policies.yaml", POLICIES);
    let (exit, error) = repo.fails(verb.into_iter().chain([""]));
    assert_eq!((exit, &error["code"]), (2, &json!("bad_text")));
    assert_eq!(repo.fails(["policy", "explain", "--channel", "irc"]).0, 2);
}

#[test]
fn the_examples_of_the_documentation_are_real() {
    let guide = include_str!("../../../../../docs/policies.md");
    let blocks: Vec<&str> = guide.split("```").skip(1).step_by(2).collect();
    let yaml: String = blocks.iter().filter_map(|block| block.strip_prefix("yaml\n")).collect();
    let repo = Repo::new();
    repo.write(".ctx/policies.yaml", yaml);
    repo.configure("[personas.atlas]\nsystem_prompt = \"You are Atlas.\"\n");
    let mom = repo.ok(["entity", "add", "Mom", "--relationship", "family"]);
    repo.ok(["entity", "link", "Mom", "--channel", "irc", "--sender", "mom"]);
    let written = guide.split("dm:01").nth(1).map(|rest| format!("01{}", &rest[..24]));
    let (written, id) = (written.expect("an id"), mom["id"].as_str().expect("an id"));
    let mut count = 0;
    for block in blocks.iter().filter_map(|block| block.strip_prefix("\n$ ctx ")) {
        let (verb, expected) = block.split_once('\n').expect("a line");
        let arguments: Vec<&str> = verb.split(' ').map(|word| word.trim_matches('\'')).collect();
        let said = repo.says(arguments).replace(id, &written);
        let said = said.replace(&format!("{}/", repo.dir().display()), "");
        assert_eq!(said, expected, "{verb}");
        count += 1;
    }
    assert_eq!(count, 6);
}
