//! Copying a store into another one, and checking the copy.

use ctx_store::{CopyReport, Location, Options, VerifyReport};

use crate::engine::Error;

/// What a copy does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyPhase {
    /// Rows are copied.
    Copying,
    /// The objects of the target are hashed again.
    Verifying,
}

/// Receives the phase, the number of finished units and the total.
pub type CopyProgress<'a> = &'a (dyn Fn(CopyPhase, u64, u64) + Sync);

/// The result of a copy.
#[derive(Debug, Clone)]
pub struct CopiedStore {
    /// Whether the target was created.
    pub created: bool,
    /// What was copied.
    pub report: CopyReport,
    /// The check of the whole target after the copy.
    pub verified: VerifyReport,
}

/// Whether two locations are the same store, as far as that can be seen.
pub fn is_same_store(a: &Location, b: &Location) -> bool {
    match (a, b) {
        (Location::Directory(a), Location::Directory(b)) => {
            a == b || a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
        }
        (Location::Server(a), Location::Server(b)) => a.to_string() == b.to_string(),
        _ => false,
    }
}

/// Copies a store into another one ([`ctx_store::copy`]) and verifies the target. A target that
/// does not exist is created for the project of the source.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let (from, to) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
/// # ctx_engine::Engine::init(from.path(), "demo")?;
/// # let (from, to) = (from.path().into(), to.path().into());
/// let copied = ctx_engine::copy_store(&from, &to, false, &|_, _, _| {}).await?;
/// assert!(copied.created && copied.verified.findings.is_empty());
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
///
/// Fails if the source does not exist, the target is not empty and `merge` is not set, or one of
/// them fails. Then nothing was copied. Damage in the target is listed in the result.
pub async fn copy_store(
    from: &Location,
    to: &Location,
    merge: bool,
    progress: CopyProgress<'_>,
) -> Result<CopiedStore, Error> {
    let source = ctx_store::open(from, Options::default())?;
    let created = !ctx_store::exists(to)?;
    if created {
        ctx_store::create(to, source.project())?;
    }
    let target = ctx_store::open(to, Options::default())?;
    let copying = |done, total| progress(CopyPhase::Copying, done, total);
    let report = ctx_store::copy(&source, &target, merge, &copying).await?;
    let verifying = |done, total| progress(CopyPhase::Verifying, done, total);
    let verified = target.verify(false, &verifying).await?;
    Ok(CopiedStore { created, report, verified })
}
