//! Models behind the Messages API, at Anthropic or at any compatible server.

pub(crate) mod messages_request;
pub(crate) mod messages_stream;

#[cfg(test)]
mod anthropic_tests;

use async_trait::async_trait;
use ctx_engine::provider::{About, End, Failure, Link, Provider, Request};

use crate::model_request::body_text;
use crate::model_server::{Auth, ModelServer, ServerConfig};
use crate::tool_calls::CallIds;
use messages_stream::BlockParser;

/// Default limit of a response in tokens; all current models support it.
pub const MAX_TOKENS: u64 = 8192;
/// Maximum number of `pause_turn` stops in one response.
const PAUSES_MAX: usize = 8;

/// A model server with the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    server: ModelServer,
    max_tokens: u64,
}

impl Anthropic {
    /// Sends no request. `max_tokens` limits a response, reasoning not included.
    pub fn new(mut config: ServerConfig, max_tokens: u64) -> Self {
        // Accepts an address with `/v1` too.
        let base = config.base_url.trim_end_matches('/');
        config.base_url = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        Self { server: ModelServer::new(config, Auth::ApiKey), max_tokens }
    }

    async fn respond(&self, request: &Request, link: &Link) -> Result<End, Failure> {
        let model = self.server.model_for(request, "v1/models").await?;
        let mut body = messages_request::body(request, &model, self.max_tokens);
        let mut call_ids = CallIds::used_in(&request.messages);
        for _ in 0..PAUSES_MAX {
            let mut blocks = BlockParser::new(call_ids);
            let end = self
                .server
                .stream_response(
                    "v1/messages",
                    body_text(&body),
                    &mut blocks,
                    link,
                    self.server.first_byte_deadline(),
                )
                .await?;
            let Some((content, ids)) = blocks.paused().filter(|_| matches!(end, End::Done(_)))
            else {
                return Ok(end);
            };
            // The API continues a paused response if its content so far is sent back.
            messages_request::continue_from(&mut body, content);
            call_ids = ids;
        }
        Err(crate::failure::too_large(&format!("the model paused more than {PAUSES_MAX} times")))
    }
}

#[async_trait]
impl Provider for Anthropic {
    fn about(&self) -> About {
        self.server.about("anthropic")
    }

    async fn models(&self) -> Vec<String> {
        self.server.all_models("anthropic", "v1/models").await
    }

    async fn run(&self, request: Request, link: Link) -> End {
        self.server.run_until_cancelled(&link, self.respond(&request, &link)).await
    }
}
