//! The outside agents, programs and models that ctx talks to.
//!
//! | file | owns |
//! |---|---|
//! | `demo` | an agent without a model: offline, deterministic, for whoever has none |
//! | `openai` | models behind chat completions or Responses |
//! | `anthropic` | models behind Messages |
//! | `remote`, `answer` | what adapters of HTTP APIs share: a server that is asked, its answer while it arrives |
//! | `render`, `call` | what they share of messages and of calls |
//! | `failure` | what went wrong, and what helps |
//! | `http`, `sse`, `secret` | the client and its bounds, events out of bytes, keys out of words |
//! | `scripted` | a provider that does what a test tells it |
//! | `command` | a model behind any command line, asked what a message means |

mod answer;
pub mod anthropic;
mod call;
mod command;
mod demo;
mod failure;
mod http;
#[cfg(test)]
mod legal;
pub mod openai;
mod remote;
mod render;
pub mod scripted;
mod secret;
mod sse;
#[cfg(test)]
mod testing;

pub use anthropic::Anthropic;
pub use command::CommandClassifier;
pub use demo::Demo;
pub use http::Timeouts;
pub use openai::OpenAi;
pub use remote::Config;
pub use scripted::Scripted;
