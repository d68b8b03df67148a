//! Models behind OpenAI's APIs, at OpenAI or at any server that speaks them.
//!
//! | file | owns |
//! |---|---|
//! | `chat` | chat completions, which every compatible server speaks |
//! | `responses` | Responses, where a model's reasoning goes back to it |

pub(crate) mod chat;
pub(crate) mod responses;

#[cfg(test)]
mod openai_tests;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ctx_engine::provider::{About, End, Failure, Link, Provider, Request};

use crate::tool_calls::Taken;
use crate::model_server::{Auth, Config, Remote};
use chat::chat_stream::Completion;
use responses::responses_stream::Items;

/// Where the models of a server are listed.
const MODELS: &str = "models";

/// Which of the two APIs a server is asked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Api {
    /// Chat completions.
    #[default]
    Chat,
    /// Responses.
    Responses,
}

/// A server of models.
#[derive(Debug)]
pub struct OpenAi {
    remote: Remote,
    api: Api,
    /// Models that do not reason, and refuse to be asked for their reasoning.
    plain: Mutex<BTreeSet<String>>,
}

impl OpenAi {
    /// Asks nobody yet: a server that is not there is a failure of the run that wants it.
    pub fn new(config: Config, api: Api) -> Self {
        Self { remote: Remote::new(config, Auth::Bearer), api, plain: Mutex::default() }
    }

    async fn answer(&self, request: &Request, link: &Link) -> Result<End, Failure> {
        let model = self.remote.model_for(request, MODELS).await?;
        let by = self.remote.first_byte_by();
        let taken = Taken::by(&request.messages);
        if self.api == Api::Chat {
            let body = chat::chat_request::body(request, &model);
            return self
                .remote
                .answer("chat/completions", &body, &mut Completion::new(taken), link, by)
                .await;
        }
        let reasons = !self.plain.lock().unwrap_or_else(PoisonError::into_inner).contains(&model);
        let body = responses::responses_request::body(request, &model, reasons);
        let first = self.remote.answer("responses", &body, &mut Items::new(taken), link, by).await;
        match first {
            Err(failure) if reasons && responses::responses_request::is_plain(&failure) => {
                self.plain.lock().unwrap_or_else(PoisonError::into_inner).insert(model.clone());
                let body = responses::responses_request::body(request, &model, false);
                self.remote
                    .answer(
                        "responses",
                        &body,
                        &mut Items::new(Taken::by(&request.messages)),
                        link,
                        by,
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
        self.remote.about("openai")
    }

    async fn run(&self, request: Request, link: Link) -> End {
        self.remote.while_wanted(&link, self.answer(&request, &link)).await
    }
}
