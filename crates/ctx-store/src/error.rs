//! What can go wrong with a store, shaped by what the caller does next.

use std::path::PathBuf;

use ctx_core::Refusal;
use ctx_core::id::ObjectId;

/// A store's failure, or a rule's no.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A rule said no; nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no store there.
    #[error("there is no ctx store in {}", .0.display())]
    NoStore(PathBuf),
    /// There is one already.
    #[error("there is a ctx store in {} already", .0.display())]
    StoreExists(PathBuf),
    /// A newer program wrote it.
    #[error(
        "this store has schema {found}, and this ctx knows up to {known}; a newer ctx wrote it"
    )]
    TooNew {
        /// Its schema.
        found: u32,
        /// What is known here.
        known: u32,
    },
    /// What is named does not exist.
    #[error("there is no {what} `{name}`")]
    NotFound {
        /// Of what kind.
        what: &'static str,
        /// Called what.
        name: String,
    },
    /// The stored bytes are not what they should be.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// An object's bytes are not what they should be.
    #[error("object {id} is damaged: {why}")]
    DamagedObject {
        /// Which.
        id: ObjectId,
        /// How.
        why: String,
    },
    /// It cannot be written here.
    #[error("the store cannot be written: {0}")]
    ReadOnly(String),
    /// No room.
    #[error("the disk is full, nothing was written")]
    Full,
    /// SQLite locks do not hold on network file systems.
    #[error("{} is on a network file system ({fs}), where two machines can damage a store", path.display())]
    NetworkDisk {
        /// Where.
        path: PathBuf,
        /// Which.
        fs: &'static str,
    },
    /// It may work later.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// A bug: the program broke a promise to itself.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Refused(refusal) => refusal.code(),
            Error::NoStore(_) => "no_store",
            Error::StoreExists(_) => "store_exists",
            Error::TooNew { .. } => "store_too_new",
            Error::NotFound { .. } => "not_found",
            Error::Damaged(_) | Error::DamagedObject { .. } => "damaged",
            Error::ReadOnly(_) => "read_only",
            Error::Full => "disk_full",
            Error::NetworkDisk { .. } => "network_disk",
            Error::Unavailable(_) => "unavailable",
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
