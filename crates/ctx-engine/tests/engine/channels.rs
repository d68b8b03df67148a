//! Messages from channels in the engine: rights of tools, other sessions of a person, and where the
//! answers go.

use ctx_core::identity::{Envelope, PeerKind};
use ctx_core::outbox::Kind;
use ctx_core::policy::Policies;
use ctx_engine::{NewEntity, NewInbound, NewMessage, OutboxQuery};
use ctx_providers::Scripted;
use ctx_providers::scripted::Script;
use serde_json::json;

use crate::harness::{Harness, PATIENCE, until};
use crate::workers::{obedient, quiet, tools};

const POLICIES: &str = "
- {name: known, priority: 60, match: {principal: {type: known}},
   session: {key: 'dm:{principal.entity_id}'}}
- {name: unknown, session: {key: 'dm:{delivery.channel}:{delivery.sender_id}'}}
";
/// The tools of all matching policies are united.
const WITHOUT_STATUS: &str = "
- {name: restricted, permissions: {tools: {deny: [get_agent_status]}}}
";

fn bench(policies: &str) -> Harness {
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(obedient));
    bench.engine.inbound().set_policies(Some(Policies::parse(policies).expect("policies")));
    bench
}

fn envelope(sender: &str) -> Envelope {
    Envelope {
        channel: "irc".to_owned(),
        account_id: None,
        sender_id: sender.to_owned(),
        sender_name: None,
        peer_kind: PeerKind::Dm,
        peer_id: None,
        thread_id: None,
        reply_to_id: None,
    }
}

/// Receives a message and waits for its answer; the label of its session.
async fn receive(bench: &Harness, sender: &str, text: &str) -> String {
    let new =
        NewInbound { envelope: envelope(sender), message: NewMessage::text(text), answer: None };
    let received = bench.engine.inbound().receive(new, None).await.expect("admitted");
    quiet_session(bench, &received.label).await;
    received.label
}

async fn quiet_session(bench: &Harness, label: &str) {
    bench.engine.sessions().wait_until_settled(label, PATIENCE).await.expect("there");
}

#[tokio::test]
async fn a_tool_that_the_policies_deny_is_not_offered_and_its_call_is_refused() {
    let bench = bench(&format!("{POLICIES}{WITHOUT_STATUS}"));
    bench.provider.push(Script::new().call("c1", "get_agent_status", json!({})));
    let label = receive(&bench, "mom", "what do the others do?").await;
    let requests = bench.provider.requests();
    let offered: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(offered.contains(&"dispatch_to_agent"), "{offered:?}");
    assert!(!offered.contains(&"get_agent_status"), "{offered:?}");
    let told = bench.transcript(&label).await;
    assert!(told.iter().any(|line| line.contains("do not permit the tool")), "{told:#?}");
    // A client of this machine is not restricted in the same session.
    bench.say(&label, "and now?").await;
    let newest = bench.provider.requests().pop().expect("a request");
    assert!(newest.tools.iter().any(|tool| tool.name == "get_agent_status"));
}

#[tokio::test]
async fn a_worker_has_no_more_rights_than_its_manager_and_its_result_reaches_the_channel() {
    let bench = bench(&format!("{POLICIES}{WITHOUT_STATUS}"));
    let label = receive(&bench, "mom", "dispatch: sand the hull").await;
    let query = OutboxQuery { limit: 9, ..OutboxQuery::default() };
    let sent = async || bench.engine.outbox().list(&query).await.expect("there");
    until("the report is answered, too", async || sent().await.len() >= 2).await;
    quiet(&bench, &label).await;
    for request in bench.provider.requests() {
        let offers = request.tools.iter().any(|tool| tool.name == "get_agent_status");
        assert!(!offers, "{:?}", request.messages.last());
    }
    let sent = sent().await;
    assert!(sent.iter().all(|sent| sent.outgoing.to.peer_id == "mom"), "{sent:#?}");
    assert!(sent.iter().all(|sent| sent.outgoing.kind == Kind::Reply), "{sent:#?}");
    // What a client of this machine delegates in the same session is not sent to the channel.
    let before = sent.len();
    bench.say(&label, "dispatch: paint the hull").await;
    quiet(&bench, &label).await;
    let query = OutboxQuery { limit: 9, ..OutboxQuery::default() };
    let after = bench.engine.outbox().list(&query).await.expect("there");
    assert_eq!(after.len(), before, "{after:#?}");
}

#[tokio::test]
async fn the_agent_knows_that_there_are_other_sessions_of_a_person() {
    // R141
    let bench = bench(POLICIES);
    let first = receive(&bench, "mom", "hello").await;
    let second = receive(&bench, "mother", "hello").await;
    assert_ne!(first, second);
    let new = NewEntity { name: "Mom".to_owned(), ..NewEntity::default() };
    let mom = bench.engine.entities().create(new).await.expect("created");
    for sender in ["mom", "mother"] {
        let address = envelope(sender).address();
        bench.engine.entities().link(mom.id, address, true).await.expect("linked");
    }
    assert_eq!(receive(&bench, "mother", "it is me").await, first, "the older of two equal ones");
    let newest = bench.provider.requests().pop().expect("a request");
    let system = newest.system.expect("a system prompt");
    assert!(system.contains(&second) && !system.contains(&first), "{system}");
    // It can search in them, and in no other ones.
    bench.chat("other").await;
    bench.say("other", "the hello of a stranger").await;
    let query = json!({"query": "hello"});
    bench.provider.push(Script::new().call("c1", "search_conversations", query));
    receive(&bench, "mom", "what did I say?").await;
    let told = bench.transcript(&first).await;
    let found = told.iter().rev().find(|line| line.starts_with("tool: ")).expect("a result");
    assert_eq!(found.matches("\"session\"").count(), 2, "{found}");
    assert!(!found.contains("stranger"), "{found}");
    let sessions = bench.engine.entities().sessions(mom.id).await.expect("there");
    let labels: Vec<&str> = sessions.iter().map(|info| info.session.label.as_str()).collect();
    assert_eq!(labels, [first.as_str(), second.as_str()]);
}
