//! Where a store is: a directory, or a database on a server.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Error, Store, postgres, sqlite};

/// When the search index is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Indexing {
    /// By the first search, and when a store closes with many rows behind: for a process that runs
    /// one verb.
    #[default]
    OnDemand,
    /// By a thread behind the writes: for a long-running process.
    Background,
    /// Hashes by a thread behind the writes, words by another process: for a process that stores
    /// very much at once.
    Hashes,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether bodies are compressed if that makes them smaller.
    pub compress: bool,
    /// When the search index is brought up to date.
    pub indexing: Indexing,
}

impl Default for Options {
    fn default() -> Self {
        Self { compress: true, indexing: Indexing::OnDemand }
    }
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A directory with an embedded database.
    Directory(PathBuf),
    /// A PostgreSQL database.
    Server(Server),
}

/// A PostgreSQL database. Its texts for messages and for debugging do not contain a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    pub(crate) url: String,
    pub(crate) password: Option<String>,
    pub(crate) listen_url: Option<String>,
}

impl Server {
    /// The database at a `postgres://` URL.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), password: None, listen_url: None }
    }

    /// Sets the password. It is used if the URL has none.
    #[must_use]
    pub fn with_password(self, password: Option<String>) -> Self {
        Self { password, ..self }
    }

    /// Whether the URL, the environment or a file has a password.
    pub fn has_password(&self) -> bool {
        postgres::has_password(self)
    }

    /// Sets the URL of a connection without a pooler, on which notifications are received.
    #[must_use]
    pub fn with_listen_url(self, listen_url: Option<String>) -> Self {
        Self { listen_url, ..self }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&postgres::name_of(self))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Directory(dir) => dir.display().fmt(f),
            Location::Server(server) => server.fmt(f),
        }
    }
}

impl Location {
    /// Reads a `postgres://` URL or the path of a directory. A text that is neither, but may
    /// contain a password, is a server, so that no message repeats it; opening it fails.
    pub fn parse(text: &str) -> Self {
        let trimmed = text.trim();
        let before_path = trimmed.split('/').next().unwrap_or_default();
        let login = before_path.rsplit_once('@').map_or("", |(login, _)| login);
        match trimmed.contains("://") || login.contains(':') {
            true => Location::Server(Server::at(trimmed)),
            false => Location::Directory(PathBuf::from(text)),
        }
    }
}

impl From<&str> for Location {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<&String> for Location {
    fn from(text: &String) -> Self {
        Self::parse(text)
    }
}

impl From<&Path> for Location {
    fn from(dir: &Path) -> Self {
        Location::Directory(dir.to_owned())
    }
}

impl From<&PathBuf> for Location {
    fn from(dir: &PathBuf) -> Self {
        Location::Directory(dir.clone())
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Self {
        location.clone()
    }
}

/// Creates a store for a project: in a directory, or in an empty PostgreSQL database.
///
/// # Errors
/// If there is one, or it cannot be created.
pub fn create(location: impl Into<Location>, project: &str) -> Result<(), Error> {
    match location.into() {
        Location::Server(server) => postgres::create(&server, project),
        Location::Directory(dir) => sqlite::create(&dir, project),
    }
}

/// Whether there is a store.
///
/// # Errors
/// If that cannot be found out.
pub fn exists(location: impl Into<Location>) -> Result<bool, Error> {
    match location.into() {
        Location::Server(server) => postgres::exists(&server),
        Location::Directory(dir) => sqlite::exists(&dir),
    }
}

/// Opens a store.
///
/// # Errors
/// If there is none, it cannot be reached or is damaged, or a newer program wrote it.
pub fn open(location: impl Into<Location>, options: Options) -> Result<Store, Error> {
    match location.into() {
        Location::Server(server) => postgres::open(&server, options),
        Location::Directory(dir) => sqlite::open(&dir, options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_directory_or_a_server_and_shows_no_password() {
        assert_eq!(Location::parse("/data"), Location::Directory(PathBuf::from("/data")));
        let server =
            Server::at("postgresql://u:s3cret@h:1/d").with_password(Some("t0p".to_owned()));
        let location = Location::from(&Location::Server(server));
        assert_eq!(location.to_string(), "PostgreSQL at h:1/d");
        assert_eq!(format!("{location:?}"), "Server(Server(PostgreSQL at h:1/d))");
        for invalid in [
            "postgres://u:s3cret@h:x/d",
            "mysql://u:s3cret@h/d",
            "postgres:u:s3cret@h/d",
            "u:s3cret@h/d",
            "postgres://u:my?s3cret@h/d",
            "postgres://u:my?s3cret=x@h/d",
        ] {
            let location = Location::parse(invalid);
            assert_eq!(location.to_string(), "PostgreSQL", "{invalid}");
            let error = create(&location, "p").expect_err("refused").to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let upper = Location::parse(" POSTGRES://u:s3cret@h/d");
        assert_eq!(upper.to_string(), "PostgreSQL at h:5432/d");
        let path = "/data/a:b@c";
        assert_eq!(Location::parse(path), Location::Directory(PathBuf::from(path)));
    }
}
