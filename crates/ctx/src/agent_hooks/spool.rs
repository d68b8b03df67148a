//! Records of hooks on disk, until the store has them.
//!
//! One record is one file in `hooks/spool` of the data directory. The names are in the order of the
//! events. A record is stored under its name as idempotency key and then removed, so it is stored
//! once even if a process is killed between the two. One process at a time takes records in.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ctx_engine::core::id::BlobId;
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Engine, Error, OutsideEvent, Recorder, StoreError};
use serde::{Deserialize, Serialize};

/// Most records that are read from the directory at once.
const PAGE: usize = 1000;
/// Size at which the log is rotated; one older file is kept.
const LOG_MAX_BYTES: u64 = 1 << 20;
/// Pause between two attempts to become the process that takes records in.
const LOCK_POLL: Duration = Duration::from_millis(5);
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// One event, as it is kept in the spool.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Label of the session that it is recorded in.
    pub(crate) session: String,
    pub(crate) event: Event,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    Prompt { text: String },
    Work { task: String, entries: Vec<Entry> },
    TurnEnd { text: Option<String>, prompt: Option<String> },
    Closed { note: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Entry {
    Read {
        path: String,
        content: Bytes,
    },
    /// Without content the file was removed.
    Wrote {
        path: String,
        content: Option<Bytes>,
    },
    Command {
        argv: Vec<String>,
        exit: Option<i32>,
        output: Option<String>,
    },
    Plan {
        text: String,
    },
    Note {
        text: String,
    },
}

/// The content of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bytes {
    Text(String),
    Base64(String),
    Omitted { hash: BlobId, bytes: u64 },
}

impl Bytes {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(binary) => Self::Base64(BASE64.encode(binary.as_bytes())),
        }
    }
}

/// The spool of a store.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    hooks: PathBuf,
}

impl Spool {
    pub(crate) fn new(data: &Path) -> Self {
        Self { hooks: data.join("hooks") }
    }

    /// The directory of everything that hooks keep beside the store.
    pub(crate) fn hooks_dir(&self) -> &Path {
        &self.hooks
    }

    fn dir(&self) -> PathBuf {
        self.hooks.join("spool")
    }

    /// Writes a record. It survives the end of this process; [`Spool::sync`] makes it survive a
    /// crash of the system.
    pub(crate) fn add(&self, record: &Record) -> std::io::Result<PathBuf> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(DIR_MODE).create(self.dir())?;
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("{nanos:020}-{}", ulid::Ulid::new());
        let path = self.dir().join(format!("{name}.json"));
        let part = self.dir().join(format!("{name}.part"));
        let mut file = File::options().write(true).create_new(true).mode(FILE_MODE).open(&part)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        fs::rename(&part, &path)?;
        Ok(path)
    }

    /// Makes records durable that were not stored yet.
    pub(crate) fn sync(&self, paths: &[PathBuf]) {
        let left: Vec<File> = paths.iter().filter_map(|path| File::open(path).ok()).collect();
        if left.is_empty() {
            return;
        }
        for file in left {
            let _ = file.sync_all();
        }
        let _ = File::open(self.dir()).and_then(|dir| dir.sync_all());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names().is_empty()
    }

    /// Number of records that wait, counted up to a page.
    pub(crate) fn waiting(&self) -> usize {
        self.names().len()
    }

    /// Removes what hooks keep beside the store, unless records wait.
    pub(crate) fn remove_unused(&self) {
        if self.is_empty() && !self.hooks.join("refused").exists() {
            let _ = fs::remove_dir_all(&self.hooks);
        }
    }

    /// The oldest records, in order.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.ends_with(".json"))
            .collect();
        names.sort_unstable();
        names.truncate(PAGE);
        names
    }

    /// Stores all records, in order. Waits while another process does.
    ///
    /// Fails if the store fails. The records are kept then.
    pub(crate) async fn take_in(&self, engine: &Engine) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let unavailable = |e: std::io::Error| Error::Store(StoreError::from(e));
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(self.hooks.join("spool.lock"))
            .map_err(unavailable)?;
        while lock.try_lock().is_err() {
            tokio::time::sleep(LOCK_POLL).await;
        }
        loop {
            let names = self.names();
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                self.take_in_one(engine, &name).await?;
            }
        }
    }

    async fn take_in_one(&self, engine: &Engine, name: &str) -> Result<(), Error> {
        let path = self.dir().join(name);
        let record = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Record>(&bytes).map_err(|e| e.to_string()),
            // The process that held the lock before removed it.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => Err(e.to_string()),
        };
        let stored = match record {
            Ok(record) => store(engine, record, name).await,
            Err(why) => return self.set_aside(&path, &format!("cannot be read: {why}")),
        };
        match stored {
            Ok(()) => fs::remove_file(&path).map_err(|e| Error::Store(StoreError::from(e))),
            // A rule refused it and would refuse it again.
            Err(error) if error.refusal().is_some() => self.set_aside(&path, &error.to_string()),
            Err(error) => Err(error),
        }
    }

    /// Moves a record that cannot be stored out of the way of the others.
    fn set_aside(&self, path: &Path, why: &str) -> Result<(), Error> {
        let refused = self.hooks.join("refused");
        let name = path.file_name().unwrap_or_default();
        self.log(&format!("the record {} was not stored: {why}", name.to_string_lossy()));
        fs::create_dir_all(&refused)
            .and_then(|()| fs::rename(path, refused.join(name)))
            .map_err(|e| Error::Store(StoreError::from(e)))
    }

    /// Adds a line to the log of the hooks.
    pub(crate) fn log(&self, line: &str) {
        let path = self.hooks.join("hook.log");
        if fs::metadata(&path).is_ok_and(|meta| meta.len() >= LOG_MAX_BYTES) {
            let _ = fs::rename(&path, path.with_extension("log.1"));
        }
        let _ = fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(&self.hooks);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = Timestamp(i64::try_from(now.as_millis()).unwrap_or_default());
        let file = File::options().create(true).append(true).mode(FILE_MODE).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{at} {line}"));
    }
}

async fn store(engine: &Engine, record: Record, key: &str) -> Result<(), Error> {
    let mut recorder = engine.tasks().recorder(&record.session).await?;
    let event = match record.event {
        Event::Prompt { text } => OutsideEvent::Prompt(text),
        Event::Work { task, entries } => {
            entries.into_iter().for_each(|entry| observe(&mut recorder, entry));
            OutsideEvent::Work { task }
        }
        Event::TurnEnd { text, prompt } => OutsideEvent::TurnEnd { text, prompt },
        Event::Closed { note } => OutsideEvent::Closed(note),
    };
    recorder.report_outside(event, key).await.map(drop)
}

fn observe(recorder: &mut Recorder, entry: Entry) {
    match entry {
        Entry::Read { path, content } => match content.into_bytes() {
            Ok(bytes) => recorder.observe_file_read(path, bytes),
            Err((hash, bytes)) => recorder.observe_omitted_read(path, hash, bytes),
        },
        Entry::Wrote { path, content: None } => recorder.observe_file_removed(path),
        Entry::Wrote { path, content: Some(content) } => match content.into_bytes() {
            Ok(bytes) => recorder.observe_file_write(path, bytes),
            Err((hash, bytes)) => recorder.observe_omitted_write(path, hash, bytes),
        },
        Entry::Command { argv, exit, output } => {
            recorder.observe_command(argv, exit, output.map(String::into_bytes));
        }
        Entry::Plan { text } => recorder.observe_plan(text),
        Entry::Note { text } => recorder.observe_note(text),
    }
}

impl Bytes {
    /// The bytes, or the hash and the size.
    fn into_bytes(self) -> Result<Vec<u8>, (BlobId, u64)> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64(text) => Ok(BASE64.decode(text).unwrap_or_default()),
            Self::Omitted { hash, bytes } => Err((hash, bytes)),
        }
    }
}
