//! A disk that fails under a running server: no request is acknowledged that is not stored.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::harness::model_server::ModelServer;
use crate::harness::server::Server;
use crate::harness::{verify, wait_until};

/// Every sync of a process fails until this is dropped.
struct Failing(Child);

impl Failing {
    fn begin(pid: u32) -> Self {
        let calls = "fsync,fdatasync";
        let mut strace = Command::new("strace")
            .args([
                "-f",
                "-p",
                &pid.to_string(),
                "-e",
                &format!("trace={calls}"),
                "-e",
                &format!("inject={calls}:error=EIO"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is installed");
        let mut output = BufReader::new(strace.stderr.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert!(line.contains("attached"), "{line}");
        // Later output of strace must be read, or it blocks.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Self(strace)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        // On SIGINT strace detaches from the process; on SIGKILL it would not.
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_failing_disk_is_reported_to_the_client_and_the_server_recovers() {
    // R152
    let model = ModelServer::chat();
    let server = Server::configured(&model.config(""));
    let client = server.client();
    assert_eq!(
        client.post("/api/sessions", &json!({"label": "one", "message": "one before"})).status,
        201
    );
    client.settled("one");
    let refused: Vec<u16> = {
        let _failing = Failing::begin(server.pid());
        (0..5)
            .map(|n| {
                client
                    .post("/api/sessions/one/messages", &json!({"text": format!("one lost {n}")}))
                    .status
            })
            .collect()
    };
    assert!(refused.iter().all(|status| *status == 503), "none is acknowledged: {refused:?}");
    // The first sync after a failure must succeed before anything is written after it.
    wait_until("a message is taken again", || {
        client.post("/api/sessions/one/messages", &json!({"text": "one after"})).status == 202
    });
    let info = client.settled("one");
    assert_eq!(info["state"], "idle");
    let (messages, _) = client.everything("one");
    let asked = messages
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["content"][0]["text"].clone());
    let asked: Vec<_> = asked.collect();
    assert_eq!(
        (asked.first(), asked.last()),
        (Some(&json!("one before")), Some(&json!("one after"))),
        "{asked:?}"
    );
    let dir = server.dir.clone();
    server.kill();
    verify(dir.path(), "after the failure");
}
