//! One conversation on several models in turn: each gets the whole history, and only its own
//! reasoning.

use serde_json::{Value, json};

use crate::harness::model_server::ModelServer;
use crate::harness::server::Server;

fn events(all: &[Value]) -> String {
    let stream: String = all.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{stream}"
    )
}

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "hm", "signature": "EqQBCgIY+/=="})
}

fn reasoning() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo"})
}

fn messages_answer() -> String {
    events(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 3,
            "cache_read_input_tokens": 40, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking",
            "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta",
            "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta",
            "signature": "EqQBCgIY+/=="}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text",
            "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta",
            "text": "from messages"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ])
}

fn responses_answer() -> String {
    events(&[
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning()}),
        json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 1,
            "delta": "from responses"}),
        json!({"type": "response.completed", "response": {"status": "completed",
            "usage": {"input_tokens": 9, "output_tokens": 2}}}),
    ])
}

#[test]
fn each_model_gets_the_whole_history_and_only_its_own_reasoning() {
    // R228, R236, R237
    let models = ModelServer::responding(|_, asked| match asked.what.as_str() {
        "POST /v1/messages" => messages_answer(),
        "POST /v1/responses" => responses_answer(),
        _ => crate::harness::model_server::completion("from chat"),
    });
    let server = Server::configured(&format!(
        "[providers.chat]\nkind = \"openai\"\nbase_url = \"{0}/v1\"\nmodel = \"m\"\n\
         [providers.responses]\nkind = \"openai\"\napi = \"responses\"\nbase_url = \"{0}/v1\"\n\
         model = \"m\"\n\
         [providers.messages]\nkind = \"anthropic\"\nbase_url = \"{0}\"\napi_key_env = \"\"\n\
         model = \"m\"\nmax_tokens = 77\n",
        models.url
    ));
    server.session("s");
    let order = ["chat", "messages", "responses", "messages", "responses", "chat"];
    for (number, provider) in order.iter().enumerate() {
        let body =
            json!({"text": format!("question {number}"), "provider_id": provider}).to_string();
        let headers = [("content-type", "application/json"), ("prefer", "wait=20")];
        server.ask("POST", "/api/sessions/s/messages", &headers, body.as_bytes()).is(200);
    }
    let asked = models.requests();
    assert_eq!(asked.len(), order.len());
    for (at, request) in asked.iter().enumerate() {
        let text = request.body.to_string();
        for number in 0..=at {
            assert_eq!(
                text.matches(&format!("question {number}\"")).count(),
                1,
                "every question once in request {at}: {text}"
            );
        }
        let own = |provider: &str| {
            if order[at] == provider {
                order[..at].iter().filter(|before| **before == provider).count()
            } else {
                0
            }
        };
        assert_eq!(text.matches("EqQBCgIY").count(), own("messages"), "request {at}");
        assert_eq!(text.matches("gAAAAABo").count(), own("responses"), "request {at}");
    }
    assert_eq!(asked[3].body["messages"][3]["content"][0], thinking(), "as it came");
    assert_eq!((&asked[3].body["max_tokens"], asked[3].key.as_str()), (&json!(77), ""));
    let items = asked[4].body["input"].as_array().expect("items");
    let at = items.iter().position(|item| *item == reasoning()).expect("as it came");
    assert_eq!(items[at + 1]["content"][0]["text"], "from responses", "before what it led to");

    let turns = server.get("/api/sessions/s/turns").is(200)["turns"].clone();
    let usage: Vec<&Value> = turns
        .as_array()
        .expect("turns")
        .iter()
        .filter(|turn| turn["provider_id"] == "messages")
        .map(|turn| &turn["usage"])
        .collect();
    assert_eq!(
        (&usage[0]["input_tokens"], &usage[0]["cached_tokens"], &usage[0]["output_tokens"]),
        (&json!(43), &json!(40), &json!(7))
    );
}
