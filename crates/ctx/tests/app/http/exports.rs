//! `GET /api/sessions/{id}/export?to=…&redact=…`: documents and copies without secrets.

use serde_json::json;

use crate::harness::server::Server;

fn server_with_secret() -> Server {
    let server = Server::start();
    server.post("/api/sessions", &json!({"label": "main", "title": "A <b>title</b>"})).is(201);
    let headers = [("content-type", "application/json"), ("prefer", "wait=20")];
    let body = json!({"text": "Use DB_PASSWORD=hunter2-horse <script>x</script>"}).to_string();
    server.ask("POST", "/api/sessions/main/messages", &headers, body.as_bytes()).is(200);
    server
}

#[test]
fn a_session_is_exported_as_a_document() {
    let server = server_with_secret();
    for (to, media_type, end) in [
        ("markdown", "text/markdown; charset=utf-8", "md"),
        ("html", "text/html; charset=utf-8", "html"),
        ("jsonl", "application/jsonl", "jsonl"),
    ] {
        let answer = server.get(&format!("/api/sessions/main/export?to={to}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(media_type)));
        let name = answer.header("content-disposition").expect("a name").to_owned();
        assert!(name.starts_with("attachment;") && name.ends_with(&format!(".{end}\"")), "{name}");
        assert!(answer.header("ctx-redacted").is_none());
        assert!(answer.text().contains("hunter2-horse"), "{to}");

        let clean = server.get(&format!("/api/sessions/main/export?to={to}&redact=true"));
        let count = clean.header("ctx-redacted").expect("a count");
        // The demo agent repeats the text.
        assert!(count.starts_with("password="), "{count}");
        assert!(!clean.text().contains("hunter2-horse"), "{to}");
        assert!(clean.text().contains("[redacted:password]"), "{to}");
    }
    let page = server.get("/api/sessions/main/export?to=html");
    assert_eq!(page.header("content-security-policy"), Some("sandbox"));
    let page = page.text();
    assert!(page.contains("A &lt;b&gt;title&lt;/b&gt;") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<script>").count(), 1);
}

#[test]
fn a_bundle_without_secrets_can_be_imported() {
    let (server, other) = (server_with_secret(), Server::start());
    let answer = server.get("/api/sessions/main/export?redact=true");
    assert_eq!(answer.header("content-type"), Some("application/vnd.ctx.bundle"));
    assert!(answer.header("ctx-redacted").is_some());
    let headers = [("content-type", "application/vnd.ctx.bundle")];
    other.ask("POST", "/api/sessions/import", &headers, &answer.bytes).is(201);
    let messages = other.get("/api/sessions/main/messages").is(200).to_string();
    assert!(messages.contains("[redacted:password]") && !messages.contains("hunter2-horse"));
}

#[test]
fn an_unknown_form_is_refused() {
    let server = server_with_secret();
    for query in ["to=pdf", "to=claude-code", "redact=maybe", "form=html"] {
        let answer = server.get(&format!("/api/sessions/main/export?{query}"));
        answer.refuses(422, "invalid_query");
    }
    server.get("/api/sessions/none/export?to=html").refuses(404, "no_session");
}
