//! Errors of a store, grouped by what the caller does next.

use std::path::PathBuf;

use ctx_core::Refusal;
use ctx_core::id::ObjectId;

/// A failure of the store, or a request that a rule rejected.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "variants and fields without a comment are explained by their message"
)]
pub enum Error {
    /// A rule rejected the request; nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("no ctx store in {}", .0.display())]
    NoStore(PathBuf),
    #[error("{} already contains a ctx store", .0.display())]
    StoreExists(PathBuf),
    /// The target of a copy has rows.
    #[error("the target store is not empty; nothing was copied")]
    NotEmpty,
    #[error(
        "cannot use the store: a newer ctx wrote it (it needs schema {found}, this one has {known})"
    )]
    TooNew {
        /// Lowest schema number that a program needs to write to the store.
        found: u32,
        known: u32,
    },
    #[error("there is no {what} `{name}`")]
    NotFound {
        /// Kind of the missing object, such as `session`.
        what: &'static str,
        name: String,
    },
    /// SQLite reports damage, or stored data fails a check.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The bytes of an object do not match its hash, or cannot be decoded.
    #[error("object {id} is damaged: {why}")]
    DamagedObject { id: ObjectId, why: String },
    /// A permission is missing, or the file system is mounted read-only.
    #[error("the store cannot be written: {0}")]
    ReadOnly(String),
    /// The disk or the user's quota is full.
    #[error("nothing was written: the disk is full")]
    Full,
    /// SQLite's locks do not exclude writers on other machines.
    #[error(
        "cannot keep a store in {}: file locks do not work on a network file system ({fs})",
        path.display()
    )]
    NetworkDisk {
        path: PathBuf,
        /// Type of the file system, such as `nfs`.
        fs: &'static str,
    },
    /// A failure that may be temporary: a retry can succeed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Something that this kind of store does not do.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A bug in ctx: an invariant does not hold.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Code for JSON output and HTTP responses. It does not change between versions.
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Refused(refusal) => refusal.code(),
            Error::NoStore(_) => "no_store",
            Error::StoreExists(_) => "store_exists",
            Error::NotEmpty => "not_empty",
            Error::TooNew { .. } => "store_too_new",
            Error::NotFound { .. } => "not_found",
            Error::Damaged(_) | Error::DamagedObject { .. } => "damaged",
            Error::ReadOnly(_) => "read_only",
            Error::Full => "disk_full",
            Error::NetworkDisk { .. } => "network_disk",
            Error::Unavailable(_) => "unavailable",
            Error::Unsupported(_) => "unsupported",
            Error::Internal(_) => "internal",
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Error::Full
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Error::ReadOnly(error.to_string())
            }
            _ => Error::Unavailable(error.to_string()),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Error::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Error::ReadOnly(text)
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged(text),
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::SystemIoFailure,
            ) => Error::Unavailable(text),
            _ => Error::Internal(text),
        }
    }
}
