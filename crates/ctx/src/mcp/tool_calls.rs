//! Tools as MCP shows them, and calls with progress and cancellation.

use std::sync::Arc;

use ctx_engine::core::decide::AgentTool;
use ctx_engine::{Effect, Engine, OutsideCaller, Progress, ToolAnswer, ToolDefinition};
use ctx_providers::RunTools;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, JsonObject, ProgressNotificationParam,
    Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::sync::mpsc;

/// A tool for agents that ctx does not run.
pub(super) fn described(definition: &ToolDefinition) -> Tool {
    tool(definition, definition.schema())
}

/// The tools that a session offers to its agent.
pub(super) fn of_run(tools: &RunTools) -> Vec<Tool> {
    let named = tools.names().iter().filter_map(|name| AgentTool::named(name));
    named
        .map(|tool| {
            let definition = ctx_engine::definition_of(tool);
            self::tool(definition, definition.run_schema())
        })
        .collect()
}

fn tool(definition: &ToolDefinition, schema: Value) -> Tool {
    let (name, description) = (definition.tool.name(), definition.description);
    // Nothing that an agent does here deletes or overwrites records.
    let annotations = ToolAnnotations::with_title(definition.title)
        .read_only(definition.effect == Effect::Reads)
        .destructive(false)
        .idempotent(definition.effect == Effect::Reads)
        .open_world(definition.effect == Effect::Acts);
    let tool = Tool::new(name, description, object(schema))
        .with_title(definition.title)
        .with_annotations(annotations);
    match &definition.output {
        Some(output) => tool.with_raw_output_schema(object(output.clone())),
        None => tool,
    }
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

/// Calls a tool of the engine. A cancelled call ends at its next pause; what it recorded is kept.
pub(super) async fn call(
    engine: &Engine,
    caller: OutsideCaller,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let (name, params) = parts(request);
    check_name(&name)?;
    let (progress, reports) = progress();
    let caller = OutsideCaller { progress, ..caller };
    let mut called = Box::pin(engine.tools().call(&caller, &name, &params));
    let waiting = async {
        tokio::select! {
            answer = &mut called => answer,
            () = context.ct.cancelled() => {
                caller.stop.cancel();
                called.await
            }
        }
    };
    Ok(result(reporting(waiting, reports, context).await))
}

/// Calls a tool of a run. Dropping the call tells the run that nobody waits for its answer.
pub(super) async fn call_run(
    tools: &RunTools,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let (name, params) = parts(request);
    check_name(&name)?;
    let (progress, reports) = progress();
    let called = async {
        tokio::select! {
            answer = tools.call(&name, params, progress) => answer,
            () = context.ct.cancelled() => ToolAnswer::error("the call was cancelled"),
        }
    };
    Ok(result(reporting(called, reports, context).await))
}

fn parts(request: CallToolRequestParams) -> (String, Value) {
    let params = request.arguments.map_or(Value::Null, Value::Object);
    (request.name.into_owned(), params)
}

/// The protocol wants an error for an unknown tool; every other failure is an answer.
fn check_name(name: &str) -> Result<(), ErrorData> {
    if AgentTool::named(name).is_some() {
        return Ok(());
    }
    Err(ErrorData::invalid_params(format!("there is no tool called `{name}`"), None))
}

fn progress() -> (Progress, mpsc::UnboundedReceiver<String>) {
    let (sender, reports) = mpsc::unbounded_channel();
    (Progress::to(sender), reports)
}

/// Waits for an answer and passes the reports of progress to a client that asked for them.
async fn reporting(
    answer: impl Future<Output = ToolAnswer>,
    mut reports: mpsc::UnboundedReceiver<String>,
    context: &RequestContext<RoleServer>,
) -> ToolAnswer {
    let token = context.meta.get_progress_token();
    let mut answer = Box::pin(answer);
    let mut count = 0.0;
    loop {
        tokio::select! {
            biased;
            Some(message) = reports.recv() => {
                count += 1.0;
                if let Some(token) = &token {
                    let report = ProgressNotificationParam::new(token.clone(), count);
                    let _ = context.peer.notify_progress(report.with_message(message)).await;
                }
            }
            answer = &mut answer => return answer,
        }
    }
}

fn result(answer: ToolAnswer) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    let mut result = match answer.is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = answer.structured.filter(|_| !answer.is_error);
    result
}
