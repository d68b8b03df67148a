//! Many who write at once: they share a transaction, and their bodies go into a file.
//!
//! The tests that use it run on one thread, where everybody who was spawned has queued a write before the first of them
//! commits for all. So who shares a transaction with whom is no matter of luck.

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

/// How many a crowd is.
pub(crate) const CROWD: u64 = 64;
/// How large a picture of a crowd is.
const PICTURE_BYTES: usize = 5000;
/// How many words of a crowd are.
const WORDS_BYTES: usize = 3000;

/// Something that was said, and all there is to it.
#[derive(Clone)]
pub(crate) struct Said {
    pub(crate) session: Target,
    pub(crate) turn: TurnId,
    pub(crate) body: Object,
    pub(crate) pictures: Vec<Object>,
}

/// What somebody is about to say.
pub(crate) struct Saying {
    pub(crate) writer: SessionWriter,
    /// The head that it is said under.
    pub(crate) under: Option<TurnId>,
    pub(crate) words: String,
    pub(crate) pictures: Vec<Object>,
}

impl Saying {
    pub(crate) async fn say(self) -> Result<Said, Error> {
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
        Ok(Said {
            session: writer.target,
            turn: decision.reply.turn.expect("a turn"),
            body,
            pictures,
        })
    }
}

/// So many sessions whose names begin so.
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

/// All of them at once, each with its outcome, in order.
pub(crate) async fn at_once(sayings: Vec<Saying>) -> Vec<Result<Said, Error>> {
    let tasks: Vec<_> = sayings.into_iter().map(|saying| tokio::spawn(saying.say())).collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.expect("no panic"));
    }
    outcomes
}

/// What the members of a crowd are about to say. Two neighbours show the same picture; no other seed gives the same.
pub(crate) async fn sayings(store: &StoreHandle, name: &str, seed: u64) -> Vec<Saying> {
    let saying = |(n, writer): (u64, SessionWriter)| Saying {
        writer,
        under: None,
        words: String::from_utf8(text_of(seed * 1000 + 500 + n, WORDS_BYTES)).expect("letters"),
        pictures: vec![Object::blob(text_of(seed * 1000 + n / 2, PICTURE_BYTES))],
    };
    (0..).zip(sessions(store, name, CROWD).await).map(saying).collect()
}

/// A crowd that says something in new sessions.
pub(crate) async fn crowd(store: &StoreHandle, name: &str, seed: u64) -> Vec<Said> {
    let said = at_once(sayings(store, name, seed).await).await;
    said.into_iter().map(|said| said.expect("nobody is in the way")).collect()
}

/// Everything reads back byte for byte.
pub(crate) async fn is_whole(store: &StoreHandle, all: &[Said]) {
    for said in all {
        let turns = store.turns(said.turn, 1).await.expect("readable");
        assert_eq!(turns[0].body.as_ref(), Some(&said.body), "{:?}", said.session);
        assert!(turns[0].messages().expect("readable").is_some());
        for picture in &said.pictures {
            assert_eq!(store.object(picture.id()).await.expect("readable").as_ref(), Some(picture));
        }
    }
}

impl StoreDir {
    /// The names of the segments that are files.
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

    /// One number out of the database.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).expect("a number")
    }

    /// In which segment and from where to where an object of a table lies.
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
