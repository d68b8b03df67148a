//! Tasks that the user confirms, abandons and reopens, over HTTP and on the command line; messages
//! that ctx asks about first; messages that the model of a provider classifies.

use serde_json::{Value, json};

use super::{Agent, Model, Reply, commits, settle, task_state, text_of};
use crate::harness::ctx;
use crate::harness::model_server::completion;

/// Sends a message and waits until the session has settled.
fn say(model: &Model, label: &str, text: &str, reply: &Reply) {
    model.prepare(reply);
    let body = json!({"text": text, "tools": model.tools()});
    model.server.post(&format!("/api/sessions/{label}/messages"), &body).is(202);
    settle(&model.client(), label, *reply == Reply::Nothing, text);
}

/// A session whose task is running and has work.
fn working(model: &Model, label: &str) {
    model.session(label);
    let reply = Reply::Works("I am still looking at the timeouts.".to_owned());
    say(model, label, "Add a retry to the client", &reply);
    assert_eq!(task_state(&model.client(), label).as_deref(), Some("running"));
}

/// Compares a document with a task and its commit to what the server reads.
#[track_caller]
fn assert_sealed(model: &Model, closed: &Value, name: &str, message: &str) {
    let (task, commit) = (&closed["task"], &closed["commit"]);
    assert_eq!(task["description"], "Add a retry to the client", "{closed}");
    assert_eq!(
        (&commit["commit_type"]["name"], &commit["message"], &commit["task"]),
        (&json!(name), &json!(message), &task["id"]),
        "{closed}"
    );
    let id = commit["id"].as_str().expect("an id");
    assert_eq!(model.server.read(&format!("/api/commits/{id}")), *commit);
}

#[test]
fn a_task_is_confirmed_abandoned_and_reopened_over_http() {
    let model = Model::start();
    working(&model, "s");
    let path = |verb: &str| format!("/api/sessions/s/task/{verb}");
    let requests = model.received();
    model.server.post(&path("reopen"), &json!({})).refuses(409, "nothing_to_reopen");
    let body = json!({"message": "Retries three times"});
    let confirmed = model.server.post(&path("confirm"), &body).is(200);
    assert_sealed(&model, &confirmed, "normal", "Retries three times");
    assert_eq!(task_state(&model.client(), "s"), None);
    for verb in ["confirm", "abandon"] {
        model.server.post(&path(verb), &json!({})).refuses(409, "no_task");
    }
    let reopened = model.server.post(&path("reopen"), &json!({})).is(200);
    assert_eq!(
        (&reopened["task"]["state"]["name"], &reopened["commit"]),
        (&json!("running"), &confirmed["commit"]),
        "{reopened}"
    );
    assert_ne!(reopened["task"]["id"], confirmed["task"]["id"]);
    model.server.post(&path("reopen"), &json!({})).refuses(409, "task_open");
    let abandoned =
        model.server.post(&path("abandon"), &json!({"reason": "Wrong approach"})).is(200);
    assert_eq!(abandoned["commit"]["commit_type"]["name"], "abandoned", "{abandoned}");
    assert_eq!(task_state(&model.client(), "s"), None);
    assert_eq!(model.received(), requests, "no model is asked");
    for verb in ["confirm", "abandon", "reopen"] {
        model
            .server
            .post(&format!("/api/sessions/nobody/task/{verb}"), &json!({}))
            .refuses(404, "no_session");
    }
    model.server.post(&path("confirm"), &json!({"text": "x"})).refuses(422, "invalid_body");
    let (messages, _) = model.server.everything("s");
    let notices = messages.iter().filter(|message| message["role"] == "system");
    let notices: Vec<String> = notices.map(text_of).collect();
    assert_eq!(notices.len(), 3, "sealed, reopened, sealed: {notices:#?}");
    for (notice, document) in notices.iter().zip([&confirmed, &confirmed, &abandoned]) {
        assert!(notice.contains(document["commit"]["id"].as_str().expect("an id")), "{notice}");
    }
}

#[test]
fn a_task_is_confirmed_abandoned_and_reopened_on_the_command_line() {
    let model = Model::start();
    working(&model, "s");
    let verb = |arguments: &[&str]| {
        let mut command = ctx(model.server.dir.path());
        let output = command.arg("session").args(arguments).arg("--json").output().expect("ctx");
        let out = if output.status.success() { &output.stdout } else { &output.stderr };
        let text = String::from_utf8_lossy(out).into_owned();
        let document: Value =
            serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{e}: {text}"));
        (output.status.code(), document)
    };
    let requests = model.received();
    let (code, confirmed) = verb(&["confirm", "s", "-m", "Retries three times"]);
    assert_eq!(code, Some(0), "{confirmed}");
    assert_sealed(&model, &confirmed, "normal", "Retries three times");
    let (code, reopened) = verb(&["reopen", "s"]);
    assert_eq!((code, &reopened["commit"]), (Some(0), &confirmed["commit"]), "{reopened}");
    assert_eq!(task_state(&model.client(), "s").as_deref(), Some("running"));
    let (code, refused) = verb(&["reopen", "s"]);
    assert_ne!(code, Some(0));
    assert_eq!(refused["code"], "task_open", "{refused}");
    let (code, abandoned) = verb(&["abandon", "s", "--reason", "Wrong approach"]);
    assert_eq!(code, Some(0), "{abandoned}");
    assert_eq!(abandoned["commit"]["commit_type"]["name"], "abandoned", "{abandoned}");
    for arguments in [["confirm", "s"], ["abandon", "s"]] {
        let (code, refused) = verb(&arguments);
        assert_ne!(code, Some(0));
        assert_eq!(refused["code"], "no_task", "{refused}");
    }
    assert_eq!(model.received(), requests, "no model is asked");
}

#[test]
fn ctx_asks_about_an_unclear_message_only_if_it_is_configured_so() {
    // R82
    let model = Model::configured("[tasks]\non_unclear = \"ask\"\n");
    for (choice, delivered_to, commit) in [("A", "the old task", None), ("B", "no task", Some(()))]
    {
        let label = format!("s-{choice}");
        working(&model, &label);
        let requests = model.received();
        say(&model, &label, "hmm", &Reply::Nothing);
        let info = model.server.read(&format!("/api/sessions/{label}"));
        assert_eq!(info["pending_prompt"]["kind"], "unclear", "{info}");
        assert_eq!(model.received(), requests, "it is held");
        say(&model, &label, choice, &Reply::Says("I see.".to_owned()));
        assert_eq!(model.received(), requests + 1, "{delivered_to}");
        let request = model.newest_request();
        assert_eq!(request.last().map(String::as_str), Some("hmm"), "{request:?}");
        let sealed = commits(&model.client(), &info["id"]).len();
        assert_eq!(sealed, commit.map_or(0, |()| 1), "{delivered_to}");
    }
}

#[test]
fn the_model_of_the_default_provider_classifies_messages_if_it_is_configured_so() {
    let model = Model::configured("[tasks]\nclassifier = \"provider\"\n");
    working(&model, "s");
    let answers = |texts: &[&str]| {
        let mut responses = model.responses.lock().expect("no panic");
        responses.extend(texts.iter().map(|text| completion(text)));
    };
    // The built-in classifier takes this for a change.
    let text = "put the kettle on";
    answers(&["E) abandon", "All right."]);
    let path = "/api/sessions/s/messages";
    model.server.post(path, &json!({"text": text})).is(202);
    settle(&model.client(), "s", false, text);
    let requests = model.models.requests();
    let [.., asked, run] = requests.as_slice() else { panic!("{}", requests.len()) };
    assert!(asked.body.to_string().contains("Answer with one letter"), "{}", asked.body);
    assert!(!run.body.to_string().contains("Answer with one letter"), "{}", run.body);
    assert_eq!(model.newest_request().last().map(String::as_str), Some(text));
    assert_eq!(task_state(&model.client(), "s"), None);
    let session = model.server.read("/api/sessions/s")["id"].clone();
    assert_eq!(commits(&model.client(), &session)[0].1, "abandoned");
}
