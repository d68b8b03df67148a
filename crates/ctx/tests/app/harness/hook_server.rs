//! A receiver of webhooks that checks each signature and answers as the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ctx_engine::core::identity::{Envelope, PeerKind};
use ctx_engine::core::inbox::Overrides;
use ctx_engine::{Engine, NewMessage, NewSession, Options};
use ring::hmac;
use serde_json::Value;

use super::test_store::location;
use super::wait_for;

pub(crate) const SECRET: &str = "a secret of the tests";
/// The variable that holds the secret.
pub(crate) const SECRET_VARIABLE: &str = "HOOK_SECRET";
/// Oldest timestamp that a receiver accepts, in seconds.
const REPLAY_WINDOW: u64 = 300;

/// A verified request.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) body: Value,
}

impl Delivery {
    pub(crate) fn text(&self) -> &str {
        self.body["text"].as_str().expect("a text")
    }

    pub(crate) fn peer(&self) -> &str {
        self.body["to"]["peer_id"].as_str().expect("a peer")
    }
}

/// How a request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Status(u16),
    /// To another path of this server.
    Redirect,
    /// Nothing, until the client gives up.
    Hang,
    /// The head of a 200, and then a byte now and then.
    Slow,
}

/// A server on loopback. Its threads end with the process of the tests.
pub(crate) struct HookServer {
    pub(crate) url: String,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
}

impl HookServer {
    /// `respond` gets how often this delivery was sent before, and the delivery.
    pub(crate) fn responding(
        respond: impl Fn(usize, &Delivery) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let server = Self { url, deliveries: Arc::default() };
        let (deliveries, respond) = (server.deliveries.clone(), Arc::new(respond));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (deliveries, respond) = (deliveries.clone(), respond.clone());
                std::thread::spawn(move || {
                    let Some(delivery) = read_delivery(&stream) else {
                        return answer(&stream, Answer::Status(401));
                    };
                    let before = {
                        let mut all = deliveries.lock().expect("no panic");
                        let before = all.iter().filter(|other| other.id == delivery.id).count();
                        all.push(delivery.clone());
                        before
                    };
                    answer(&stream, respond(before, &delivery));
                });
            }
        });
        server
    }

    /// A `ctx.toml` with it as the channel `irc`.
    pub(crate) fn config(&self, timeout: &str) -> String {
        format!(
            "[channels.irc]\nurl = \"{}\"\nsecret_env = \"{SECRET_VARIABLE}\"\n\
             timeout = \"{timeout}\"\n",
            self.url
        )
    }

    /// Every request that had a valid signature.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().expect("no panic").clone()
    }

    /// Waits for this many requests.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Delivery> {
        wait_for("the deliveries", || Some(self.deliveries()).filter(|all| all.len() >= count))
    }
}

/// Reads a request. `None` if it is not signed by the channel's secret, or too old.
fn read_delivery(stream: &TcpStream) -> Option<Delivery> {
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
        let prefix = format!("{name}:");
        let line = lines.iter().find(|line| line.to_lowercase().starts_with(&prefix))?;
        Some(line[prefix.len()..].trim().to_owned())
    };
    let mut body = vec![0; header("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    let timestamp = header("x-ctx-timestamp")?;
    let sent: u64 = timestamp.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signed = [format!("{timestamp}.").as_bytes(), &body].concat();
    let signature = header("x-ctx-signature")?;
    let digits = signature.strip_prefix("v1=")?;
    let digits: Option<Vec<u8>> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect();
    hmac::verify(&key, &signed, &digits?).ok()?;
    let body: Value = serde_json::from_slice(&body).ok()?;
    let id = header("x-ctx-id")?;
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    (now.abs_diff(sent) <= REPLAY_WINDOW && body["id"] == id.as_str()).then_some(Delivery {
        path,
        id,
        body,
    })
}

fn answer(mut stream: &TcpStream, answer: Answer) {
    let _ = match answer {
        Answer::Status(status) => stream.write_all(
            format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        ),
        Answer::Redirect => stream.write_all(
            b"HTTP/1.1 307 x\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\
              Connection: close\r\n\r\n",
        ),
        // Ends when the client closes the connection.
        Answer::Hang => stream.read_exact(&mut [0]),
        Answer::Slow => slowly(stream),
    };
}

fn slowly(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")?;
    for _ in 0..10_000 {
        stream.write_all(b".")?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Puts a message from a channel into the inbox of a session, as another process does.
pub(crate) fn message_from(home: &Path, channel: &str, sender: &str, session: &str, text: &str) {
    let envelope = Some(Envelope {
        channel: channel.to_owned(),
        account_id: None,
        sender_id: sender.to_owned(),
        sender_name: None,
        peer_kind: PeerKind::Dm,
        peer_id: None,
        thread_id: None,
        reply_to_id: None,
    });
    let message = NewMessage {
        overrides: Overrides { envelope, ..Overrides::default() },
        ..NewMessage::text(text)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let engine =
            Engine::open(location(home, &home.join("data")), Options::default()).expect("a store");
        if engine.sessions().get(session).await.is_err() {
            let new = NewSession { label: Some(session.to_owned()), ..NewSession::default() };
            engine.sessions().create(new, None, None).await.expect("a session");
        }
        engine.messages().post(session, message).await.expect("accepted");
        engine.background().shutdown().await;
    });
}
