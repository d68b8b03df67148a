//! Calls of ctx's own tools in a run. A call may wait for a worker, and the run can be cancelled
//! meanwhile.

use std::sync::Arc;

use ctx_core::decide::AgentTool;
use ctx_core::id::{SessionId, TurnId};
use ctx_core::suspension::AwaitedCall;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{POLL_INTERVAL, Runner};
use crate::engine::Error;
use crate::provider::{STEERS_MAX, ToolRequest};
use crate::shared::Actor;
use crate::tools::{self, ToolAnswer};

fn not_permitted(tool: &str) -> String {
    format!("the policies do not permit the tool `{tool}` in this conversation")
}

impl Runner<'_> {
    /// Carries out calls of ctx's own tools. Returns the calls that only the client can answer.
    pub(super) async fn answer_calls(
        &mut self,
        open: Vec<(String, String, serde_json::Value)>,
        actor: &Arc<Actor>,
    ) -> Result<Vec<AwaitedCall>, Error> {
        let mut waiting = Vec::new();
        if !self.new.entries.is_empty() {
            // After a crash, a stored call shows that the run must not be repeated.
            self.store_new().await?;
        }
        for (id, name, params) in open {
            if self.opened_run.run.tools.iter().any(|tool| tool.name == name) {
                waiting.push(AwaitedCall { id, name, params });
            } else if let Some(own) = AgentTool::named(&name) {
                let answer = self.call_tool(id.clone(), own, &params, actor).await?;
                self.new.reported.extend(answer.reported);
                self.tool_result(id, answer.text, answer.is_error);
            } else {
                self.tool_result(id, format!("there is no tool called `{name}`"), true);
            }
        }
        if waiting.is_empty() {
            self.checkpoint().await;
        }
        Ok(waiting)
    }

    /// Carries out an agent's call of one of ctx's own tools. A call may wait for a worker, so it
    /// runs beside the stream until `stop` is cancelled.
    pub(super) fn use_tool(
        &self,
        tool: ToolRequest,
        stop: &CancellationToken,
        reported: &mpsc::UnboundedSender<(SessionId, TurnId)>,
    ) {
        let Some(own) = AgentTool::named(&tool.name) else {
            let why = format!("there is no tool called `{}`", tool.name);
            let _ = tool.reply.send(ToolAnswer::error(why));
            return;
        };
        if !self.opened_run.run.permits(&tool.name) {
            let _ = tool.reply.send(ToolAnswer::error(not_permitted(&tool.name)));
            return;
        }
        // The call's id in the turn is that of the newest open call with this name.
        let call = self
            .draft
            .unanswered_calls()
            .into_iter()
            .rev()
            .find(|(_, name, _)| name.ends_with(&tool.name))
            .map(|(id, ..)| id);
        // An agent that cancels the call no longer waits for the answer.
        let stop = stop.child_token();
        let caller = tools::Caller { progress: tool.progress, ..self.caller(call, &stop) };
        let (engine, reported, mut reply) = (self.engine.clone(), reported.clone(), tool.reply);
        tokio::spawn(async move {
            let mut called = Box::pin(tools::call(&engine, &caller, own, &tool.params));
            let answer = tokio::select! {
                answer = &mut called => answer,
                () = reply.closed() => {
                    stop.cancel();
                    called.await
                }
            };
            let answer = answer.unwrap_or_else(|error| ToolAnswer::error(error.to_string()));
            let end = answer.reported;
            let sent = reply.send(answer).is_ok();
            if let Some(end) = end.filter(|_| sent) {
                let _ = reported.send(end);
            }
        });
    }

    fn caller(&self, tool_call: Option<String>, stop: &CancellationToken) -> tools::Caller {
        let (session, fence) = (self.session, self.opened_run.run.fence);
        let tool_rights = self.opened_run.run.tool_rights.clone();
        tools::Caller {
            session,
            fence: Some(fence),
            tool_call,
            stop: stop.clone(),
            tool_rights,
            progress: tools::Progress::default(),
            directory: None,
        }
    }

    /// Carries out a model's call of one of ctx's own tools. A call that waits returns early if the
    /// run is to end.
    pub(super) async fn call_tool(
        &mut self,
        call: String,
        own: AgentTool,
        params: &serde_json::Value,
        actor: &Arc<Actor>,
    ) -> Result<ToolAnswer, Error> {
        if !self.opened_run.run.permits(own.name()) {
            return Ok(ToolAnswer::error(not_permitted(own.name())));
        }
        let (engine, stop) = (self.engine, CancellationToken::new());
        let caller = self.caller(Some(call), &stop);
        let mut answer = Box::pin(tools::call(engine, &caller, own, params));
        // Steering messages are left for the next call of the model.
        let (steer, _steers) = mpsc::channel(STEERS_MAX);
        let shutdown = engine.shared().shutdown.clone();
        loop {
            tokio::select! {
                answered = &mut answer => return answered,
                () = shutdown.cancelled(), if !stop.is_cancelled() => {
                    self.run_lost = true;
                    stop.cancel();
                }
                () = actor.recheck.notified() => {
                    self.run_lost |= actor.is_abandoned();
                    self.poll_run(&stop, &steer, &mut vec![]).await;
                }
                () = tokio::time::sleep(POLL_INTERVAL) => {
                    self.poll_run(&stop, &steer, &mut vec![]).await;
                }
            }
            if self.run_lost {
                stop.cancel();
            }
        }
    }
}
