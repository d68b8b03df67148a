//! Model servers on this machine, on the ports that they are known to take.
//!
//! Only the loopback address is asked, once, and for a list of models: whatever else listens there is left alone. Nobody
//! waits: all are asked at the same time, and who does not answer at once is not there.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::config::ProviderConfig;

use super::Found;

/// How long a server has to list its models.
const PATIENCE: Duration = Duration::from_millis(200);
/// The most of its answer that is read.
const ANSWER_MAX_BYTES: u64 = 256 * 1024;
/// How many tokens fit where the server does not say: small enough for what such servers are started with.
const CONTEXT_WINDOW: u64 = 8192;

/// The servers that answer, in the order of their names.
pub(super) fn here(ports: &BTreeMap<String, u16>) -> Vec<Found> {
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            ports.iter().map(|(name, port)| scope.spawn(move || found(name, *port))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    })
}

fn found(name: &str, port: u16) -> Option<Found> {
    let list = list(port)?;
    let models = list["data"].as_array()?;
    // What only measures texts cannot answer any.
    let id = |model: &Value| {
        model["id"].as_str().filter(|id| !id.is_empty() && !id.contains("embed")).map(str::to_owned)
    };
    let (model, said) = models.iter().find_map(|model| Some((id(model)?, model)))?;
    let config = ProviderConfig {
        kind: "openai".to_owned(),
        base_url: Some(format!("http://127.0.0.1:{port}/v1")),
        model: Some(model),
        context_window: Some(said["max_model_len"].as_u64().unwrap_or(CONTEXT_WINDOW)),
        ..ProviderConfig::default()
    };
    Some(Found { name: name.to_owned(), config, by: format!("it answers at 127.0.0.1:{port}") })
}

fn list(port: u16) -> Option<Value> {
    let by = Instant::now() + PATIENCE;
    let left = || by.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)
            .ok()?;
    stream.set_write_timeout(Some(left()?)).ok()?;
    // The older protocol: the answer comes in one piece and ends with the connection.
    stream.write_all(format!("GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n\r\n").as_bytes()).ok()?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        stream.set_read_timeout(Some(left()?)).ok()?;
        match stream.read(&mut buffer).ok()? {
            0 => break,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
        if let Some(list) = whole(&bytes) {
            return Some(list);
        }
        if bytes.len() as u64 > ANSWER_MAX_BYTES {
            return None;
        }
    }
    whole(&bytes)
}

/// The document in a good answer, once it is whole: not every server closes.
fn whole(bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    (status == "200").then(|| serde_json::from_str(body.trim()).ok()).flatten()
}
