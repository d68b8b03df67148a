//! Providers: the agents and models that ctx runs.
//!
//! | module | contents |
//! |---|---|
//! | `acp` | any agent that implements the Agent Client Protocol, as a child process |
//! | `pi` | pi-coding-agent, as a child process in its RPC mode |
//! | `openai` | models behind the chat completions API or the Responses API |
//! | `anthropic` | models behind the Messages API |
//! | `demo` | a deterministic offline agent without a model |
//! | `scripted` | a provider for tests that plays scripts |
//! | `webhook` | deliveries to channels by signed webhook |
//! | `command_classifier` | message classification by an external command |
//!
//! Shared by the HTTP APIs:
//!
//! | module | contents |
//! |---|---|
//! | `model_server` | configuration of a server, authentication, requests and responses |
//! | `model_request` | conversion of messages and tools that all APIs have in common |
//! | `response_reader`, `sse_decoder` | incremental parsing of a response, streamed or whole |
//! | `tool_calls`, `usage_cost` | unique call ids and call arguments; the reported cost |
//! | `failure` | classification of errors |
//! | `http_client`, `key_redaction` | client and timeouts; removal of API keys |
//!
//! Shared by the agents:
//!
//! | module | contents |
//! |---|---|
//! | `agent_process`, `process_pool` | start and end of an agent; processes between two runs |
//! | `process_tree`, `process_guard` | descendants of a process; ending them when ctx dies |
//! | `agent_prompt` | the prompt: the new message and the history that the agent lacks |
//! | `task_observations` | files and commands of an agent as task entries |
//! | `json_lines`, `json_rpc` | JSON lines and JSON-RPC over pipes |
//! | `mcp_bridge` | the tools of ctx for agents: a socket for an MCP server |

pub mod acp;
mod agent_process;
mod agent_prompt;
pub mod anthropic;
mod borrowed_json;
mod command_classifier;
mod demo;
mod failure;
mod http_client;
pub mod json_lines;
pub mod json_rpc;
mod key_redaction;
mod mcp_bridge;
mod model_request;
mod model_server;
pub mod openai;
pub mod pi;
mod process_guard;
mod process_pool;
mod process_tree;
#[cfg(test)]
mod request_rules;
mod response_reader;
pub mod scripted;
mod sse_decoder;
mod task_observations;
#[cfg(test)]
mod test_harness;
mod tool_calls;
mod usage_cost;
mod webhook;

pub use acp::Acp;
pub use agent_process::Program;
pub use anthropic::Anthropic;
pub use command_classifier::CommandClassifier;
pub use demo::Demo;
pub use http_client::{Timeouts, client as http_client};
pub use mcp_bridge::{Bridge, RunTools, TOKEN_VARIABLE, ToolProtocol, run_bridge};
pub use model_server::ServerConfig;
pub use openai::OpenAi;
pub use pi::Pi;
pub use process_guard::run_guarded;
pub use scripted::Scripted;
pub use webhook::{WEBHOOK_TIMEOUT_MAX, WebhookConfig, Webhooks};
