//! pi-coding-agent over its RPC mode: commands and events as JSON lines.
//!
//! pi keeps a conversation as a file, which is its name here. It asks for no permission and takes no MCP servers, but
//! it can be steered.

mod pi_events;
mod pi_connection;

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ctx_core::compaction::Command;
use ctx_core::id::SessionId;
use ctx_engine::provider::{About, Agent, Can, Delta, End, Failure, Link, Provider, Request};

use crate::agent_prompt::{Footing, evidence, newest_seen, newest_told, texts};
use crate::process_pool::Kept;
use crate::agent_process::Program;
use pi_connection::Live;

/// How pi is used.
#[derive(Debug, Clone)]
pub struct Config {
    /// How it is started; `--mode rpc` is added where it is missing.
    pub program: Program,
    /// The model to ask for, as `provider/model`; pi's own choice if none.
    pub model: Option<String>,
    /// How many tokens a handover of history may be made for.
    pub context_window: u64,
}

/// pi.
pub struct Pi {
    config: Config,
    /// The models that it told of.
    models: Mutex<Vec<String>>,
    /// The processes that are kept between two runs, by session.
    kept: Kept<Live>,
}

impl Pi {
    /// One that is not started yet.
    pub fn new(mut config: Config) -> Self {
        if !config.program.command.iter().any(|part| part == "--mode") {
            config.program.command.extend(["--mode", "rpc"].map(str::to_owned));
        }
        Self { config, models: Mutex::default(), kept: Kept::default() }
    }

    async fn converse(&self, request: &Request, link: &mut Link) -> Result<(End, Live), Failure> {
        let mut live = self.kept.take(request.session);
        let own = request.own.as_ref();
        let fits = |live: &mut Live| {
            let leads_here = own.is_some_and(|own| own.clean && own.id == live.file);
            leads_here && live.told == newest_seen(request) && !live.is_gone()
        };
        if let Some(unfit) = live.take_if(|live| !fits(live)) {
            self.kept.end(request.session, unfit.end());
        }
        let (mut live, footing) = match live {
            Some(live) => (live, own.map_or(Footing::Fresh, |own| Footing::Knows(own.unseen))),
            None => self.start(request).await?,
        };
        link.say(Delta::Own(live.file.clone())).await;
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            live.choose(model).await?;
        }
        live.told = newest_told(request);
        let texts = texts(request, footing, &[]);
        let end = match texts.as_slice() {
            [text] if let Some(wish) = Command::of(text) => {
                live.compact(wish.focus.as_deref(), link).await
            }
            _ => live.prompt(&texts.join("\n\n"), link).await,
        };
        Ok((end, live))
    }

    /// Starts a process with the conversation that fits the history.
    async fn start(&self, request: &Request) -> Result<(Live, Footing), Failure> {
        self.kept.gone(request.session).await;
        let kept = request.own.as_ref().filter(|own| {
            let words = if own.clean { Some(String::new()) } else { evidence(request) };
            words.is_some_and(|words| pi_connection::has(&own.id, &words))
        });
        let mut live =
            Live::start(&self.config.program, request, kept.map(|own| own.id.as_str())).await?;
        *self.models.lock().unwrap_or_else(PoisonError::into_inner) = live.models().await?;
        let footing = match kept {
            None => Footing::Fresh,
            Some(own) if own.clean => Footing::Knows(own.unseen),
            Some(own) => own.cut.as_ref().map_or(Footing::CutOffNow, |cut| Footing::Knows(cut.end)),
        };
        Ok((live, footing))
    }
}

#[async_trait]
impl Provider for Pi {
    fn about(&self) -> About {
        About {
            kind: "pi",
            can: Can { steer: true, resume: true, load: true, compact: true, ..Can::default() },
            models: self.models.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            model: self.config.model.clone(),
            context_window: self.config.context_window,
            unavailable: self.config.program.missing(),
            key_variable: None,
            agent: Some(Agent::default()),
        }
    }

    async fn rest(&self, session: SessionId) {
        self.kept.end_if(session, |_| true, Live::end).cancelled().await;
    }

    async fn forget(&self, session: SessionId) {
        self.config.program.forget(&session.to_string());
    }

    async fn run(&self, request: Request, mut link: Link) -> End {
        match self.converse(&request, &mut link).await {
            Ok((end @ End::Done(_), live)) => {
                self.kept.put(request.session, live);
                end
            }
            Ok((end, live)) => {
                // What it has kept of the turn, only a new start can show.
                self.kept.end(request.session, live.end());
                end
            }
            Err(failure) => End::Failed(failure),
        }
    }
}
