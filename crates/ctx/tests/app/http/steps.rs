//! A task by its id: its steps and files, while it is open and after it was sealed.

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::server::{Server, home};

/// Runs `ctx stage` on the default session of the store.
fn stage(server: &Server, arguments: &[&str]) {
    let output = ctx(server.dir.path()).arg("stage").args(arguments).output().expect("ctx stage");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

// R110: the record of a task stays readable after it became a commit.
#[test]
fn the_steps_and_files_of_a_task_are_read_before_and_after_sealing() {
    let server = Server::in_dir(home());
    let file = server.dir.path().join("fetch.rs");
    let large = "x\n".repeat(4000);
    stage(&server, &["start", "Add retries"]);
    std::fs::write(&file, "one\n").expect("a file");
    stage(&server, &["observe", "file-read", "fetch.rs"]);
    std::fs::write(&file, &large).expect("a file");
    stage(&server, &["observe", "file-write", "fetch.rs"]);
    stage(&server, &["observe", "command", "--exit", "1", "--", "cargo", "test"]);
    stage(&server, &["ask", "How many?"]);
    stage(&server, &["answer", "three"]);
    let sessions = server.read("/api/sessions?status=all")["sessions"].clone();
    let task = sessions[0]["task"]["id"].as_str().expect("an open task").to_owned();

    let read = |path: &str| server.read(&format!("/api/tasks/{task}{path}"));
    assert_eq!(read("")["description"], "Add retries");
    let entries = |steps: &Value| -> Vec<Value> {
        let steps = steps["steps"].as_array().expect("steps").iter();
        steps.flat_map(|step| step["entries"].as_array().cloned().unwrap_or_default()).collect()
    };
    let steps = read("/steps?limit=1000");
    let all = entries(&steps);
    let of_type = |name: &str| all.iter().find(|entry| entry["type"] == name).expect("an entry");
    assert_eq!(of_type("file_read")["content"], "one\n");
    let written = of_type("file_write")["content"].clone();
    let blob = written["blob"].as_str().expect("a large version is a blob");
    assert_eq!(server.get(&format!("/api/blobs/{blob}")).text(), large);
    assert_eq!(of_type("command")["argv"], json!(["cargo", "test"]));
    assert!(all.iter().any(|entry| entry["text"] == "Question for user: How many?"), "{all:?}");
    assert!(all.iter().any(|entry| entry["text"] == "User response: three"), "{all:?}");
    assert_eq!(steps["steps"][0]["kind"], "session_start");

    // Pages have every step once.
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = read(&format!("/steps?limit=2{cursor}"));
        paged.extend(page["steps"].as_array().expect("steps").clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(json!(paged), steps["steps"]);

    let files = read("/files");
    let expected = json!({
        "path": "fetch.rs", "written": true, "deleted": false, "before": "one\n", "after": written,
    });
    assert_eq!(files["files"], json!([expected]));
    stage(&server, &["compact", "-m", "Done"]);
    assert_eq!(read("/files"), files, "the record outlives the task");
    assert!(read("")["commit"].is_string());
    server.get("/api/tasks/zzzz/steps").refuses(404, "not_found");
    server.get(&format!("/api/tasks/{task}/steps?cursor=x")).refuses(422, "invalid_cursor");
}
