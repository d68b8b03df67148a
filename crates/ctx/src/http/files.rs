//! Files of a working directory, which the page offers for mentions in a message (`@file`).
//!
//! Only names under the directory are listed. Symbolic links are not followed, and hidden
//! directories and those with build output or dependencies are skipped.

use std::path::{Component, Path, PathBuf};

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extractors::{Json, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, working_dir};

pub(super) const FILES_ROUTE: &str = "/api/files";
/// Files in one response.
const FILES_MAX: usize = 50;
/// Directory entries that one request looks at.
const ENTRIES_MAX: usize = 20_000;
/// Levels of directories below the working directory.
const DEPTH_MAX: usize = 16;
/// Size of a file whose text is returned.
const TEXT_MAX_BYTES: u64 = 400_000;
/// Directories with generated files.
const SKIPPED: [&str; 6] = ["target", "node_modules", "dist", "build", "vendor", "__pycache__"];

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FilesQuery {
    /// A directory under the roots of the server
    working_dir: String,
    /// Text that the path must contain, upper and lower case alike
    q: Option<String>,
    /// The path of one file, relative to the directory: its text is returned
    path: Option<String>,
}

/// Files of a working directory
#[derive(Serialize, ToSchema)]
pub(super) struct Files {
    /// Paths relative to the directory, the shortest first
    files: Vec<String>,
    /// Whether some files are left out
    truncated: bool,
    /// The text of the file that `path` names
    text: Option<String>,
}

/// Find files under a working directory, or read one
#[utoipa::path(
    get, path = "/api/files", tag = "sessions",
    params(FilesQuery),
    responses(
        (status = 200, body = Files),
        (status = 403, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn find(
    State(state): State<Shared>,
    Query(query): Query<FilesQuery>,
) -> HttpResult<Json<Files>> {
    let root = PathBuf::from(working_dir::resolve(&state.options.roots, &query.working_dir)?);
    let work = tokio::task::spawn_blocking(move || match query.path {
        Some(path) => {
            let text = Some(read_text(&root, &path)?);
            Ok(Files { files: vec![path], truncated: false, text })
        }
        None => Ok(find_under(&root, &query.q.unwrap_or_default().to_lowercase())),
    });
    let found: HttpResult<Files> = work.await.map_err(|error| {
        Error::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("failed to list the files: {error}"),
        )
    })?;
    Ok(Json(found?))
}

/// Walks breadth first, so that files near the working directory are found first.
fn find_under(root: &Path, words: &str) -> Files {
    let mut found = Vec::new();
    let (mut level, mut looked_at, mut truncated) = (vec![root.to_owned()], 0, false);
    for _ in 0..DEPTH_MAX {
        let mut below = Vec::new();
        for entry in level.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten()
        {
            looked_at += 1;
            if looked_at > ENTRIES_MAX {
                truncated = true;
                break;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if kind.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&name) {
                    below.push(entry.path());
                }
            } else if kind.is_file()
                && let Ok(path) = entry.path().strip_prefix(root)
                && let Some(path) = path.to_str()
                && path.to_lowercase().contains(words)
            {
                found.push(path.to_owned());
            }
        }
        if below.is_empty() || truncated {
            break;
        }
        level = below;
    }
    found.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    truncated |= found.len() > FILES_MAX;
    found.truncate(FILES_MAX);
    Files { files: found, truncated, text: None }
}

/// The text of a file that is under the directory after all symbolic links are resolved.
fn read_text(root: &Path, path: &str) -> HttpResult<String> {
    let missing = || Error::not_found("file", path);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if path.contains('\0') || !Path::new(path).components().all(is_plain) {
        return Err(missing());
    }
    let real = root.join(path).canonicalize().map_err(|_| missing())?;
    let about = real.metadata().map_err(|_| missing())?;
    if !real.starts_with(root) || !about.is_file() {
        return Err(missing());
    }
    let unreadable = |why: &str| {
        Error::invalid("unreadable_file", format!("cannot read the file `{path}`: {why}"))
    };
    if about.len() > TEXT_MAX_BYTES {
        return Err(unreadable(&format!(
            "{} bytes exceed the limit of {TEXT_MAX_BYTES} bytes",
            about.len()
        )));
    }
    std::fs::read_to_string(&real).map_err(|_| unreadable("it is not UTF-8 text"))
}
