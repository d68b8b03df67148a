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
/// # let engine = ctx_engine::Engine::sqlite(dir.path(), ctx_engine::Options::default())?;
/// let report = engine.maintenance().verify(false, &|_, _| {}).await?;
/// assert!(report.findings.is_empty());
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(example()).expect("it works");
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
    /// Brings the indexes behind the commits up to date.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn settle(self) -> Result<(), Error> {
        Ok(self.engine.store().search_index().catch_up().await?)
    }

    /// Re-hashes everything and follows every pointer.
    ///
    /// # Errors
    /// If the store cannot be looked at; what is wrong in it is in the report.
    pub async fn verify(
        self,
        repair: bool,
        progress: ctx_store::Progress<'_>,
    ) -> Result<VerifyReport, Error> {
        Ok(self.engine.store().verify(repair, progress).await?)
    }

    /// Removes blobs that nothing refers to.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn gc(self, grace: Span) -> Result<GcReport, Error> {
        Ok(self.engine.store().gc(self.engine.now(), grace).await?)
    }

    /// Writes a consistent copy.
    ///
    /// # Errors
    /// If the copy cannot be made; there is none then.
    pub async fn backup(self, to: &Path) -> Result<(), Error> {
        Ok(self.engine.store().copy_to(to).await?)
    }

    /// Sizes and counts.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn health(self) -> Result<Health, Error> {
        Ok(self.engine.store().health().await?)
    }
}
