//! Accepts connections, limits their number and closes them on shutdown.

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

/// Concurrent connections. Further ones wait in the listen queue.
const CONNECTIONS_MAX: usize = 4096;
/// Timeout for the request head. It also closes idle keep-alive connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that open requests have to finish after a shutdown has started.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// Pause after a failed `accept`, usually because the process has too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Accepts connections until `shutdown` is cancelled, then waits for open requests.
pub(super) async fn accept(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = async {
                let permit = slots.clone().acquire_owned().await;
                (permit, listener.accept().await)
            } => accepted,
        };
        let (Ok(permit), Ok((socket, _))) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        // Without this, Nagle's algorithm delays small events.
        let _ = socket.set_nodelay(true);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown()).await.is_err() {
        tracing::debug!("closed connections that did not finish in time");
    }
}
