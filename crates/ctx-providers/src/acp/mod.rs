//! Any agent that speaks the Agent Client Protocol, as a process.
//!
//! | file | owns |
//! |---|---|
//! | `live` | the process, how it introduces itself, which of its conversations goes on |
//! | `turn` | one prompt: updates, requests, cancelling, steering |
//! | `calls` | its tool calls, folded, and what the task observes of them |
//! | `asks` | permissions and questions, and decisions that outlive the process |
//! | `files`, `terminal` | what it may ask ctx to do for it, inside the working directory |
//! | `known`, `settings` | what it told of itself; how one conversation is set |
//!
//! A process starts with the first prompt of a session and rests when the session is silent. It is kept through a
//! suspension for a while, so that an answer that comes soon goes to the very request that asked.

mod permission_requests;
mod tool_call_updates;
mod file_access;
mod agent_info;
mod acp_connection;
mod agent_settings;
mod agent_terminals;
mod prompt_turn;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_core::id::SessionId;
use ctx_core::message::{Part, Role};
use ctx_engine::provider::{About, Delta, End, Failure, Link, Provider, Request};
use serde_json::{Value, json};

use crate::agent_prompt::{Footing, evidence, newest_seen, newest_told, texts};
use crate::process_pool::Kept;
use crate::agent_process::Program;
use permission_requests::decisions;
use agent_info::Known;
use acp_connection::Live;
use prompt_turn::Turn;

/// How long agents may usually take to start, and again to open a conversation.
pub const START: Duration = Duration::from_secs(90);

/// How an agent is used.
#[derive(Debug, Clone)]
pub struct Config {
    /// How it is started.
    pub program: Program,
    /// The model to ask for; the agent's own choice if none.
    pub model: Option<String>,
    /// How many tokens a handover of history may be made for.
    pub context_window: u64,
    /// A `ctx` whose `bridge` brings ctx's own tools to the agent; none are offered without one.
    pub bridge: Option<PathBuf>,
    /// How long a process that asked something is kept for the answer.
    pub hold: Duration,
    /// How long it may take to start, and again to open a conversation.
    pub start: Duration,
}

/// An agent over ACP.
pub struct Acp {
    config: Config,
    known: Known,
    /// The processes that are kept between two runs, by session.
    kept: Kept<Live>,
}

impl Acp {
    /// An agent that is not started yet.
    pub fn new(config: Config) -> Self {
        Self { config, known: Known::default(), kept: Kept::default() }
    }

    /// One run: with the process that is kept, if it can go on from there, else with a new one.
    async fn converse(&self, request: &Request, link: &mut Link) -> Result<(End, Live), End> {
        let kept = self.kept.take(request.session);
        let mut live = match kept {
            Some(mut live) if live.prompt.is_some() => {
                let answers = request.resumes.iter().any(|(suspension, _)| {
                    live.asks.iter().any(|ask| ask.is_of(suspension, &live.serial))
                });
                if answers && !live.is_gone() {
                    return Ok(self.go_on(live, request, link).await);
                }
                self.kept.end(request.session, live.abandon());
                None
            }
            other => other,
        };
        let own = request.own.as_ref();
        let fits = |live: &mut Live| {
            let leads_here = own.is_some_and(|own| own.clean && own.id == live.conversation);
            leads_here && live.told == newest_seen(request) && !live.is_gone()
        };
        if let Some(unfit) = live.take_if(|live| !fits(live)) {
            self.kept.end(request.session, unfit.end());
        }
        let (mut live, footing) = match live {
            Some(live) => (live, own.map_or(Footing::Fresh, |own| Footing::Knows(own.unseen))),
            None => tokio::select! {
                // It was not told anything yet, so nobody waits for it.
                () = link.cancel.cancelled() => return Err(End::Cancelled),
                started = self.start(request) => started.map_err(End::Failed)?,
            },
        };
        live.catch_up().await;
        live.told = newest_told(request);
        live.decided = decisions(&request.resumes);
        self.attend(&live, link).await;
        for (id, value) in &request.options {
            live.set(id, value).await;
        }
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            live.set("model", model).await;
        }
        let decided: Vec<String> = live.decided.iter().map(ToString::to_string).collect();
        let said = texts(request, footing, &decided)
            .into_iter()
            .map(|text| json!({"type": "text", "text": text}));
        let blocks = said.chain(pictures(request, live.known.can().images)).collect();
        let end = Turn::new(&mut live, link).prompt(blocks).await;
        Ok((end, live))
    }

    async fn go_on(&self, mut live: Live, request: &Request, link: &mut Link) -> (End, Live) {
        live.told = newest_told(request);
        self.attend(&live, link).await;
        let end = Turn::new(&mut live, link).go_on(&request.resumes).await;
        (end, live)
    }

    /// The run is joined with the process: where it goes to, whether it can be steered, who carries out its calls.
    async fn attend(&self, live: &Live, link: &Link) {
        link.say(Delta::Own(live.conversation.clone())).await;
        if live.can.steer {
            link.say(Delta::CanSteer(true)).await;
        }
        if let Some(desk) = &live.desk {
            desk.attend(Some(link.tools.clone()));
        }
    }

    /// Starts a process, once more where it fell over: it was told nothing yet, and two that start at once may be in each
    /// other's way.
    async fn start(&self, request: &Request) -> Result<(Live, Footing), Failure> {
        match self.open(request).await {
            Err(failure) if failure.code == "agent_exited" => self.open(request).await,
            other => other,
        }
    }

    /// Starts a process and opens the conversation in it that fits the history.
    async fn open(&self, request: &Request) -> Result<(Live, Footing), Failure> {
        let bridge = self.config.bridge.as_deref();
        self.kept.gone(request.session).await;
        let mut live =
            Live::start(&self.config.program, request, self.known.clone(), self.config.start)
                .await?;
        if bridge.is_some() && !request.tools.is_empty() {
            live.open_desk(&request.tools);
        }
        if let Some(own) = &request.own {
            let kept = match evidence(request) {
                _ if own.clean => live.go_on(&own.id, bridge).await?,
                Some(words) => live.go_on_if_it_has(&own.id, &words, bridge).await?,
                None => false,
            };
            if kept {
                let footing = match &own.cut {
                    _ if own.clean => Footing::Knows(own.unseen),
                    Some(cut) => Footing::Knows(cut.end),
                    None => Footing::CutOffNow,
                };
                return Ok((live, footing));
            }
        }
        live.begin(bridge).await?;
        Ok((live, Footing::Fresh))
    }

    /// Keeps a process until its session speaks again, or ends it.
    fn keep(&self, session: SessionId, mut live: Live, end: &End) {
        if let Some(desk) = &live.desk {
            desk.attend(None);
        }
        match end {
            End::Done(_) => {
                self.kept.put(session, live);
            }
            End::Suspended(_) => {
                live.waits += 1;
                // Each wait has its own time, also where the same process waits again.
                let (wait, kept, hold) =
                    ((live.serial.clone(), live.waits), self.kept.clone(), self.config.hold);
                self.kept.put(session, live);
                tokio::spawn(async move {
                    tokio::time::sleep(hold).await;
                    let still = |live: &Live| {
                        live.prompt.is_some() && wait == (live.serial.clone(), live.waits)
                    };
                    kept.end_if(session, still, Live::abandon);
                });
            }
            // What it has kept of the turn, only a new start can show.
            End::Failed(_) | End::Cancelled => {
                self.kept.end(session, live.end());
            }
        }
    }
}

/// The pictures of the new message.
fn pictures(request: &Request, shown: bool) -> impl Iterator<Item = Value> {
    let parts = request.messages[request.open..]
        .iter()
        .filter(|message| message.role == Role::User)
        .flat_map(|message| &message.content);
    parts.filter_map(move |part| match part {
        Part::Image { media_type, .. } if !shown => {
            Some(json!({"type": "text", "text": format!("[an image, {media_type}, that you cannot see]")}))
        }
        Part::Image { media_type, blob, .. } => {
            let data = STANDARD.encode(request.images.get(blob)?.as_slice());
            Some(json!({"type": "image", "mimeType": media_type, "data": data}))
        }
        _ => None,
    })
}

#[async_trait]
impl Provider for Acp {
    fn about(&self) -> About {
        let (models, chosen) = self.known.models();
        About {
            kind: "acp",
            can: self.known.can(),
            models,
            model: self.config.model.clone().or(chosen),
            context_window: self.config.context_window,
            unavailable: self.config.program.missing(),
            key_variable: None,
            agent: Some(self.known.agent()),
        }
    }

    async fn rest(&self, session: SessionId) {
        // One that waits for a person is held for longer.
        self.kept.end_if(session, |live| live.prompt.is_none(), Live::end).cancelled().await;
    }

    async fn release(&self, session: SessionId) {
        self.kept.end_if(session, |live| live.prompt.is_some(), Live::abandon).cancelled().await;
    }

    async fn forget(&self, session: SessionId) {
        self.config.program.forget(&session.to_string());
    }

    async fn run(&self, request: Request, mut link: Link) -> End {
        let session = request.session;
        match self.converse(&request, &mut link).await {
            Ok((end, live)) => {
                self.keep(session, live, &end);
                end
            }
            Err(end) => end,
        }
    }
}
