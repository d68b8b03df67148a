//! The files and the cargo targets of the workspace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The directory with the root `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace is where cargo built this test")
}

/// Every file below a directory for which `is_wanted` holds, without the directories that
/// `is_skipped` names.
pub(crate) fn files(
    directory: &Path,
    is_skipped: &dyn Fn(&str) -> bool,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|entry| entry.expect("a directory entry").path())
        .collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            if !is_skipped(&name) {
                found.extend(files(&path, is_skipped, is_wanted));
            }
        } else if is_wanted(&name) {
            found.push(path);
        }
    }
    found
}

/// Every `.rs` file of every crate.
pub(crate) fn rust_files() -> Vec<PathBuf> {
    let found =
        files(&root().join("crates"), &|dir| dir == "target", &|name| name.ends_with(".rs"));
    assert!(found.len() > 300, "{} files are too few to be all of them", found.len());
    found
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A path as a reader of the repository writes it.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Runs cargo and returns its output.
pub(crate) fn cargo(args: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO")).args(args).output().expect("cargo runs: it built this test");
    assert!(
        output.status.success(),
        "cargo {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints text")
}

/// The root file of every library, program, test, example and build script, as cargo sees them.
pub(crate) fn target_roots() -> Vec<PathBuf> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let args = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let text = cargo(&[&args[..], &["--manifest-path", manifest]].concat());
    let metadata: Value = serde_json::from_str(&text).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let targets = packages.iter().flat_map(|package| package["targets"].as_array()).flatten();
    targets.map(|target| target["src_path"].as_str().expect("a path").into()).collect()
}
