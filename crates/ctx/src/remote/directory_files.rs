//! The files of a directory remote. Each is named after the hash of its bytes and never changes, so
//! two machines that write at once, or a program that synchronises the directory, cannot overwrite
//! each other's files.
//!
//! ```text
//! parts/ab/HASH.zst     a part of a session
//! index/HASH.zst        which parts there are; one file per transfer
//! ```
//! In an encrypted directory the names end in `.age`, and every file is an age file.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ctx_engine::core::exchange::PART_MAX_BYTES;
use ctx_engine::core::id::ObjectId;
use ctx_engine::exchange::PeerError;

use super::age_keys::{Identity, Recipient};
use super::wire::{compress, decompress};
use super::{Traffic, age};

/// Maximum size of a file in bytes.
const FILE_MAX_BYTES: u64 = PART_MAX_BYTES as u64 + (1 << 20);
const PLAIN: &str = "zst";
const ENCRYPTED: &str = "age";
const TEMPORARY: &str = "tmp-";
/// Age after which a temporary file of a transfer that was cut off is deleted.
const TEMPORARY_AGE: Duration = Duration::from_secs(24 * 3600);

/// The two kinds of files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Part,
    Index,
}

pub(super) struct Files {
    pub(super) dir: PathBuf,
    recipients: Vec<Recipient>,
    identities: Vec<Identity>,
    is_encrypted: bool,
    traffic: Arc<Traffic>,
}

impl Files {
    pub(super) fn new(
        dir: &Path,
        recipients: Vec<Recipient>,
        identities: Vec<Identity>,
        traffic: Arc<Traffic>,
    ) -> Self {
        let is_encrypted = !recipients.is_empty();
        Self { dir: dir.to_owned(), recipients, identities, is_encrypted, traffic }
    }

    pub(super) const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    fn extension(&self) -> &'static str {
        if self.is_encrypted { ENCRYPTED } else { PLAIN }
    }

    fn path(&self, kind: Kind, name: ObjectId) -> PathBuf {
        let name = name.to_string();
        let file = format!("{name}.{}", self.extension());
        match kind {
            Kind::Part => self.dir.join("parts").join(&name[..2]).join(file),
            Kind::Index => self.dir.join("index").join(file),
        }
    }

    /// The names of all index files, sorted. Other files are ignored.
    pub(super) fn index_names(&self) -> Result<Vec<ObjectId>, PeerError> {
        let dir = self.dir.join("index");
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| unreadable(&dir, &error))?,
        };
        let mut names: Vec<ObjectId> = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| unreadable(&dir, &error))?.file_name();
            let Some(name) = name.to_str() else { continue };
            match name.rsplit_once('.') {
                Some((hash, end)) if end == self.extension() => {
                    names.extend(hash.parse::<ObjectId>().ok());
                }
                Some((hash, end @ (PLAIN | ENCRYPTED))) if hash.parse::<ObjectId>().is_ok() => {
                    return Err(other_encryption(&self.dir, end == ENCRYPTED));
                }
                _ => {}
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Reads a file and checks that its name is its hash; `None` if no identity can decrypt it.
    pub(super) fn read(
        &self,
        kind: Kind,
        name: ObjectId,
        max: usize,
    ) -> Result<Option<Vec<u8>>, PeerError> {
        let path = self.path(kind, name);
        let bytes = read_bounded(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let message = format!("a file of the remote is missing: {}", path.display());
                PeerError::new("remote_incomplete", message)
                    .hint("wait until the directory is synchronised, then run the command again")
            }
            _ => unreadable(&path, &error),
        })?;
        self.traffic.add_received(bytes.len());
        if ObjectId::of(&[&bytes]) != name {
            let message = format!(
                "a file of the remote is damaged: {} does not match its hash",
                path.display()
            );
            return Err(PeerError::new("remote_damaged", message)
                .hint("nothing was changed; restore the file, or delete it and push again"));
        }
        if !self.is_encrypted {
            return decompress(&bytes, max).map(Some);
        }
        let plain = age::decrypt(&bytes, &self.identities)?;
        plain.map(|plain| decompress(&plain, max)).transpose()
    }

    /// Writes a file and returns its name. It is complete and synced before it has its name.
    pub(super) fn write(&self, kind: Kind, content: &[u8]) -> Result<ObjectId, PeerError> {
        let mut bytes = compress(content)?;
        if self.is_encrypted {
            bytes = age::encrypt(&bytes, &self.recipients)?;
        }
        let name = ObjectId::of(&[&bytes]);
        let path = self.path(kind, name);
        if path.exists() {
            return Ok(name);
        }
        let dir = path.parent().unwrap_or(&self.dir);
        let write = || {
            fs::create_dir_all(dir)?;
            let temporary =
                dir.join(format!("{TEMPORARY}{}-{}", std::process::id(), &name.to_string()[..16]));
            let mut file = fs::File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            fs::File::open(dir)?.sync_all()
        };
        write().map_err(|error| {
            let message = format!("cannot write {}: {error}", path.display());
            PeerError::new("remote_unwritable", message)
                .hint("check the permissions and the free space of the directory")
        })?;
        self.traffic.add_sent(bytes.len());
        Ok(name)
    }

    /// Deletes index files that a transfer left unfinished long ago.
    pub(super) fn delete_old_temporaries(&self) {
        for entry in fs::read_dir(self.dir.join("index")).into_iter().flatten().flatten() {
            let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let is_old = modified.is_ok_and(|at| {
                SystemTime::now().duration_since(at).is_ok_and(|age| age > TEMPORARY_AGE)
            });
            if is_temporary && is_old {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Reads a regular file. A link or a device under a file's name is refused.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> PeerError {
    PeerError::new("remote_unreadable", format!("cannot read {}: {error}", path.display()))
        .hint("check the permissions of the directory")
}

fn other_encryption(dir: &Path, is_encrypted: bool) -> PeerError {
    let (what, how) = if is_encrypted {
        ("encrypted", "add the remote again with `--identity FILE`")
    } else {
        ("not encrypted", "use another directory for the encrypted remote")
    };
    PeerError::new("remote_encryption", format!("{} is {what}", dir.display())).hint(how)
}
