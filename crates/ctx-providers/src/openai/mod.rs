//! Models behind OpenAI's APIs, at OpenAI or at any compatible server.
//!
//! | module | API |
//! |---|---|
//! | `chat` | chat completions, which every compatible server implements |
//! | `responses` | Responses, which accepts the model's earlier reasoning |

pub(crate) mod chat;
pub(crate) mod responses;

#[cfg(test)]
mod openai_tests;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ctx_engine::provider::{About, End, Failure, Link, Provider, Request};

use crate::model_request::body_text;
use crate::model_server::{Auth, ModelServer, ServerConfig};
use crate::tool_calls::CallIds;
use chat::chat_stream::ChatParser;
use responses::responses_stream::ItemParser;

/// Path of the model list.
const MODELS_PATH: &str = "models";

/// The API that a server implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the variants are the names of the APIs")]
pub enum Api {
    #[default]
    Chat,
    Responses,
}

/// A model server with one of OpenAI's APIs.
#[derive(Debug)]
pub struct OpenAi {
    server: ModelServer,
    api: Api,
    /// Models that reject requests for encrypted reasoning.
    without_reasoning: Mutex<BTreeSet<String>>,
}

impl OpenAi {
    /// Sends no request. An unreachable server is a failure of the run that uses it.
    pub fn new(config: ServerConfig, api: Api) -> Self {
        Self {
            server: ModelServer::new(config, Auth::Bearer),
            api,
            without_reasoning: Mutex::default(),
        }
    }

    async fn respond(&self, request: &Request, link: &Link) -> Result<End, Failure> {
        let model = self.server.model_for(request, MODELS_PATH).await?;
        let deadline = self.server.first_byte_deadline();
        let call_ids = CallIds::used_in(&request.messages);
        if self.api == Api::Chat {
            let body = chat::chat_request::body(request, &model);
            return self
                .server
                .stream_response(
                    "chat/completions",
                    body,
                    &mut ChatParser::new(call_ids),
                    link,
                    deadline,
                )
                .await;
        }
        let with_reasoning =
            !self.without_reasoning.lock().unwrap_or_else(PoisonError::into_inner).contains(&model);
        let body = responses::responses_request::body(request, &model, with_reasoning);
        let first = self
            .server
            .stream_response(
                "responses",
                body_text(&body),
                &mut ItemParser::new(call_ids),
                link,
                deadline,
            )
            .await;
        match first {
            Err(failure)
                if with_reasoning && responses::responses_request::rejects_reasoning(&failure) =>
            {
                self.without_reasoning
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(model.clone());
                let body = responses::responses_request::body(request, &model, false);
                self.server
                    .stream_response(
                        "responses",
                        body_text(&body),
                        &mut ItemParser::new(CallIds::used_in(&request.messages)),
                        link,
                        deadline,
                    )
                    .await
            }
            other => other,
        }
    }
}

#[async_trait]
impl Provider for OpenAi {
    fn about(&self) -> About {
        self.server.about("openai")
    }

    async fn models(&self) -> Vec<String> {
        self.server.all_models("openai", MODELS_PATH).await
    }

    async fn run(&self, request: Request, link: Link) -> End {
        self.server.run_until_cancelled(&link, self.respond(&request, &link)).await
    }
}
