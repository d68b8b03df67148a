//! A model server that keeps what it was asked and answers what the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) what: String,
    /// The key that came with it.
    pub(crate) key: String,
    pub(crate) body: Value,
}

pub(crate) struct Models {
    /// Without `/v1`.
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A stream of events that is a whole chat completion.
pub(crate) fn completion(text: &str) -> String {
    let chunk = |delta: Value, reason: Value| serde_json::json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let words = chunk(serde_json::json!({"content": text}), Value::Null);
    let end = chunk(serde_json::json!({}), Value::from("stop"));
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: {words}\n\ndata: {end}\n\ndata: [DONE]\n\n"
    )
}

/// A whole answer.
pub(crate) fn whole(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

impl Models {
    /// `answer` says what is answered to the request of that number, from 0.
    pub(crate) fn start(answer: impl Fn(usize, &Asked) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let kept = asked.clone();
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                let number = {
                    let mut kept = kept.lock().expect("no panic");
                    kept.push(request.clone());
                    kept.len() - 1
                };
                let mut stream = stream;
                let _ = stream.write_all(answer(number, &request).as_bytes());
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
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
    let length = lines
        .iter()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let what = lines.first()?.trim_end_matches(" HTTP/1.1").to_owned();
    let header = |name: &str| {
        lines
            .iter()
            .find(|line| line.to_lowercase().starts_with(name))
            .map(|line| line[name.len()..].trim())
    };
    let key = header("authorization: bearer")
        .or_else(|| header("x-api-key:"))
        .unwrap_or_default()
        .to_owned();
    Some(Asked { what, key, body: serde_json::from_slice(&body).unwrap_or_default() })
}
