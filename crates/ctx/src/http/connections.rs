//! Sockets: accepted, bounded in number, ended in time.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The most connections at a time; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;
/// The head of a request must be there by then; so long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long clients may take to read the last answer.
const GOODBYE: Duration = Duration::from_secs(1);
/// The pause after a socket could not be accepted: too many files are open, and time may close some.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Accepts until the token is cancelled, then lets requests end.
pub(super) async fn accept(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = async {
                let permit = room.clone().acquire_owned().await;
                (permit, listener.accept().await)
            } => accepted,
        };
        let (Ok(permit), Ok((socket, _))) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        // Events are small and must not wait for each other.
        let _ = socket.set_nodelay(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(GOODBYE, graceful.shutdown()).await.is_err() {
        tracing::debug!("some clients were cut off");
    }
}
