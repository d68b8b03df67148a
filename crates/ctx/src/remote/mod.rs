//! Remotes: other stores that sessions are exchanged with.
//!
//! | file | owns |
//! |---|---|
//! | `address` | the address of a remote |
//! | `remotes_file` | `remotes.toml`, the list of remotes |
//! | `wire` | messages between two machines: encoding and limits |
//! | `channel_peer` | a peer behind a channel that carries messages |
//! | `ssh_channel`, `http_channel` | messages over ssh and over HTTP |
//! | `stdio_server` | the other end of ssh: `ctx remote serve` |
//! | `directory_peer`, `directory_index`, `directory_files` | a directory that machines share |
//! | `age`, `age_keys` | encryption of that directory |
//!
//! The description for users is in docs/remotes.md.

mod address;
mod age;
mod age_keys;
mod channel_peer;
mod directory_files;
mod directory_index;
mod directory_peer;
mod http_channel;
mod remotes_file;
mod ssh_channel;
mod stdio_server;
mod wire;

pub(crate) use address::Address;
pub(crate) use age_keys::{Identity, Recipient};
pub(crate) use http_channel::MEDIA_TYPE as EXCHANGE_MEDIA_TYPE;
pub(crate) use remotes_file::{Remote, Remotes};
pub(crate) use stdio_server::serve;
pub(crate) use wire::{MESSAGE_MAX_BYTES, Request, answer, decode, encode};

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ctx_engine::exchange::{LocalPeer, Peer, PeerError};
use ctx_engine::{Engine, Location, Options};

use crate::problem::Problem;

/// Bytes that were exchanged with a remote.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// A remote that was opened.
pub(crate) struct Connection {
    pub(crate) peer: Box<dyn Peer>,
    pub(crate) traffic: Arc<Traffic>,
}

/// Keeps the working directory of a session only if it exists on this machine too.
pub(crate) fn local_dir(dir: &str) -> Option<String> {
    Path::new(dir).is_dir().then(|| dir.to_owned())
}

/// Opens a remote. `data` is the data directory of this machine.
pub(crate) async fn connect(
    name: &str,
    remote: &Remote,
    data: &Path,
) -> Result<Connection, Problem> {
    let traffic = Arc::new(Traffic::default());
    let peer: Box<dyn Peer> = match remote.address()? {
        Address::Ssh(host) => {
            Box::new(channel_peer::ChannelPeer(ssh_channel::open(&host, traffic.clone()).await?))
        }
        Address::Http(url) => Box::new(channel_peer::ChannelPeer(http_channel::open(
            &url,
            remote.token()?,
            traffic.clone(),
        )?)),
        Address::Directory(dir) => match store_in(&dir).filter(|_| !remote.is_encrypted()) {
            Some(store) => {
                let engine = Engine::open(Location::from(&store), Options::default())?;
                Box::new(LocalPeer::new(engine, local_dir))
            }
            None => Box::new(directory_peer::open(name, remote, &dir, data, traffic.clone())?),
        },
    };
    Ok(Connection { peer, traffic })
}

/// The store in a directory: the directory itself, or `.ctx` in it.
pub(crate) fn store_in(dir: &Path) -> Option<std::path::PathBuf> {
    let inside = dir.join(crate::data_dir::DIR_NAME);
    [dir.to_owned(), inside].into_iter().find(|dir| dir.join("ctx.db").exists())
}

impl From<PeerError> for Problem {
    fn from(error: PeerError) -> Self {
        let known = Problem::hint_of(&error.code).map(str::to_owned);
        let problem = Self::failed(error.code, error.message);
        match error.hint.or(known) {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}
