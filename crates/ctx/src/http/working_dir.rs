//! Where agents may work when they are started over HTTP: under one of the roots, and nowhere else (design, section 10).

use std::path::{Path, PathBuf};

use axum::http::StatusCode;

use super::error::{Answer, Error};

/// The directory as it is on disk, if it is there and allowed.
pub(super) fn allowed(roots: &[PathBuf], given: &str) -> Answer<String> {
    let outside = || {
        Error::new(
            StatusCode::FORBIDDEN,
            "working_dir_outside_roots",
            format!("`{given}` does not lie under a root of this server"),
        )
        .hint("name its root in `[server] roots`")
    };
    let path = Path::new(given);
    if !path.is_absolute() || given.contains('\0') {
        return Err(outside());
    }
    // Links are followed before the comparison, so that none leads out.
    let Some(real) = path.canonicalize().ok().filter(|real| real.is_dir()) else {
        return Err(Error::new(
            StatusCode::CONFLICT,
            "working_dir_missing",
            format!("there is no directory `{given}`"),
        ));
    };
    if !roots.iter().any(|root| real.starts_with(root)) {
        return Err(outside());
    }
    real.into_os_string().into_string().map_err(|_| outside())
}

/// The roots as they are on disk; those that are not there allow nothing.
pub(crate) fn canonical(roots: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    roots.into_iter().filter_map(|root| root.canonicalize().ok()).collect()
}
