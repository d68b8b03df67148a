//! Calls of ctx's own tools in a run. A call may wait for a worker, and the run can be cancelled
//! meanwhile.

use std::sync::Arc;

use ctx_core::decide::AgentTool;
use ctx_core::id::{SessionId, TurnId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{POLL_INTERVAL, Runner};
use crate::engine::Error;
use crate::provider::{STEERS_MAX, ToolRequest};
use crate::shared::Actor;
use crate::tools;

fn not_permitted(tool: &str) -> String {
    format!("the policies do not permit the tool `{tool}` in this conversation")
}

impl Runner<'_> {
    /// Carries out an agent's call of one of ctx's own tools. A call may wait for a worker, so it
    /// runs beside the stream until `stop` is cancelled.
    pub(super) fn use_tool(
        &self,
        tool: ToolRequest,
        stop: &CancellationToken,
        reported: &mpsc::UnboundedSender<(SessionId, TurnId)>,
    ) {
        let Some(own) = AgentTool::named(&tool.name) else {
            let _ = tool.reply.send((format!("there is no tool called `{}`", tool.name), true));
            return;
        };
        if !self.opened_run.run.permits(&tool.name) {
            let _ = tool.reply.send((not_permitted(&tool.name), true));
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
        let (engine, caller) = (self.engine.clone(), self.caller(call, stop));
        let reported = reported.clone();
        tokio::spawn(async move {
            let answer = tools::call(&engine, &caller, own, &tool.params).await;
            let answer = answer.unwrap_or_else(|error| tools::Answer::error(error.to_string()));
            let sent = tool.reply.send((answer.text, answer.is_error)).is_ok();
            if let Some(end) = answer.reported.filter(|_| sent) {
                let _ = reported.send(end);
            }
        });
    }

    fn caller(&self, tool_call: Option<String>, stop: &CancellationToken) -> tools::Caller {
        let (session, fence) = (self.session, self.opened_run.run.fence);
        let tool_rights = self.opened_run.run.tool_rights.clone();
        tools::Caller { session, fence, tool_call, stop: stop.clone(), tool_rights }
    }

    /// Carries out a model's call of one of ctx's own tools. A call that waits returns early if the
    /// run is to end.
    pub(super) async fn call_tool(
        &mut self,
        call: String,
        own: AgentTool,
        params: &serde_json::Value,
        actor: &Arc<Actor>,
    ) -> Result<tools::Answer, Error> {
        if !self.opened_run.run.permits(own.name()) {
            return Ok(tools::Answer::error(not_permitted(own.name())));
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
