//! The outbox: rows are claimed in order by one process at a time, until they are delivered or
//! dead.

use ctx_core::decide::{OpenedRun, Submit};
use ctx_core::id::{NodeId, OutgoingId, SessionId};
use ctx_core::identity::{Envelope, PeerKind};
use ctx_core::inbox::{Mode, Overrides};
use ctx_core::outbox::{ATTEMPTS_MAX, DELIVERED_KEPT, Kind, Outgoing, Settlement, Status};
use ctx_core::refusal::Refusal;
use ctx_core::suspension;
use ctx_core::time::{Span, Timestamp};
use ctx_store::{Error, OutboxQuery};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    NODE, SessionWriter, StoreHandle, assistant_text, at, awaited_choice, ended, submission, verify,
};

const LEASE: Span = Span(1000);

fn envelope(channel: &str, sender: &str) -> Envelope {
    Envelope {
        channel: channel.to_owned(),
        account_id: Some("a/b".to_owned()),
        sender_id: sender.to_owned(),
        sender_name: Some("Mom".to_owned()),
        peer_kind: PeerKind::Dm,
        peer_id: None,
        thread_id: Some("t:1".to_owned()),
        reply_to_id: Some("m\u{1F600}".to_owned()),
    }
}

fn from(channel: &str, sender: &str) -> Submit {
    let envelope = Some(envelope(channel, sender));
    Submit { overrides: Overrides { envelope, ..Overrides::default() }, ..submission("hello") }
}

/// A message from a channel, and its run.
async fn ask(writer: &SessionWriter, channel: &str, sender: &str, ms: i64) -> Box<OpenedRun> {
    let accepted = writer.submit(from(channel, sender), ms).await.expect("accepted");
    accepted.reply.opened_run.expect("a run")
}

/// A message from a channel and its answer.
async fn exchange(writer: &SessionWriter, channel: &str, sender: &str, answer: &str, ms: i64) {
    let opened = ask(writer, channel, sender, ms).await;
    let (end, body) = ended(&opened, answer, ms);
    writer.end_run_as(end, body, ms).await.expect("ended");
}

fn all() -> OutboxQuery {
    OutboxQuery { limit: 99, ..OutboxQuery::default() }
}

async fn rows(store: &StoreHandle) -> Vec<Outgoing> {
    let rows = store.outbox(&all()).await.expect("an outbox");
    rows.into_iter().map(|stored| stored.outgoing).collect()
}

async fn claim(store: &StoreHandle, now: Timestamp) -> Vec<Outgoing> {
    claim_for(store, NODE, now).await
}

async fn claim_for(store: &StoreHandle, node: NodeId, now: Timestamp) -> Vec<Outgoing> {
    let channels = ["irc".to_owned(), "mail".to_owned()];
    store.claim_outgoing(&channels, node, LEASE, now, 99).await.expect("claimed")
}

fn texts(rows: &[Outgoing]) -> Vec<&str> {
    rows.iter().map(|row| row.body.text.as_str()).collect()
}

async fn settle(store: &StoreHandle, row: &Outgoing, settlement: Settlement, ms: i64) -> Outgoing {
    let settled = store.settle_outgoing(row.id, row.attempts, &settlement, at(ms)).await;
    settled.expect("settled").expect("a row")
}

fn failed() -> Settlement {
    Settlement::Failed("status 500".to_owned())
}

pub(crate) async fn a_row_reads_back_as_the_rule_sent_it(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = ask(&writer, "irc", "mom", 1).await;
    let (end, body) = ended(&opened, "Ünd \u{1F600}", 2);
    let written = writer.end_run_as(end, body, 2).await.expect("ended");
    assert!(written.sends);
    let row = rows(&store).await.remove(0);
    let to = ctx_core::outbox::Recipient::of(&envelope("irc", "mom"));
    assert_eq!((row.session, row.label.as_str()), (writer.id().await, "main"));
    assert_eq!((row.kind, row.status, &row.to), (Kind::Reply, Status::Pending, &to));
    assert_eq!(
        (row.body.text.as_str(), row.body.turn),
        ("Ünd \u{1F600}", writer.view().await.session.head)
    );
    assert_eq!(row.body.message_ids, [opened.items[0].message_id]);
    assert_eq!((row.attempts, row.next_attempt_at, row.created_at), (0, at(2), at(2)));
    assert_eq!((row.last_error.as_ref(), row.delivered_at, row.claimed_by), (None, None, None));
    let other = backend.open().await;
    assert_eq!(other.outgoing(row.id).await.expect("a read"), Some(row));
    assert_eq!(other.outgoing(OutgoingId(Ulid(9))).await.expect("a read"), None);
    // A message that is not from a channel sends nothing.
    writer.exchange("hello", "answer", 3).await;
    assert_eq!(rows(&store).await.len(), 1);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn rows_are_filtered_and_paged_newest_first(backend: &impl Backend) {
    let store = backend.open().await;
    let (one, two) = (
        SessionWriter::create(&store, "one", 0).await,
        SessionWriter::create(&store, "two", 0).await,
    );
    for n in 0..3 {
        exchange(&one, "irc", "mom", &format!("one {n}"), n).await;
        exchange(&two, "mail", "dad", &format!("two {n}"), n).await;
    }
    for row in claim(&store, at(10)).await {
        let end = if row.to.channel == "irc" {
            Settlement::Delivered
        } else {
            Settlement::Dead("gone".to_owned())
        };
        settle(&store, &row, end, 11).await;
    }
    let found = async |query: OutboxQuery| -> Vec<String> {
        let mut texts = Vec::new();
        let mut query = OutboxQuery { limit: 2, ..query };
        loop {
            let page = store.outbox(&query).await.expect("a page");
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { return texts };
            query.before = Some(last.row);
            texts.extend(page.into_iter().map(|stored| stored.outgoing.body.text));
        }
    };
    let everything = ["two 2", "one 2", "two 1", "one 1", "two 0", "one 0"];
    assert_eq!(found(all()).await, everything);
    let status = |status| OutboxQuery { status: Some(status), ..all() };
    assert_eq!(found(status(Status::Pending)).await, everything[..4]);
    assert_eq!(found(status(Status::Delivered)).await, ["one 0"]);
    assert_eq!(found(status(Status::Dead)).await, ["two 0"]);
    let channel = |name: &str| OutboxQuery { channel: Some(name.to_owned()), ..all() };
    assert_eq!(found(channel("irc")).await, ["one 2", "one 1", "one 0"]);
    assert!(found(channel("ir")).await.is_empty());
    let session = OutboxQuery { session: Some(two.id().await), ..all() };
    assert_eq!(found(session.clone()).await, ["two 2", "two 1", "two 0"]);
    let both = OutboxQuery { status: Some(Status::Pending), ..session.clone() };
    assert_eq!(found(both).await, ["two 2", "two 1"]);
    let both = OutboxQuery { status: Some(Status::Delivered), ..session };
    assert!(found(both).await.is_empty());
    let unknown = OutboxQuery { session: Some(SessionId(Ulid(9))), ..all() };
    let failed = store.outbox(&unknown).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "session", .. })), "{failed:?}");
}

pub(crate) async fn of_one_recipient_only_the_oldest_row_is_claimed(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    exchange(&writer, "irc", "mom", "first", 1).await;
    exchange(&writer, "irc", "mom", "second", 2).await;
    exchange(&writer, "irc", "dad", "third", 3).await;
    assert!(claim(&store, at(0)).await.is_empty(), "nothing is due yet");
    let claimed = claim(&store, at(10)).await;
    assert_eq!(texts(&claimed), ["first", "third"]);
    assert!(claimed.iter().all(|row| row.attempts == 1 && row.claimed_by == Some(NODE)));
    assert!(claimed.iter().all(|row| row.next_attempt_at == at(1010)));
    assert!(claim(&store, at(10)).await.is_empty());
    // A failure keeps the order: the second waits for the first.
    let first = settle(&store, &claimed[0], failed(), 20).await;
    assert_eq!((first.status, first.next_attempt_at), (Status::Pending, at(1020)));
    assert_eq!(first.last_error.as_deref(), Some("status 500"));
    assert!(claim(&store, at(1019)).await.iter().all(|row| row.id == claimed[1].id));
    let again = claim(&store, at(1020)).await;
    assert_eq!((texts(&again), again[0].attempts), (vec!["first"], 2));
    let done = settle(&store, &again[0], Settlement::Delivered, 1030).await;
    assert_eq!((done.status, done.delivered_at), (Status::Delivered, Some(at(1030))));
    assert_eq!(texts(&claim(&store, at(1030)).await), ["second"]);
    let limited = store.claim_outgoing(&["irc".to_owned()], NODE, LEASE, at(9999), 1).await;
    assert_eq!(limited.expect("claimed").len(), 1);
    assert!(
        store
            .claim_outgoing(&["irc".to_owned()], NODE, LEASE, at(9999), 0)
            .await
            .expect("none")
            .is_empty()
    );
}

pub(crate) async fn twenty_claims_at_once_take_each_row_once(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    for n in 0..8 {
        exchange(&writer, "irc", &format!("sender {n}"), "hello", n).await;
    }
    let mut claims = JoinSet::new();
    for n in 0..20 {
        let store = backend.open().await;
        claims.spawn(async move { claim_for(&store, NodeId(Ulid(n)), at(10)).await });
    }
    let mut ids: Vec<_> = claims.join_all().await.into_iter().flatten().map(|row| row.id).collect();
    ids.sort_unstable();
    let claimed = ids.len();
    ids.dedup();
    assert_eq!((claimed, ids.len()), (8, 8));
}

pub(crate) async fn a_claim_ends_with_its_lease_or_with_its_process(backend: &impl Backend) {
    let (store, other) = (backend.open().await, backend.open().await);
    let writer = SessionWriter::create(&store, "main", 0).await;
    exchange(&writer, "irc", "mom", "hello", 1).await;
    let dead = NodeId(Ulid(4711));
    let first = claim_for(&store, dead, at(10)).await.remove(0);
    assert!(claim(&other, at(1009)).await.is_empty());
    let second = claim(&other, at(1010)).await.remove(0);
    assert_eq!((second.id, second.attempts), (first.id, 2));
    // The first process is late: its failure does not count, its success would.
    let late = settle(&store, &first, failed(), 1011).await;
    assert_eq!(late, second);
    assert_eq!(other.release_outgoing(&[dead], at(1012)).await.expect("released"), 0);
    assert_eq!(other.release_outgoing(&[dead, NODE], at(1012)).await.expect("released"), 1);
    let third = claim_for(&store, dead, at(1012)).await.remove(0);
    assert_eq!(third.attempts, 3);
    let done = settle(&store, &second, Settlement::Delivered, 1013).await;
    assert_eq!(done.status, Status::Delivered);
    assert_eq!(settle(&store, &third, failed(), 1014).await, done);
    let unknown = store.settle_outgoing(OutgoingId(Ulid(9)), 1, &failed(), at(1)).await;
    assert_eq!(unknown.expect("nothing to settle"), None);
}

pub(crate) async fn a_dead_row_blocks_nothing_and_is_retried(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    exchange(&writer, "irc", "mom", "first", 1).await;
    exchange(&writer, "irc", "mom", "second", 2).await;
    let mut now = 10;
    let first = loop {
        let row = claim(&store, at(now)).await.remove(0);
        let row = settle(&store, &row, failed(), now).await;
        if row.status == Status::Dead {
            break row;
        }
        let early = store.retry_outgoing(row.id, at(now)).await;
        assert!(matches!(early, Err(Error::Refused(Refusal::NotDead { status: "pending" }))));
        now = row.next_attempt_at.0 - at(0).0;
    };
    assert_eq!((first.attempts, first.body.text.as_str()), (ATTEMPTS_MAX, "first"));
    let second = claim(&store, at(now)).await;
    assert_eq!(texts(&second), ["second"]);
    let dead = settle(&store, &second[0], Settlement::Dead("gone".to_owned()), now).await;
    assert_eq!((dead.status, dead.attempts), (Status::Dead, 1));
    let again = store.retry_outgoing(first.id, at(now)).await.expect("retried");
    assert_eq!((again.status, again.attempts), (Status::Pending, 0));
    let row = claim(&store, at(now)).await.remove(0);
    assert_eq!((row.id, row.attempts), (first.id, 1));
    settle(&store, &row, Settlement::Delivered, now).await;
    let late = store.retry_outgoing(first.id, at(now)).await;
    assert!(matches!(late, Err(Error::Refused(Refusal::NotDead { status: "delivered" }))));
    let unknown = store.retry_outgoing(OutgoingId(Ulid(9)), at(now)).await;
    assert!(matches!(unknown, Err(Error::NotFound { what: "delivery", .. })), "{unknown:?}");
}

pub(crate) async fn rows_of_other_channels_are_not_claimed(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    exchange(&writer, "fax", "mom", "first", 1).await;
    exchange(&writer, "irc", "mom", "second", 2).await;
    assert_eq!(texts(&claim(&store, at(10)).await), ["second"]);
    let none = store.claim_outgoing(&[], NODE, LEASE, at(9999), 9).await.expect("none");
    assert!(none.is_empty());
    let row = rows(&store).await.remove(1);
    assert_eq!((row.attempts, row.status), (0, Status::Pending));
    let fax = store.claim_outgoing(&["fax".to_owned()], NODE, LEASE, at(10), 9).await;
    assert_eq!(texts(&fax.expect("claimed")), ["first"]);
}

pub(crate) async fn rows_are_deleted_with_their_session_or_long_after_their_delivery(
    backend: &impl Backend,
) {
    let store = backend.open().await;
    let (one, two) = (
        SessionWriter::create(&store, "one", 0).await,
        SessionWriter::create(&store, "two", 0).await,
    );
    exchange(&one, "irc", "mom", "first", 1).await;
    exchange(&two, "irc", "dad", "second", 2).await;
    exchange(&two, "irc", "dad", "third", 3).await;
    one.delete(4).await.expect("deleted");
    assert_eq!(texts(&rows(&store).await), ["third", "second"]);
    let row = claim(&store, at(10)).await.remove(0);
    settle(&store, &row, Settlement::Delivered, 10).await;
    let kept = i64::try_from(DELIVERED_KEPT.0).expect("a time");
    store.purge_all(at(9 + kept)).await;
    assert_eq!(rows(&store).await.len(), 2);
    store.purge_all(at(10 + kept)).await;
    assert_eq!(texts(&rows(&store).await), ["third"], "what is not delivered is kept");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_run_keeps_what_it_has_to_answer(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = ask(&writer, "irc", "mom", 1).await;
    let awaited = vec![awaited_choice(suspension::Kind::Permission, "Really?")];
    writer.suspend(&opened.run, assistant_text("half", 2), awaited, 2).await.expect("suspended");
    let asked = rows(&store).await.remove(0);
    assert_eq!((asked.kind, asked.body.text.as_str()), (Kind::Permission, "half\n\nReally?"));
    assert_eq!(asked.body.suspension_id, Some(writer.view().await.suspensions[0].id));
    let answer = Submit { content: submission("yes").content, ..from("irc", "dad") };
    let accepted = writer.submit(answer, 3).await.expect("accepted").reply;
    let resumed = accepted.opened_run.expect("a run");
    let stored = backend.open().await.run(resumed.run.id).await.expect("a read").expect("a run").0;
    assert_eq!(stored, resumed.run);
    assert_eq!(stored.replies.added[0].envelope, envelope("irc", "dad"));
    assert!(stored.replies.sent_until.is_some());
    let (end, body) = ended(&resumed, "rest", 4);
    writer.end_run_as(end, body, 4).await.expect("ended");
    let sent: Vec<(String, String)> = rows(&store)
        .await
        .into_iter()
        .map(|row| (row.to.peer_id, row.body.text))
        .filter(|(_, text)| text == "rest")
        .collect();
    assert_eq!(
        sent,
        [("dad".to_owned(), "rest".to_owned()), ("mom".to_owned(), "rest".to_owned())]
    );
    // A message that waits sends nothing before its turn.
    writer.submit(Submit { mode: Some(Mode::Queue), ..from("irc", "mom") }, 5).await.expect("run");
}

/// One row of each status.
pub(crate) async fn story(store: &StoreHandle) {
    let writer = SessionWriter::create(store, "channel", 56).await;
    for (sender, answer) in [("mom", "one"), ("dad", "two"), ("kid", "three")] {
        exchange(&writer, "irc", sender, answer, 57).await;
    }
    let rows = claim(store, at(58)).await;
    settle(store, &rows[0], Settlement::Delivered, 59).await;
    settle(store, &rows[1], Settlement::Dead("gone".to_owned()), 59).await;
    assert_eq!(store.release_outgoing(&[NODE], at(60)).await.expect("released"), 1);
    let dead = store.outgoing(rows[1].id).await.expect("a read").expect("a row");
    store.retry_outgoing(dead.id, at(60)).await.expect("retried");
    let again = claim(store, at(61)).await.into_iter().find(|row| row.id == dead.id);
    settle(store, &again.expect("claimed"), Settlement::Dead("gone".to_owned()), 62).await;
}
