//! Texts between nodes: NOTIFY behind a queue, LISTEN on a connection of its own.
//!
//! A text may be lost. The server sorts notifications under one lock until their transaction is
//! synced, so they are sent apart from all others, and not synced.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use ctx_core::id::NodeId;
use tokio::sync::mpsc;

use crate::Error;
use crate::driver::{Notice, args};

use super::Shared;
use super::address::Address;
use super::connection::Conn;

/// Texts that wait to be sent. Further ones are dropped.
const QUEUE_MAX: usize = 4096;
/// Texts of one transaction.
const BATCH_MAX: usize = 256;
/// Pause after a transaction.
const SEND_PAUSE: Duration = Duration::from_millis(10);
/// Bytes of a text; the server takes no more.
const TEXT_MAX: usize = 7999;
/// Received texts that wait for their reader. After further ones the reader gets a gap.
const RECEIVED_MAX: usize = 4096;
/// How often a listener looks whether anybody listens.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause before a lost connection is replaced.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// The channel of a node, or of all nodes.
fn channel(node: Option<NodeId>) -> String {
    match node {
        Some(node) => format!("ctx_{}", node.to_string().to_lowercase()),
        None => "ctx_all".to_owned(),
    }
}

const NO_NOTICES: &str = "notifications of other nodes are not received; live text is late";

/// Sends texts.
#[derive(Default)]
pub(super) struct Notifier(OnceLock<SyncSender<(String, String)>>);

impl Notifier {
    /// Queues a text.
    pub(super) fn send(&self, address: &Arc<Address>, to: Option<NodeId>, text: String) {
        if text.len() > TEXT_MAX {
            tracing::warn!(bytes = text.len(), "a notification is too long and is not sent");
            return;
        }
        let queue = self.0.get_or_init(|| {
            let (queue, queued) = sync_channel(QUEUE_MAX);
            let address = address.clone();
            let run = move || serve(&address, &queued);
            // Without the thread, every text is dropped.
            let _ = thread::Builder::new().name("ctx-notify".to_owned()).spawn(run);
            queue
        });
        if let Err(TrySendError::Full(_)) = queue.try_send((channel(to), text)) {
            tracing::debug!("a notification is dropped: {QUEUE_MAX} wait already");
        }
    }
}

fn serve(address: &Arc<Address>, queued: &Receiver<(String, String)>) {
    let mut kept = None;
    while let Ok(first) = queued.recv() {
        let mut batch = vec![first];
        batch.extend(queued.try_iter().take(BATCH_MAX - 1));
        // A connection that was kept may be lost.
        for conn in [kept.take(), None] {
            let conn = conn.map_or_else(|| Conn::try_open(address).map_err(|(_, e)| e), Ok);
            kept = conn.and_then(|conn| send(&conn, &batch).map(|()| conn)).ok();
            if kept.is_some() {
                break;
            }
        }
        thread::sleep(SEND_PAUSE);
    }
}

/// Sends texts in one transaction: a pipeline without BEGIN is one.
fn send(conn: &Conn, batch: &[(String, String)]) -> Result<(), Error> {
    conn.push("SELECT set_config('synchronous_commit', 'off', TRUE)", &[])?;
    for (channel, text) in batch {
        conn.push("SELECT pg_notify(?1, ?2)", args![channel, text])?;
    }
    Ok(conn.run().map(drop)?)
}

/// Receives the texts to a node; `None` behind a pooler, whose connections cannot listen.
pub(super) fn listen(
    address: Arc<Address>,
    node: NodeId,
    store: Weak<Shared>,
) -> Option<mpsc::Receiver<Notice>> {
    let channels = [channel(Some(node)), channel(None)];
    let conn = connect(&address, &channels);
    if conn.as_ref().is_ok_and(|conn| !conn.direct) {
        return None;
    }
    if let Err(error) = &conn {
        tracing::warn!(%error, "{NO_NOTICES}");
    }
    let (notices, received) = mpsc::channel(RECEIVED_MAX);
    let run = move || receive(&address, &channels, &store, conn.ok(), &notices);
    thread::Builder::new().name("ctx-listen".to_owned()).spawn(run).ok()?;
    Some(received)
}

fn connect(address: &Arc<Address>, channels: &[String; 2]) -> Result<Conn, Error> {
    let conn = Conn::try_open(address).map_err(|(_, error)| error)?;
    let [own, all] = channels;
    conn.command(&format!("LISTEN \"{own}\"; LISTEN \"{all}\""))?;
    Ok(conn)
}

/// The thread of a listener. It ends with its reader or its store.
fn receive(
    address: &Arc<Address>,
    channels: &[String; 2],
    store: &Weak<Shared>,
    mut conn: Option<Conn>,
    notices: &mpsc::Sender<Notice>,
) {
    let mut gap = conn.is_none();
    while store.strong_count() > 0 && !notices.is_closed() {
        let Some(listening) = &conn else {
            thread::sleep(RECONNECT_PAUSE);
            conn = connect(address, channels).ok();
            if conn.is_some() {
                tracing::info!("notifications of other nodes are received again");
            }
            continue;
        };
        gap = gap && notices.try_send(Notice::Gap).is_err();
        match listening.notification(LOOK_EVERY) {
            Ok(Some(text)) => gap = gap || notices.try_send(Notice::Text(text)).is_err(),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "{NO_NOTICES}");
                (conn, gap) = (None, true);
            }
        }
    }
}
