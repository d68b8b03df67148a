//! Which store a verb works on: `--data`, else `CTX_DATA`, else the nearest `.ctx` above the working
//! directory, else the user's data directory.

use std::env;
use std::path::{Path, PathBuf};

/// The name of a project's store.
pub(crate) const DIR_NAME: &str = ".ctx";

/// The data directory, whether or not there is a store in it.
pub(crate) fn find(data: Option<&Path>) -> PathBuf {
    if let Some(dir) = data {
        return dir.to_owned();
    }
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let nearest =
        here.ancestors().map(|dir| dir.join(DIR_NAME)).find(|dir| dir.join("ctx.db").exists());
    nearest.or_else(users_own).unwrap_or_else(|| here.join(DIR_NAME))
}

fn users_own() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base =
        set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")))?;
    Some(base.join("ctx"))
}

/// Where the work is that a store records: the directory that holds `.ctx`, else the working directory.
pub(crate) fn root(data: &Path) -> PathBuf {
    let beside =
        data.file_name().is_some_and(|name| name == DIR_NAME).then(|| data.parent()).flatten();
    let root = beside.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    root.canonicalize().unwrap_or_else(|_| root.to_owned())
}

/// A path as it is recorded: relative to the root where it lies inside it.
pub(crate) fn recorded(root: &Path, path: &Path) -> String {
    let whole = env::current_dir().map_or_else(|_| path.to_owned(), |here| here.join(path));
    // The file may be gone; then its directory says where it was.
    let real = whole
        .canonicalize()
        .ok()
        .or_else(|| Some(whole.parent()?.canonicalize().ok()?.join(whole.file_name()?)));
    let real = real.unwrap_or(whole);
    real.strip_prefix(root).unwrap_or(&real).to_string_lossy().into_owned()
}
