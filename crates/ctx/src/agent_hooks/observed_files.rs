//! Contents of the files that an agent read or wrote, within bounds.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ctx_engine::core::id::BlobId;
use ctx_engine::core::object::Object;

use super::spool::{Bytes, Entry};

/// Larger files are recorded by hash and size only.
const CONTENT_MAX_BYTES: u64 = 4 << 20;
/// Larger files are recorded as a note only: computing the hash would take too long.
const HASHED_MAX_BYTES: u64 = 32 << 20;
/// Names of files whose content is not stored, because it is usually secret.
const SECRET_NAMES: [&str; 12] = [
    ".env",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    "credentials",
    "credentials.json",
    "auth.json",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
    ".pgpass",
];
const SECRET_ENDINGS: [&str; 5] = [".pem", ".key", ".p12", ".pfx", ".keystore"];

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Changed,
}

/// The record of a file as it is now. `None` if there is nothing to record.
pub(super) fn observe(path: &Path, recorded_path: String, access: Access) -> Option<Entry> {
    let entry = |content: Option<Bytes>| match (access, content) {
        (Access::Read, content) => {
            Some(Entry::Read { path: recorded_path.clone(), content: content? })
        }
        (Access::Changed, content) => Some(Entry::Wrote { path: recorded_path.clone(), content }),
    };
    let Ok(meta) = std::fs::metadata(path) else { return entry(None) };
    if !meta.is_file() {
        return None;
    }
    let note = |why: &str| {
        let verb = if access == Access::Read { "Read" } else { "Wrote" };
        Some(Entry::Note { text: format!("{verb} {recorded_path} ({why})") })
    };
    if meta.len() > HASHED_MAX_BYTES {
        return note(&format!("{} bytes, content not recorded", meta.len()));
    }
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(HASHED_MAX_BYTES).read_to_end(&mut bytes));
    if let Err(error) = read {
        return note(&format!("content not readable: {error}"));
    }
    let omitted = bytes.len() as u64 > CONTENT_MAX_BYTES || is_secret(path);
    entry(Some(if omitted {
        let length = bytes.len() as u64;
        Bytes::Omitted { hash: BlobId(Object::blob(bytes).id()), bytes: length }
    } else {
        Bytes::of(bytes)
    }))
}

fn is_secret(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_template = [".example", ".sample", ".template"].iter().any(|end| name.ends_with(end));
    !is_template
        && (SECRET_NAMES.contains(&name.as_str())
            || name.starts_with(".env.")
            || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_secrets_and_large_files_are_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let observed = |name: &str, bytes: usize| {
            let path = dir.path().join(name);
            std::fs::write(&path, vec![b'x'; bytes]).expect("a file");
            observe(&path, name.to_owned(), Access::Changed).expect("an entry")
        };
        for (name, bytes, kind) in [
            ("a.txt", 3, "text"),
            (".env", 3, "omitted"),
            (".env.local", 3, "omitted"),
            (".env.example", 3, "text"),
            ("server.PEM", 3, "omitted"),
            ("large", 5 << 20, "omitted"),
            ("huge", 33 << 20, "note"),
        ] {
            let found = match observed(name, bytes) {
                Entry::Wrote { content: Some(Bytes::Text { .. }), .. } => "text",
                Entry::Wrote { content: Some(Bytes::Omitted { .. }), .. } => "omitted",
                Entry::Note { .. } => "note",
                other => panic!("{other:?}"),
            };
            assert_eq!(found, kind, "{name}");
        }
        let gone = dir.path().join("gone");
        let removed = observe(&gone, "gone".to_owned(), Access::Changed);
        assert!(matches!(removed, Some(Entry::Wrote { content: None, .. })));
        assert!(observe(&gone, "gone".to_owned(), Access::Read).is_none());
        assert!(observe(dir.path(), "dir".to_owned(), Access::Read).is_none());
    }
}
