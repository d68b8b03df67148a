//! Every `.rs` file is compiled. A file that no `mod` line names is not checked by the compiler,
//! and its tests do not run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::rust_source::{Token, lex};
use crate::workspace;

/// A `mod name;` line, or a file that is included as a module.
#[derive(Debug, PartialEq, Eq)]
struct Declaration {
    /// Names of the inline modules around it, outermost first.
    inside: Vec<String>,
    name: String,
    /// The value of `#[path = "…"]`.
    path: Option<String>,
}

/// The modules that a source declares in files of their own.
fn declarations(source: &str) -> Vec<Declaration> {
    let tokens = lex(source).tokens;
    let is_mark = |at: usize, mark: char| tokens.get(at) == Some(&Token::Mark(mark));
    let word = |at: usize| match tokens.get(at) {
        Some(Token::Word(word)) => Some(word.as_str()),
        _ => None,
    };
    let mut found = Vec::new();
    // One entry for each open brace: the name of an inline module, or nothing for another block.
    let mut braces: Vec<Option<String>> = Vec::new();
    let mut path = None;
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Mark('#') if is_mark(at + 1, '[') && word(at + 2) == Some("path") => {
                if let (true, Some(Token::Text(value))) = (is_mark(at + 3, '='), tokens.get(at + 4))
                {
                    path = Some(value.clone());
                    at += 4;
                }
            }
            Token::Word(mod_) if mod_ == "mod" => {
                if let Some(name) = word(at + 1) {
                    if is_mark(at + 2, ';') {
                        let inside = braces.iter().flatten().cloned().collect();
                        let name = name.to_owned();
                        found.push(Declaration { inside, name, path: path.take() });
                    } else if is_mark(at + 2, '{') {
                        // A path on an inline module replaces its name as a directory.
                        braces.push(Some(path.take().unwrap_or_else(|| name.to_owned())));
                    }
                    at += 2;
                }
            }
            Token::Mark('{') => braces.push(None),
            Token::Mark('}') => drop(braces.pop()),
            Token::Mark(';') => path = None,
            _ => {}
        }
        at += 1;
    }
    found
}

/// How the modules of a file are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In its own directory: a target's root, a `mod.rs`, or a file that a `#[path]` names.
    Beside,
    /// In a directory of its name.
    Below,
}

/// The file of a declaration, and how that file's own modules are found.
fn resolve(
    file: &Path,
    place: Place,
    declaration: &Declaration,
    exists: &dyn Fn(&Path) -> bool,
) -> Option<(PathBuf, Place)> {
    let here = file.parent()?;
    let mut directory = match place {
        Place::Beside => here.to_owned(),
        Place::Below => here.join(file.file_stem()?),
    };
    directory.extend(&declaration.inside);
    if let Some(path) = &declaration.path {
        // Outside of inline modules, a path is relative to the directory of the file.
        let start = if declaration.inside.is_empty() { here } else { &directory };
        return Some((normal(&start.join(path)), Place::Beside));
    }
    let candidates = [
        (directory.join(format!("{}.rs", declaration.name)), Place::Below),
        (directory.join(&declaration.name).join("mod.rs"), Place::Beside),
    ];
    candidates.into_iter().find(|(path, _)| exists(path))
}

/// A path without `..` and `.`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            std::path::Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

/// Every file that the module trees of these targets reach.
fn reached(roots: &[PathBuf], read: &dyn Fn(&Path) -> Option<String>) -> BTreeSet<PathBuf> {
    let mut waiting: Vec<(PathBuf, Place)> =
        roots.iter().map(|root| (root.clone(), Place::Beside)).collect();
    let mut reached = BTreeSet::new();
    while let Some((file, place)) = waiting.pop() {
        let Some(source) = read(&file) else { continue };
        if !reached.insert(file.clone()) {
            continue;
        }
        let exists = |path: &Path| read(path).is_some();
        let modules = declarations(&source);
        waiting.extend(modules.iter().filter_map(|one| resolve(&file, place, one, &exists)));
    }
    reached
}

#[test]
fn every_rust_file_is_part_of_a_module_tree() {
    let roots = workspace::target_roots();
    let reached = reached(&roots, &|path| std::fs::read_to_string(path).ok());
    assert!(reached.len() > 300, "the walk reaches only {} files", reached.len());
    let lost: Vec<String> = workspace::rust_files()
        .iter()
        .filter(|file| !reached.contains(*file))
        .map(|file| workspace::relative(file))
        .collect();
    assert!(
        lost.is_empty(),
        "these files have no `mod` line and are not compiled: add one or delete them\n  {}",
        lost.join("\n  ")
    );
}

#[test]
fn declarations_are_found_with_their_paths_and_inline_modules() {
    let source = "
        // mod in_a_comment;
        mod plain;
        pub(crate) mod visible;
        #[cfg(test)]
        mod tests;
        const TEXT: &str = \"mod in_a_string;\";
        #[path = \"other/name.rs\"]
        mod renamed;
        mod after;
        mod inline {
            fn body() { let x = Some(1); }
            mod nested;
            #[path = \"dir\"]
            mod deeper { mod deepest; }
        }
        #[path = \"unused.rs\"] use x;
        mod last;
    ";
    let found: Vec<(String, Option<String>)> = declarations(source)
        .into_iter()
        .map(|one| ([one.inside, vec![one.name]].concat().join("/"), one.path))
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "plain",
            "visible",
            "tests",
            "renamed",
            "after",
            "inline/nested",
            "inline/dir/deepest",
            "last"
        ]
    );
    let paths: Vec<&String> = found.iter().filter_map(|(_, path)| path.as_ref()).collect();
    assert_eq!(paths, ["other/name.rs"]);
}

#[test]
fn a_file_without_a_mod_line_is_not_reached() {
    let files = [
        ("/c/src/lib.rs", "mod a; mod b; #[path = \"x/odd.rs\"] mod c; mod d { mod e; }"),
        ("/c/src/a.rs", "mod one; #[cfg(test)] mod tests;"),
        ("/c/src/a/one.rs", ""),
        ("/c/src/a/tests.rs", "#[path = \"../shared.rs\"] mod shared;"),
        ("/c/src/a/lost.rs", ""),
        ("/c/src/b/mod.rs", "mod two;"),
        ("/c/src/b/two.rs", "// mod three;"),
        ("/c/src/b/three.rs", ""),
        ("/c/src/x/odd.rs", "mod beside;"),
        ("/c/src/x/beside.rs", ""),
        ("/c/src/shared.rs", ""),
        ("/c/src/d/e.rs", ""),
        ("/c/src/legal/mod.rs", "mod rules;"),
        ("/c/src/legal/rules.rs", ""),
    ];
    let read = |path: &Path| {
        let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
        Some(file.1.to_owned())
    };
    let reached = reached(&["/c/src/lib.rs".into()], &read);
    let lost: Vec<&str> = files
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !reached.contains(Path::new(name)))
        .collect();
    assert_eq!(
        lost,
        ["/c/src/a/lost.rs", "/c/src/b/three.rs", "/c/src/legal/mod.rs", "/c/src/legal/rules.rs"]
    );
}
