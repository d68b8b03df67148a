//! Models behind Anthropic's Messages API, at Anthropic or at any server that speaks it.
//!
//! | file | owns |
//! |---|---|
//! | `request` | what the model sees, and what of it the server may keep at hand |
//! | `stream` | the answer while it arrives |

pub(crate) mod messages_request;
pub(crate) mod messages_stream;

#[cfg(test)]
mod anthropic_tests;

use async_trait::async_trait;
use ctx_engine::provider::{About, End, Failure, Link, Provider, Request};

use crate::tool_calls::Taken;
use crate::model_server::{Auth, Config, Remote};
use messages_stream::Blocks;

/// How many tokens an answer may have where nobody says: what every model since the third generation gives.
pub const MAX_TOKENS: u64 = 8192;
/// How often a model may pause in one answer.
const PAUSES_MAX: usize = 8;

/// A server of models.
#[derive(Debug)]
pub struct Anthropic {
    remote: Remote,
    max_tokens: u64,
}

impl Anthropic {
    /// Asks nobody yet. `max_tokens` bounds an answer, reasoning not counted.
    pub fn new(mut config: Config, max_tokens: u64) -> Self {
        // The address is without its `/v1`; whoever wrote it meant the same.
        let base = config.base_url.trim_end_matches('/');
        config.base_url = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        Self { remote: Remote::new(config, Auth::ApiKey), max_tokens }
    }

    async fn answer(&self, request: &Request, link: &Link) -> Result<End, Failure> {
        let model = self.remote.model_for(request, "v1/models").await?;
        let mut body = messages_request::body(request, &model, self.max_tokens);
        let mut taken = Taken::by(&request.messages);
        for _ in 0..PAUSES_MAX {
            let mut blocks = Blocks::new(taken);
            let end = self
                .remote
                .answer("v1/messages", &body, &mut blocks, link, self.remote.first_byte_by())
                .await?;
            let Some((said, ids)) = blocks.paused().filter(|_| matches!(end, End::Done(_))) else {
                return Ok(end);
            };
            // It wants to be asked again with what it said so far, and goes on from there.
            messages_request::go_on(&mut body, said);
            taken = ids;
        }
        Err(crate::failure::too_large(&format!("the model paused more than {PAUSES_MAX} times")))
    }
}

#[async_trait]
impl Provider for Anthropic {
    fn about(&self) -> About {
        self.remote.about("anthropic")
    }

    async fn run(&self, request: Request, link: Link) -> End {
        self.remote.while_wanted(&link, self.answer(&request, &link)).await
    }
}
