//! A full or read-only disk: the error names the cause, and acknowledged work is still there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

/// A small file system, unmounted when it is dropped.
struct Disk {
    at: PathBuf,
    _parent: tempfile::TempDir,
}

impl Disk {
    /// `None` if this user may not mount.
    fn new(options: &str) -> Option<Self> {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let at = parent.path().join("disk");
        fs::create_dir(&at).expect("a directory");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self { at, _parent: parent });
        }
        println!("skipped: this user may not mount a small disk");
        None
    }

    fn remount(&self, how: &str) {
        let done = Command::new("mount")
            .args(["-o", &format!("remount,{how}")])
            .arg(&self.at)
            .status()
            .expect("mount");
        assert!(done.success());
    }

    fn path(&self) -> &Path {
        &self.at
    }

    /// Fills the remaining space.
    fn fill(&self) -> PathBuf {
        let path = self.at.join("filler");
        // The write ends with an error, as intended.
        let _ = fs::write(&path, vec![0; 64 << 20]);
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
    }
}

fn settled(status: &mut Value) -> &Value {
    status["idle_seconds"] = Value::Null;
    status
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    if skipped_on_postgres("the server has the disk") {
        return;
    }
    let Some(disk) = Disk::new("size=4m") else { return };
    let repo = Repo::at(disk.path());
    repo.ok(["stage", "start", "Add retry logic"]);
    let mut acknowledged = Vec::new();
    for n in 0..10 {
        repo.ok(["stage", "note", &format!("note {n}")]);
        acknowledged.push(format!("note {n}"));
    }
    let filler = disk.fill();
    // The first verbs may fit into free space of existing files; later ones do not.
    let long = "x".repeat(9000);
    let refused = (0..50).find_map(|n| {
        let note = format!("late {n} {long}");
        let output = repo.run(["--json", "stage", "note", &note]);
        if output.status.success() {
            acknowledged.push(note);
            return None;
        }
        Some(crate::harness::repo::failure(&output))
    });
    let (exit, error) = refused.expect("a full disk refuses");
    assert_eq!((exit, &error["code"]), (1, &json!("disk_full")));
    assert!(error["hint"].is_string());
    let mut before = repo.ok(["stage", "status"]);
    for verb in [
        vec!["stage", "done", "Retries"],
        vec!["stage", "compact"],
        vec!["stage", "abort"],
        vec!["stage", "message", "stop"],
    ] {
        let (exit, error) = repo.fails(&verb);
        assert_eq!((exit, &error["code"]), (1, &json!("disk_full")), "{verb:?}");
    }
    assert_eq!(
        settled(&mut repo.ok(["stage", "status"])),
        settled(&mut before),
        "a refused verb changed something"
    );

    fs::remove_file(filler).expect("room");
    assert_eq!(repo.notes(), acknowledged);
    repo.assert_whole();
    repo.ok(["stage", "done", "Retries"]);
    repo.ok(["stage", "confirm"]);
    assert_eq!(repo.commits().len(), 1);
}

#[test]
fn a_full_disk_can_still_be_read() {
    // To free space, a user must be able to read the store first.
    if skipped_on_postgres("the server has the disk") {
        return;
    }
    let Some(disk) = Disk::new("size=4m") else { return };
    let repo = Repo::at(disk.path());
    repo.ok(["stage", "start", "First"]);
    repo.ok(["stage", "compact"]);
    repo.ok(["stage", "start", "Second"]);
    disk.fill();
    assert_eq!(repo.task()["description"], "Second");
    assert_eq!(repo.ok(["verify"])["ok"], true);
    assert_eq!(repo.ok(["narrative"])["notes"].as_array().map(Vec::len), Some(1));
    assert_eq!(repo.commits().len(), 1, "looking writes nothing, so it needs no room");
}

#[test]
fn init_and_backup_fail_on_a_full_disk() {
    if skipped_on_postgres("the server has the disk") {
        return;
    }
    let Some(disk) = Disk::new("size=1m") else { return };
    let repo = Repo::working_on("Add retry logic");
    disk.fill();
    let (exit, error) = repo.refuses(["init", disk.path().join("new").to_str().expect("a path")]);
    assert_eq!((exit, &error["code"]), (1, &json!("disk_full")));
    let copy = disk.path().join("copy.db");
    let (exit, error) = repo.refuses(["backup", copy.to_str().expect("a path")]);
    assert_eq!((exit, &error["code"]), (1, &json!("disk_full")));
    let bundle = disk.path().join("task.bundle");
    let (exit, error) = repo.refuses(["stage", "export", "-o", bundle.to_str().expect("a path")]);
    assert_eq!(exit, 1);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("task.bundle")), "{error}");
    let left: Vec<_> = fs::read_dir(disk.path())
        .expect("the disk")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(
        left.iter().all(|name| name == "filler" || name == "new"),
        "no half of a file is left: {left:?}"
    );
    assert!(!disk.path().join("new/.ctx/ctx.db").exists());
}

#[test]
fn a_read_only_disk_is_read_and_not_written() {
    if skipped_on_postgres("the server has the disk") {
        return;
    }
    let Some(disk) = Disk::new("size=4m") else { return };
    let repo = Repo::at(disk.path());
    repo.ok(["stage", "start", "First"]);
    repo.ok(["stage", "compact"]);
    repo.ok(["stage", "start", "Second"]);
    disk.remount("ro");
    assert_eq!(repo.task()["description"], "Second");
    for verb in [vec!["stage", "note", "x"], vec!["stage", "compact"], vec!["init", "inner"]] {
        let (exit, error) = repo.fails(&verb);
        assert_eq!((exit, &error["code"]), (1, &json!("read_only")), "{verb:?}");
        assert!(error["hint"].is_string());
    }
    assert_eq!(repo.commits().len(), 1, "a log can be read where nothing can be written");
    disk.remount("rw");
    repo.ok(["stage", "note", "x"]);
    repo.assert_whole();
}

#[test]
fn a_directory_without_write_permission_is_reported() {
    if skipped_on_postgres("the server has the disk") {
        return;
    }
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let repo = Repo::working_on("Add retry logic");
    if fs::metadata(repo.dir()).expect("the project").uid() == 0 {
        println!("skipped: nothing is read-only for this user");
        return;
    }
    let set = |mode: u32| {
        for name in ["ctx.db", "ctx.db-wal", "ctx.db-shm", "write.lock"] {
            let _ = fs::set_permissions(
                repo.data().join(name),
                fs::Permissions::from_mode(mode & 0o666),
            );
        }
        fs::set_permissions(repo.data(), fs::Permissions::from_mode(mode)).expect("the rights");
    };
    set(0o500);
    let (exit, error) = repo.fails(["stage", "note", "x"]);
    set(0o700);
    assert_eq!((exit, &error["code"]), (1, &json!("read_only")));
    assert_eq!(repo.notes(), Vec::<String>::new());
}
