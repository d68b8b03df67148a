//! Files under a directory that changed since a time. Tools report a command, but not the files
//! that it changed.
//!
//! The search is bounded in entries and time, so it may miss files in a large project. Deleted
//! files are not found.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Most entries of directories that one search looks at.
const ENTRIES_MAX: usize = 20_000;
/// Longest time of a search.
const TIME_MAX: Duration = Duration::from_millis(15);
/// Most files that one search returns.
const FILES_MAX: usize = 100;
/// Directories of generated files, and of other programs.
const SKIPPED: [&str; 15] = [
    ".ctx",
    ".git",
    ".hg",
    ".svn",
    ".jj",
    "node_modules",
    "target",
    "__pycache__",
    ".venv",
    "venv",
    ".cache",
    ".mypy_cache",
    ".pytest_cache",
    ".next",
    ".gradle",
];

/// The files that changed, in the order of their paths, and whether the search was complete.
pub(super) fn changed_since(root: &Path, since: SystemTime) -> (Vec<PathBuf>, bool) {
    let (began, ignored) = (Instant::now(), ignored_names(root));
    let (mut found, mut dirs, mut seen) = (Vec::new(), vec![root.to_owned()], 0);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            seen += 1;
            if seen > ENTRIES_MAX || found.len() >= FILES_MAX || began.elapsed() > TIME_MAX {
                found.sort();
                return (found, false);
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else { continue };
            if SKIPPED.contains(&name.as_str()) || ignored.contains(&name) {
                continue;
            }
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() && is_newer(&entry, since) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    (found, true)
}

fn is_newer(entry: &fs::DirEntry, since: SystemTime) -> bool {
    entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|at| at >= since)
}

/// The plain names in `.gitignore`; patterns are not interpreted.
fn ignored_names(root: &Path) -> HashSet<String> {
    let text = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let names = text.lines().map(|line| line.trim().trim_matches('/'));
    let plain = |name: &&str| !name.is_empty() && !name.contains(['/', '*', '?', '[', '!', '#']);
    names.filter(plain).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_files_of_the_project_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        let write = |name: &str, age: u64| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            let file = fs::File::create(&path).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("its time");
        };
        for (name, age) in [
            ("new.txt", 0),
            ("src/new.rs", 1),
            ("old.txt", 100),
            (".git/index", 0),
            ("target/debug/x", 0),
            ("out/made", 0),
            ("build.log", 0),
        ] {
            write(name, age);
        }
        fs::write(root.join(".gitignore"), "# made\n/out/\nbuild.log\n*.o\n").expect("a file");
        let since = SystemTime::now() - Duration::from_secs(50);
        let expected = [".gitignore", "new.txt", "src/new.rs"].map(|name| root.join(name));
        assert_eq!(changed_since(root, since), (expected.to_vec(), true));
        for number in 0..FILES_MAX {
            write(&format!("many/{number}"), 0);
        }
        let (found, complete) = changed_since(root, since);
        assert!(found.len() == FILES_MAX && !complete);
    }
}
