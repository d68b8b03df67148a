//! The tools of a session for the agent that ctx runs in it, on the socket of `ctx bridge`.

use std::sync::Arc;

use async_trait::async_trait;
use ctx_providers::{Bridge, RunTools, ToolProtocol};
use rmcp::ServiceExt;
use tokio::net::UnixStream;

use super::McpServer;

#[derive(Debug)]
struct Mcp;

#[async_trait]
impl ToolProtocol for Mcp {
    async fn serve(&self, stream: UnixStream, tools: RunTools) {
        match McpServer::for_run(tools).serve(stream.into_split()).await {
            Ok(running) => {
                let _ = running.waiting().await;
            }
            Err(error) => tracing::debug!(%error, "an agent did not open its tools"),
        }
    }
}

/// How agents get the tools; `None` if the path of this program is not known.
pub(crate) fn bridge() -> Option<Bridge> {
    let program = std::env::current_exe().ok()?;
    Some(Bridge { program, protocol: Arc::new(Mcp) })
}
