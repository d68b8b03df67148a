//! A model server that keeps the requests it gets and answers as the test says.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// Chunks of a slow answer, and the pause after each: about 0.3 s in all.
const SLOW_CHUNKS: usize = 30;
const SLOW_PAUSE: Duration = Duration::from_millis(10);

const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// A request to the model server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Method and path.
    pub(crate) what: String,
    /// The API key in its headers; empty without one.
    pub(crate) key: String,
    pub(crate) body: Value,
}

type Counts = Arc<Counters>;

/// A model server on loopback. Its threads end with the process of the tests.
pub(crate) struct ModelServer {
    /// Without `/v1`.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    counts: Counts,
}

/// What the requests of a chat server count.
#[derive(Default)]
struct Counters {
    /// Requests now, and the most at the same time, of each conversation.
    conversations: Mutex<HashMap<String, (usize, usize)>>,
    /// Chunks sent, of all conversations.
    chunks: AtomicUsize,
}

/// A chat completion of one text, as a whole response.
pub(crate) fn completion(text: &str) -> String {
    let words = chunk(&json!({"content": text}), &Value::Null);
    let end = chunk(&json!({}), &json!("stop"));
    format!("{STREAM_HEAD}{words}{end}data: [DONE]\n\n")
}

/// A chat completion that calls a tool of the client.
pub(crate) fn tool_call(name: &str, arguments: &Value) -> String {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let call = json!({"index": 0, "id": "c1", "type": "function", "function": function});
    let call = chunk(&json!({"tool_calls": [call]}), &Value::Null);
    let end = chunk(&json!({}), &json!("tool_calls"));
    format!("{STREAM_HEAD}{call}{end}data: [DONE]\n\n")
}

/// A response with a JSON body.
pub(crate) fn json_response(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A response that streams one line of events.
pub(crate) fn event_response(data: &str) -> String {
    format!("{STREAM_HEAD}data: {data}\n\n")
}

/// The beginning of a chat completion: its first words, and no end.
pub(crate) fn begun_completion(text: &str) -> String {
    format!("{STREAM_HEAD}{}", chunk(&json!({"content": text}), &Value::Null))
}

fn chunk(delta: &Value, finish: &Value) -> String {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

impl ModelServer {
    /// `respond` gets the number of the request, from 0, and the request.
    pub(crate) fn responding(
        respond: impl Fn(usize, &Request) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::serve(move |number, request, _, stream| {
            stream.write_all(respond(number, request).as_bytes())
        })
    }

    /// As [`ModelServer::responding`], but the first response is never completed: the connection
    /// stays open after `begun`.
    pub(crate) fn hanging_once(
        begun: String,
        respond: impl Fn(&Request) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::serve(move |number, request, _, stream| {
            if number > 0 {
                return stream.write_all(respond(request).as_bytes());
            }
            stream.write_all(begun.as_bytes())?;
            // Ends when the client closes the connection.
            stream.read_exact(&mut [0])
        })
    }

    /// Chat completions by the last user message: `slow` streams with pauses, `tool` calls the
    /// client's first tool, `dispatch: TASK` starts a worker, anything else is answered at once.
    /// The first word of the first user message names the conversation.
    pub(crate) fn chat() -> Self {
        Self::serve(|_, request, counts, stream| chat(request, counts, stream))
    }

    /// Chat completions in pieces, with a pause after each. The requests are not kept.
    pub(crate) fn in_pieces(
        pause: Duration,
        pieces: impl Fn(&Request) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self::serve_with(false, move |_, request, counts, stream| {
            stream.write_all(STREAM_HEAD.as_bytes())?;
            for piece in pieces(request) {
                counts.chunks.fetch_add(1, Ordering::Relaxed);
                stream.write_all(chunk(&json!({"content": piece}), &Value::Null).as_bytes())?;
                std::thread::sleep(pause);
            }
            let end = chunk(&json!({}), &json!("stop"));
            stream.write_all(format!("{end}data: [DONE]\n\n").as_bytes())
        })
    }

    fn serve(
        handle: impl Fn(usize, &Request, &Counts, &mut TcpStream) -> std::io::Result<()>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::serve_with(true, handle)
    }

    fn serve_with(
        keep: bool,
        handle: impl Fn(usize, &Request, &Counts, &mut TcpStream) -> std::io::Result<()>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = Self { url, requests: Arc::default(), counts: Arc::default() };
        let (requests, counts) = (server.requests.clone(), server.counts.clone());
        let handle = Arc::new(handle);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (requests, counts, handle) = (requests.clone(), counts.clone(), handle.clone());
                std::thread::spawn(move || {
                    let request = read_request(&stream)?;
                    let number = {
                        let mut requests = requests.lock().expect("no panic");
                        if keep {
                            requests.push(request.clone());
                        }
                        requests.len().saturating_sub(1)
                    };
                    handle(number, &request, &counts, &mut stream).ok()
                });
            }
        });
        server
    }

    /// A `ctx.toml` with it as the only provider, and more settings before that.
    pub(crate) fn config(&self, more: &str) -> String {
        format!(
            "{more}\n[defaults]\nprovider = \"model\"\n[providers.model]\nkind = \"openai\"\n\
             base_url = \"{}/v1\"\nmodel = \"m\"\n",
            self.url
        )
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    /// The most requests of one conversation that ran at the same time.
    pub(crate) fn most_at_once(&self) -> usize {
        let conversations = self.counts.conversations.lock().expect("no panic");
        conversations.values().map(|(_, most)| *most).max().unwrap_or(0)
    }

    pub(crate) fn conversations(&self) -> usize {
        self.counts.conversations.lock().expect("no panic").len()
    }

    /// Chunks that were sent so far, in all chats.
    pub(crate) fn chunks(&self) -> usize {
        self.counts.chunks.load(Ordering::Relaxed)
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        lines
            .iter()
            .find(|line| line.to_lowercase().starts_with(name))
            .map(|line| line[name.len()..].trim())
    };
    let length = header("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let what = lines.first()?.trim_end_matches(" HTTP/1.1").to_owned();
    let key = header("authorization: bearer")
        .or_else(|| header("x-api-key:"))
        .unwrap_or_default()
        .to_owned();
    Some(Request { what, key, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn chat(request: &Request, counts: &Counts, stream: &mut TcpStream) -> std::io::Result<()> {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let words = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let first =
        messages.iter().find(|message| message["role"] == "user").map(words).unwrap_or_default();
    let _counted = Counted::begin(counts, first.split(' ').next().unwrap_or_default());
    stream.write_all(STREAM_HEAD.as_bytes())?;
    let mut send = |delta: Value, finish: Value| {
        counts.chunks.fetch_add(1, Ordering::Relaxed);
        stream.write_all(chunk(&delta, &finish).as_bytes())
    };
    let last = messages.last().cloned().unwrap_or_default();
    let text = words(&last);
    let from_user = last["role"] == "user";
    let call = if let Some(task) = text.strip_prefix("dispatch: ").filter(|_| from_user) {
        let arguments = json!({"task": task}).to_string();
        Some(("d1", json!({"name": "dispatch_to_agent", "arguments": arguments})))
    } else if from_user && text.contains("tool") && request.body["tools"].is_array() {
        Some(("c1", json!({"name": "look", "arguments": "{}"})))
    } else {
        None
    };
    if let Some((id, function)) = call {
        let call = json!({"index": 0, "id": id, "type": "function", "function": function});
        send(json!({"tool_calls": [call]}), Value::Null)?;
        send(json!({}), json!("tool_calls"))?;
    } else if text.contains("slow") {
        for n in 0..SLOW_CHUNKS {
            send(json!({"content": format!("w{n} ")}), Value::Null)?;
            std::thread::sleep(SLOW_PAUSE);
        }
        send(json!({}), json!("stop"))?;
    } else {
        for n in 0..2 {
            send(json!({"content": format!("w{n} ")}), Value::Null)?;
        }
        send(json!({}), json!("stop"))?;
    }
    stream.write_all(b"data: [DONE]\n\n")
}

/// Counts a request while it is handled.
struct Counted<'a> {
    counts: &'a Counts,
    conversation: String,
}

impl<'a> Counted<'a> {
    fn begin(counts: &'a Counts, conversation: &str) -> Self {
        let mut all = counts.conversations.lock().expect("no panic");
        let (now, most) = all.entry(conversation.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        drop(all);
        Self { counts, conversation: conversation.to_owned() }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut all = self.counts.conversations.lock().expect("no panic");
        if let Some((now, _)) = all.get_mut(&self.conversation) {
            *now -= 1;
        }
    }
}
