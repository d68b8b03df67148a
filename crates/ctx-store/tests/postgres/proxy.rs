//! A proxy in front of the server that counts round trips, cuts connections and pauses. This file
//! needs nothing but the standard library, so that the tests of the program can include it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// What happens to a message at which a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server does not get it.
    Before,
    /// The server gets it, and the client is gone at once.
    After,
    /// The server answers it, and the answer is lost.
    Answer,
}

#[derive(Default)]
struct Shared {
    trips: AtomicU64,
    /// How the next connection is cut that sends these bytes.
    cut: Mutex<Option<(Vec<u8>, Cut)>>,
    /// The connections of clients, open or not, since they were cut last.
    clients: Mutex<Vec<TcpStream>>,
    paused: Mutex<bool>,
    resumed: Condvar,
}

impl Shared {
    /// Waits until the proxy is not paused.
    fn wait(&self) {
        let paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.resumed.wait_while(paused, |paused| *paused));
    }
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared::default());
        let proxy = Self { port, shared: shared.clone() };
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                // A client of a server that does not run is gone at once.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    let kept = client.try_clone().expect("a socket");
                    shared.clients.lock().expect("no panic").push(kept);
                    relay(&shared, client, server);
                }
            }
        });
        proxy
    }

    /// Cuts the next connection that sends these bytes.
    pub(crate) fn cut_at(&self, bytes: &str, cut: Cut) {
        *self.shared.cut.lock().expect("no panic") = Some((bytes.as_bytes().to_vec(), cut));
    }

    /// Whether the cut was made.
    pub(crate) fn has_cut(&self) -> bool {
        self.shared.cut.lock().expect("no panic").is_none()
    }

    /// Does not cut the next connection any more; whether the cut was made.
    pub(crate) fn forget_cut(&self) -> bool {
        self.shared.cut.lock().expect("no panic").take().is_none()
    }

    /// Cuts all connections; how many.
    pub(crate) fn cut_all(&self) -> usize {
        let clients = std::mem::take(&mut *self.shared.clients.lock().expect("no panic"));
        clients.iter().filter(|client| client.shutdown(Shutdown::Both).is_ok()).count()
    }

    /// Stops, or continues, to pass bytes on in both directions.
    pub(crate) fn pause(&self, paused: bool) {
        *self.shared.paused.lock().expect("no panic") = paused;
        self.shared.resumed.notify_all();
    }

    /// Number of times that the server answered.
    pub(crate) fn trips(&self) -> u64 {
        self.shared.trips.load(Ordering::SeqCst)
    }
}

fn relay(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    client.set_nodelay(true).expect("a socket");
    server.set_nodelay(true).expect("a socket");
    let (asked, muted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    {
        let (shared, asked, muted) = (shared.clone(), asked.clone(), muted.clone());
        let (mut from, mut to) =
            (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                shared.wait();
                let cut = {
                    let mut cut = shared.cut.lock().expect("no panic");
                    let here = cut.take_if(|(bytes, _)| {
                        buffer[..n].windows(bytes.len()).any(|window| window == bytes.as_slice())
                    });
                    here.map(|(_, cut)| cut)
                };
                muted.store(cut == Some(Cut::Answer), Ordering::SeqCst);
                asked.store(true, Ordering::SeqCst);
                if cut != Some(Cut::Before) && to.write_all(&buffer[..n]).is_err() {
                    break;
                }
                if matches!(cut, Some(Cut::Before | Cut::After)) {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
    let shared = shared.clone();
    thread::spawn(move || {
        let (mut from, mut to) = (server, client);
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            shared.wait();
            if asked.swap(false, Ordering::SeqCst) {
                shared.trips.fetch_add(1, Ordering::SeqCst);
            }
            if muted.load(Ordering::SeqCst) || to.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}
