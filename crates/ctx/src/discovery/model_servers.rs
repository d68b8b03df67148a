//! Model servers on well-known ports of this machine.
//!
//! Each port gets one request for the list of models, on the loopback address only. All ports are
//! queried in parallel with a short timeout, so that discovery does not delay a command.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::config::ProviderConfig;

use super::Found;

const TIMEOUT: Duration = Duration::from_millis(200);
const RESPONSE_MAX_BYTES: u64 = 256 * 1024;
/// Most models of a server that are listed.
const MODELS_MAX: usize = 500;
/// Context window in tokens if the server does not report it: a common default of such servers.
const CONTEXT_WINDOW: u64 = 8192;

/// Returns the servers that respond, ordered by name.
pub(super) fn discover(ports: &BTreeMap<String, u16>) -> Vec<Found> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            ports.iter().map(|(name, port)| scope.spawn(move || query(name, *port))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    })
}

/// The names of the models of a server; `None` if none responds.
pub(super) fn model_names(port: u16) -> Option<Vec<String>> {
    let list = list_models(port)?;
    let names = list["data"].as_array()?.iter().filter_map(model_name);
    Some(names.take(MODELS_MAX).collect())
}

/// Embedding models cannot answer messages.
fn model_name(model: &Value) -> Option<String> {
    model["id"].as_str().filter(|id| !id.is_empty() && !id.contains("embed")).map(str::to_owned)
}

fn query(name: &str, port: u16) -> Option<Found> {
    let list = list_models(port)?;
    let models = list["data"].as_array()?;
    let (model, entry) = models.iter().find_map(|model| Some((model_name(model)?, model)))?;
    let config = ProviderConfig {
        kind: "openai".to_owned(),
        base_url: Some(format!("http://127.0.0.1:{port}/v1")),
        model: Some(model),
        context_window: Some(entry["max_model_len"].as_u64().unwrap_or(CONTEXT_WINDOW)),
        ..ProviderConfig::default()
    };
    Some(Found {
        name: name.to_owned(),
        config,
        by: format!("a model server responds at 127.0.0.1:{port}"),
    })
}

fn list_models(port: u16) -> Option<Value> {
    let deadline = Instant::now() + TIMEOUT;
    let left = || deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT).ok()?;
    stream.set_write_timeout(Some(left()?)).ok()?;
    // HTTP/1.0: the response is not chunked and ends with the connection.
    let request = format!(
        "GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        stream.set_read_timeout(Some(left()?)).ok()?;
        match stream.read(&mut buffer).ok()? {
            0 => break,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
        if let Some(list) = parse_response(&bytes) {
            return Some(list);
        }
        if bytes.len() as u64 > RESPONSE_MAX_BYTES {
            return None;
        }
    }
    parse_response(&bytes)
}

/// Returns the JSON of a complete 200 response. It is called after each read because some servers
/// keep the connection open.
fn parse_response(bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    (status == "200").then(|| serde_json::from_str(body.trim()).ok()).flatten()
}
