//! Sending messages: what is sent, the accepting transaction, and its result.

use ctx_core::decide::{
    self, Accepted, ClassifyMode, Decided, Needs, RunPolicy, SessionView, Submit, SubmitTarget,
};
use ctx_core::id::{BlobId, MessageId, ObjectId, SessionId};
use ctx_core::image::Format;
use ctx_core::inbox::{Admission, Mode, Overrides};
use ctx_core::intent::Intent;
use ctx_core::message::{Part, Source};
use ctx_core::object::{Named, Object};
use ctx_core::prompt::Prompt;
use ctx_core::session::{self, Activity, Origin, Session};
use ctx_store::{Executed, Once, OnceKey, Target, Write};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::{Engine, Error};
use crate::messages::Messages;
use crate::run_slots::RunSlot;
use crate::sessions::{Info, Sessions};

/// A session to be created.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the fields of `Session` under the same names")]
pub struct NewSession {
    /// Generated from the session's id if none.
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

/// A message to be sent.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct NewMessage {
    pub content: Vec<Part>,
    /// What to do if the session is busy; the default depends on the source.
    pub mode: Option<Mode>,
    pub source: Source,
    /// Provider, model and tools for its run.
    pub overrides: Overrides,
    /// The bytes of its images.
    pub blobs: Vec<Named>,
}

impl NewMessage {
    /// A text message of a person.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Part::Text { text: text.into() }], ..Self::default() }
    }

    /// Adds an image.
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

/// The idempotency key of a request.
#[derive(Debug, Clone)]
pub struct Key {
    /// The key that the client sent.
    pub key: String,
    /// Hash of the request: the same key with another request is refused.
    pub request: ObjectId,
}

/// The scope of the keys of requests that create a session.
const CREATE_SCOPE: &str = "sessions";

impl Key {
    pub(crate) fn scoped(self, scope: impl Into<String>) -> OnceKey {
        OnceKey { scope: scope.into(), key: self.key, request: self.request, max_age: None }
    }
}

/// The result of an accepted message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Submitted {
    pub session: SessionId,
    /// The message's permanent id.
    pub message_id: MessageId,
    /// The run that was opened with it; none where it is opened later.
    pub run_id: Option<ctx_core::id::RunId>,
    /// Its place in the inbox, from 1; none where it is not waiting.
    pub position: Option<usize>,
    /// The session's state after this message.
    pub state: Activity,
    /// Its classification; none where it is not classified, or not yet.
    pub intent: Option<Intent>,
    /// The question that is open now.
    pub prompt: Option<Prompt>,
    /// Whether this is the stored answer to a key that was used before.
    #[serde(skip)]
    pub replayed: bool,
}

impl Submitted {
    pub(crate) fn of(session: SessionId, accepted: &Accepted) -> Self {
        Self {
            session,
            message_id: accepted.message_id,
            run_id: accepted.opened_run.as_ref().map(|opened_run| opened_run.run.id),
            position: accepted.position,
            state: accepted.state,
            intent: accepted.intent,
            prompt: accepted.prompt.clone(),
            replayed: false,
        }
    }
}

/// The answer for a message, as it is stored under its key.
pub(crate) fn remembered(session: SessionId, accepted: &Accepted) -> Value {
    json!(Submitted::of(session, accepted))
}

/// The answer for a session that was created without a message.
#[derive(Serialize, Deserialize)]
struct Created {
    session: SessionId,
}

/// Reads an answer that was stored under a key.
pub(crate) fn replayed<T: DeserializeOwned>(answer: Value) -> Result<T, Error> {
    serde_json::from_value(answer)
        .map_err(|e| ctx_store::Error::Damaged(format!("a stored answer: {e}")).into())
}

impl Sessions<'_> {
    /// Creates a session, if wanted with its first message.
    ///
    /// Fails if the label is in use, or a provider or persona is unknown.
    pub async fn create(
        self,
        new: NewSession,
        first: Option<NewMessage>,
        key: Option<Key>,
    ) -> Result<(SessionId, Option<Submitted>), Error> {
        let Some(first) = first else {
            return Ok((self.create_empty(new, key).await?.session.id, None));
        };
        let row = self.engine.new_session(new)?;
        let once = key.map(|key| Once { key: key.scoped(CREATE_SCOPE), answer: remembered });
        let sent = self
            .engine
            .submit_to(
                Target::Label(row.label.clone()),
                SubmitTarget::New(Box::new(row)),
                first,
                once,
                RunPolicy::StartRun,
            )
            .await?;
        Ok((sent.session, Some(sent)))
    }

    /// Creates a session without a message.
    ///
    /// Fails if the label is in use, or a provider or persona is unknown.
    pub async fn create_empty(self, new: NewSession, key: Option<Key>) -> Result<Info, Error> {
        let row = self.engine.new_session(new)?;
        let (label, created) = (row.label.clone(), row.session());
        let rule = move |found: Option<&SessionView>| decide::create_session(found, &row);
        let write = Write {
            target: Target::Label(label),
            needs: Needs::NOTHING,
            objects: Vec::new(),
            now: created.created_at,
        };
        let answer = |session, (): &()| json!(Created { session });
        let once = key.map(|key| Once { key: key.scoped(CREATE_SCOPE), answer });
        match self.engine.execute_once(write, once, rule).await? {
            Executed::Written(written) => {
                let session = Session { seq: written.seq, ..created };
                Ok(SessionView::bare(session).into())
            }
            Executed::Replayed(answer) => {
                self.get(&replayed::<Created>(answer)?.session.to_string()).await
            }
        }
    }
}

impl Messages<'_> {
    /// Sends a message to a session.
    ///
    /// Fails if the session does not exist or does not accept the message.
    pub async fn submit(
        self,
        session: &str,
        message: NewMessage,
        key: Option<Key>,
    ) -> Result<Submitted, Error> {
        self.engine.check_command(session, &message).await?;
        let once = match key {
            // The scope is the session's id, so that a key is the same under every name of the
            // session.
            Some(key) => {
                let scope =
                    format!("messages {}", self.engine.sessions().get(session).await?.session.id);
                Some(Once { key: key.scoped(scope), answer: remembered })
            }
            None => None,
        };
        self.engine
            .submit_to(
                self.engine.target(session).await?,
                SubmitTarget::Existing,
                message,
                once,
                RunPolicy::StartRun,
            )
            .await
    }

    /// Stores a message in a session's inbox without running it; the process that runs the session
    /// delivers it.
    ///
    /// Fails if the session does not exist or does not accept the message.
    pub async fn post(self, session: &str, message: NewMessage) -> Result<Submitted, Error> {
        self.engine
            .submit_to(
                self.engine.target(session).await?,
                SubmitTarget::Existing,
                message,
                None,
                RunPolicy::QueueOnly,
            )
            .await
    }

    /// Sends a message to the session with a label or alias, which is created if it does not exist
    /// (R130, R133).
    ///
    /// Fails if the label is not valid, or the session does not accept the message.
    pub async fn submit_to_label(
        self,
        new: NewSession,
        message: NewMessage,
        key: Option<Key>,
    ) -> Result<Submitted, Error> {
        let row = self.engine.new_session(new)?;
        let once = key.map(|key| Once {
            key: key.scoped(format!("messages {}", row.label)),
            answer: remembered,
        });
        self.engine
            .submit_to(
                Target::Label(row.label.clone()),
                SubmitTarget::GetOrCreate(Box::new(row)),
                message,
                once,
                RunPolicy::StartRun,
            )
            .await
    }
}

impl Engine {
    pub(crate) fn new_session(&self, new: NewSession) -> Result<session::New, Error> {
        let origin = new.origin.unwrap_or(Origin::Api);
        self.shared().known(new.provider_id.as_deref(), new.persona.as_deref())?;
        let id = SessionId(self.new_id());
        let label = new.label.unwrap_or_else(|| decide::default_label(origin, id));
        let project = new.project.unwrap_or_else(|| self.project_in(new.working_dir.as_deref()));
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

    /// A message as the rules accept it, and the bytes of its images.
    pub(crate) fn submission(
        &self,
        message: NewMessage,
        run_policy: RunPolicy,
    ) -> (Submit, Vec<Named>) {
        let classify_mode = if self.classifier().is_rules() {
            ClassifyMode::Immediate
        } else {
            ClassifyMode::Deferred
        };
        let submit = Submit {
            message_id: MessageId(self.new_id()),
            content: message.content,
            mode: message.mode,
            source: message.source,
            overrides: message.overrides,
            classify_mode,
            run_policy,
        };
        (submit, message.blobs)
    }

    pub(crate) async fn submit_to(
        &self,
        target: Target,
        to: SubmitTarget,
        message: NewMessage,
        once: Option<Once<Accepted>>,
        run_policy: RunPolicy,
    ) -> Result<Submitted, Error> {
        self.ensure_lease().await?;
        let slot = (run_policy == RunPolicy::StartRun).then(|| self.shared().slots.take());
        let policy = if matches!(slot, Some(None)) { RunPolicy::NoRoom } else { run_policy };
        let slot = slot.flatten();
        let (submit, blobs) = self.submission(message, policy);
        let (run_host, settings, invocation) =
            (self.shared().run_host(), self.settings().clone(), self.invocation());
        let write = Write { target, needs: Needs::MESSAGE, objects: blobs, now: invocation.now };
        let rule = move |view: Option<&SessionView>| {
            decide::submit(view, &to, &submit, &run_host, &settings, &invocation)
        };
        let engine = self.clone();
        to_completion(async move { engine.accept(write, once, policy, slot, rule).await }).await
    }

    /// Stores a message in one transaction and hands it over.
    pub(crate) async fn accept(
        &self,
        write: Write,
        once: Option<Once<Accepted>>,
        run_policy: RunPolicy,
        slot: Option<RunSlot>,
        rule: impl Fn(Option<&SessionView>) -> Decided<Accepted> + Send + 'static,
    ) -> Result<Submitted, Error> {
        let written = match self.execute_once(write, once, rule).await? {
            Executed::Written(written) => written,
            Executed::Replayed(answer) => {
                return Ok(Submitted { replayed: true, ..replayed(answer)? });
            }
        };
        let (session, accepted) = (written.session, written.reply);
        let submitted = Submitted::of(session, &accepted);
        if run_policy != RunPolicy::QueueOnly {
            self.hand_over(session, accepted, slot).await;
        }
        Ok(submitted)
    }

    /// Hands an accepted message over: its run to the session's actor, or a notification to the
    /// actor that runs the session.
    pub(crate) async fn hand_over(
        &self,
        session: SessionId,
        accepted: Accepted,
        slot: Option<RunSlot>,
    ) {
        let Accepted { admission, state, delivery_block, opened_run, .. } = accepted;
        if let Some(opened_run) = opened_run {
            let slot = slot.unwrap_or_else(|| self.shared().slots.take_always());
            return self.start_placed(session, (opened_run, slot));
        }
        let has_room = slot.is_some();
        drop(slot);
        if state == Activity::Idle && delivery_block.is_some() {
            // The message waits until the session changes, which wakes the actor.
            return;
        }
        if state == Activity::Idle && !has_room {
            self.offer(session);
        }
        let here = self.shared().is_awake(session);
        match admission {
            Admission::Interrupt | Admission::Steer if here => self.shared().recheck(session),
            Admission::Release => {
                self.release(session);
                self.wake(session);
            }
            _ => self.wake(session),
        }
        // The message is accepted in any case; the next sweep tries again.
        if !here
            && state == Activity::Running
            && let Err(error) = Box::pin(self.runs().end_orphaned(session)).await
        {
            tracing::warn!(%session, %error, "the session's process could not be checked");
        }
    }
}

/// Runs to completion even if the caller is cancelled: a run that was opened and not started would
/// stay open.
pub(crate) async fn to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(ctx_store::Error::Internal(error.to_string()).into()),
    }
}
