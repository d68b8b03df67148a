//! What was read from which file: the files `imports.json` (imported sessions) and
//! `import-facts.json` (what lists show) in the data directory.
//!
//! It only saves time and detects changed files. Without it everything is read again, and the store
//! recognises what it has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::reading::Facts;
use super::sources::Source;

const FILE: &str = "imports.json";
const FACTS_FILE: &str = "import-facts.json";
const BUFFER_BYTES: usize = 1 << 20;

/// The entries by path.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Ledger {
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    facts: FactsOfFiles,
    sources: BTreeMap<String, Entry>,
}

/// Facts by path. They are read when the first list needs them.
#[derive(Default)]
struct FactsOfFiles {
    files: Option<BTreeMap<String, KnownFacts>>,
    changed: bool,
}

#[derive(Serialize, Deserialize)]
struct KnownFacts {
    bytes: u64,
    modified: u128,
    facts: Facts,
}

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) bytes: u64,
    /// Modification time in nanoseconds since 1970, or the state of a session in a file.
    modified: u128,
    /// BLAKE3 hash of these bytes.
    hash: String,
    /// The session in the store; absent if the file has no turns.
    pub(crate) session: Option<String>,
}

/// How a file differs from what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The file was not read before, or has more records.
    Grown,
    /// Nothing.
    Unchanged(Entry),
    /// Bytes that were read before are different now.
    Edited,
    /// The file is shorter than it was.
    Shortened,
}

impl Entry {
    /// The entry of a file that was imported as a session.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn of(source: &Source, session: Option<String>) -> io::Result<Self> {
        Ok(Self {
            bytes: size(source),
            modified: modified(source),
            hash: hash(&source.path, size(source))?,
            session,
        })
    }
}

impl Ledger {
    /// Reads the ledger of a data directory. A missing or damaged one is empty.
    pub(crate) fn open(data: &Path) -> Self {
        let path = data.join(FILE);
        let read = std::fs::read(&path).ok();
        let found = read.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        Self { path, ..found.unwrap_or_default() }
    }

    /// What a list shows of a session. A file that has not changed is not read again.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn facts(&mut self, source: &Source) -> io::Result<Facts> {
        let path = self.facts_path();
        let files = self.facts.files.get_or_insert_with(|| {
            let read = std::fs::read(path).ok();
            read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
        });
        let (key, bytes, modified) = (key(source), size(source), modified(source));
        if let Some(known) = files.get(&key)
            && (known.bytes, known.modified) == (bytes, modified)
        {
            return Ok(known.facts.clone());
        }
        let facts = source.facts()?;
        files.insert(key, KnownFacts { bytes, modified, facts: facts.clone() });
        self.facts.changed = true;
        Ok(facts)
    }

    /// Stores the facts for the next list. Without them the next list takes longer.
    pub(crate) fn save_facts(&self) {
        let Some(files) = self.facts.files.as_ref().filter(|_| self.facts.changed) else { return };
        let written = serde_json::to_vec(files)
            .map_err(io::Error::other)
            .and_then(|bytes| write_whole(&self.facts_path(), &bytes));
        if let Err(error) = written {
            tracing::warn!(%error, "the facts of sessions of other tools were not written");
        }
    }

    fn facts_path(&self) -> PathBuf {
        self.path.with_file_name(FACTS_FILE)
    }

    /// Compares a file with its entry.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn change(&self, source: &Source) -> io::Result<Change> {
        let Some(entry) = self.sources.get(&key(source)) else { return Ok(Change::Grown) };
        if entry.bytes == size(source) && entry.modified == modified(source) {
            return Ok(Change::Unchanged(entry.clone()));
        }
        if source.part.is_some() {
            return Ok(Change::Grown);
        }
        if source.bytes < entry.bytes {
            return Ok(Change::Shortened);
        }
        let same = hash(&source.path, entry.bytes)? == entry.hash;
        Ok(if same { Change::Grown } else { Change::Edited })
    }

    /// Notes that a file was read.
    pub(crate) fn note(&mut self, source: &Source, entry: Entry) {
        self.sources.insert(key(source), entry);
    }

    /// Writes the ledger.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn save(&self) -> io::Result<()> {
        write_whole(&self.path, &serde_json::to_vec(self)?)
    }
}

/// Replaces a file. A crash leaves the old one or the new one.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&part, path)
}

fn key(source: &Source) -> String {
    let path = std::fs::canonicalize(&source.path).unwrap_or_else(|_| source.path.clone());
    let part = source.part.as_deref().unwrap_or_default();
    format!("{} {} {part}", source.tool.name(), path.display())
}

/// Bytes of a file; none of a session in a file with several.
const fn size(source: &Source) -> u64 {
    if source.part.is_some() { 0 } else { source.bytes }
}

fn modified(source: &Source) -> u128 {
    if let Some(updated) = source.updated {
        return updated.unsigned_abs().into();
    }
    source.modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// The hash of the first bytes of a file.
fn hash(path: &Path, bytes: u64) -> io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?.take(bytes), blake3::Hasher::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hasher.finalize().to_hex().to_string());
        }
        hasher.update(&buffer[..read]);
    }
}
