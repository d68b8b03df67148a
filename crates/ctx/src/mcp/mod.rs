//! The MCP server: ctx as memory for agents.
//!
//! | file | owns |
//! |---|---|
//! | this file | the handler of all requests, capabilities, instructions |
//! | `tool_calls` | tools as MCP shows them; calls with progress and cancellation |
//! | `resources` | sessions, turns and commits as resources; their templates |
//! | `prompts` | prompts that continue earlier work |
//! | `completions` | completion of ids, labels and tasks |
//! | `log_messages` | the log level that a client sets, and messages to it |
//! | `stdio` | `ctx mcp` on standard input and output |
//! | `bridge` | the tools of a session for the agent that ctx runs in it |
//!
//! The tools are those of `ctx_engine::Tools`; this module only translates. The streamable HTTP
//! transport is in `http/mcp`.

mod bridge;
mod completions;
mod log_messages;
mod prompts;
mod resources;
mod stdio;
mod tool_calls;

use ctx_engine::core::token::Scope;
use ctx_engine::{DefaultSession, Engine, OutsideCaller};
use ctx_providers::RunTools;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, Implementation, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

pub(crate) use bridge::bridge;
pub(crate) use stdio::{StdioOptions, serve_stdio};

use log_messages::LogMessages;

const INSTRUCTIONS: &str = "ctx keeps conversations with AI agents and the work done in them. Use \
    `search` to find what was said, decided or tried before; abandoned work is marked as such. Use \
    `context_pack` before you continue a task, and `read_session`, `read_turn` and `read_commit` \
    for details within a token budget. Record your own work: `start_task`, then `note` for \
    decisions and `update_task` for files and commands, and `finish_task` at the end.";

/// What answers the calls.
#[derive(Clone)]
enum Backend {
    /// The engine, for an agent that ctx does not run.
    Engine { engine: Engine, defaults: CallerDefaults },
    /// The current run of a session, for the agent of that session.
    Run(RunTools),
}

/// What a connection knows about its caller.
#[derive(Debug, Clone)]
pub(crate) struct CallerDefaults {
    /// The scope, unless the request carries one.
    pub(crate) scope: Scope,
    /// The session of calls that name none.
    pub(crate) session: Option<DefaultSession>,
    /// The directory of files that calls name.
    pub(crate) directory: Option<String>,
}

/// The scope of the token of an HTTP request. The authorization adds it to the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestScope(pub(crate) Scope);

/// Handles the requests of one connection.
#[derive(Clone)]
pub(crate) struct McpServer {
    backend: Backend,
    log: LogMessages,
}

impl McpServer {
    /// A server for agents that ctx does not run.
    pub(crate) fn new(engine: Engine, defaults: CallerDefaults) -> Self {
        Self { backend: Backend::Engine { engine, defaults }, log: LogMessages::default() }
    }

    fn for_run(tools: RunTools) -> Self {
        Self { backend: Backend::Run(tools), log: LogMessages::default() }
    }

    /// The engine and the caller of a request. The agent of a run has tools only.
    fn engine(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<(&Engine, OutsideCaller), ErrorData> {
        let Backend::Engine { engine, defaults } = &self.backend else {
            return Err(ErrorData::invalid_request("this server offers only tools", None));
        };
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let sent = parts.and_then(|parts| parts.extensions.get::<RequestScope>());
        let caller = OutsideCaller {
            session: defaults.session.clone(),
            directory: defaults.directory.clone(),
            ..OutsideCaller::new(sent.map_or(defaults.scope, |sent| sent.0))
        };
        Ok((engine, caller))
    }
}

#[allow(deprecated, reason = "clients of earlier protocol versions set a log level")]
impl ServerHandler for McpServer {
    fn get_info(&self) -> InitializeResult {
        let server = Implementation::new("ctx", env!("CARGO_PKG_VERSION")).with_title("ctx");
        let tools = ServerCapabilities::builder().enable_tools();
        match &self.backend {
            Backend::Run(_) => InitializeResult::new(tools.build()).with_server_info(server),
            Backend::Engine { .. } => {
                let all =
                    tools.enable_resources().enable_prompts().enable_completions().enable_logging();
                InitializeResult::new(all.build())
                    .with_server_info(server)
                    .with_instructions(INSTRUCTIONS)
            }
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = match &self.backend {
            Backend::Run(tools) => tool_calls::of_run(tools),
            Backend::Engine { .. } => {
                let (engine, caller) = self.engine(&context)?;
                engine.tools().list(caller.scope).map(tool_calls::described).collect()
            }
        };
        Ok(ListToolsResult::with_all_items(tools))
    }

    /// Used to check the headers of a call against its parameters.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tool = ctx_engine::core::decide::AgentTool::named(name)?;
        Some(tool_calls::described(ctx_engine::definition_of(tool)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let result = match &self.backend {
            Backend::Run(tools) => tool_calls::call_run(tools, request, &context).await,
            Backend::Engine { .. } => {
                let (engine, caller) = self.engine(&context)?;
                tool_calls::call(engine, caller, request, &context).await
            }
        }?;
        if result.is_error == Some(true) {
            self.log.tool_failed(&context, &name, &result).await;
        }
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (engine, _) = self.engine(&context)?;
        resources::list(engine, request.and_then(|request| request.cursor)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.engine(&context)?;
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (engine, caller) = self.engine(&context)?;
        Ok(resources::read(engine, &caller, &request.uri).await?.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.engine(&context)?;
        Ok(ListPromptsResult::with_all_items(prompts::all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (engine, caller) = self.engine(&context)?;
        let arguments = request.arguments.unwrap_or_default();
        Ok(prompts::get(engine, &caller, &request.name, &arguments).await?.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let (engine, _) = self.engine(&context)?;
        Ok(CompleteResult::new(completions::complete(engine, &request).await?))
    }

    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.log.set_level(request.level);
        Ok(())
    }
}

/// An error of the engine as an error of the protocol.
fn failed(error: &ctx_engine::Error) -> ErrorData {
    tracing::warn!(code = error.code(), %error, "an MCP request failed");
    ErrorData::internal_error(error.to_string(), None)
}
