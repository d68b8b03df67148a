//! `ctx remote`, `push`, `pull` and `sync`: sessions move between machines, only what is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::fake_ssh::fake_ssh;
use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

const OTHER_STORE: &str = "the other machine has its store in a directory";

/// A project with conversations of the demo agent.
fn talked(labels: &[&str]) -> Repo {
    let repo = Repo::new();
    for label in labels {
        repo.ok(["session", "new", "--label", label]);
        say(&repo, label, "hello");
    }
    repo
}

fn say(repo: &Repo, label: &str, text: &str) {
    repo.ok(["session", "send", label, text]);
}

fn head(repo: &Repo, label: &str) -> Value {
    repo.ok(["session", "show", label])["session"]["head"].clone()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

fn count(report: &Value, field: &str) -> usize {
    report[field].as_array().expect("a list").len()
}

/// Every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn remotes_are_added_listed_and_removed() {
    let repo = Repo::new();
    repo.ok(["remote", "add", "box", "ssh://me@box.example:2222/srv/ctx"]);
    repo.ok(["remote", "add", "hub", "https://ctx.example", "--token-env", "HUB_TOKEN"]);
    let listed = repo.ok(["remote", "list"]);
    assert_eq!(listed["remotes"][0]["url"], "ssh://me@box.example:2222/srv/ctx");
    assert_eq!(listed["remotes"][1]["token_env"], "HUB_TOKEN");
    let file = repo.data().join("remotes.toml");
    let mode = fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(repo.fails(["remote", "add", "box", "/tmp/x"]).1["code"], "remote_exists");
    assert_eq!(repo.fails(["push"]).1["code"], "no_remote");
    assert_eq!(repo.fails(["push", "hub"]).1["code"], "no_token");
    repo.ok(["remote", "remove", "box"]);
    assert_eq!(count(&repo.ok(["remote", "list"]), "remotes"), 1);
    assert_eq!(repo.fails(["remote", "remove", "box"]).1["code"], "no_remote");
    assert!(repo.says(["remote", "list"]).contains("https://ctx.example"));
}

#[test]
fn names_and_addresses_that_could_do_harm_are_refused() {
    let repo = Repo::new();
    for (name, address) in [
        ("../x", "/tmp/x"),
        ("-x", "/tmp/x"),
        ("a/b", "/tmp/x"),
        ("a", "http://example.org"),
        ("a", "ssh://-oProxyCommand=touch/x"),
        ("a", "https://me:secret@example.org"),
        ("a", "ftp://example.org"),
    ] {
        let (exit, error) = repo.refuses(["remote", "add", "--", name, address]);
        assert_eq!((exit, &error["code"]), (2, &json!("bad_remote")), "{name} {address}");
    }
    let wrong = ["remote", "add", "a", "/tmp/x", "--encrypt", "age1wrong"];
    assert_eq!(repo.refuses(wrong).1["code"], "bad_recipient");
    let ssh = ["remote", "add", "a", "ssh://x", "--encrypt", "age1wrong"];
    assert_eq!(repo.refuses(ssh).1["code"], "bad_remote");
    assert!(!repo.data().join("remotes.toml").exists());
}

#[test]
fn over_ssh_only_what_is_missing_moves_and_the_other_side_needs_only_ctx() {
    if skipped_on_postgres(OTHER_STORE) {
        return;
    }
    let mut here = talked(&["one", "two"]);
    here.ok(["stage", "start", "Add retries"]);
    here.ok(["stage", "compact", "-m", "Retries"]);
    let home = here.beside("other");
    here.set("CTX_SSH", path(&fake_ssh(&home, "")));
    let store = home.join("store");
    here.ok(["remote", "add", "origin", &format!("ssh://box{}", path(&store))]);
    let first = here.ok(["push"]);
    assert_eq!((count(&first, "pushed"), &first["up_to_date"]), (3, &json!(false)), "{first}");
    let again = here.ok(["push"]);
    assert_eq!((count(&again, "pushed"), &again["up_to_date"]), (0, &json!(true)), "{again}");
    assert!(again["bytes_sent"].as_u64() < Some(1000), "{again}");
    say(&here, "one", "more");
    let grown = here.ok(["push", "origin"]);
    assert_eq!((count(&grown, "pushed"), &grown["pushed"][0]["turns"]), (1, &json!(1)));
    // Another machine gets everything.
    let mut third = Repo::new();
    third.set("CTX_SSH", path(&home.join("ssh")));
    third.ok(["remote", "add", "origin", &format!("ssh://box{}", path(&store))]);
    let pulled = third.ok(["pull", "origin", "two"]);
    assert_eq!((count(&pulled, "pulled"), &pulled["pulled"][0]["label"]), (1, &json!("two")));
    let pulled = third.ok(["pull"]);
    assert!(count(&pulled, "pulled") >= 1, "{pulled}");
    assert_eq!(head(&third, "one"), head(&here, "one"));
    say(&third, "two", "from the third machine");
    assert_eq!(third.ok(["push"])["pushed"][0]["effect"], "extended");
    assert_eq!(here.ok(["sync"])["pulled"][0]["label"], "two");
    assert_eq!(head(&third, "two"), head(&here, "two"));
    let text = here.says(["sync"]);
    assert!(text.contains("up to date"), "{text}");
    for repo in [&here, &third] {
        repo.assert_whole();
    }
    let other = here.ok(["--data", path(&store), "verify"]);
    assert_eq!(other["ok"], true, "{other}");
}

#[test]
fn a_diverged_session_is_named_in_the_output_and_nothing_is_overwritten() {
    if skipped_on_postgres(OTHER_STORE) {
        return;
    }
    let (a, b) = (talked(&["talk"]), Repo::new());
    a.ok(["remote", "add", "b", path(b.dir())]);
    a.ok(["push"]);
    say(&a, "talk", "of a");
    say(&b, "talk", "of b");
    let (head_a, head_b) = (head(&a, "talk"), head(&b, "talk"));
    let report = a.ok(["sync"]);
    let branched = report["branched"].as_array().expect("branches");
    assert_eq!(branched.len(), 2, "one on each side: {report}");
    let label = |at: usize| branched[at]["label"].as_str().expect("a label");
    assert_eq!((&branched[0]["branch_of"], &branched[0]["side"]), (&json!("talk"), &json!("here")));
    assert_eq!((head(&a, "talk"), head(&a, label(0))), (head_a.clone(), head_b.clone()));
    assert_eq!((head(&b, "talk"), head(&b, label(1))), (head_b, head_a));
    assert_eq!(a.ok(["sync"])["up_to_date"], true);
    a.assert_whole();
    b.assert_whole();
}

#[test]
fn two_machines_exchange_through_a_directory() {
    let (a, b) = (talked(&["talk", "other"]), Repo::new());
    let shared = a.beside("shared");
    for repo in [&a, &b] {
        repo.ok(["remote", "add", "share", path(&shared)]);
    }
    assert_eq!(b.ok(["pull"])["up_to_date"], true, "the directory does not exist yet");
    a.ok(["push"]);
    assert_eq!(a.ok(["push"])["up_to_date"], true);
    b.ok(["sync"]);
    assert_eq!(head(&b, "talk"), head(&a, "talk"));
    say(&a, "talk", "of a");
    say(&b, "talk", "of b");
    // Both push what they have; neither file replaces the other.
    a.ok(["push", "share", "talk"]);
    b.ok(["push", "share", "talk"]);
    let pulled = a.ok(["pull"]);
    assert_eq!(count(&pulled, "branched"), 1, "{pulled}");
    b.ok(["sync"]);
    a.ok(["sync"]);
    for repo in [&a, &b] {
        assert_eq!(repo.ok(["sync"])["up_to_date"], true);
        repo.assert_whole();
    }
}

#[test]
fn an_encrypted_directory_holds_only_age_files_and_needs_the_identity() {
    // A key pair of `age-keygen`, for this test only.
    const SECRET: &str =
        "AGE-SECRET-KEY-1M50SG66VNUR6TDWTE560S6RGATH0R5TFP2HU5PDKW99HL2P8NKAS5WNR50";
    const PUBLIC: &str = "age18a29d0w46mczwk2pn8m5gev9ffk42wrjstcrs7ng6j6p3z0mfawscvw7ue";
    let (a, b) = (talked(&["talk"]), Repo::new());
    say(&a, "talk", "the password is swordfish");
    let (shared, key) = (a.beside("shared"), a.beside("key"));
    fs::write(&key, format!("# a comment\n{SECRET}\n")).expect("a key");
    a.ok(["remote", "add", "share", path(&shared), "--encrypt", PUBLIC]);
    assert_eq!(a.ok(["push"])["up_to_date"], false);
    assert_eq!(a.ok(["push"])["up_to_date"], true, "without an identity too");
    for file in files(&shared) {
        let content = fs::read(&file).expect("a file");
        assert!(content.starts_with(b"age-encryption.org/v1\n"), "{}", file.display());
        assert_eq!(file.extension().and_then(|end| end.to_str()), Some("age"));
    }
    b.ok(["remote", "add", "plain", path(&shared)]);
    assert_eq!(b.fails(["pull"]).1["code"], "remote_encryption");
    b.ok(["remote", "remove", "plain"]);
    b.ok(["remote", "add", "share", path(&shared), "--identity", path(&key)]);
    b.ok(["pull"]);
    assert_eq!(head(&b, "talk"), head(&a, "talk"));
    let secret = fs::read_to_string(b.data().join("remotes.toml")).expect("a file");
    assert!(!secret.contains("SECRET"), "{secret}");
    say(&b, "talk", "an answer");
    b.ok(["push"]);
    b.assert_whole();
}

#[test]
fn a_directory_with_damaged_files_changes_nothing() {
    let (a, b) = (talked(&["talk"]), Repo::new());
    let shared = a.beside("shared");
    a.ok(["remote", "add", "share", path(&shared)]);
    b.ok(["remote", "add", "share", path(&shared)]);
    a.ok(["push"]);
    let stored = files(&shared);
    for file in stored {
        let good = fs::read(&file).expect("a file");
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        let bomb = zeros();
        for content in [bad, good[..middle].to_vec(), Vec::new(), bomb] {
            fs::write(&file, content).expect("a damaged file");
            assert_eq!(b.refuses(["pull"]).1["code"], "remote_damaged", "{}", file.display());
        }
        fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &file).expect("a link");
        assert_eq!(b.refuses(["pull"]).1["code"], "remote_unreadable");
        fs::remove_file(&file).expect("removed");
        fs::write(&file, good).expect("restored");
    }
    // A file with the right name that grows to a gigabyte.
    let name = ctx_engine::core::id::ObjectId::of(&[&zeros()]);
    let bomb = shared.join(format!("index/{name}.zst"));
    fs::write(&bomb, zeros()).expect("a file");
    assert_eq!(b.refuses(["pull"]).1["code"], "remote_too_large");
    fs::remove_file(&bomb).expect("removed");
    fs::write(shared.join("index/../../escape.zst"), "x").expect("a file elsewhere");
    fs::write(shared.join("index/not-a-hash.zst"), "x").expect("a foreign file");
    b.ok(["pull"]);
    assert_eq!(head(&b, "talk"), head(&a, "talk"));
}

/// A small file that grows to a gigabyte when it is decompressed.
fn zeros() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = zstd::stream::write::Encoder::new(&mut out, 1).expect("an encoder");
    for _ in 0..1024 {
        std::io::Write::write_all(&mut encoder, &vec![0; 1 << 20]).expect("compressed");
    }
    encoder.finish().expect("compressed");
    out
}

#[test]
fn a_connection_that_is_cut_or_speaks_nonsense_changes_nothing() {
    if skipped_on_postgres(OTHER_STORE) {
        return;
    }
    let mut here = talked(&["talk"]);
    let home = here.beside("other");
    let store = home.join("store");
    here.ok(["remote", "add", "box", &format!("ssh://box{}", path(&store))]);
    here.set("CTX_SSH", path(&fake_ssh(&home, "")));
    here.ok(["push"]);
    let mut there = Repo::new();
    there.ok(["remote", "add", "box", &format!("ssh://box{}", path(&store))]);
    for (filter, codes) in [
        ("| head -c 0", &["remote_cut"][..]),
        ("| head -c 30", &["remote_cut", "remote_protocol"]),
        ("| head -c 700", &["remote_cut"]),
        ("| tr '\\000' '\\377'", &["remote_cut", "remote_protocol"]),
        (
            "< /dev/null > /dev/null; echo 'Welcome to this machine'",
            &["remote_cut", "remote_protocol"],
        ),
        (
            "< /dev/null > /dev/null; head -c 100000 /dev/urandom",
            &["remote_cut", "remote_protocol"],
        ),
    ] {
        there.set("CTX_SSH", path(&fake_ssh(&home, filter)));
        let (exit, error) = there.refuses(["pull"]);
        let code = error["code"].as_str().expect("a code");
        assert!(exit == 1 && codes.contains(&code), "{filter}: {error}");
    }
    there.set("CTX_SSH", "/nonexistent/ssh");
    assert_eq!(there.refuses(["pull"]).1["code"], "no_ssh");
    there.set("CTX_SSH", path(&fake_ssh(&home, "")));
    there.ok(["pull"]);
    assert_eq!(head(&there, "talk"), head(&here, "talk"));
}
