//! `ctx-core` has only rules: it depends on no runtime, database or network crate, and reads no
//! clock, file or environment variable. Otherwise a rule that runs again could decide differently.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::workspace::cargo;

const IMPURE_CRATES: [&str; 22] = [
    "actix-rt",
    "async-std",
    "axum",
    "curl",
    "diesel",
    "h2",
    "hyper",
    "libsqlite3-sys",
    "mio",
    "native-tls",
    "postgres",
    "quinn",
    "redb",
    "reqwest",
    "rusqlite",
    "rustls",
    "smol",
    "socket2",
    "sqlx",
    "tokio",
    "postgres-protocol",
    "ureq",
];

/// Source text that gives access to the outside of the crate.
const IMPURE_WORDS: [&str; 14] = [
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "SystemTime",
    "Instant::",
    "::Instant",
    "Timestamp::now",
    "Zoned::now",
    "Ulid::new",
    "rand::",
];
/// The modules of `std` with such access, in a grouped import.
const IMPURE_MODULES: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "thread", "time"];

/// The dependencies for this platform; crates of other platforms may not have been downloaded.
fn metadata() -> Value {
    let version = cargo(&["-vV"]);
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("cargo prints its host platform");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let args = [
        "metadata",
        "--format-version",
        "1",
        "--offline",
        "--filter-platform",
        host,
        "--manifest-path",
        manifest,
    ];
    serde_json::from_str(&cargo(&args)).expect("cargo metadata is JSON")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("cargo metadata has a list `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("cargo metadata has a text `{key}`"))
}

/// The names of all crates that `root` is built with, without build and dev dependencies.
fn built_with(metadata: &Value, root: &str) -> BTreeSet<String> {
    let names: BTreeMap<&str, &str> =
        list(metadata, "packages").iter().map(|p| (text(p, "id"), text(p, "name"))).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"], "nodes").iter().map(|node| (text(node, "id"), node)).collect();
    let start = names.iter().find(|(_, name)| **name == root).map(|(id, _)| *id);
    let mut waiting = vec![start.unwrap_or_else(|| panic!("{root} is a package here"))];
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let is_normal =
            |dep: &&Value| list(dep, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
        waiting
            .extend(list(nodes[id], "deps").iter().filter(is_normal).map(|dep| text(dep, "pkg")));
    }
    seen.into_iter().map(|id| names[id].to_owned()).collect()
}

fn impure(crates: &BTreeSet<String>) -> Vec<&str> {
    IMPURE_CRATES.into_iter().filter(|name| crates.contains(*name)).collect()
}

#[test]
fn no_runtime_database_or_network_is_built_in() {
    let metadata = metadata();
    let crates = built_with(&metadata, "ctx-core");
    for needed in ["ctx-core", "blake3", "serde_json", "itoa"] {
        assert!(crates.contains(needed), "the walk misses {needed}: {crates:?}");
    }
    assert!(!crates.contains("proptest"), "what only tests need is not built in");
    assert_eq!(impure(&crates), [""; 0], "ctx-core must stay pure");
    let store = built_with(&metadata, "ctx-store");
    assert!(impure(&store).contains(&"rusqlite"), "the walk finds what it looks for");
}

/// The source without comments and without code that is compiled only for tests.
fn shipped(source: &str) -> String {
    let mut out = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let item = lines.next().unwrap_or("");
            let indent = item.len() - item.trim_start().len();
            let close = format!("{}}}", " ".repeat(indent));
            if item.trim_end().ends_with('{') {
                lines.by_ref().find(|line| *line == close);
            }
            continue;
        }
        if !line.trim_start().starts_with("//") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn faults(source: &str) -> Vec<String> {
    let shipped = shipped(source);
    let mut faults: Vec<String> =
        IMPURE_WORDS.into_iter().filter(|word| shipped.contains(word)).map(str::to_owned).collect();
    for group in shipped.split("std::{").skip(1) {
        let group = group.split(';').next().unwrap_or("");
        let words: Vec<&str> = group.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        faults.extend(
            IMPURE_MODULES
                .into_iter()
                .filter(|module| words.contains(module))
                .map(|module| format!("std::{{{module}}}")),
        );
    }
    faults
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests" || name == "properties");
        match path.is_dir() {
            _ if is_test => {}
            true => found.extend(sources(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
    found
}

#[test]
fn no_source_reads_a_clock_a_file_or_the_environment() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = sources(&root);
    assert!(sources.len() > 40, "{} files are too few to be all of them", sources.len());
    let mut wrong = Vec::new();
    for path in sources {
        let source = fs::read_to_string(&path).expect("sources are text");
        let name = path.strip_prefix(&root).expect("it is under the root").display().to_string();
        wrong.extend(faults(&source).into_iter().map(|fault| format!("src/{name} uses {fault}")));
    }
    assert!(wrong.is_empty(), "time, ids and files come in as arguments:\n{}", wrong.join("\n"));
}

#[test]
fn impure_sources_are_found() {
    let bad = [
        "use std::fs;",
        "use std::{fmt, fs::File};",
        "use std::{\n    collections::BTreeMap,\n    time::Instant,\n};",
        "let now = std::time::SystemTime::now();",
        "let now = Instant::now();",
        "let id = Ulid::new();",
        "let n: u8 = rand::random();",
        "let home = std::env::var(\"HOME\");",
        "std::process::exit(1);",
        "#[cfg(test)]\nmod tests {\n}\nuse std::net::TcpStream;",
        "#[cfg(test)]\nmod tests;\nuse std::net::TcpStream;",
    ];
    for source in bad {
        assert!(!faults(source).is_empty(), "{source}");
    }
    let good = [
        "use std::fmt;\nuse std::{str::FromStr, collections::BTreeMap};\nfn fs() {}",
        "// std::fs is for others",
        "    /// Like [`std::time::Instant::now`].",
        "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n    fn g() {\n    }\n}",
        "use crate::time::Timestamp;",
    ];
    for source in good {
        assert_eq!(faults(source), [""; 0], "{source}");
    }
}
