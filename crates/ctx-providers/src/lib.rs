//! The outside agents, programs and models that ctx talks to.
//!
//! | file | owns |
//! |---|---|
//! | `demo` | an agent without a model: offline, deterministic, for whoever has none |
//! | `openai` | models behind the chat completions API |
//! | `acp` | any agent over the Agent Client Protocol, as a process |
//! | `process`, `family`, `guard` | processes that are ended whole, whoever dies |
//! | `pi` | pi-coding-agent over its RPC mode |
//! | `briefing`, `observe` | what agents are told besides the message; what the task records of their work |
//! | `lines`, `rpc`, `desk` | JSON over lines, JSON-RPC; ctx's own tools for agents, over MCP |
//! | `http`, `sse` | what adapters of HTTP APIs share: the client and its bounds, events out of bytes |
//! | `scripted` | a provider that does what a test tells it |
//! | `command` | a model behind any command line, asked what a message means |

pub mod acp;
mod briefing;
mod command;
mod demo;
mod desk;
mod family;
mod guard;
mod http;
mod lines;
mod observe;
pub mod openai;
pub mod pi;
mod process;
mod rpc;
pub mod scripted;
mod sse;

pub use acp::Acp;
pub use command::CommandClassifier;
pub use demo::Demo;
pub use desk::{TOKEN_VARIABLE, bridge};
pub use guard::guard;
pub use openai::OpenAi;
pub use pi::Pi;
pub use process::Program;
pub use scripted::Scripted;
