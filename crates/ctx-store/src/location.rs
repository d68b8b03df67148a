//! Where a store is: a directory, or the URL of a database server.

use std::path::Path;

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

/// Whether a location is the URL of a PostgreSQL database, and not a directory.
fn is_url(location: &str) -> bool {
    location.starts_with("postgres://") || location.starts_with("postgresql://")
}

/// Creates a store for a project: in a directory, or in an empty PostgreSQL database.
///
/// # Errors
/// If there is one, or it cannot be created.
pub fn create(location: &str, project: &str) -> Result<(), Error> {
    match is_url(location) {
        true => postgres::create(location, project),
        false => sqlite::create(Path::new(location), project),
    }
}

/// Whether there is a store.
///
/// # Errors
/// If that cannot be found out.
pub fn exists(location: &str) -> Result<bool, Error> {
    match is_url(location) {
        true => postgres::exists(location),
        false => sqlite::exists(Path::new(location)),
    }
}

/// Opens a store.
///
/// # Errors
/// If there is none, it cannot be reached or is damaged, or a newer program wrote it.
pub fn open(location: &str, options: Options) -> Result<Store, Error> {
    match is_url(location) {
        true => postgres::open(location, options),
        false => sqlite::open(Path::new(location), options),
    }
}
