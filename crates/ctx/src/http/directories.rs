//! Directories under the roots of the server, from which a working directory is chosen.

use std::fs;
use std::path::{Path, PathBuf};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::extractors::{Json, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::working_dir;

/// Most directories of a response.
const LISTED_MAX: usize = 500;
/// Most entries of a directory that are looked at.
const ENTRIES_MAX: usize = 20_000;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DirectoriesQuery {
    /// A directory under a root; without it the roots are listed
    under: Option<String>,
    /// Whether directories whose name starts with a dot are listed; default: false
    hidden: Option<bool>,
}

/// A directory
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Directory {
    name: String,
    path: String,
    /// Whether it contains `.git`
    repository: bool,
}

/// The directories inside one directory, by name
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Directories {
    /// The directory; null if the roots are listed
    path: Option<String>,
    /// The directory above; null for a root
    parent: Option<String>,
    directories: Vec<Directory>,
    /// Whether there are more than are listed
    more: bool,
}

/// List directories under the roots
///
/// A symbolic link is listed if it leads to a directory under a root.
#[utoipa::path(
    get, path = "/api/directories", tag = "sessions",
    params(DirectoriesQuery),
    responses(
        (status = 200, body = Directories),
        (status = 403, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<DirectoriesQuery>,
) -> HttpResult<Json<Directories>> {
    let reading = tokio::task::spawn_blocking(move || {
        let roots = &state.options.roots;
        match query.under.as_deref() {
            None => Ok(of_roots(roots)),
            Some(under) => inside(roots, under, query.hidden.unwrap_or(false)),
        }
    });
    let found = reading.await.map_err(|_| unreadable("the reading task failed"))?;
    found.map(Json)
}

fn of_roots(roots: &[PathBuf]) -> Directories {
    let mut roots: Vec<&PathBuf> = roots.iter().collect();
    roots.sort_unstable();
    roots.dedup();
    let directory = |root: &&PathBuf| described(root.to_str()?, root);
    let directories = roots.iter().filter_map(directory).collect();
    Directories { path: None, parent: None, directories, more: false }
}

fn inside(roots: &[PathBuf], under: &str, hidden: bool) -> HttpResult<Directories> {
    let path = PathBuf::from(working_dir::resolve(roots, under)?);
    let is_allowed = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let entries = fs::read_dir(&path).map_err(|e| unreadable(&e.to_string()))?;
    let mut directories: Vec<Directory> = entries
        .take(ENTRIES_MAX)
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            if name.starts_with('.') && !hidden {
                return None;
            }
            // Links are resolved, so that none leads outside the roots.
            let real = path.join(&name).canonicalize().ok().filter(|real| real.is_dir())?;
            if is_allowed(&real) { described(&name, &real) } else { None }
        })
        .collect();
    directories.sort_by(|a, b| a.name.cmp(&b.name));
    let more = directories.len() > LISTED_MAX;
    directories.truncate(LISTED_MAX);
    let parent = path.parent().filter(|parent| is_allowed(parent));
    Ok(Directories {
        parent: parent.and_then(Path::to_str).map(str::to_owned),
        path: path.to_str().map(str::to_owned),
        directories,
        more,
    })
}

/// `None` if the path is not UTF-8.
fn described(name: &str, path: &Path) -> Option<Directory> {
    Some(Directory {
        name: name.to_owned(),
        path: path.to_str()?.to_owned(),
        repository: path.join(".git").exists(),
    })
}

fn unreadable(why: &str) -> Error {
    Error::new(
        axum::http::StatusCode::CONFLICT,
        "directory_unreadable",
        format!("failed to list the directory: {why}"),
    )
}
