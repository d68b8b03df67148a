//! A message on its way in: what is sent, what becomes of it, and the one transaction between.

use ctx_core::decide::{
    self, Accepted, Decided, Decision, Hands, Judge, Moment, Needs, Opened, SessionView, Submit, To,
};
use ctx_core::id::{BlobId, MessageId, ObjectId, SessionId};
use ctx_core::image::Format;
use ctx_core::inbox::{Admission, Mode, Overrides};
use ctx_core::intent::Intent;
use ctx_core::message::{Part, Source};
use ctx_core::object::{Named, Object};
use ctx_core::prompt::Prompt;
use ctx_core::session::{self, Activity, Origin};
use ctx_store::{Once, Target, Write};
use serde_json::{Value, json};
use ulid::Ulid;

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
    /// The bytes of its pictures, stored with it.
    pub blobs: Vec<Named>,
}

impl Outgoing {
    /// A person's words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Part::Text { text: text.into() }], ..Self::default() }
    }

    /// Adds a picture.
    pub fn show(&mut self, format: Format, bytes: Vec<u8>) {
        let size = bytes.len() as u64;
        let object = Named::from(Object::blob(bytes));
        self.content.push(Part::Image {
            media_type: format.media_type().to_owned(),
            blob: BlobId(object.id()),
            bytes: Some(size),
        });
        self.blobs.push(object);
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

/// What is answered for a message, as it is remembered for its key.
pub(crate) fn remembered(decision: &Decision) -> Value {
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
        let once = key.map(|key| Once {
            scope: "sessions".to_owned(),
            key: key.key,
            request: key.request,
            answer: remembered,
        });
        let Some(first) = first else {
            let rule = move |found: Option<&SessionView>, _: &Moment| {
                decide::create_session(found, &wanted)
            };
            let decision =
                self.write(Target::Label(label), Needs::NOTHING, Vec::new(), once, rule).await?;
            return Ok((session_of(&decision)?, None));
        };
        let sent = self
            .send(Target::Label(label), To::New(Box::new(row)), first, once, Hands::Ours)
            .await?;
        Ok((sent.session, Some(sent)))
    }

    /// Sends a message to a session.
    ///
    /// # Errors
    /// If there is no such session, or it does not take the message.
    pub async fn submit(
        &self,
        session: &str,
        message: Outgoing,
        key: Option<Key>,
    ) -> Result<Submitted, Error> {
        self.check_command(session, &message).await?;
        let once = match key {
            // By whichever of its names the session is called, a key is the same key.
            Some(key) => {
                let scope = format!("messages {}", self.info(session).await?.session.id);
                Some(Once { scope, key: key.key, request: key.request, answer: remembered })
            }
            None => None,
        };
        self.send(target(session), To::Existing, message, once, Hands::Ours).await
    }

    /// Puts a message into a session's inbox and leaves it there: whoever runs the session, or comes next, takes it.
    ///
    /// # Errors
    /// If there is no such session, or it does not take the message.
    pub async fn post(&self, session: &str, message: Outgoing) -> Result<Submitted, Error> {
        self.send(target(session), To::Existing, message, None, Hands::Others).await
    }

    /// Sends a message to whoever has a label or an alias, and makes the session where nobody has (R130, R133).
    ///
    /// # Errors
    /// If the label is none, or the session does not take the message.
    pub async fn submit_to_label(
        &self,
        new: NewSession,
        message: Outgoing,
        key: Option<Key>,
    ) -> Result<Submitted, Error> {
        let row = self.new_row(new)?;
        let once = key.map(|key| Once {
            scope: format!("messages {}", row.label),
            key: key.key,
            request: key.request,
            answer: remembered,
        });
        self.send(
            Target::Label(row.label.clone()),
            To::Whoever(Box::new(row)),
            message,
            once,
            Hands::Ours,
        )
        .await
    }

    pub(crate) async fn send(
        &self,
        target: Target,
        to: To,
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
            decide::submit(view, &to, &submit, &opener, &settings, moment)
        };
        let (engine, blobs) = (self.clone(), message.blobs);
        whole(async move { engine.take_in(target, blobs, once, hands, rule).await }).await
    }

    /// Commits a message and does what follows from it.
    async fn take_in(
        &self,
        to: Target,
        blobs: Vec<Named>,
        once: Option<Once>,
        hands: Hands,
        rule: impl Fn(Option<&SessionView>, &Moment) -> Decided + Send + 'static,
    ) -> Result<Submitted, Error> {
        let decision = self.write(to, Needs::MESSAGE, blobs, once, rule).await?;
        if let Some(answer) = decision.reply.replayed {
            return replayed(answer);
        }
        let session = session_of(&decision)?;
        let Some(accepted) = decision.reply.accepted.clone() else {
            return Err(ctx_store::Error::Internal(
                "a message was taken without an answer".to_owned(),
            )
            .into());
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
        objects: Vec<Named>,
        once: Option<Once>,
        rule: impl Fn(Option<&SessionView>, &Moment) -> Decided + Send + 'static,
    ) -> Result<Decision, Error> {
        let moment = self.moment();
        let now = moment.now;
        let rule = move |view: Option<&SessionView>| rule(view, &moment);
        self.commit(Write { target, needs, objects, now, once, rule: Box::new(rule) }).await
    }
}

/// Runs to its end even where the caller goes away: a run that was committed and not started would never end.
pub(crate) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(ctx_store::Error::Internal(error.to_string()).into()),
    }
}

/// The session that a decision was about.
pub(crate) fn session_of(decision: &Decision) -> Result<SessionId, Error> {
    let replayed = || decision.reply.replayed.as_ref()?.get("session")?.as_str()?.parse().ok();
    let known = decision.reply.session.or_else(replayed);
    Ok(known.ok_or_else(|| {
        ctx_store::Error::Internal("a session was changed and has no id".to_owned())
    })?)
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
