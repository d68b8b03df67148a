//! Maintenance of a store: indexes, verification, garbage collection, backup, health.

use std::path::Path;

use ctx_core::time::Span;
use ctx_store::{GcReport, Health, VerifyReport};

use crate::engine::{Engine, Error};

/// Maintenance of the store as a whole.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// let report = engine.maintenance().verify(false, &|_, _| {}).await?;
/// assert!(report.findings.is_empty());
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Maintenance<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Maintenance of the store as a whole.
    pub const fn maintenance(&self) -> Maintenance<'_> {
        Maintenance { engine: self }
    }
}

impl Maintenance<'_> {
    /// Updates the search and hash indexes to the newest row.
    ///
    /// Fails if the store fails.
    pub async fn update_indexes(self) -> Result<(), Error> {
        Ok(self.engine.store().search_index().catch_up().await?)
    }

    /// Number of rows whose words are not indexed yet.
    ///
    /// Fails if the store fails.
    pub async fn unindexed(self) -> Result<u64, Error> {
        Ok(self.engine.store().search_index().lag().await?)
    }

    /// Re-hashes all objects and checks all references; repairs derived data if `repair` is set.
    ///
    /// Fails if the store cannot be read. Damage is listed in the report.
    pub async fn verify(
        self,
        repair: bool,
        progress: ctx_store::Progress<'_>,
    ) -> Result<VerifyReport, Error> {
        Ok(self.engine.store().verify(repair, progress).await?)
    }

    /// Removes unreferenced blobs that are older than `grace`.
    ///
    /// Fails if the store fails.
    pub async fn gc(self, grace: Span) -> Result<GcReport, Error> {
        Ok(self.engine.store().gc(self.engine.now(), grace).await?)
    }

    /// Writes a consistent copy while other processes may write.
    ///
    /// Fails if the copy cannot be written; no file is left then.
    pub async fn backup(self, to: &Path) -> Result<(), Error> {
        Ok(self.engine.store().copy_to(to).await?)
    }

    /// Fails if the store does not answer, or this program is too old to write it.
    pub async fn check_writer(self) -> Result<(), Error> {
        Ok(self.engine.store().check_writer().await?)
    }

    /// Sizes and row counts of the store.
    ///
    /// Fails if the store fails.
    pub async fn health(self) -> Result<Health, Error> {
        Ok(self.engine.store().health().await?)
    }
}
