//! Ids that a client abbreviates.

use serde_json::{Value, json};

use crate::harness::server::Server;

fn id(document: &Value) -> String {
    document["id"].as_str().unwrap_or_else(|| panic!("no id: {document}")).to_owned()
}

#[test]
fn every_route_takes_the_beginning_of_an_id() {
    let server = Server::start();
    let session = id(&server.session("s"));
    let short = session[10..15].to_lowercase();
    let sent = server.post(&format!("/api/sessions/{short}/messages"), &json!({"text": "help"}));
    let run = sent.is(202)["run_id"].as_str().expect("a run").to_owned();
    server.settled(&short);
    assert_eq!(id(&server.get(&format!("/api/runs/{}", &run[10..18])).is(200)), run);
    let turns = server.get(&format!("/api/sessions/{short}/turns")).is(200);
    let turn = id(&turns["turns"][0]);
    assert_eq!(id(&server.get(&format!("/api/turns/{}", &turn[..7])).is(200)), turn);
    server.post(&format!("/api/sessions/{short}/pins/{}", &turn[..7]), &json!({})).is(200);
    let body = json!({"turn_id": &turn[..7]});
    let fork = server.post(&format!("/api/sessions/{short}/fork"), &body).is(201);
    assert_eq!(fork["head"], json!(turn));
    server.post(&format!("/api/sessions/{short}/rewind"), &body).is(200);
    server
        .post(&format!("/api/sessions/{short}/rewind"), &json!({"turn_id": "x"}))
        .refuses(422, "invalid_body");
    server.get("/api/turns/0000").refuses(404, "not_found");
    server.get("/api/runs/zzzz").refuses(404, "not_found");
    server.get("/api/sessions/zzzz").refuses(404, "no_session");
}

#[test]
fn an_ambiguous_id_is_refused_with_the_candidates() {
    let server = Server::start();
    let (one, two) = (id(&server.session("one")), id(&server.session("two")));
    // Both ids begin with the time at which they were made.
    let problem = server.get(&format!("/api/sessions/{}", &one[..4])).refuses(409, "ambiguous_id");
    for candidate in [&one, &two] {
        assert!(problem["candidates"].as_array().expect("a list").contains(&json!(candidate)));
        assert!(problem["detail"].as_str().expect("a text").contains(candidate.as_str()));
    }
    let sent = server
        .post(&format!("/api/sessions/{}/messages", &one[..4]), &json!({"text": "hello"}))
        .refuses(409, "ambiguous_id");
    assert!(sent["hint"].is_string());
}
