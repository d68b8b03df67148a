//! Working directories given over HTTP: each must be under one of the configured roots (design,
//! section 10).

use std::path::{Path, PathBuf};

use axum::http::StatusCode;

use super::problem_details::{Error, HttpResult};

/// Returns the canonical path of a directory that exists and is under one of the roots.
pub(super) fn resolve(roots: &[PathBuf], given: &str) -> HttpResult<String> {
    let outside = || {
        Error::new(
            StatusCode::FORBIDDEN,
            "working_dir_outside_roots",
            format!("the working directory `{given}` is outside the roots of this server"),
        )
        .hint("add its root to `roots` under [server] in ctx.toml")
    };
    let path = Path::new(given);
    if !path.is_absolute() || given.contains('\0') {
        return Err(outside());
    }
    // Symbolic links are resolved first, so that none can point outside the roots.
    let Some(real) = path.canonicalize().ok().filter(|real| real.is_dir()) else {
        return Err(Error::new(
            StatusCode::CONFLICT,
            "working_dir_missing",
            format!("the working directory `{given}` does not exist"),
        ));
    };
    if !roots.iter().any(|root| real.starts_with(root)) {
        return Err(outside());
    }
    real.into_os_string().into_string().map_err(|_| outside())
}

/// Canonicalizes the roots. A root that does not exist is left out.
pub(crate) fn canonical_roots(roots: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    roots.into_iter().filter_map(|root| root.canonicalize().ok()).collect()
}
