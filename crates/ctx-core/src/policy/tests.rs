//! Tests of the decision. `tests/files.rs` tests the file format.

mod files;

use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::id::EntityId;
use crate::identity::{Envelope, PeerKind, Principal, PrincipalType};
use crate::session_key::SessionKey;
use crate::time::Timestamp;

const ULID: &str = "01JCZ5V0S3E8Q4T6W7X8Y9ZABC";
/// 2025-11-15 at 10:00 in UTC.
const NOW: Timestamp = Timestamp(1_763_200_800_000);

/// The example policies of R127 and one for threads.
const EXAMPLES: &str = r#"
policies:
  - name: known-dm
    match:
      principal: {type: known}
      delivery: {peer_kind: dm}
    session:
      key: "dm:{principal.entity_id}"
      persona: atlas
  - name: unknown-dm
    match:
      principal: {type: unknown}
      delivery: {peer_kind: dm}
    session:
      key: "dm:{delivery.channel}:{delivery.sender_id}"
      persona: atlas
  - name: group-session
    match:
      delivery: {peer_kind: group}
    session:
      key: "group:{delivery.channel}:{delivery.peer_id}"
      persona: atlas
  - name: group-thread
    priority: 60
    match:
      delivery: {peer_kind: group, thread: true}
    session:
      key: "group:{delivery.channel}:{delivery.peer_id}:thread:{delivery.thread_id}"
"#;

fn policies(yaml: &str) -> Policies {
    Policies::parse(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn entity() -> EntityId {
    ULID.parse().expect("a ULID")
}

fn principal(kind: PrincipalType) -> Principal {
    Principal {
        kind,
        entity_id: (kind != PrincipalType::Unknown).then(entity),
        name: Some("Mom".into()),
        relationship: Some("family".into()),
    }
}

fn dm(channel: &str, sender_id: &str) -> Envelope {
    Envelope {
        channel: channel.into(),
        account_id: None,
        sender_id: sender_id.into(),
        sender_name: None,
        peer_kind: PeerKind::Dm,
        peer_id: None,
        thread_id: None,
        reply_to_id: None,
    }
}

fn group(channel: &str, peer: &str, thread: Option<&str>) -> Envelope {
    Envelope {
        peer_kind: PeerKind::Group,
        peer_id: Some(peer.into()),
        thread_id: thread.map(Into::into),
        ..dm(channel, "mom")
    }
}

/// The decision about a direct message of a sender without an entity.
fn from_unknown(yaml: &str) -> Result<Access, Denial> {
    policies(yaml).evaluate(&Principal::unknown(None), &dm("irc", "mom"), "hi", false, NOW)
}

/// One policy with a session key and a match.
fn one(conditions: &str) -> Policies {
    policies(&format!("name: one\nmatch: {conditions}\nsession: {{key: 'dm:x:y'}}"))
}

// R119, R120, R121, R122, R127
#[test]
fn the_example_policies_give_the_labels_of_the_requirements() {
    let policies = policies(EXAMPLES);
    let known = principal(PrincipalType::Known);
    let unknown = Principal::unknown(Some("Mom".into()));
    let account = Envelope { account_id: Some("libera".into()), ..dm("irc", "mom") };
    for (sender, envelope, policy, label, persona) in [
        (&known, dm("telegram", "42"), "known-dm", format!("dm:{ULID}"), Some("atlas")),
        (&known, dm("irc", "mom"), "known-dm", format!("dm:{ULID}"), Some("atlas")),
        (&unknown, dm("irc", "mom"), "unknown-dm", "dm:irc:mom".into(), Some("atlas")),
        (&unknown, account, "unknown-dm", "dm:irc/libera:mom".into(), Some("atlas")),
        (
            &unknown,
            dm("matrix", "@m:x/y%\n"),
            "unknown-dm",
            "dm:matrix:@m%3Ax%2Fy%25%0A".into(),
            Some("atlas"),
        ),
        (
            &known,
            group("irc", "#ctx", None),
            "group-session",
            "group:irc:#ctx".into(),
            Some("atlas"),
        ),
        (
            &unknown,
            group("slack", "C1", Some("17.5")),
            "group-thread",
            "group:slack:C1:thread:17.5".into(),
            Some("atlas"),
        ),
    ] {
        let access = policies.evaluate(sender, &envelope, "hi", true, NOW).expect(policy);
        assert_eq!((access.policy.as_str(), &access.label), (policy, &label));
        assert_eq!(access.persona.as_deref(), persona);
        assert_eq!(access.has_entity_key, policy == "known-dm");
        assert!(label.parse::<SessionKey>().is_ok(), "{label}");
        assert!(access.tools.permits_all() && !access.approve);
    }
    assert_eq!(policies.len(), 4);
    assert_eq!(
        policies.names().collect::<Vec<_>>(),
        ["group-thread", "known-dm", "unknown-dm", "group-session"]
    );
    assert_eq!(policies.personas(), [("atlas", "known-dm")]);
}

// R128
#[test]
fn nothing_matching_is_a_denial() {
    let no_match = Err(Denial::NoMatch);
    assert_eq!(from_unknown(""), no_match);
    assert_eq!(from_unknown("policies: []"), no_match);
    assert_eq!(from_unknown("{name: a, match: {delivery: {channel: x}}}"), no_match);
    let agent = principal(PrincipalType::Agent);
    let result = policies(EXAMPLES).evaluate(&agent, &dm("irc", "bot"), "hi", true, NOW);
    assert_eq!(result, no_match);
    assert!(Policies::default().is_empty());
}

// R128
#[test]
fn any_matching_deny_wins() {
    let allow = "- {name: allow, priority: 100, session: {key: 'dm:a:b'}}\n";
    let deny = "- {name: deny, priority: 0, effect: deny}\n";
    let other = "- {name: other, effect: deny, match: {delivery: {channel: x}}}\n";
    let denied = Err(Denial::Denied { policy: "deny".into() });
    assert_eq!(from_unknown(&format!("{allow}{deny}")), denied);
    assert_eq!(from_unknown(&format!("{deny}{allow}")), denied);
    assert!(from_unknown(&format!("{allow}{other}")).is_ok());
}

// R128
#[test]
fn the_highest_priority_with_a_key_gives_the_session() {
    let access = from_unknown(
        "
- {name: low, priority: 10, session: {key: 'dm:low:x', persona: l}, modifiers: {queue_mode: steer}}
- {name: first, session: {key: 'dm:first:x', persona: f}}
- {name: second, priority: 50, session: {key: 'dm:second:x'}, modifiers: {track_tasks: false}}
- {name: top, priority: 100, modifiers: {queue_mode: collect}}
- {name: unmatched, priority: 100, session: {key: 'dm:u:x'}, match: {delivery: {channel: no}}}
",
    )
    .expect("allowed");
    assert_eq!((access.policy.as_str(), access.label.as_str()), ("first", "dm:first:x"));
    assert_eq!(access.persona.as_deref(), Some("f"));
    assert_eq!(access.queue_mode, Some(Mode::Collect));
    assert_eq!(access.track_tasks, Some(false));
    let access = from_unknown("{name: a, session: {key: 'dm:x:y'}}").expect("allowed");
    assert_eq!((access.persona, access.queue_mode, access.track_tasks), (None, None, None));
}

#[test]
fn matching_policies_without_a_key_are_a_denial() {
    let denial = from_unknown("[{name: a}, {name: b, priority: 90}]").expect_err("no session");
    assert_eq!(denial, Denial::NoSession { policies: vec!["b".into(), "a".into()] });
    assert_eq!(denial.to_string(), "no matching policy has a session key: `b`, `a`");
}

// R128
#[test]
fn tools_of_all_matching_policies_are_united_and_a_deny_wins() {
    let access = from_unknown(
        "
- {name: a, session: {key: 'dm:x:y'}, permissions: {tools: {allow: [read, 'git_*']}}}
- {name: b, permissions: {tools: {allow: note, deny: [git_push]}}}
- {name: c}
- {name: d, match: {delivery: {channel: x}}, permissions: {tools: {deny: ['*']}}}
",
    )
    .expect("allowed");
    for (tool, permitted) in [
        ("read", true),
        ("note", true),
        ("git_log", true),
        ("mcp__server__git_log", true),
        ("git_push", false),
        ("mcp__git_log__git_push", false),
        ("write", false),
        ("mcp__read__write", false),
        ("", false),
    ] {
        assert_eq!(access.tools.permits(tool), permitted, "{tool}");
    }
}

#[test]
fn tool_rights_permit_all_by_default_and_nothing_with_an_empty_list() {
    assert!(ToolRights::default().permits("anything"));
    let rights = |yaml: &str| {
        let text =
            format!("{{name: a, session: {{key: 'dm:x:y'}}, permissions: {{tools: {yaml}}}}}");
        from_unknown(&text).expect("allowed").tools
    };
    assert!(!rights("{allow: []}").permits("read"));
    assert!(rights("{deny: []}").permits_all());
    let server = rights("{deny: ['mcp__github__*']}");
    assert!(!server.permits("mcp__github__push") && server.permits("mcp__ctx__push"));
    let json = serde_json::to_string(&server).expect("JSON");
    assert_eq!(serde_json::from_str::<ToolRights>(&json).expect("the same"), server);
    assert_eq!(serde_json::from_str::<ToolRights>("{}").expect("empty"), ToolRights::default());
}

#[test]
fn the_owner_and_those_whose_policy_allows_it_may_approve() {
    let evaluate = |kind, approve: &str| {
        let yaml = format!(
            "[{{name: a, session: {{key: 'dm:x:y'}}}}, {{name: b, permissions: {approve}}}]"
        );
        let result = policies(&yaml).evaluate(&principal(kind), &dm("irc", "mom"), "hi", true, NOW);
        result.expect("allowed").approve
    };
    assert!(evaluate(PrincipalType::Owner, "{}"));
    assert!(!evaluate(PrincipalType::Known, "{}"));
    assert!(!evaluate(PrincipalType::Known, "{approve: false}"));
    assert!(evaluate(PrincipalType::Known, "{approve: true}"));
}

#[test]
fn each_field_of_a_match_is_compared() {
    let known = principal(PrincipalType::Known);
    let unknown = Principal::unknown(None);
    let direct = Envelope { account_id: Some("home".into()), ..dm("irc", "+4912") };
    let thread = group("slack", "C1", Some("1"));
    let lower = ULID.to_lowercase();
    for (conditions, sender, envelope, expected) in [
        ("{}", &unknown, &direct, true),
        ("{principal: {type: unknown}}", &unknown, &direct, true),
        ("{principal: {type: [known, owner]}}", &unknown, &direct, false),
        ("{principal: {type: [known, owner]}}", &known, &direct, true),
        (&format!("{{principal: {{entity_id: {lower}}}}}"), &known, &direct, true),
        (&format!("{{principal: {{entity_id: {ULID}}}}}"), &unknown, &direct, false),
        ("{principal: {entity_id: '*'}}", &known, &direct, true),
        ("{principal: {entity_id: '*'}}", &unknown, &direct, false),
        ("{principal: {name: Mom}}", &known, &direct, true),
        ("{principal: {name: mom}}", &known, &direct, false),
        ("{principal: {relationship: [work, family]}}", &known, &direct, true),
        ("{principal: {relationship: '*'}}", &unknown, &direct, false),
        ("{delivery: {channel: 'i*'}}", &known, &direct, true),
        ("{delivery: {channel: [slack, matrix]}}", &known, &direct, false),
        ("{delivery: {account_id: home}}", &known, &direct, true),
        ("{delivery: {account_id: '*'}}", &known, &thread, false),
        ("{delivery: {sender_id: +4912}}", &known, &direct, true),
        ("{delivery: {sender_id: [+4912]}}", &known, &direct, true),
        ("{delivery: {sender_id: 4912}}", &known, &direct, false),
        ("{delivery: {peer_id: C1}}", &known, &thread, true),
        ("{delivery: {peer_id: '*'}}", &known, &direct, false),
        ("{delivery: {peer_kind: [group, channel]}}", &known, &thread, true),
        ("{delivery: {peer_kind: dm}}", &known, &thread, false),
        ("{delivery: {thread: true}}", &known, &thread, true),
        ("{delivery: {thread: false}}", &known, &thread, false),
        ("{delivery: {thread: false}}", &known, &direct, true),
        ("{principal: {type: known}, delivery: {channel: irc}}", &known, &direct, true),
        ("{principal: {type: known}, delivery: {channel: irc}}", &known, &thread, false),
    ] {
        let result = one(conditions).evaluate(sender, envelope, "hi", true, NOW);
        assert_eq!(result.is_ok(), expected, "{conditions} {envelope:?}");
    }
}

#[test]
fn conditions_compare_the_verification_the_text_and_the_time() {
    let at = |hour: i64, minute: i64| Timestamp(((20_000 * 24 + hour) * 60 + minute) * 60_000);
    for (conditions, text, verified, now, expected) in [
        ("{verified: true}", "", true, NOW, true),
        ("{verified: true}", "", false, NOW, false),
        ("{verified: false}", "", false, NOW, true),
        ("{text_starts_with: /ask}", "/ask me", false, NOW, true),
        ("{text_starts_with: /ask}", "please /ask", false, NOW, false),
        ("{text_starts_with: [/a, '!']}", "!x", false, NOW, true),
        ("{text_starts_with: 10}", "10 things", false, NOW, true),
        ("{utc_hours: 09:00-17:30}", "", false, at(9, 0), true),
        ("{utc_hours: '09:00-17:30'}", "", false, at(17, 29), true),
        ("{utc_hours: '09:00-17:30'}", "", false, at(17, 30), false),
        ("{utc_hours: '09:00-17:30'}", "", false, at(8, 59), false),
        ("{utc_hours: '22:00-06:00'}", "", false, at(23, 0), true),
        ("{utc_hours: '22:00-06:00'}", "", false, at(5, 59), true),
        ("{utc_hours: '22:00-06:00'}", "", false, at(6, 0), false),
        ("{utc_hours: '12:00-24:00'}", "", false, at(23, 59), true),
        ("{utc_hours: '00:00-01:00'}", "", false, Timestamp(-1), false),
        ("{utc_hours: '23:00-24:00'}", "", false, Timestamp(-1), true),
    ] {
        let policies = one(&format!("{{conditions: {conditions}}}"));
        let result =
            policies.evaluate(&Principal::unknown(None), &dm("irc", "m"), text, verified, now);
        assert_eq!(result.is_ok(), expected, "{conditions} {text} {now}");
    }
}

// R126
#[test]
fn each_variable_expands_to_its_escaped_value() {
    let sender = Principal { name: Some("Ann: B".into()), ..principal(PrincipalType::Known) };
    let envelope = Envelope { account_id: Some("a/b".into()), ..group("irc", "#c:d", Some("t~1")) };
    for (variable, value) in [
        ("principal.entity_id", ULID),
        ("principal.name", "Ann%3A%20B"),
        ("principal.type", "known"),
        ("delivery.channel", "irc/a%2Fb"),
        ("delivery.account_id", "a%2Fb"),
        ("delivery.sender_id", "mom"),
        ("delivery.peer_id", "#c%3Ad"),
        ("delivery.thread_id", "t%7E1"),
        ("delivery.peer_kind", "group"),
    ] {
        let policies = policies(&format!("{{name: a, session: {{key: 'x:{{{variable}}}:y'}}}}"));
        let access = policies.evaluate(&sender, &envelope, "hi", true, NOW).expect("allowed");
        assert_eq!(access.label, format!("x:{value}:y"));
        assert_eq!(access.has_entity_key, variable == "principal.entity_id");
    }
}

// R126
#[test]
fn a_variable_without_a_value_is_a_denial() {
    let sender = Principal::unknown(Some("Mom".into()));
    for variable in [
        "principal.entity_id",
        "principal.name",
        "delivery.account_id",
        "delivery.peer_id",
        "delivery.thread_id",
    ] {
        let yaml = format!(
            "[{{name: a, session: {{key: 'x:{{{variable}}}'}}}},
              {{name: b, priority: 1, session: {{key: 'x:y'}}}}]"
        );
        let denial =
            policies(&yaml).evaluate(&sender, &dm("irc", "mom"), "hi", false, NOW).expect_err("x");
        assert_eq!(
            denial.to_string(),
            format!("the session key of policy `a` has no value for `{{{variable}}}`")
        );
    }
}

#[test]
fn a_sender_id_that_is_an_entity_id_does_not_reach_the_session_of_the_entity() {
    let yaml = "{name: a, session: {key: 'dm:{delivery.sender_id}'}}";
    let evaluate = |sender: &Principal, id: &str| {
        policies(yaml).evaluate(sender, &dm("irc", id), "hi", true, NOW).map(|access| access.label)
    };
    let unknown = Principal::unknown(None);
    let variable = "principal.entity_id".to_owned();
    let denial = Denial::MissingVariable { policy: "a".into(), variable };
    assert_eq!(evaluate(&unknown, ULID), Err(denial));
    assert_eq!(evaluate(&unknown, "mom"), Ok("dm:mom".into()));
    assert_eq!(evaluate(&principal(PrincipalType::Known), ULID), Ok(format!("dm:{ULID}")));
}

#[test]
fn the_name_that_an_unknown_sender_claims_is_not_matched() {
    let policies = one("{principal: {name: Mom}}");
    let evaluate = |sender: &Principal| policies.explain(sender, &dm("irc", "m"), "", true, NOW);
    assert!(evaluate(&principal(PrincipalType::Known)).result.is_ok());
    let claimed = evaluate(&Principal::unknown(Some("Mom".into())));
    assert_eq!(claimed.result, Err(Denial::NoMatch));
    assert_eq!(
        claimed.rules[0].reason,
        "principal.name must be `Mom`, but it is only claimed by an unknown sender"
    );
}

#[test]
fn an_explanation_has_each_policy_with_the_reason() {
    let known = principal(PrincipalType::Known);
    let explain = |yaml: &str, envelope: &Envelope| {
        let policies = policies(yaml);
        let explanation = policies.explain(&known, envelope, "secret", true, NOW);
        assert_eq!(explanation.result, policies.evaluate(&known, envelope, "secret", true, NOW));
        let reasons: Vec<String> = explanation
            .rules
            .iter()
            .map(|rule| format!("{} {}: {}", rule.policy, rule.matched, rule.reason))
            .collect();
        (reasons, serde_json::to_value(&explanation).expect("JSON"))
    };
    let (reasons, json) = explain(EXAMPLES, &dm("irc", "mom"));
    assert_eq!(
        reasons,
        [
            "group-thread false: delivery.peer_kind must be group, but it is dm",
            "known-dm true: matches: principal.type must be known; delivery.peer_kind must be dm; \
             gives the session",
            "unknown-dm false: principal.type must be unknown, but it is known",
            "group-session false: delivery.peer_kind must be group, but it is dm",
        ]
    );
    assert_eq!(json["rules"][0]["priority"], 60);
    assert_eq!(json["rules"][0]["effect"], "allow");
    assert_eq!(json["result"]["access"]["label"], format!("dm:{ULID}"));
    let (reasons, json) = explain(
        "
- {name: quiet, effect: deny, match: {conditions: {utc_hours: '09:00-12:00'}}}
- {name: irc, match: {delivery: {channel: [a, 'b*'], peer_id: x}}}
- {name: peer, match: {delivery: {peer_id: x}}}
- {name: text, match: {conditions: {text_starts_with: /}}}
- {name: all, session: {key: 'dm:x:y'}}
",
        &dm("irc", "mom"),
    );
    assert_eq!(
        reasons,
        [
            "quiet true: matches: the time in UTC must be 09:00-12:00; denies the message",
            "irc false: delivery.channel must be `a` or `b*`, but it is `irc`",
            "peer false: delivery.peer_id must be `x`, but it is absent",
            "text false: the start of the text must be `/`, but it is different",
            "all true: matches every message",
        ]
    );
    let denial = serde_json::json!({"denial": {"reason": "denied", "policy": "quiet"}});
    assert_eq!(json["result"], denial);
}

#[test]
fn a_hundred_policies_are_evaluated_quickly() {
    let mut yaml = String::from("- {name: last, priority: 0, session: {key: 'dm:x:y'}}\n");
    for n in 0..99 {
        yaml.push_str(&format!(
            "- {{name: p{n}, match: {{principal: {{type: unknown}}, \
             delivery: {{channel: c{n}}}}}}}\n"
        ));
    }
    let policies = policies(&yaml);
    let (sender, envelope) = (Principal::unknown(None), dm("irc", "mom"));
    let rounds = 1000;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        assert!(policies.evaluate(&sender, &envelope, "hi", false, NOW).is_ok());
    }
    let each = start.elapsed() / rounds;
    // Without optimizations on a busy machine it is below 30 µs.
    assert!(each < std::time::Duration::from_micros(500), "{each:?}");
}

/// Values with every character that has a meaning in a label.
const VALUE: &str = "[a-c:/%~ \n{}*]{1,5}|thread|01JCZ5V0S3E8Q4T6W7X8Y9ZABC|principal.name";

proptest! {
    // R120
    #[test]
    fn the_label_of_an_unknown_sender_parses_back_to_its_address(
        channel in VALUE, account_id in option::of(VALUE), sender_id in VALUE,
    ) {
        let envelope = Envelope { account_id, ..dm(&channel, &sender_id) };
        let sender = Principal::unknown(Some(sender_id));
        let access = policies(EXAMPLES).evaluate(&sender, &envelope, "hi", false, NOW);
        let label = access.expect("allowed").label;
        prop_assert_eq!(label.parse(), Ok(SessionKey::Sender(envelope.address())));
    }

    // R121, R122
    #[test]
    fn the_label_of_a_group_parses_back_to_its_parts(
        channel in VALUE, peer in VALUE,
        account_id in option::of(VALUE), thread in option::of(VALUE),
    ) {
        let group = group(&channel, &peer, thread.as_deref());
        let envelope = Envelope { account_id: account_id.clone(), ..group };
        let sender = principal(PrincipalType::Known);
        let access = policies(EXAMPLES).evaluate(&sender, &envelope, "hi", false, NOW);
        let label = access.expect("allowed").label;
        let key = match thread {
            Some(thread_id) => SessionKey::Thread { channel, account_id, peer_id: peer, thread_id },
            None => SessionKey::Group { channel, account_id, peer_id: peer },
        };
        prop_assert_eq!(label.parse(), Ok(key));
    }

    #[test]
    fn any_text_is_parsed_or_refused_without_a_panic(
        text in "([a-z]{1,4}|name|match|session|key|: |- |\n|  |[{}\\[\\]*&'\"#!|>,~<]){0,30}",
    ) {
        let _ = Policies::parse(&text);
    }
}
