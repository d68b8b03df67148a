//! The interface of the store, read from its sources: the methods that the suite must call, the
//! size of the driver interface, and the files that contain SQL.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Methods of the driver interface at most: 15 that every database has to implement, and four that
/// a database on one machine does not need: the lock of a session, the clock, and notifications.
const DRIVER_METHODS_MAX: usize = 19;

/// The only sources that may contain SQL, below `ctx-store/src`.
const SQL_SOURCES: [&str; 5] = ["relational", "sqlite", "postgres", "driver.rs", "schema.rs"];

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every `.rs` file under a directory.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a source directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

fn source(path: &Path) -> String {
    fs::read_to_string(path).expect("a source file")
}

/// The text between the braces of the item that begins with `start` in a file.
fn item(file: &str, start: &str) -> String {
    let text = source(&crate_dir().join(file));
    let at = text.find(&format!("\n{start}")).unwrap_or_else(|| panic!("{file} has no `{start}`"));
    let end = text[at + 1..].find("\n}\n").expect("an end");
    text[at..at + 1 + end].to_owned()
}

/// The names behind a prefix at the beginning of lines, up to the first character that is no
/// letter.
fn names(text: &str, prefix: &str) -> BTreeSet<String> {
    let name = |line: &str| -> Option<String> {
        let rest = line.strip_prefix(prefix)?;
        let name = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        Some(name).filter(|name: &String| !name.is_empty())
    };
    text.lines().filter_map(name).collect()
}

/// The public async methods of a store and of its search index.
pub(crate) fn methods() -> BTreeSet<String> {
    let mut methods = names(&item("src/store.rs", "impl Store {"), "    pub async fn ");
    methods.extend(names(&item("src/channels.rs", "impl Store {"), "    pub async fn "));
    methods.extend(names(&item("src/usage.rs", "impl Store {"), "    pub async fn "));
    methods.extend(names(&item("src/store.rs", "pub trait SearchIndex"), "    async fn "));
    methods
}

/// The kinds of changes that a rule may decide.
pub(crate) fn changes() -> BTreeSet<String> {
    let names = names(&item("../ctx-core/src/decide/change.rs", "pub enum Change "), "    ");
    names.into_iter().filter(|name| name.starts_with(char::is_uppercase)).collect()
}

#[test]
fn the_driver_interface_is_small() {
    let mut methods = BTreeSet::new();
    for (start, prefix) in [
        ("pub(crate) trait Db ", "    fn "),
        ("pub(crate) trait Tx", "    fn "),
        ("pub(crate) trait Driver", "    async fn "),
    ] {
        let found = names(&item("src/driver.rs", start), prefix);
        assert!(found.len() > 1, "{start}: {found:?}");
        methods.extend(found.into_iter().map(|name| format!("{start}::{name}")));
    }
    assert!(methods.len() <= DRIVER_METHODS_MAX, "{methods:#?}");
}

/// The string literals of a source file. Comments are skipped.
fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/', '\'', 'r']) {
        let here = &rest[at..];
        let skipped = if here.starts_with("//") {
            here.find('\n').unwrap_or(here.len())
        } else if here.starts_with("'\"'") || here.starts_with("'\\\"'") {
            here[1..].find('\'').map_or(here.len(), |end| end + 2)
        } else if here.starts_with("r\"") || here.starts_with("r#\"") {
            let end = if here.starts_with("r#") { "\"#" } else { "\"" };
            let start = here.find('"').expect("it starts with one") + 1;
            let length = here[start..].find(end).expect("the literal ends");
            found.push(here[start..start + length].to_owned());
            start + length + end.len()
        } else if let Some(literal) = here.strip_prefix('"') {
            let mut escaped = false;
            let closes = |c: char| {
                let closes = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            };
            let length = literal.find(closes).expect("the literal ends");
            found.push(literal[..length].to_owned());
            length + 2
        } else {
            1
        };
        rest = &here[skipped..];
    }
    found
}

fn is_sql(literal: &str) -> bool {
    let words: Vec<&str> = literal.split_whitespace().collect();
    let has = |word: &str| words.contains(&word);
    let has_pair = |a: &str, b: &str| words.windows(2).any(|pair| pair == [a, b]);
    has("SELECT")
        || has_pair("INSERT", "INTO")
        || has_pair("DELETE", "FROM")
        || (has("UPDATE") && has("SET"))
}

#[test]
fn literals_are_found_and_comments_are_not() {
    let text = r##"
        // "a comment" SELECT
        let a = ("one", '"', '\'', "t\"wo", r#"th"ree"#, b"four"); /* ' */
        /// INSERT INTO "docs"
        let b = "five\\";
    "##;
    assert_eq!(literals(text), ["one", r#"t\"wo"#, r#"th"ree"#, "four", r"five\\"]);
    for sql in ["SELECT 1", "UPDATE a\n SET b = 1", "x INSERT  INTO y", "DELETE FROM z"] {
        assert!(is_sql(sql), "{sql}");
    }
    for text in ["SELECTED", "UPDATE the list", "insert into", "DELETE /v1/sessions"] {
        assert!(!is_sql(text), "{text}");
    }
}

#[test]
fn sql_is_written_in_the_relational_layer_and_the_drivers_only() {
    let store = crate_dir().join("src");
    let allowed = SQL_SOURCES.map(|name| store.join(name));
    let mut found = Vec::new();
    for member in fs::read_dir(crate_dir().join("..")).expect("the crates") {
        let dir = member.expect("a crate").path().join("src");
        let dir = if dir.ends_with("ctx-store/src") { store.clone() } else { dir };
        for path in sources(&dir) {
            // The databases of other tools are read by importers and written by exporters.
            let is_for_other_tools = path
                .components()
                .any(|part| part.as_os_str() == "import" || part.as_os_str() == "export");
            if is_for_other_tools || allowed.iter().any(|allowed| path.starts_with(allowed)) {
                continue;
            }
            let sql = literals(&source(&path)).into_iter().filter(|literal| is_sql(literal));
            found.extend(sql.map(|sql| format!("{}: {sql}", path.display())));
        }
    }
    assert!(found.is_empty(), "SQL outside the store's database code:\n{}", found.join("\n"));
}
