//! The data directory that a command works on: `--data`, else `CTX_DATA`, else the nearest
//! `.ctx` in the working directory or above it, else the user's data directory.

use std::env;
use std::path::{Path, PathBuf};

/// Name of the store directory of a project.
pub(crate) const DIR_NAME: &str = ".ctx";

/// Returns the directory even if it contains no store yet.
pub(crate) fn find(data: Option<&Path>) -> PathBuf {
    if let Some(dir) = data {
        return dir.to_owned();
    }
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    nearest(&here).or_else(user_data_dir).unwrap_or_else(|| here.join(DIR_NAME))
}

/// The nearest `.ctx` in a directory or above it.
pub(crate) fn nearest(start: &Path) -> Option<PathBuf> {
    start.ancestors().map(|dir| dir.join(DIR_NAME)).find(|dir| is_data_dir(dir))
}

/// Whether a directory has a store, or a configuration that may name one.
fn is_data_dir(dir: &Path) -> bool {
    ["ctx.db", "ctx.toml"].iter().any(|name| dir.join(name).exists())
}

/// The data directory of the user, which holds conversations outside of projects.
pub(crate) fn user_data_dir() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base =
        set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(base.join("ctx"))
}

/// The project directory: the parent of `.ctx`, else the working directory.
pub(crate) fn project_root(data: &Path) -> PathBuf {
    let parent =
        data.file_name().is_some_and(|name| name == DIR_NAME).then(|| data.parent()).flatten();
    let root = parent.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    root.canonicalize().unwrap_or_else(|_| root.to_owned())
}

/// The path under which a file is recorded: relative to the root if the file is inside it.
pub(crate) fn recorded_path(root: &Path, path: &Path) -> String {
    let absolute = env::current_dir().map_or_else(|_| path.to_owned(), |here| here.join(path));
    // A deleted file cannot be canonicalized, but its directory can.
    let real = absolute
        .canonicalize()
        .ok()
        .or_else(|| Some(absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?)));
    let real = real.unwrap_or(absolute);
    real.strip_prefix(root).unwrap_or(&real).to_string_lossy().into_owned()
}
