//! The feed of an attached session as updates: messages, tool calls, usage, settings.

use ctx_engine::core::decide::Event;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::message::Message;
use ctx_engine::core::turn::Usage;
use ctx_engine::{Error, Order};
use serde_json::{Value, json};

use super::attached_session::AttachedSession;
use super::open_prompts::{OpenPrompt, TurnEnd};
use super::session_options::{self, ShownOptions};
use super::shown_messages::Showing;

/// Messages per read of the history.
const PAGE: usize = 200;
/// Turns that may be committed while an event of them is shown.
const TURNS_MAX: usize = 16;

impl AttachedSession {
    /// Sends the whole history as updates.
    pub(super) async fn replay(&mut self) -> Result<(), Error> {
        let showing = Showing { notices: false, errors: true };
        let (mut from, mut turn): (_, Option<(TurnId, Vec<Message>)>) = (None, None);
        loop {
            let page = self.engine.messages().page(&self.key, Order::Asc, from, PAGE).await?;
            for listed in page.messages {
                if let Some((_, ended)) = turn.take_if(|(id, _)| Some(*id) != listed.turn) {
                    self.shown.turn_ended(&ended);
                }
                self.show_message(&listed.message, showing).await;
                if let Some(id) = listed.turn {
                    turn.get_or_insert((id, Vec::new())).1.push(listed.message);
                }
            }
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        if let Some((_, ended)) = turn {
            self.shown.turn_ended(&ended);
        }
        Ok(())
    }

    pub(super) async fn show_event(&mut self, event: &Event) -> Result<(), Error> {
        match event {
            Event::RunStarted { run_id, .. } => {
                (self.run, self.last_end) = (Some(*run_id), None);
                self.show_open_turn().await?;
                self.show_session().await?;
            }
            Event::RunResumed { run_id, .. } => {
                for prompt in self.prompts.iter_mut().filter(|it| it.run == self.run) {
                    prompt.run = Some(*run_id);
                }
                (self.run, self.last_end) = (Some(*run_id), None);
                self.show_open_turn().await?;
                self.sync_questions().await?;
            }
            Event::ToolCallStarted { .. }
            | Event::ToolCallUpdated { .. }
            | Event::ToolCallCompleted { .. }
            | Event::PlanUpdated { .. } => self.show_open_turn().await?,
            Event::RunSuspended { .. } => {
                self.show_open_turn().await?;
                self.sync_questions().await?;
            }
            Event::UsageUpdated { usage, .. } => self.show_usage(usage).await?,
            Event::TurnCommitted { turn: Some(turn) } => self.show_turn(*turn).await?,
            Event::CompactionCompleted { turn, .. } => self.show_compaction(*turn).await?,
            Event::RunCompleted { run_id }
            | Event::RunFailed { run_id, .. }
            | Event::RunCancelled { run_id, .. } => {
                self.sync_questions().await?;
                self.show_session().await?;
                self.run_ended(*run_id).await;
            }
            Event::PromptOpened { .. } | Event::PromptAnswered { .. } => {
                self.sync_questions().await?;
            }
            Event::SessionUpdated | Event::OptionsUpdated => self.show_session().await?,
            _ => {}
        }
        self.settle().await;
        Ok(())
    }

    pub(super) async fn show_message(&mut self, message: &Message, showing: Showing) {
        let engine = self.engine.clone();
        for update in self.shown.message(&engine, message, showing).await {
            self.update(update).await;
        }
    }

    /// Shows what the open turn has: messages of other clients, tool calls, the plan.
    pub(super) async fn show_open_turn(&mut self) -> Result<(), Error> {
        let mut messages = self.engine.messages().open_turn(&self.key).await?;
        if messages.is_empty() {
            // The turn was committed meanwhile. Its parts are shown in their order, which the text
            // that follows in the feed would not keep.
            messages = self.committed_messages().await?;
        }
        let showing = Showing { notices: self.has_notices(), errors: false };
        for message in messages {
            self.show_message(&message, showing).await;
        }
        Ok(())
    }

    /// The messages of the turns whose commit was not shown yet.
    pub(super) async fn committed_messages(&self) -> Result<Vec<Message>, Error> {
        let turns = self.engine.messages().turns(&self.key, Order::Desc, None, TURNS_MAX).await?;
        let new = turns.into_iter().take_while(|turn| Some(turn.id) != self.last_turn);
        let mut messages = Vec::new();
        for turn in new.collect::<Vec<_>>().into_iter().rev() {
            messages.extend(turn.messages()?.unwrap_or_default());
        }
        Ok(messages)
    }

    pub(super) fn has_notices(&self) -> bool {
        self.editor.has("/session/notices")
    }

    /// Shows the rest of a committed turn.
    pub(super) async fn show_turn(&mut self, id: TurnId) -> Result<(), Error> {
        let turn = self.engine.messages().turn(id).await?;
        let messages = turn.messages()?.unwrap_or_default();
        let end = TurnEnd::of(&turn, &messages);
        let is_own = |prompt: &OpenPrompt| {
            messages.iter().any(|message| message.id == prompt.message_id)
                || (prompt.run.is_some() && prompt.run == self.run)
        };
        // The failure of an own prompt is its response.
        let errors = !self.prompts.iter().any(is_own);
        let showing = Showing { notices: self.has_notices(), errors };
        for message in &messages {
            self.show_message(message, showing).await;
        }
        self.shown.turn_ended(&messages);
        for prompt in &mut self.prompts {
            if messages.iter().any(|message| message.id == prompt.message_id) {
                prompt.end = Some(end.clone());
            }
        }
        self.last_turn = Some(id);
        // A notice of ctx after the turn does not end the run.
        if turn.header.provider_id.is_some() {
            self.last_end = Some(end);
        }
        Ok(())
    }

    pub(super) async fn show_compaction(&mut self, turn: TurnId) -> Result<(), Error> {
        if !self.editor.has("/session/compaction") {
            return Ok(());
        }
        let messages = self.engine.messages().turn_messages(turn).await?.unwrap_or_default();
        let parts = messages.iter().flat_map(|message| &message.content);
        let texts: Vec<Value> = parts
            .filter_map(|part| part.searchable_text())
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        self.update(json!({
            "sessionUpdate": "compaction_update",
            "compactionId": turn.to_string(),
            "status": "completed",
            "summary": texts,
        }))
        .await;
        Ok(())
    }

    /// The tokens of the last request, in relation to the window of the model.
    pub(super) async fn show_usage(&self, usage: &Usage) -> Result<(), Error> {
        let about = session_options::about(&self.engine, &self.info().await?.session);
        // An agent reports its own window, which is passed on.
        let tokens = usage.input_tokens.zip(usage.output_tokens);
        if let Some((input, output)) = tokens.filter(|_| about.agent.is_none())
            && about.context_window > 0
        {
            let used = input + output;
            let mut update = json!({
                "sessionUpdate": "usage_update", "used": used, "size": about.context_window,
            });
            if let Some(cost) = usage.cost.as_deref().and_then(cost) {
                update["cost"] = cost;
            }
            self.update(update).await;
        }
        Ok(())
    }

    /// Shows title, settings and commands that have changed.
    pub(super) async fn show_session(&mut self) -> Result<(), Error> {
        let row = self.info().await?.session;
        if row.title != self.title {
            self.title.clone_from(&row.title);
            let at = row.updated_at.to_string();
            self.update(json!({
                "sessionUpdate": "session_info_update", "title": row.title, "updatedAt": at,
            }))
            .await;
        }
        let now = ShownOptions::of(&self.engine, &row);
        let before = std::mem::replace(&mut self.options, now.clone());
        if before.options != now.options {
            let options = &now.options;
            self.update(json!({
                "sessionUpdate": "config_option_update", "configOptions": options,
            }))
            .await;
        }
        if let Some(mode) = now.current_mode().filter(|mode| Some(*mode) != before.current_mode()) {
            self.update(json!({"sessionUpdate": "current_mode_update", "currentModeId": mode}))
                .await;
        }
        if before.commands != now.commands {
            self.update(commands_update(&now.commands)).await;
        }
        Ok(())
    }
}

pub(super) fn commands_update(commands: &[Value]) -> Value {
    json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})
}

/// A cost such as `0.5 USD` in the form of ACP.
fn cost(text: &str) -> Option<Value> {
    let (amount, currency) = text.split_once(' ')?;
    Some(json!({"amount": amount.parse::<f64>().ok()?, "currency": currency}))
}
