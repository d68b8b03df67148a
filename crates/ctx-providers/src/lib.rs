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
mod response_reader;
pub mod anthropic;
mod agent_prompt;
mod tool_calls;
mod command_classifier;
mod demo;
mod mcp_bridge;
mod failure;
mod process_tree;
mod process_guard;
mod http_client;
mod process_pool;
mod json_lines;
mod task_observations;
pub mod openai;
pub mod pi;
mod agent_process;
mod model_server;
mod model_request;
#[cfg(test)]
mod request_rules;
mod json_rpc;
pub mod scripted;
mod key_redaction;
mod sse_decoder;
#[cfg(test)]
mod test_harness;

pub use acp::Acp;
pub use anthropic::Anthropic;
pub use command_classifier::CommandClassifier;
pub use demo::Demo;
pub use mcp_bridge::{TOKEN_VARIABLE, bridge};
pub use process_guard::guard;
pub use http_client::Timeouts;
pub use openai::OpenAi;
pub use pi::Pi;
pub use agent_process::Program;
pub use model_server::Config;
pub use scripted::Scripted;
