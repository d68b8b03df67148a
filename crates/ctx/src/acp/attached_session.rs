//! One attached session: a task that shows the session's feed as updates and carries out the
//! editor's commands. All messages about a session come from this task, so that a response never
//! precedes the updates that belong to it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ctx_engine::core::decide::Event;
use ctx_engine::core::id::{RunId, SessionId, TurnId};
use ctx_engine::core::suspension::Answer;
use ctx_engine::{Engine, Error, FeedItem, Follow, Info, NewMessage};
use ctx_providers::json_rpc::RpcError;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::RESOURCE_NOT_FOUND;
use super::editor::Editor;
use super::open_prompts::{OpenPrompt, TurnEnd};
use super::questions::{Answered, OpenQuestion, Subject};
use super::session_options::{self, ShownOptions};
use super::session_updates::commands_update;
use super::shown_messages::{ShownMessages, said};

/// Capacity of the channel of a session's commands.
pub(super) const COMMANDS_MAX: usize = 1024;
/// How often a session with an open prompt is looked at without an event.
const SETTLE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after the feed could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A command to the task of a session.
#[derive(Debug)]
pub(super) enum Command {
    Prompt {
        request: Value,
        message: Box<NewMessage>,
    },
    /// `session/cancel`, or the cancellation of one prompt.
    Cancel {
        request: Option<Value>,
    },
    /// An update of the agent behind that ctx does not store.
    AgentUpdate(Value),
    /// The editor's response to a question.
    Answered {
        question: u64,
        result: Result<Value, RpcError>,
    },
    /// Cancels the editor's own prompts and ends the task.
    Close {
        done: oneshot::Sender<()>,
    },
}

pub(super) struct AttachedSession {
    pub(super) engine: Engine,
    pub(super) editor: Arc<Editor>,
    pub(super) session: SessionId,
    /// The id of the session as the engine takes it.
    pub(super) key: String,
    /// The id that the editor uses.
    pub(super) name: String,
    pub(super) follow: Follow,
    /// `seq` of the newest event that was shown.
    pub(super) seen: u64,
    pub(super) shown: ShownMessages,
    pub(super) prompts: Vec<OpenPrompt>,
    pub(super) questions: Vec<OpenQuestion>,
    /// The newest run of the session.
    pub(super) run: Option<RunId>,
    pub(super) last_end: Option<TurnEnd>,
    /// The newest turn that was shown.
    pub(super) last_turn: Option<TurnId>,
    pub(super) options: ShownOptions,
    pub(super) title: Option<String>,
    pub(super) commands: mpsc::WeakSender<Command>,
}

impl AttachedSession {
    /// Starts to follow a session. Nothing is sent yet.
    pub(super) async fn follow(
        engine: &Engine,
        editor: &Arc<Editor>,
        name: &str,
        info: &Info,
        commands: &mpsc::Sender<Command>,
    ) -> Result<Self, Error> {
        let row = &info.session;
        let key = row.id.to_string();
        let follow = engine.events().follow(&key, Some(row.seq)).await?;
        Ok(Self {
            engine: engine.clone(),
            editor: editor.clone(),
            session: row.id,
            key,
            name: name.to_owned(),
            follow,
            seen: row.seq,
            shown: ShownMessages::new(row.working_dir.as_deref()),
            prompts: Vec::new(),
            questions: Vec::new(),
            run: info.run.as_ref().map(|run| run.id),
            last_end: None,
            last_turn: row.head,
            options: ShownOptions::of(engine, row),
            title: row.title.clone(),
            commands: commands.downgrade(),
        })
    }

    pub(super) const fn options(&self) -> &ShownOptions {
        &self.options
    }

    /// Shows the session until the editor closes it, or it is deleted.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        self.greet().await;
        let mut settle = tokio::time::interval(SETTLE_INTERVAL);
        settle.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // What the agent reported about a call precedes the event of the call.
                biased;
                command = commands.recv() => {
                    let Some(command) = command else { return };
                    if self.carry_out(command).await.is_break() {
                        return;
                    }
                }
                item = self.follow.next() => match item {
                    Ok(Some(FeedItem::Delta(delta))) => {
                        if let Some(update) = self.shown.delta(&delta) {
                            self.update(update).await;
                        }
                    }
                    Ok(Some(FeedItem::Event(event))) => {
                        self.seen = event.seq;
                        if matches!(event.event, Event::SessionDeleted { .. }) {
                            return self.session_is_gone().await;
                        }
                        if let Err(error) = self.show_event(&event.event).await {
                            tracing::warn!(session = self.key, %error, "an event is not shown");
                        }
                    }
                    Ok(None) => return self.session_is_gone().await,
                    Err(error) => {
                        tracing::warn!(session = self.key, %error, "the feed could not be read");
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                },
                _ = settle.tick(), if !self.prompts.is_empty() => self.settle().await,
            }
        }
    }

    /// What a newly attached editor has to know besides the history.
    async fn greet(&mut self) {
        let commands = self.options.commands.clone();
        self.update(commands_update(&commands)).await;
        if let Some(title) = self.title.clone() {
            self.update(json!({"sessionUpdate": "session_info_update", "title": title})).await;
        }
        if let Err(error) = self.sync_questions().await {
            tracing::warn!(session = self.key, %error, "the session could not be read");
        }
    }

    pub(super) async fn update(&self, update: Value) {
        self.editor.update(&self.name, update).await;
    }

    /// Text of ctx that is no part of the conversation.
    pub(super) async fn say(&self, text: &str) {
        self.update(said(text)).await;
    }

    pub(super) async fn info(&self) -> Result<Info, Error> {
        self.engine.sessions().get(&self.key).await
    }

    async fn carry_out(&mut self, command: Command) -> ControlFlow<()> {
        match command {
            Command::Prompt { request, message } => self.prompt(request, *message).await,
            Command::Cancel { request } => self.cancel(request.as_ref()).await,
            Command::AgentUpdate(update) => self.agent_update(update).await,
            Command::Answered { question, result } => self.answered(question, &result).await,
            Command::Close { done } => {
                self.close().await;
                let _ = done.send(());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// The end of the run arrives as an event.
    pub(super) fn cancel_run(&self) {
        let (engine, key) = (self.engine.clone(), self.key.clone());
        tokio::spawn(async move {
            if let Err(error) = engine.runs().cancel_with_workers(&key).await {
                tracing::warn!(session = key, %error, "the run could not be cancelled");
            }
        });
    }

    /// Shows what the agent behind reports and ctx does not store.
    async fn agent_update(&mut self, update: Value) {
        match update.get("sessionUpdate").and_then(Value::as_str) {
            Some("usage_update" | "session_info_update") => self.update(update).await,
            Some("current_mode_update" | "config_option_update") => {
                let Ok(info) = self.info().await else { return };
                let patch = session_options::patch_of_update(&self.engine, &info.session, &update);
                if let Some(patch) = patch
                    && let Err(error) = self.engine.sessions().update(&self.key, patch).await
                {
                    tracing::warn!(session = self.key, %error, "the agent's setting is not stored");
                }
            }
            Some("available_commands_update") => {
                let _ = self.show_session().await;
            }
            // A tool call, or the call of a permission request.
            _ => {
                if let Some(update) = self.shown.agent_call_update(&update) {
                    self.update(update).await;
                }
            }
        }
    }

    async fn answered(&mut self, question: u64, result: &Result<Value, RpcError>) {
        let found = self.questions.iter_mut().find(|it| it.request == Some(question));
        let Some(open) = found else { return };
        open.request = None;
        let (subject, text) = (open.subject, open.text.clone());
        match (open.answer.read(result), subject) {
            (Answered::Choice(choice), Subject::Suspension(id)) => {
                let by = Some(self.editor.name());
                let answer = Answer { choice: Some(choice), by, ..Answer::default() };
                // Refused if another client was faster.
                if let Err(error) = self.engine.runs().resume(&self.key, id, answer).await {
                    tracing::info!(session = self.key, %error, "an answer was not accepted");
                }
            }
            (Answered::Choice(choice), Subject::Prompt(_)) => {
                let choice = super::questions::prompt_choice(&choice);
                if let Some(choice) = choice
                    && let Err(error) = self.engine.runs().answer_prompt(&self.key, choice).await
                {
                    tracing::info!(session = self.key, %error, "an answer was not accepted");
                }
            }
            (Answered::Dismissed, _) => {
                // An editor answers so after it has cancelled the prompt.
                if !self.prompts.iter().any(|prompt| prompt.is_cancelled) {
                    self.prompts.iter_mut().for_each(|prompt| prompt.is_cancelled = true);
                    self.cancel_run();
                }
            }
            (Answered::Unanswered, Subject::Suspension(_)) => {
                self.say(&text).await;
                self.settle().await;
            }
            // The text with both choices was shown before the dialog.
            (Answered::Unanswered, Subject::Prompt(_)) => self.settle().await,
        }
    }

    async fn close(&mut self) {
        if !self.prompts.is_empty() {
            self.prompts.iter_mut().for_each(|prompt| prompt.is_cancelled = true);
            let _ = self.engine.runs().cancel_with_workers(&self.key).await;
        }
        self.withdraw_questions().await;
        let prompts = std::mem::take(&mut self.prompts);
        self.respond(prompts).await;
    }

    async fn session_is_gone(mut self) {
        self.withdraw_questions().await;
        let gone = Err(RpcError::new(RESOURCE_NOT_FOUND, "the session was deleted"));
        for prompt in std::mem::take(&mut self.prompts) {
            self.editor.respond(&prompt.request, &gone).await;
        }
        if self.editor.attachment(&self.name).is_some_and(|it| it.session == self.session) {
            self.editor.detach(&self.name);
        }
    }

    pub(super) fn commands(&self) -> Option<mpsc::Sender<Command>> {
        self.commands.upgrade()
    }
}
