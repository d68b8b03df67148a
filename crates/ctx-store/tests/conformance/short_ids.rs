//! Names of sessions: beginnings of ids, the shortest unique ones, labels, directories.

use ctx_core::decide::Needs;
use ctx_core::id::{ObjectId, SessionId, TokenId};
use ctx_core::refusal::Refusal;
use ctx_core::token::{Scope, Token, digest};
use ctx_store::{Error, UlidKind};
use ulid::Ulid;

use crate::Backend;
use crate::harness::{SessionWriter, StoreHandle, at, create, label, new_session};

/// Sessions with these random halves, all of one time.
async fn sessions(store: &StoreHandle, halves: &[&str]) -> Vec<SessionId> {
    let mut ids = Vec::new();
    for (n, half) in halves.iter().enumerate() {
        let text = format!("01KTESTTES{half:X<16}");
        let id = SessionId(Ulid::from_string(&text).expect("a ULID"));
        let mut new = new_session(&format!("label-{n}"), 0);
        new.id = id;
        create(store, new).await.expect("a session");
        ids.push(id);
    }
    ids
}

pub(crate) async fn sessions_are_found_by_the_beginning_of_either_half(backend: &impl Backend) {
    let store = backend.open().await;
    let ids = sessions(&store, &["K7Q2A", "K7Q2B", "M000"]).await;
    let found = |text: &'static str| store.sessions_named(text, text, 9);
    assert_eq!(found("K7Q2").await.expect("a read"), ids[..2]);
    assert_eq!(found("K7Q2B").await.expect("a read"), ids[1..2]);
    assert_eq!(found("01KTEST").await.expect("a read"), ids, "the first half");
    assert_eq!(found("01KTESTTESM00").await.expect("a read"), ids[2..], "the whole id");
    assert_eq!(found("7Q2A").await.expect("a read"), [], "not the middle of an id");
    let first = store.sessions_named("label-2", "K7Q2", 9).await.expect("a read");
    assert_eq!(first, ids[2..], "a label goes before a beginning");
}

pub(crate) async fn a_short_id_is_the_shortest_unique_beginning(backend: &impl Backend) {
    let store = backend.open().await;
    // The last random half begins like the first half of every id.
    let halves = ["K7Q2A", "K7Q2B", "M000", "Z", "01KTESTTESTQ"];
    let ids = sessions(&store, &halves).await;
    let short = store.short_ids(UlidKind::Session, ids.iter().map(|id| id.0).collect());
    let short = short.await.expect("short ids");
    assert_eq!(short, ["K7Q2A", "K7Q2B", "M000", "ZXXX", "01KTESTTEST"]);
    for (short, id) in short.iter().zip(&ids) {
        let found = store.sessions_named(short, short, 9).await.expect("a read");
        assert_eq!(found, [*id], "{short}");
    }
    create(&store, new_session("M000", 0)).await.expect("a session");
    let short = store.short_ids(UlidKind::Session, vec![ids[2].0]).await.expect("short ids");
    assert_eq!(short, ["M000XXXXXXXXXXXX"], "a label has the short form");
}

pub(crate) async fn other_records_are_found_by_the_beginning_of_their_id(backend: &impl Backend) {
    let store = backend.open().await;
    let ids = ["01KTESTTESABCDEFGHJKMNPQRS", "01KTESTTESABCXEFGHJKMNPQRS"];
    let ids = ids.map(|text| Ulid::from_string(text).expect("a ULID"));
    for (n, id) in ids.into_iter().enumerate() {
        let token = Token::new(TokenId(id), None, Scope::Read, at(1)).expect("a token");
        store.insert_token(&token, digest(&n.to_string())).await.expect("stored");
    }
    let found = |text: &'static str| store.ids_beginning(UlidKind::Token, text, 9);
    assert_eq!(found("ABCX").await.expect("a read"), ids[1..]);
    assert_eq!(found("01KT").await.expect("a read"), ids);
    for kind in [UlidKind::Task, UlidKind::Run, UlidKind::Entity, UlidKind::Outgoing] {
        assert_eq!(store.ids_beginning(kind, "01KT", 9).await.expect("a read"), [], "{kind:?}");
    }
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut turns = Vec::new();
    for n in 0..40 {
        turns.push(writer.say(&format!("message {n}"), n).await.0);
    }
    let short = store.short_hashes(turns.clone()).await.expect("short ids");
    for (short, turn) in short.iter().zip(&turns) {
        assert!(short.len() >= 4 && turn.to_string().starts_with(short), "{short}");
        let found = store.resolve(short, 9).await.expect("a read");
        assert_eq!(found.iter().map(|one| one.id).collect::<Vec<ObjectId>>(), [*turn], "{short}");
    }
}

pub(crate) async fn a_session_gets_another_label_and_keeps_the_old_one_as_an_alias(
    backend: &impl Backend,
) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "old", 0).await;
    SessionWriter::create(&store, "taken", 0).await;
    let id = writer.id().await;
    let refused = store.relabel_session(&label("old"), "taken", at(1)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::LabelInUse { .. }))), "{refused:?}");
    for new in ["new", "newer", "old"] {
        store.relabel_session(&label("old"), new, at(1)).await.expect("renamed");
        for name in ["old", new] {
            let view = store.view(&label(name), Needs::default()).await.expect("a read");
            let session = view.expect("a session").session;
            assert_eq!((session.id, session.label.as_str()), (id, new), "{name}");
        }
    }
    let gone = store.relabel_session(&label("nobody"), "x", at(1)).await;
    assert!(matches!(gone, Err(Error::Refused(Refusal::NoSession))));
}

pub(crate) async fn sessions_of_a_directory_are_listed_by_activity(backend: &impl Backend) {
    let store = backend.open().await;
    let mut ids = Vec::new();
    for (n, dir) in ["/a", "/b", "/a"].into_iter().enumerate() {
        let mut new = new_session(&format!("s{n}"), n as i64);
        new.working_dir = Some(dir.to_owned());
        ids.push(new.id);
        create(&store, new).await.expect("a session");
    }
    assert_eq!(store.sessions_in("/a", 9).await.expect("a list"), [ids[2], ids[0]]);
    assert_eq!(store.sessions_in("/a", 1).await.expect("a list"), [ids[2]]);
    assert_eq!(store.sessions_in("/c", 9).await.expect("a list"), []);
}
