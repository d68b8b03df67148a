//! Sessions are created, listed, read, changed, archived, forked and deleted.

use serde_json::{Value, json};

use crate::harness::server::Server;

#[test]
fn a_new_session_is_idle_and_can_be_found_by_id_and_by_label() {
    // R242, R243
    let server = Server::start();
    let asked = json!({"label": "plans/2026 ü", "title": "Plans", "project": "garden"});
    let answer = server.post("/api/sessions", &asked);
    let location = answer.header("location").expect("a location").to_owned();
    let made = answer.is(201);
    assert_eq!((&made["status"], &made["state"]), (&json!("active"), &json!("idle")));
    assert_eq!(
        (&made["head"], &made["run"], &made["turn_count"]),
        (&Value::Null, &Value::Null, &json!(0))
    );
    assert_eq!(
        (&made["title"], &made["project"], &made["origin"]),
        (&json!("Plans"), &json!("garden"), &json!("api"))
    );
    assert_eq!(location, format!("/api/sessions/{}", made["id"].as_str().expect("an id")));
    for path in [location.as_str(), "/api/sessions/plans%2F2026%20%C3%BC"] {
        assert_eq!(server.get(path).is(200), made, "{path}");
    }
    assert_eq!(server.get("/api/sessions").is(200)["sessions"], json!([made]));
}

#[test]
fn a_label_is_optional_and_unique() {
    let server = Server::start();
    let first = server.post("/api/sessions", &json!({})).is(201);
    let second = server.post("/api/sessions", &json!({})).is(201);
    assert_ne!(first["label"], second["label"]);
    server.session("mine");
    server.post("/api/sessions", &json!({"label": "mine"})).refuses(409, "label_in_use");
    for label in ["", " x", "a\u{7}b"] {
        server.post("/api/sessions", &json!({"label": label})).refuses(422, "bad_label");
    }
    assert_eq!(server.labels("?status=all").len(), 3, "what was refused made nothing");
}

#[test]
fn the_same_idempotency_key_creates_one_session() {
    let server = Server::start();
    let body = json!({"title": "Once"}).to_string();
    let ask = |key: &str, body: &str| {
        server.ask(
            "POST",
            "/api/sessions",
            &[("content-type", "application/json"), ("idempotency-key", key)],
            body.as_bytes(),
        )
    };
    let first = ask("k1", &body).is(201);
    assert_eq!(ask("k1", &body).is(201)["id"], first["id"]);
    assert_ne!(ask("k2", &body).is(201)["id"], first["id"]);
    ask("k1", "{}").refuses(422, "idempotency_mismatch");
    ask(&"k".repeat(256), &body).refuses(422, "invalid_header");
    ask("", &body).refuses(422, "invalid_header");
    assert_eq!(server.labels("").len(), 2);
}

#[test]
fn a_patch_changes_what_it_names_and_null_clears() {
    let server = Server::start();
    server.session("s");
    let patch = |body: Value| server.send("PATCH", "/api/sessions/s", &body).is(200);
    let changed =
        patch(json!({"title": "T", "model": "m", "delivery": "hold", "options": {"mode": "plan",
            "effort": "high"}}));
    assert_eq!(
        (&changed["title"], &changed["model"], &changed["delivery"]),
        (&json!("T"), &json!("m"), &json!("hold"))
    );
    assert_eq!(changed["options"], json!({"mode": "plan", "effort": "high"}));
    let changed = patch(json!({"title": null, "options": {"mode": null}}));
    assert_eq!(
        (&changed["title"], &changed["model"], &changed["delivery"]),
        (&Value::Null, &json!("m"), &json!("hold"))
    );
    assert_eq!(changed["options"], json!({"effort": "high"}));
    assert_eq!(patch(json!({"options": null, "track_tasks": true}))["options"], json!({}));
    let same = patch(json!({}));
    assert_eq!((&same["model"], &same["track_tasks"]), (&json!("m"), &json!(true)));
    for (body, code) in [
        (json!({"provider_id": "nobody"}), "unknown_provider"),
        (json!({"persona": "nobody"}), "unknown_persona"),
        (json!({"title": "x".repeat(2000)}), "bad_text"),
        (json!({"delivery": "later"}), "invalid_body"),
        (json!({"status": "archived"}), "invalid_body"),
        (json!({"track_tasks": null}), "invalid_body"),
    ] {
        server.send("PATCH", "/api/sessions/s", &body).refuses(422, code);
    }
}

#[test]
fn an_archived_session_is_hidden_readable_and_can_return() {
    // R206, R207, R210, R216
    let server = Server::start();
    for label in ["a", "b"] {
        server.session(label);
    }
    let archived = server.post("/api/sessions/a/archive", &json!({})).is(200);
    assert_eq!(archived["status"], "archived");
    assert_eq!(server.labels(""), ["b"]);
    assert_eq!(server.labels("?status=archived"), ["a"]);
    let mut all = server.labels("?status=all");
    all.sort();
    assert_eq!(all, ["a", "b"]);
    assert_eq!(server.get("/api/sessions").is(200)["hidden"], json!({"archived": 1, "error": 0}));
    assert_eq!(server.get("/api/sessions/a").is(200)["status"], "archived");
    assert_eq!(server.get("/api/sessions/a/messages").is(200)["messages"], json!([]));
    assert_eq!(
        server.ask("POST", "/api/sessions/a/unarchive", &[], b"").is(200)["status"],
        "active"
    );
    assert_eq!(server.labels("").len(), 2);
}

#[test]
fn a_status_is_one_of_four_and_nothing_else() {
    // R195
    let server = Server::start();
    server.session("s");
    for status in [
        "active",
        "suspended",
        "archived",
        "error",
        "all",
        "active,suspended",
        "active,archived,error",
    ] {
        server.get(&format!("/api/sessions?status={status}")).is(200);
    }
    for status in ["", "paused", "idle", "Active", "active,", "all,active"] {
        server.get(&format!("/api/sessions?status={status}")).refuses(422, "invalid_query");
    }
}

#[test]
fn a_list_is_paged_filtered_and_bounded() {
    let server = Server::start();
    for n in 0..7 {
        let project = if n % 2 == 0 { "even" } else { "odd" };
        server
            .post(
                "/api/sessions",
                &json!({"label": format!("s{n}"), "project": project,
            "title": format!("Title {n}%")}),
            )
            .is(201);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/sessions?limit=3{cursor}")).is(200);
        let sessions = page["sessions"].as_array().expect("sessions");
        assert!(sessions.len() <= 3);
        seen.extend(sessions.iter().map(|one| one["label"].as_str().expect("a label").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"], "each once, the newest first");
    assert_eq!(server.labels("?project=odd"), ["s5", "s3", "s1"]);
    assert_eq!(server.labels("?q=title%204%25"), ["s4"]);
    assert_eq!(server.labels("?waiting=true"), [""; 0]);
    for query in ["limit=0", "limit=1001", "limit=x", "cursor=x", "waiting=perhaps", "colour=red"] {
        assert_eq!(server.get(&format!("/api/sessions?{query}")).status, 422, "{query}");
    }
}

#[test]
fn deleting_is_permanent() {
    // R244
    let server = Server::start();
    let id = server.session("s")["id"].as_str().expect("an id").to_owned();
    server.post("/api/sessions/s/archive", &json!({})).is(200);
    let gone = server.ask("DELETE", "/api/sessions/s", &[], b"");
    assert_eq!((gone.status, gone.bytes.len()), (204, 0));
    for path in [
        "/api/sessions/s".to_owned(),
        format!("/api/sessions/{id}"),
        format!("/api/sessions/{id}/messages"),
    ] {
        server.get(&path).refuses(404, "no_session");
    }
    server.ask("DELETE", "/api/sessions/s", &[], b"").refuses(404, "no_session");
    assert_eq!(server.labels("?status=all"), [""; 0]);
    assert_ne!(server.session("s")["id"], json!(id), "the label is free again");
}

#[test]
fn a_fork_is_independent_of_its_origin() {
    let server = Server::start();
    let dir = server.dir.path().canonicalize().expect("a directory");
    for name in ["one", "two"] {
        std::fs::create_dir(dir.join(name)).expect("a directory");
    }
    server
        .post("/api/sessions", &json!({"label": "s", "title": "T", "working_dir": dir.join("one")}))
        .is(201);
    let fork = server.post("/api/sessions/s/fork", &json!({"label": "f"})).is(201);
    assert_eq!(
        (&fork["label"], &fork["origin"], &fork["title"]),
        (&json!("f"), &json!("fork"), &json!("T"))
    );
    assert_eq!(
        (&fork["workspace"], &fork["working_dir"]),
        (&json!("shared"), &json!(dir.join("one")))
    );
    let other =
        server.post("/api/sessions/s/fork", &json!({"working_dir": dir.join("two")})).is(201);
    assert_eq!(
        (&other["workspace"], &other["working_dir"]),
        (&json!("separate"), &json!(dir.join("two")))
    );
    assert_eq!(
        server.ask("POST", "/api/sessions/s/fork", &[], b"").is(201)["workspace"],
        "shared",
        "without a body"
    );
    server.post("/api/sessions/s/fork", &json!({"label": "f"})).refuses(409, "label_in_use");
    server
        .post("/api/sessions/s/fork", &json!({"turn_id": "0".repeat(64)}))
        .refuses(404, "not_found");
    server.post("/api/sessions/s/fork", &json!({"turn_id": "x"})).refuses(422, "invalid_body");
    server.post("/api/sessions/nobody/fork", &json!({})).refuses(404, "no_session");
}

#[test]
fn agents_work_under_the_roots_only() {
    let server = Server::start();
    let home = server.dir.path().canonicalize().expect("a directory");
    let inside = home.join("work");
    std::fs::create_dir(&inside).expect("a directory");
    std::os::unix::fs::symlink("/usr", home.join("out")).expect("a link");
    let made = server.post("/api/sessions", &json!({"working_dir": inside})).is(201);
    assert_eq!((&made["working_dir"], &made["track_tasks"]), (&json!(inside), &json!(true)));
    for (dir, status, code) in [
        (json!("/usr"), 403, "working_dir_outside_roots"),
        (json!("work"), 403, "working_dir_outside_roots"),
        (json!(home.join("out")), 403, "working_dir_outside_roots"),
        (json!(home.join("work/../../..")), 403, "working_dir_outside_roots"),
        (json!(home.join("nothing")), 409, "working_dir_missing"),
    ] {
        server.post("/api/sessions", &json!({"working_dir": dir})).refuses(status, code);
    }
}

#[test]
fn an_idle_session_can_be_cancelled_and_an_empty_one_not_compacted() {
    let server = Server::start();
    server.session("s");
    assert_eq!(server.post("/api/sessions/s/cancel", &json!({})).is(200)["state"], "idle");
    server
        .post("/api/sessions/s/compact", &json!({"focus": "names"}))
        .refuses(409, "nothing_to_compact");
    server.post("/api/sessions/nobody/compact", &json!({})).refuses(404, "no_session");
}

#[test]
fn there_are_no_routes_to_start_stop_or_pause_a_session() {
    // R250
    let server = Server::start();
    server.session("s");
    for verb in ["start", "stop", "pause"] {
        server.post(&format!("/api/sessions/s/{verb}"), &json!({})).refuses(404, "not_found");
    }
}
