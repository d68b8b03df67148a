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
//! | `acp` | any agent over the Agent Client Protocol, as a process |
//! | `pi` | pi-coding-agent over its RPC mode |
//! | `process`, `family`, `guard`, `kept` | processes that are ended whole, whoever dies; those that stay between two runs |
//! | `briefing`, `observe` | what agents are told besides the message; what the task records of their work |
//! | `lines`, `rpc`, `desk` | JSON over lines, JSON-RPC; ctx's own tools for agents, over MCP |
//! | `scripted` | a provider that does what a test tells it |
//! | `command` | a model behind any command line, asked what a message means |

pub mod acp;
mod answer;
pub mod anthropic;
mod briefing;
mod call;
mod command;
mod demo;
mod desk;
mod failure;
mod family;
mod guard;
mod http;
mod kept;
mod lines;
mod observe;
pub mod openai;
pub mod pi;
mod process;
mod remote;
mod render;
#[cfg(test)]
mod request_rules;
mod rpc;
pub mod scripted;
mod secret;
mod sse;
#[cfg(test)]
mod testing;

pub use acp::Acp;
pub use anthropic::Anthropic;
pub use command::CommandClassifier;
pub use demo::Demo;
pub use desk::{TOKEN_VARIABLE, bridge};
pub use guard::guard;
pub use http::Timeouts;
pub use openai::OpenAi;
pub use pi::Pi;
pub use process::Program;
pub use remote::Config;
pub use scripted::Scripted;
