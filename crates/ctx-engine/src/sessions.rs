//! What every surface may do with a conversation.

use std::time::Duration;

use ctx_core::decide::{self, Accepted, Cut, Decided, Decision, Hands, Judge, Moment, Needs, Opened, Patch, SessionView, Submit};
use ctx_core::id::{MessageId, ObjectId, SessionId, SuspensionId, TurnId};
use ctx_core::inbox::{Admission, Item, ItemState, Mode, Overrides};
use ctx_core::intent::Intent;
use ctx_core::message::{Part, Role, Source};
use ctx_core::prompt::{Choice, Prompt};
use ctx_core::refusal::Refusal;
use ctx_core::run::Run;
use ctx_core::session::{self, Activity, Origin, Session};
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::task::Task;
use ctx_store::{Once, Target, Write};
use serde_json::{Value, json};
use tokio::time::Instant;
use ulid::Ulid;

use crate::context::words_of;
use crate::engine::{Engine, Error, target};

/// A session that is to be made.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the fields of `Session` under the same names")]
pub struct NewSession {
    /// One is made up where there is none.
    pub label: Option<String>,
    pub title: Option<String>,
    pub project: Option<String>,
    pub working_dir: Option<String>,
    pub persona: Option<String>,
    pub provider_id: Option<String>,
    pub model: Option<String>,
    pub track_tasks: Option<bool>,
    pub origin: Option<Origin>,
    pub parent: Option<session::Parent>,
}

/// A message that is to be sent.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// What it says.
    pub content: Vec<Part>,
    /// What it wants if the session is busy.
    pub mode: Option<Mode>,
    /// Where it comes from.
    pub source: Source,
    /// What it wants for its run.
    pub overrides: Overrides,
}

impl Outgoing {
    /// A person's words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Part::Text { text: text.into() }], ..Self::default() }
    }
}

/// A key under which a request is done once.
#[derive(Debug, Clone)]
pub struct Key {
    /// The client's key.
    pub key: String,
    /// The hash of the request.
    pub request: ObjectId,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// In which session.
    pub session: SessionId,
    /// Its id in history for ever.
    pub message_id: MessageId,
    /// The run that was opened with it; nothing where that happens later.
    pub run_id: Option<ctx_core::id::RunId>,
    /// Its place in the inbox.
    pub position: Option<usize>,
    /// What the session does now.
    pub state: Activity,
    /// What it was taken for.
    pub intent: Option<Intent>,
    /// The question that is open now.
    pub prompt: Option<Prompt>,
    /// The answer to the same key, given before.
    pub replayed: Option<Value>,
}

/// A session with all that a client shows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Its row.
    pub session: Session,
    /// The open task.
    pub task: Option<Task>,
    /// The open question.
    pub prompt: Option<Prompt>,
    /// What runs now.
    pub run: Option<Run>,
    /// What it waits for, oldest first.
    pub suspensions: Vec<Suspension>,
    /// The messages that wait.
    pub inbox: Vec<Item>,
}

impl From<SessionView> for Info {
    fn from(view: SessionView) -> Self {
        let run = view.run.filter(|run| run.ended_at.is_none());
        let inbox = view.inbox.into_iter().filter(|item| !matches!(item.state, ItemState::Taken)).collect();
        Self { session: view.session, task: view.task, prompt: view.prompt, run, suspensions: view.suspensions, inbox }
    }
}

/// What is answered for a message, as it is remembered for its key.
fn remembered(decision: &Decision) -> Value {
    let accepted = decision.reply.accepted.as_ref();
    json!({
        "session": decision.reply.session,
        "message_id": accepted.map(|accepted| accepted.message_id),
        "run_id": accepted.and_then(|accepted| accepted.run_id),
        "position": accepted.and_then(|accepted| accepted.position),
        "state": accepted.map(|accepted| accepted.state),
        "intent": accepted.and_then(|accepted| accepted.intent),
        "prompt": decision.reply.prompt,
    })
}

impl Engine {
    fn new_row(&self, new: NewSession) -> Result<session::New, Error> {
        let origin = new.origin.unwrap_or(Origin::Api);
        self.hub().known(new.provider_id.as_deref(), new.persona.as_deref())?;
        let id = SessionId(Ulid::new());
        let label = new.label.unwrap_or_else(|| match origin {
            Origin::Fork => format!("fork-{id}"),
            Origin::Subagent => format!("worker:{id}"),
            _ => format!("session-{id}"),
        });
        let project = new.project.unwrap_or_else(|| self.project().to_owned());
        let idle = session::New::idle(id, label, project, origin, self.now());
        Ok(session::New {
            title: new.title,
            working_dir: new.working_dir,
            persona: new.persona,
            provider_id: new.provider_id,
            model: new.model,
            track_tasks: new.track_tasks,
            parent: new.parent,
            ..idle
        })
    }

    /// Makes an idle session, perhaps with its first message.
    ///
    /// # Errors
    /// If the label is taken, or something it prefers is unknown.
    pub async fn create(
        &self,
        new: NewSession,
        first: Option<Outgoing>,
        key: Option<Key>,
    ) -> Result<(SessionId, Option<Submitted>), Error> {
        let row = self.new_row(new)?;
        let (label, wanted) = (row.label.clone(), row.clone());
        let once = key.map(|key| Once { scope: "sessions".to_owned(), key: key.key, request: key.request, answer: remembered });
        let Some(first) = first else {
            let rule = move |found: Option<&SessionView>, _: &Moment| decide::create_session(found, &wanted);
            let decision = self.write(Target::Label(label), Needs::NOTHING, once, rule).await?;
            return Ok((session_of(&decision)?, None));
        };
        let sent = self.send(Target::Label(label.clone()), Some(row), true, first, once, Hands::Ours).await?;
        Ok((sent.session, Some(sent)))
    }

    /// Sends a message to a session.
    ///
    /// # Errors
    /// If there is no such session, or it does not take the message.
    pub async fn submit(&self, session: &str, message: Outgoing, key: Option<Key>) -> Result<Submitted, Error> {
        let once = match key {
            // By whichever of its names the session is called, a key is the same key.
            Some(key) => {
                let scope = format!("messages {}", self.info(session).await?.session.id);
                Some(Once { scope, key: key.key, request: key.request, answer: remembered })
            }
            None => None,
        };
        self.send(target(session), None, false, message, once, Hands::Ours).await
    }

    /// Puts a message into a session's inbox and leaves it there: whoever runs the session, or comes next, takes it.
    ///
    /// # Errors
    /// If there is no such session, or it does not take the message.
    pub async fn post(&self, session: &str, message: Outgoing) -> Result<Submitted, Error> {
        self.send(target(session), None, false, message, None, Hands::Others).await
    }

    /// Sends a message to whoever has a label or an alias, and makes the session where nobody has (R130, R133).
    ///
    /// # Errors
    /// If the label is none, or the session does not take the message.
    pub async fn submit_to_label(&self, new: NewSession, message: Outgoing, key: Option<Key>) -> Result<Submitted, Error> {
        let row = self.new_row(new)?;
        let once = key.map(|key| Once { scope: format!("messages {}", row.label), key: key.key, request: key.request, answer: remembered });
        self.send(Target::Label(row.label.clone()), Some(row), false, message, once, Hands::Ours).await
    }

    async fn send(
        &self,
        to: Target,
        new: Option<session::New>,
        must_be_new: bool,
        message: Outgoing,
        once: Option<Once>,
        hands: Hands,
    ) -> Result<Submitted, Error> {
        self.join().await?;
        let judge = if self.classifier().is_rules() { Judge::Rules } else { Judge::Later };
        let submit = Submit {
            message_id: MessageId(Ulid::new()),
            content: message.content,
            mode: message.mode,
            source: message.source,
            overrides: message.overrides,
            judge,
            hands,
        };
        let (opener, settings) = (self.hub().opener.clone(), self.settings().clone());
        let rule = move |view: Option<&SessionView>, moment: &Moment| {
            if must_be_new && let (Some(_), Some(new)) = (view, &new) {
                return Err(Refusal::LabelInUse { label: new.label.clone() });
            }
            decide::submit(view, new.as_ref(), &submit, &opener, &settings, moment)
        };
        let engine = self.clone();
        whole(async move { engine.take_in(to, once, hands, rule).await }).await
    }

    /// Commits a message and does what follows from it.
    async fn take_in(
        &self,
        to: Target,
        once: Option<Once>,
        hands: Hands,
        rule: impl Fn(Option<&SessionView>, &Moment) -> Decided + Send + 'static,
    ) -> Result<Submitted, Error> {
        let decision = self.write(to, Needs::MESSAGE, once, rule).await?;
        if let Some(answer) = decision.reply.replayed {
            return replayed(answer);
        }
        let session = session_of(&decision)?;
        let Some(accepted) = decision.reply.accepted.clone() else {
            return Err(ctx_store::Error::Internal("a message was taken without an answer".to_owned()).into());
        };
        if hands == Hands::Ours {
            self.act(session, &accepted, decision.reply.opened).await;
        }
        Ok(Submitted {
            session,
            message_id: accepted.message_id,
            run_id: accepted.run_id,
            position: accepted.position,
            state: accepted.state,
            intent: accepted.intent,
            prompt: decision.reply.prompt,
            replayed: None,
        })
    }

    /// After a message is committed: the run is carried out, or whoever runs the session is told.
    async fn act(&self, session: SessionId, accepted: &Accepted, opened: Option<Opened>) {
        let here = opened.is_some() || self.hub().is_awake(session);
        match accepted.admission {
            _ if opened.is_some() => self.wake(session, opened),
            Admission::Interrupt | Admission::Steer if here => self.hub().recheck(session),
            _ => self.wake(session, None),
        }
        // The message is taken whatever comes of this; the next sweep tries again.
        if !here
            && accepted.state == Activity::Running
            && let Err(error) = self.revive(session).await
        {
            tracing::warn!(%session, %error, "whether its process lives could not be told");
        }
    }

    /// One transaction that may make its session.
    pub(crate) async fn write(
        &self,
        target: Target,
        needs: Needs,
        once: Option<Once>,
        rule: impl Fn(Option<&SessionView>, &Moment) -> Decided + Send + 'static,
    ) -> Result<Decision, Error> {
        let moment = self.moment();
        let now = moment.now;
        let rule = move |view: Option<&SessionView>| rule(view, &moment);
        self.commit(Write { target, needs, objects: Vec::new(), now, once, rule: Box::new(rule) }).await
    }

    /// One session with all that is shown of it.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn info(&self, session: &str) -> Result<Info, Error> {
        let view = self.store().view(&target(session), Needs::RUN).await?;
        Ok(view.ok_or(Refusal::NoSession)?.into())
    }

    /// Changes what a session prefers.
    ///
    /// # Errors
    /// If there is no such session, or something it is to prefer is unknown.
    pub async fn update(&self, session: &str, patch: Patch) -> Result<Info, Error> {
        let roster = self.hub().opener.roster.clone();
        let rule = move |view: &SessionView, moment: &Moment| decide::update_session(view, &patch, &roster, moment);
        let decision = self.decide(target(session), Needs::RUN, Vec::new(), rule).await?;
        self.wake(session_of(&decision)?, None);
        self.info(session).await
    }

    /// Ends what runs or releases what is awaited; returns when that is done.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn cancel(&self, session: &str) -> Result<Info, Error> {
        self.end_run(session, decide::cancel).await
    }

    /// Puts a session away; what runs is cancelled first.
    ///
    /// # Errors
    /// If there is no such session, or its history is damaged.
    pub async fn archive(&self, session: &str) -> Result<Info, Error> {
        self.end_run(session, decide::archive).await
    }

    /// Runs a rule that asks the open run to end, and sees to it that it does.
    async fn end_run(&self, session: &str, rule: fn(&SessionView, &Moment) -> Decided) -> Result<Info, Error> {
        let before = self.info(session).await?.run.map(|run| run.id);
        let decision = self.decide(target(session), Needs::CLOSE, Vec::new(), rule).await?;
        let id = session_of(&decision)?;
        self.hub().recheck(id);
        let until = Instant::now() + self.hub().patience.cancel;
        let mut info = self.info(session).await?;
        while let Some(run) = info.run.as_ref().filter(|run| run.cancel.is_some() && Some(run.id) == before) {
            if Instant::now() >= until {
                // Whoever runs it does not hear: the fence is raised, and what is stored of it is kept.
                self.cut_off(id, run.id, Cut::Cancelled).await?;
            } else {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            info = self.info(session).await?;
        }
        self.wake(id, None);
        Ok(info)
    }

    /// Takes a session out again.
    ///
    /// # Errors
    /// If there is no such session, or its history is damaged.
    pub async fn unarchive(&self, session: &str) -> Result<Info, Error> {
        let decision = self.decide(target(session), Needs::NOTHING, Vec::new(), decide::unarchive).await?;
        self.wake(session_of(&decision)?, None);
        self.info(session).await
    }

    /// Deletes a session for good, from any state.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn delete(&self, session: &str) -> Result<(), Error> {
        let info = self.info(session).await?;
        let rule = |view: &SessionView, _: &Moment| decide::delete_session(view);
        self.decide(Target::Id(info.session.id), Needs::NOTHING, Vec::new(), rule).await?;
        self.hub().recheck(info.session.id);
        while self.store().purge(self.now()).await? {}
        Ok(())
    }

    /// Answers what a session waits for.
    ///
    /// # Errors
    /// If it waits for no such thing, or the answer does not fit.
    pub async fn resume(&self, session: &str, suspension: SuspensionId, answer: Answer) -> Result<Option<Run>, Error> {
        self.join().await?;
        let opener = self.hub().opener.clone();
        let needs = Needs { suspension: Some(suspension), ..Needs::MESSAGE };
        let rule = move |view: &SessionView, moment: &Moment| decide::resume(view, suspension, &answer, &opener, moment);
        self.carry_out(target(session), needs, rule).await
    }

    /// Answers the question with two choices.
    ///
    /// # Errors
    /// If none is open.
    pub async fn answer(&self, session: &str, choice: Choice) -> Result<Option<Run>, Error> {
        self.join().await?;
        let (opener, settings) = (self.hub().opener.clone(), self.settings().clone());
        let rule = move |view: &SessionView, moment: &Moment| decide::settle_choice(view, choice, &opener, &settings, moment);
        self.carry_out(target(session), Needs::MESSAGE, rule).await
    }

    /// Commits what may open a run, and starts it.
    async fn carry_out(
        &self,
        target: Target,
        needs: Needs,
        rule: impl Fn(&SessionView, &Moment) -> Decided + Send + 'static,
    ) -> Result<Option<Run>, Error> {
        let engine = self.clone();
        whole(async move {
            let decision = engine.decide(target, needs, Vec::new(), rule).await?;
            let session = session_of(&decision)?;
            let run = decision.reply.opened.as_ref().map(|opened| opened.run.clone());
            engine.wake(session, decision.reply.opened);
            Ok(run)
        })
        .await
    }

    /// Moves the head back.
    ///
    /// # Errors
    /// If the session is busy, or the turn did not lead to its head.
    pub async fn rewind(&self, session: &str, turn: TurnId) -> Result<Info, Error> {
        self.decide(target(session), Needs::RUN, Vec::new(), move |view, moment| decide::rewind(view, turn, moment)).await?;
        self.info(session).await
    }

    /// Runs the last message again, perhaps elsewhere.
    ///
    /// # Errors
    /// If the session is busy, or nothing was said yet.
    pub async fn retry(&self, session: &str, overrides: Overrides) -> Result<Submitted, Error> {
        self.join().await?;
        let info = self.info(session).await?;
        self.hub().known(overrides.provider_id.as_deref(), None)?;
        let head = info.session.head.ok_or(Refusal::NothingToRetry)?;
        let turn = self.store().turns(head, 1).await?.pop().ok_or(Refusal::NothingToRetry)?;
        let (parent, now) = (turn.header.parent, self.now());
        let again = |(place, message): (usize, ctx_core::message::Message)| Item {
            message_id: MessageId(Ulid::new()),
            position: place as i64,
            mode: Mode::Queue,
            source: message.source.unwrap_or_default(),
            content: message.content,
            intent: None,
            overrides: overrides.clone(),
            state: ItemState::Taken,
            enqueued_at: now,
        };
        let asked = words_of(turn)?.into_iter().take_while(|message| message.role == Role::User);
        let items: Vec<Item> = asked.enumerate().map(again).collect();
        let first = items.first().map(|item| item.message_id).ok_or(Refusal::NothingToRetry)?;
        let opener = self.hub().opener.clone();
        let rule = move |view: &SessionView, moment: &Moment| decide::retry(view, head, parent, &items, &opener, moment);
        let run = self.carry_out(Target::Id(info.session.id), Needs::MESSAGE, rule).await?;
        Ok(Submitted {
            session: info.session.id,
            message_id: first,
            run_id: run.map(|run| run.id),
            position: None,
            state: Activity::Running,
            intent: None,
            prompt: None,
            replayed: None,
        })
    }

    /// Opens the last sealed task again.
    ///
    /// # Errors
    /// If a task is open, or none was sealed.
    pub async fn reopen_task(&self, session: &str) -> Result<Option<Task>, Error> {
        let info = self.info(session).await?;
        let sealed = self.store().tasks(info.session.id, 1).await?.pop().filter(|task| task.ended_at.is_some());
        let rule = move |view: &SessionView, moment: &Moment| decide::reopen(view, sealed.as_ref(), moment);
        Ok(self.decide(Target::Id(info.session.id), Needs::WORK, Vec::new(), rule).await?.reply.task)
    }

    /// Says something else in a message that waits.
    ///
    /// # Errors
    /// If it does not wait.
    pub async fn edit_item(&self, session: &str, item: MessageId, text: &str) -> Result<(), Error> {
        let text = text.to_owned();
        let rule = move |view: &SessionView, moment: &Moment| decide::edit_item(view, item, &text, moment);
        self.decide(target(session), Needs::RUN, Vec::new(), rule).await.map(drop)
    }

    /// Moves a message that waits to another place, from 1.
    ///
    /// # Errors
    /// If it does not wait.
    pub async fn move_item(&self, session: &str, item: MessageId, place: usize) -> Result<(), Error> {
        let rule = move |view: &SessionView, moment: &Moment| decide::move_item(view, item, place, moment);
        self.decide(target(session), Needs::RUN, Vec::new(), rule).await.map(drop)
    }

    /// Takes a message back that waits.
    ///
    /// # Errors
    /// If it does not wait.
    pub async fn withdraw_item(&self, session: &str, item: MessageId) -> Result<(), Error> {
        let rule = move |view: &SessionView, moment: &Moment| decide::withdraw_item(view, item, moment);
        self.decide(target(session), Needs::RUN, Vec::new(), rule).await.map(drop)
    }

    /// Waits until a session is neither running nor about to run, or until the time is up.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn settled(&self, session: &str, patience: Duration) -> Result<Info, Error> {
        let until = Instant::now() + patience;
        let mut follow = self.follow(session, None).await?;
        loop {
            let info = self.info(session).await?;
            let delivers = info.session.delivery == session::Delivery::Open && info.prompt.is_none();
            let waits = info.inbox.iter().any(|item| matches!(item.state, ItemState::Waiting | ItemState::Steering));
            let busy = info.session.state == Activity::Running || (info.session.state == Activity::Idle && waits && delivers);
            if !busy || Instant::now() >= until {
                return Ok(info);
            }
            if let Ok(followed) = tokio::time::timeout_at(until, follow.next()).await {
                followed?;
            }
        }
    }
}

/// Runs to its end even where the caller goes away: a run that was committed and not started would never end.
async fn whole<T: Send + 'static>(work: impl Future<Output = Result<T, Error>> + Send + 'static) -> Result<T, Error> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(ctx_store::Error::Internal(error.to_string()).into()),
    }
}

fn session_of(decision: &Decision) -> Result<SessionId, Error> {
    let replayed = || decision.reply.replayed.as_ref()?.get("session")?.as_str()?.parse().ok();
    let known = decision.reply.session.or_else(replayed);
    Ok(known.ok_or_else(|| ctx_store::Error::Internal("a session was changed and has no id".to_owned()))?)
}

/// The answer that was given before.
fn replayed(answer: Value) -> Result<Submitted, Error> {
    let field = |name: &str| answer.get(name).cloned().unwrap_or_default();
    let bad = |e: serde_json::Error| ctx_store::Error::Damaged(format!("a remembered answer: {e}"));
    Ok(Submitted {
        session: serde_json::from_value(field("session")).map_err(bad)?,
        message_id: serde_json::from_value(field("message_id")).map_err(bad)?,
        run_id: serde_json::from_value(field("run_id")).map_err(bad)?,
        position: serde_json::from_value(field("position")).map_err(bad)?,
        state: serde_json::from_value(field("state")).map_err(bad)?,
        intent: serde_json::from_value(field("intent")).map_err(bad)?,
        prompt: serde_json::from_value(field("prompt")).map_err(bad)?,
        replayed: Some(answer.clone()),
    })
}
