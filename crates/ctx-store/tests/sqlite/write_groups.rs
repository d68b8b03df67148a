//! Large groups of concurrent writes, which share a transaction and put their bodies into a file.
//!
//! Tests that use them run on one thread: every spawned task has queued its write before the first
//! one becomes the leader, so that the groups are always the same.

use std::fs;

use ctx_core::decide;
use ctx_core::id::{BlobId, TurnId};
use ctx_core::message::{Message, Part};
use ctx_core::object::{Named, Object};
use ctx_core::turn::{About, Ready};
use ctx_store::{Error, Target};
use tokio::task::JoinSet;

use crate::StoreDir;
use crate::harness::{
    SessionWriter, StoreHandle, at, create, label, message, new_session, text_of,
};

/// Number of writes in a group.
pub(crate) const GROUP_SIZE: u64 = 64;
/// Size of each picture in bytes.
const PICTURE_BYTES: usize = 5000;
/// Size of each text in bytes.
const WORDS_BYTES: usize = 3000;

/// A stored turn with everything that it references.
#[derive(Clone)]
pub(crate) struct WrittenTurn {
    pub(crate) session: Target,
    pub(crate) turn: TurnId,
    pub(crate) body: Object,
    pub(crate) pictures: Vec<Object>,
}

/// A turn that is about to be written.
pub(crate) struct TurnWrite {
    pub(crate) writer: SessionWriter,
    /// The expected head of the session.
    pub(crate) under: Option<TurnId>,
    pub(crate) words: String,
    pub(crate) pictures: Vec<Object>,
}

impl TurnWrite {
    pub(crate) async fn say(self) -> Result<WrittenTurn, Error> {
        let Self { writer, under, words, pictures } = self;
        let part = |object: &Object| Part::Image {
            media_type: "image/png".to_owned(),
            blob: BlobId(object.id()),
            bytes: None,
        };
        let words = Part::Text { text: words };
        let shown = Message {
            content: pictures.iter().map(part).chain([words]).collect(),
            ..message("", 1)
        };
        let (ready, named) = Ready::new(About::at(at(1)), vec![shown]);
        let body = named.object().clone();
        let objects = pictures.iter().cloned().map(Named::from).chain([named]).collect();
        let decision = writer
            .decide(1, objects, move |view, _| decide::append_turn(view, under, &ready))
            .await?;
        Ok(WrittenTurn { session: writer.target, turn: decision.reply, body, pictures })
    }
}

/// Sessions with the labels `name 0`, `name 1` and so on.
pub(crate) async fn sessions(store: &StoreHandle, name: &str, count: u64) -> Vec<SessionWriter> {
    let mut made = JoinSet::new();
    for n in 0..count {
        let (store, name) = (store.clone(), format!("{name} {n}"));
        made.spawn(async move {
            create(&store, new_session(&name, 0)).await.expect("the label is free")
        });
    }
    made.join_all().await;
    (0..count)
        .map(|n| SessionWriter { store: store.clone(), target: label(&format!("{name} {n}")) })
        .collect()
}

/// Writes all of them concurrently; the outcome of each, in order.
pub(crate) async fn write_concurrently(
    turn_writes: Vec<TurnWrite>,
) -> Vec<Result<WrittenTurn, Error>> {
    let tasks: Vec<_> =
        turn_writes.into_iter().map(|turn_write| tokio::spawn(turn_write.say())).collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.expect("no panic"));
    }
    outcomes
}

/// A group of turns in new sessions. Two neighbours show the same picture; its bytes
/// depend on the seed.
pub(crate) async fn turn_writes(store: &StoreHandle, name: &str, seed: u64) -> Vec<TurnWrite> {
    let turn_write = |(n, writer): (u64, SessionWriter)| TurnWrite {
        writer,
        under: None,
        words: String::from_utf8(text_of(seed * 1000 + 500 + n, WORDS_BYTES)).expect("letters"),
        pictures: vec![Object::blob(text_of(seed * 1000 + n / 2, PICTURE_BYTES))],
    };
    (0..).zip(sessions(store, name, GROUP_SIZE).await).map(turn_write).collect()
}

/// Writes a group of turns in new sessions.
pub(crate) async fn write_group(store: &StoreHandle, name: &str, seed: u64) -> Vec<WrittenTurn> {
    let written = write_concurrently(turn_writes(store, name, seed).await).await;
    written.into_iter().map(|written| written.expect("every write succeeds")).collect()
}

/// Asserts that every turn and picture reads back byte for byte.
pub(crate) async fn assert_reads_back(store: &StoreHandle, all: &[WrittenTurn]) {
    for written in all {
        let turns = store.turns(written.turn, 1).await.expect("readable");
        assert_eq!(turns[0].body.as_ref(), Some(&written.body), "{:?}", written.session);
        assert!(turns[0].messages().expect("readable").is_some());
        for picture in &written.pictures {
            assert_eq!(store.object(picture.id()).await.expect("readable").as_ref(), Some(picture));
        }
    }
}

impl StoreDir {
    /// The names of the segment files.
    pub(crate) fn segments(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.file("segments")) else { return Vec::new() };
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    }

    pub(crate) fn segment(&self, number: u64) -> Vec<u8> {
        fs::read(self.file(&format!("segments/{number}"))).expect("a segment")
    }

    /// The number that a query returns.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).expect("a number")
    }

    /// The segment of an object in a table and its range in it.
    pub(crate) fn place(
        &self,
        table: &str,
        id: ctx_core::id::ObjectId,
    ) -> (i64, std::ops::Range<usize>) {
        let sql = format!("SELECT seg, off, off + len FROM {table} WHERE hash = ?1");
        self.sql()
            .query_row(&sql, [id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?..row.get(2)?)))
            .expect("a place")
    }
}
