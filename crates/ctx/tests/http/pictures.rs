//! Pictures: sent, stored once, given back, shown to models that take them and described to others.

use serde_json::{Value, json};

use crate::models::{Models, completion};
use crate::server::Server;

/// The smallest picture: one grey dot.
const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";

fn server(models: &Models) -> Server {
    Server::configured(&format!(
        "[defaults]\nprovider = \"sees\"\n[providers.sees]\nkind = \"openai\"\nbase_url = \"{0}/v1\"\nmodel = \"m\"\n\
         [providers.blind]\nkind = \"openai\"\nbase_url = \"{0}/v1\"\nmodel = \"m\"\nimages = false\n",
        models.url
    ))
}

fn picture(data: &str) -> Value {
    json!({"type": "image", "media_type": "image/png", "data": data})
}

fn send(server: &Server, body: &Value) -> crate::server::Answer {
    let headers = [("content-type", "application/json"), ("prefer", "wait=20")];
    server.ask("POST", "/api/sessions/s/messages", &headers, body.to_string().as_bytes())
}

#[test]
fn a_picture_is_stored_once_shown_to_the_model_and_given_back() {
    // R237
    let models = Models::start(|_, _| completion("I see."));
    let server = server(&models);
    server.session("s");
    let text = json!({"type": "text", "text": "What is this?"});
    assert_eq!(
        send(&server, &json!({"content": [text, picture(DOT), picture(DOT)]})).is(200)["state"],
        "idle"
    );
    assert_eq!(
        send(&server, &json!({"content": [picture(DOT)]})).is(200)["state"],
        "idle",
        "words are not needed"
    );

    let messages = server.get("/api/sessions/s/messages").is(200)["messages"].clone();
    let shown = &messages[0]["content"][1];
    assert_eq!((&shown["type"], &shown["media_type"]), (&json!("image"), &json!("image/png")));
    assert_eq!(
        (&shown["size"], shown.get("data")),
        (&json!(67), None),
        "only where it is, never its bytes"
    );
    assert_eq!(messages[2]["content"], json!([shown]), "equal pictures are one");
    let blob = shown["blob"].as_str().expect("a blob");
    let answer = server.get(&format!("/api/blobs/{blob}"));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/png")));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(answer.body.starts_with(b"\x89PNG") && answer.body.len() == 67);

    let asked = models.asked();
    assert!(asked.iter().all(|asked| asked.what == "POST /v1/chat/completions"));
    let url =
        json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{DOT}")}});
    let first = json!([{"type": "text", "text": "What is this?"}, url, url]);
    assert_eq!(asked[0].body["messages"][0]["content"], first);
    assert_eq!(
        asked[1].body["messages"][0]["content"], first,
        "the same history is shown the same way"
    );
    assert_eq!(asked[1].body["messages"][2]["content"], json!([url]));

    send(&server, &json!({"text": "And now?", "provider_id": "blind"})).is(200);
    let blind = models.asked()[2].body["messages"].to_string();
    assert!(
        !blind.contains(DOT) && blind.contains("[an image, image/png, which cannot be shown here]"),
        "{blind}"
    );
    let able = |id: &str| {
        let list = server.get("/api/providers").is(200)["providers"].clone();
        list.as_array()
            .expect("a list")
            .iter()
            .find(|one| one["id"] == id)
            .map(|one| one["can"]["images"].clone())
    };
    assert_eq!(
        (able("sees"), able("blind"), able("demo")),
        (Some(json!(true)), Some(json!(false)), Some(json!(false)))
    );
}

#[test]
fn a_picture_survives_a_restart_while_its_message_waits() {
    let models = Models::start(|_, _| completion("I see."));
    let first = server(&models);
    first.session("s");
    first.send("PATCH", "/api/sessions/s", &json!({"delivery": "hold"})).is(200);
    first.post("/api/sessions/s/messages", &json!({"content": [picture(DOT)]})).is(202);
    let (_, _, dir) = first.end();
    let server = Server::in_dir(dir);
    server.send("PATCH", "/api/sessions/s", &json!({"delivery": "open"})).is(200);
    send(&server, &json!({"text": "well?", "queue_mode": "queue"})).is(200);
    let asked = models.asked();
    assert!(asked[0].body["messages"][0]["content"].to_string().contains(DOT), "{}", asked[0].body);
}

#[test]
fn bad_pictures_are_refused_and_nothing_is_kept() {
    let models = Models::start(|_, _| completion("I see."));
    let server = server(&models);
    server.session("s");
    let large = format!("iVBORw0KGgoA{}", "AAAA".repeat(5 * 1024 * 1024 / 3));
    let part = |media_type: &str, data: &str| json!({"type": "image", "media_type": media_type, "data": data});
    let bad = [
        part("image/png", "not base64!"),
        part("image/png", "/9j/4AAQSkZJRg=="),
        part("image/svg+xml", "PHN2Zy8+"),
        part("image/png", ""),
        part("image/png", &large),
        json!({"type": "image", "media_type": "image/png"}),
        json!({"type": "image", "data": DOT}),
        json!({"type": "image", "media_type": "image/png", "data": DOT, "text": "x"}),
    ];
    for part in bad {
        let problem = send(&server, &json!({"content": [part]})).refuses(422, "bad_image");
        assert!(
            problem["detail"].as_str().is_some_and(|text| text.contains("content[0]")),
            "{problem}"
        );
    }
    send(&server, &json!({"content": vec![picture(DOT); 21]})).refuses(422, "too_many");
    send(&server, &json!({"content": [{"type": "text", "text": "x", "data": DOT}]}))
        .refuses(422, "invalid_body");
    send(&server, &json!({"content": [{"type": "video"}]})).refuses(422, "invalid_body");
    assert_eq!(server.get("/api/sessions/s/messages").is(200)["messages"], json!([]));
    assert!(models.asked().is_empty());
}
