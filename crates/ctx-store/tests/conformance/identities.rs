//! Entities, their identities, aliases, and the session of a message from a channel.

use std::sync::Arc;

use ctx_core::alias::Reason;
use ctx_core::decide::{self, Invocation, Needs, Receive, Received, Settings};
use ctx_core::id::{EntityId, IdGenerator, SessionId};
use ctx_core::identity::{Address, Entity, EntityKind, Envelope, Identity, PeerKind};
use ctx_core::inbox;
use ctx_core::policy::Policies;
use ctx_core::routing::Inbound;
use ctx_core::session::{New, Origin};
use ctx_store::{Error, Executed, Target, Write};
use ulid::Ulid;

use crate::Backend;
use crate::harness::{NODE, SessionWriter, StoreHandle, at, label, run_host, submission};

const POLICIES: &str = "
- {name: known, priority: 60, match: {principal: {type: known}, delivery: {peer_kind: dm}},
   session: {key: 'dm:{principal.entity_id}'}}
- {name: unknown, match: {principal: {type: unknown}, delivery: {peer_kind: dm}},
   session: {key: 'dm:{delivery.channel}:{delivery.sender_id}'}}
- {name: group, match: {delivery: {peer_kind: group}},
   session: {key: 'group:{delivery.channel}:{delivery.peer_id}'}}
";

fn entity(n: u128, name: &str) -> Entity {
    Entity {
        id: EntityId(Ulid(n)),
        kind: EntityKind::Person,
        name: name.to_owned(),
        relationship: Some("family".to_owned()),
        owner: false,
        merged_into: None,
        created_at: at(n as i64),
    }
}

fn address(channel: &str, sender: &str) -> Address {
    Address { channel: channel.to_owned(), account_id: None, sender_id: sender.to_owned() }
}

fn envelope(channel: &str, sender: &str) -> Envelope {
    Envelope {
        channel: channel.to_owned(),
        account_id: None,
        sender_id: sender.to_owned(),
        sender_name: None,
        peer_kind: PeerKind::Dm,
        peer_id: None,
        thread_id: None,
        reply_to_id: None,
    }
}

fn link(entity: &Entity, channel: &str, sender: &str, ms: i64) -> Identity {
    Identity {
        address: address(channel, sender),
        entity: entity.id,
        verified: true,
        linked_at: at(ms),
    }
}

/// Receives a message and returns the label of its session.
async fn receive(
    store: &StoreHandle,
    envelope: Envelope,
    text: &str,
    ms: i64,
) -> Result<String, Error> {
    Ok(accept(store, envelope, text, ms).await?.label)
}

async fn accept(
    store: &StoreHandle,
    envelope: Envelope,
    text: &str,
    ms: i64,
) -> Result<Received, Error> {
    let invocation = Invocation { now: at(ms), ids: IdGenerator::new(Ulid::new()) };
    let id = SessionId(Ulid::new());
    let receive = Receive {
        new: New::idle(id, String::new(), "demo".to_owned(), Origin::Inbound, at(ms)),
        submit: submission(text),
        sender_key: envelope.address().key(),
        answer: None,
    };
    let policies = Arc::new(Policies::parse(POLICIES).expect("policies"));
    let inbound = Inbound { policies, envelope, text: text.to_owned() };
    let target = Target::Inbound(Arc::new(inbound));
    let write = Write { target, needs: Needs::MESSAGE, objects: vec![], now: at(ms) };
    let settings = Settings {
        inbox: inbox::Settings { cap: 1000, ..inbox::Settings::default() },
        ..Settings::default()
    };
    let rule = move |view: Option<&_>, routed: Option<&_>| {
        let routed = routed.expect("a route");
        decide::receive(view, routed, &receive, &run_host(NODE), &settings, &invocation)
    };
    match store.execute_routed::<Received>(write, None, rule).await? {
        Executed::Written(written) => Ok(written.reply),
        Executed::Replayed(_) => panic!("there was no key"),
    }
}

/// The rows that the whole suite reads.
pub(crate) async fn tell(store: &StoreHandle) {
    let (mom, dad) = (entity(1, "Mom"), entity(2, "Dad"));
    store.put_entity(&mom).await.expect("stored");
    store.put_entity(&dad).await.expect("stored");
    assert_eq!(receive(store, envelope("irc", "mom"), "hi", 70).await.expect("in"), "dm:irc:mom");
    store.link_identity(&link(&mom, "irc", "mom", 71)).await.expect("linked");
    store.link_identity(&link(&dad, "irc", "dad", 71)).await.expect("linked");
    assert_eq!(receive(store, envelope("irc", "mom"), "me", 72).await.expect("in"), "dm:irc:mom");
    assert_eq!(store.entity(mom.id).await.expect("a read"), Some(mom.clone()));
    assert_eq!(store.entities(None, 9).await.expect("a read"), [mom.clone(), dad.clone()]);
    assert_eq!(store.entities(Some(mom.id), 9).await.expect("a read"), std::slice::from_ref(&dad));
    assert_eq!(store.entities_named("Mom").await.expect("a read"), std::slice::from_ref(&mom));
    assert_eq!(store.identities(mom.id).await.expect("a read").len(), 1);
    assert_eq!(store.entity_sessions(mom.id, 9).await.expect("a read"), ["dm:irc:mom"]);
    let (principal, verified) = store.principal(&envelope("irc", "mom")).await.expect("a read");
    assert_eq!((principal.entity_id, verified), (Some(mom.id), true));
    let aliases = store.aliases(Some("dm:irc:mom"), None, 9).await.expect("a read");
    assert_eq!(aliases[0].alias, format!("dm:{}", mom.id));
    store.add_alias("mother", &label("dm:irc:mom"), at(73)).await.expect("added");
    store.remove_alias("mother").await.expect("removed");
    store.unlink_identity(dad.id, &address("irc", "dad")).await.expect("unlinked");
    store.merge_entities(mom.id, dad.id, at(74)).await.expect("merged");
}

pub(crate) async fn a_session_of_a_channel_goes_on_when_its_sender_is_known(
    backend: &impl Backend,
) {
    // R130, R136, R137, R185
    let store = backend.open().await;
    let mom = entity(1, "Mom");
    store.put_entity(&mom).await.expect("stored");
    let from = || envelope("irc", "mom");
    assert_eq!(receive(&store, from(), "day 1", 1).await.expect("in"), "dm:irc:mom");
    let claimed = Identity { verified: false, ..link(&mom, "irc", "mom", 2) };
    store.link_identity(&claimed).await.expect("claimed");
    assert_eq!(receive(&store, from(), "still unknown", 2).await.expect("in"), "dm:irc:mom");
    assert_eq!(store.aliases(None, None, 9).await.expect("a read"), []);
    store.link_identity(&link(&mom, "irc", "mom", 3)).await.expect("linked");
    let group = Envelope { peer_kind: PeerKind::Group, peer_id: Some("#c".to_owned()), ..from() };
    assert_eq!(receive(&store, group, "in a group", 4).await.expect("in"), "group:irc:#c");
    assert_eq!(store.aliases(None, None, 9).await.expect("a read"), [], "a group is not promoted");
    store.link_identity(&link(&mom, "mail", "mom@example.org", 4)).await.expect("linked");
    for (n, from) in [from(), envelope("mail", "mom@example.org"), from()].into_iter().enumerate() {
        let found = receive(&store, from, "day 5", 5 + n as i64).await.expect("in");
        assert_eq!(found, "dm:irc:mom");
    }
    let aliases = store.aliases(None, None, 9).await.expect("a read");
    assert_eq!(aliases.len(), 1);
    assert_eq!(aliases[0].alias, format!("dm:{}", mom.id));
    assert_eq!((aliases[0].reason, aliases[0].created_at), (Reason::IdentityPromotion, at(5)));
    let by_alias = SessionWriter::of(&store, &aliases[0].alias).session().await;
    assert_eq!((by_alias.label.as_str(), by_alias.routing.entity), ("dm:irc:mom", Some(mom.id)));
    assert_eq!(by_alias.routing.policy.as_deref(), Some("unknown"));
}

/// A session of an entity with this many turns.
async fn talk(store: &StoreHandle, channel: &str, sender: &str, turns: usize, ms: i64) -> String {
    let received = accept(store, envelope(channel, sender), "first", ms).await.expect("in");
    let writer = SessionWriter::of(store, &received.label);
    let opened = received.accepted.opened_run.expect("a run");
    writer.end_run(&opened, "answer", ms + 1).await;
    for n in 1..turns {
        writer.exchange("more", "answer", ms + 1 + n as i64).await;
    }
    received.label
}

pub(crate) async fn the_longer_session_receives_the_messages_of_two_merged_entities(
    backend: &impl Backend,
) {
    // R138, R139, R140, R143
    let store = backend.open().await;
    let (mom, mother) = (entity(1, "Mom"), entity(2, "Mother"));
    for (entity, channel) in [(&mom, "irc"), (&mother, "mail")] {
        store.put_entity(entity).await.expect("stored");
        store.link_identity(&link(entity, channel, "mom", 3)).await.expect("linked");
    }
    let short = talk(&store, "irc", "mom", 1, 10).await;
    let long = talk(&store, "mail", "mom", 3, 20).await;
    assert_eq!((&short, &long), (&format!("dm:{}", mom.id), &format!("dm:{}", mother.id)));
    store.add_alias("irc-mom", &label(&short), at(30)).await.expect("added");
    let before = SessionWriter::of(&store, &short).session().await;
    assert_eq!(store.merge_entities(mom.id, mother.id, at(31)).await.expect("merged").id, mom.id);
    for (n, channel) in ["irc", "mail"].into_iter().enumerate() {
        let found = receive(&store, envelope(channel, "mom"), "now", 40 + n as i64).await;
        assert_eq!(found.expect("in"), long, "{channel}");
    }
    let aliases = store.aliases(None, None, 9).await.expect("a read");
    let named: Vec<(&str, &str)> =
        aliases.iter().map(|alias| (alias.alias.as_str(), alias.session_label.as_str())).collect();
    assert_eq!(named, [(short.as_str(), long.as_str()), ("irc-mom", long.as_str())]);
    let merged = SessionWriter::of(&store, &format!("{short}~merged")).session().await;
    assert_eq!((merged.id, merged.head), (before.id, before.head), "it keeps its history");
    assert_eq!(merged.routing.merged_into.as_ref(), Some(&long));
    assert_eq!(merged.seq, before.seq + 1, "its followers get an event");
    let mut sessions = store.entity_sessions(mom.id, 9).await.expect("a read");
    sessions.sort();
    assert_eq!(sessions, [format!("{short}~merged"), long]);
    assert_eq!(store.identities(mom.id).await.expect("a read").len(), 2);
    for (into, from, code) in [
        (mom.id, mom.id, "same_entity"),
        (mom.id, mother.id, "entity_merged"),
        (mother.id, mom.id, "entity_merged"),
        (mom.id, EntityId(Ulid(9)), "no_entity"),
    ] {
        let refused = store.merge_entities(into, from, at(50)).await.expect_err("refused");
        assert_eq!(refused.code(), code);
    }
}

pub(crate) async fn an_address_belongs_to_one_entity(backend: &impl Backend) {
    let store = backend.open().await;
    let (mom, dad) = (entity(1, "Mom"), entity(2, "Dad"));
    let refused = store.link_identity(&link(&mom, "irc", "m", 1)).await.expect_err("no entity");
    assert_eq!(refused.code(), "no_entity");
    for entity in [&mom, &dad] {
        store.put_entity(entity).await.expect("stored");
    }
    let claimed = Identity { verified: false, ..link(&dad, "irc", "m", 2) };
    store.link_identity(&claimed).await.expect("claimed");
    store.link_identity(&link(&mom, "irc", "m", 3)).await.expect("a claim gives way");
    let refused = store.link_identity(&claimed).await.expect_err("linked");
    assert_eq!(refused.code(), "identity_linked");
    let refused = store.unlink_identity(dad.id, &address("irc", "m")).await.expect_err("not his");
    assert_eq!(refused.code(), "no_identity");
    store.unlink_identity(mom.id, &address("irc", "m")).await.expect("unlinked");
    store.link_identity(&claimed).await.expect("free again");
    assert_eq!(store.identities(dad.id).await.expect("a read"), [claimed]);
    let odd = Identity { address: address("a:b/c%", "\n ~x"), ..link(&mom, "x", "x", 5) };
    store.link_identity(&odd).await.expect("linked");
    assert_eq!(store.identities(mom.id).await.expect("a read"), [odd]);
}

pub(crate) async fn an_alias_names_a_session_and_never_another_alias(backend: &impl Backend) {
    // R134, R135, R142, R143
    let store = backend.open().await;
    SessionWriter::create(&store, "main", 1).await;
    let refused = store.add_alias("a", &label("nobody"), at(2)).await.expect_err("no session");
    assert_eq!(refused.code(), "no_session");
    store.add_alias("a", &label("main"), at(2)).await.expect("added");
    let chained = store.add_alias("b", &label("a"), at(3)).await.expect("added");
    assert_eq!((chained.session_label.as_str(), chained.reason), ("main", Reason::Manual));
    for taken in ["a", "main"] {
        let refused = store.add_alias(taken, &label("main"), at(4)).await.expect_err("taken");
        assert_eq!(refused.code(), "label_in_use");
    }
    assert_eq!(
        store.add_alias(" ", &label("main"), at(4)).await.expect_err("blank").code(),
        "bad_label"
    );
    assert_eq!(store.aliases(None, Some("a"), 9).await.expect("a read"), [chained]);
    assert_eq!(SessionWriter::of(&store, "b").session().await.label, "main");
    store.remove_alias("b").await.expect("removed");
    assert_eq!(store.remove_alias("b").await.expect_err("gone").code(), "no_alias");
    SessionWriter::of(&store, "main").delete(5).await.expect("deleted");
    assert_eq!(store.aliases(None, None, 9).await.expect("a read"), [], "none dangles");
}

pub(crate) async fn fifty_first_messages_during_a_link_reach_one_session(backend: &impl Backend) {
    // R133
    let (store, other) = (backend.open().await, backend.open().await);
    let mom = entity(1, "Mom");
    store.put_entity(&mom).await.expect("stored");
    let messages = (0..50).map(|n| {
        let store = if n % 2 == 0 { &store } else { &other };
        async move { receive(store, envelope("irc", "mom"), &format!("m{n}"), 10).await }
    });
    let linking = store.link_identity(&link(&mom, "irc", "mom", 10)).await;
    let (received, _) = tokio::join!(futures_join(messages), async { linking.expect("linked") });
    let first = received[0].as_ref().expect("in").clone();
    for found in received {
        assert_eq!(found.expect("in"), first);
    }
    assert!(store.aliases(None, None, 9).await.expect("a read").len() <= 1);
    let view = SessionWriter::of(&store, &first).view().await;
    assert_eq!(view.inbox.len(), 50, "every message once");
}

/// Awaits all futures at the same time.
async fn futures_join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, slot) in pending.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *slot = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

pub(crate) async fn two_concurrent_merges_leave_one_entity(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    let (mom, mother) = (entity(1, "Mom"), entity(2, "Mother"));
    for (entity, channel) in [(&mom, "irc"), (&mother, "mail")] {
        store.put_entity(entity).await.expect("stored");
        store.link_identity(&link(entity, channel, "mom", 3)).await.expect("linked");
        talk(&store, channel, "mom", 1, 10).await;
    }
    let (one, two) = tokio::join!(
        store.merge_entities(mom.id, mother.id, at(20)),
        other.merge_entities(mother.id, mom.id, at(20))
    );
    assert_eq!(one.is_ok(), two.is_err(), "{one:?} {two:?}");
    assert_eq!(store.entities(None, 9).await.expect("a read").len(), 1);
    let labels = [
        receive(&store, envelope("irc", "mom"), "x", 30).await.expect("in"),
        receive(&store, envelope("mail", "mom"), "x", 31).await.expect("in"),
    ];
    assert_eq!(labels[0], labels[1]);
}

pub(crate) async fn messages_during_a_merge_are_in_one_of_the_two_sessions(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    let (mom, mother) = (entity(1, "Mom"), entity(2, "Mother"));
    for (entity, channel) in [(&mom, "irc"), (&mother, "mail")] {
        store.put_entity(entity).await.expect("stored");
        store.link_identity(&link(entity, channel, "mom", 3)).await.expect("linked");
    }
    let short = talk(&store, "irc", "mom", 1, 10).await;
    let long = talk(&store, "mail", "mom", 2, 20).await;
    let messages = (0..40).map(|n| {
        let store = if n % 2 == 0 { &store } else { &other };
        let channel = if n % 4 < 2 { "irc" } else { "mail" };
        async move { receive(store, envelope(channel, "mom"), &format!("m{n}"), 30).await }
    });
    let merge = store.merge_entities(mom.id, mother.id, at(30));
    let (received, merged) = tokio::join!(futures_join(messages), merge);
    merged.expect("merged");
    let mut counts = [0, 0];
    for found in received {
        let found = found.expect("in");
        assert!(found == short || found == long, "{found}");
        counts[usize::from(found == long)] += 1;
    }
    let stored = |label: String| {
        let store = &store;
        async move { SessionWriter::of(store, &label).view().await.inbox.len() }
    };
    let now = [stored(format!("{short}~merged")).await, stored(long.clone()).await];
    assert_eq!(now, counts, "each message is where it was accepted");
    let later = receive(&store, envelope("irc", "mom"), "later", 40).await;
    assert_eq!(later.expect("in"), long);
}
