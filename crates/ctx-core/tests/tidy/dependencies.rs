//! Every dependency in the root `Cargo.toml` is used by a crate. `cargo machete`, which `./test`
//! runs, checks that every dependency of a crate is used by its sources.

use crate::workspace;

/// The names in a table of a manifest, such as `[workspace.dependencies]`.
fn names(manifest: &str, table: &str) -> Vec<String> {
    let header = format!("[{table}]");
    let lines = manifest.lines().skip_while(|line| line.trim() != header).skip(1);
    let entries = lines.take_while(|line| !line.starts_with('[')).filter(|line| {
        line.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '"')
    });
    entries
        .filter_map(|line| line.split(['=', '.', ' ']).next())
        .map(|name| name.trim_matches('"').to_owned())
        .collect()
}

/// The declared dependencies that no crate uses.
fn unused(root: &str, crates: &[String]) -> Vec<String> {
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let used: Vec<String> = crates
        .iter()
        .flat_map(|manifest| tables.iter().flat_map(|table| names(manifest, table)))
        .collect();
    let declared = names(root, "workspace.dependencies");
    declared.into_iter().filter(|name| !used.contains(name)).collect()
}

#[test]
fn every_workspace_dependency_is_used() {
    let root = workspace::root();
    let crates: Vec<String> = std::fs::read_dir(root.join("crates"))
        .expect("the crates")
        .map(|entry| workspace::read(&entry.expect("a crate").path().join("Cargo.toml")))
        .collect();
    let manifest = workspace::read(&root.join("Cargo.toml"));
    assert!(names(&manifest, "workspace.dependencies").len() > 20, "the dependencies are found");
    assert_eq!(unused(&manifest, &crates), [""; 0], "remove them from the root Cargo.toml");
}

#[test]
fn an_unused_workspace_dependency_is_found() {
    let root = "[workspace]\n[workspace.dependencies]\nanyhow = \"1\"\n\
                serde = { version = \"1\" }\ntokio = \"1\"\n# a comment\ntempfile = \"3\"\n\
                [workspace.lints.rust]\nunsafe = \"x\"\n";
    let crates = [
        "[package]\nname = \"a\"\n[dependencies]\nserde.workspace = true\n".to_owned(),
        "[dependencies]\ntokio = { workspace = true }\n[dev-dependencies]\ntempfile = \"3\"\n"
            .to_owned(),
    ];
    assert_eq!(unused(root, &crates), ["anyhow"]);
}
