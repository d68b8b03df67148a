//! `ctx mcp` on standard input and output, until the client closes them.

use ctx_engine::{DefaultSession, Engine};
use rmcp::ServiceExt;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{CallerDefaults, McpServer};
use crate::problem::Problem;

/// The caller of a connection over standard input.
pub(crate) struct StdioOptions {
    pub(crate) read_only: bool,
    pub(crate) session: DefaultSession,
    pub(crate) directory: Option<String>,
}

/// Serves one client.
///
/// # Errors
/// If the client does not open the connection as the protocol demands.
pub(crate) async fn serve_stdio(
    engine: Engine,
    options: StdioOptions,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Problem> {
    let scope = match options.read_only {
        true => ctx_engine::core::token::Scope::Read,
        false => ctx_engine::core::token::Scope::Write,
    };
    let (session, directory) = (Some(options.session), options.directory);
    let server = McpServer::new(engine, CallerDefaults { scope, session, directory });
    match server.serve((input, output)).await {
        Ok(running) => {
            let _ = running.waiting().await;
            Ok(())
        }
        // The client closed the pipe before its first request.
        Err(error) if error.to_string().contains("closed") => Ok(()),
        Err(error) => {
            Err(Problem::failed("mcp_failed", format!("the MCP client did not connect: {error}")))
        }
    }
}
