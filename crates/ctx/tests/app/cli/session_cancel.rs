//! `ctx session cancel` in one terminal while `ctx session send` runs in another.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::model_server::{ModelServer, completion};
use crate::harness::repo::{Outcome, Repo};
use crate::harness::server::{Server, configured_home};
use crate::harness::{TIMEOUT, wait_until};

/// A model that answers messages with `hang` so late that no test waits for it.
fn model() -> ModelServer {
    ModelServer::responding(|_, request| {
        let last = request.body["messages"].as_array().and_then(|all| all.last().cloned());
        if last.is_some_and(|last| last["content"] == "hang") {
            std::thread::sleep(TIMEOUT);
        }
        completion("the answer")
    })
}

fn start_send(repo: &Repo, text: &str) -> Child {
    let mut command = repo.json_command(["session", "send", "one", text]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ctx runs")
}

fn cancels_and_goes_on(repo: &Repo, model: &ModelServer) {
    repo.ok(["session", "new", "--label", "one"]);
    for _ in 0..3 {
        let before = model.requests().len();
        let sending = start_send(repo, "hang");
        wait_until("the model was asked", || model.requests().len() > before);
        let began = Instant::now();
        assert_eq!(repo.ok(["session", "cancel", "one"])["session"]["state"], "idle");
        let sent: Outcome = sending.wait_with_output().expect("its end").into();
        assert!(!sent.ok(), "{sent:?}");
        assert_eq!(sent.code(), "cancelled");
        assert_eq!(repo.ok(["session", "inbox", "one"])["items"], json!([]));
        let head = repo.ok(["session", "show", "one"])["session"]["head"].clone();
        let turn = repo.ok(["show", head.as_str().expect("a turn")]);
        assert!(turn.to_string().contains(r#""status":"cancelled""#), "{turn}");
        let answered = repo.ok(["session", "send", "one", "next"]);
        let text = answered["messages"].as_array().and_then(|all| all.last().cloned());
        assert_eq!(text.expect("an answer")["content"][0]["text"], "the answer");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

#[test]
fn a_cancelled_send_fails_and_the_next_one_starts_at_once() {
    // R223
    let (model, repo) = (model(), Repo::new());
    repo.configure(model.config(""));
    cancels_and_goes_on(&repo, &model);
}

#[test]
fn a_cancelled_send_fails_beside_a_server_too() {
    let model = model();
    let home = configured_home(&model.config(""));
    let _server = Server::in_dir(home.clone());
    let data = home.path().join("data");
    let repo = Repo::at(home.path()).with("CTX_DATA", data.to_str().expect("a path"));
    cancels_and_goes_on(&repo, &model);
}
