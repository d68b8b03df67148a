//! The outside agents, programs and models that ctx talks to.
//!
//! | file | owns |
//! |---|---|
//! | `demo` | an agent without a model: offline, deterministic, for whoever has none |
//! | `openai` | models behind the chat completions API |
//! | `http`, `sse` | what adapters of HTTP APIs share: the client and its bounds, events out of bytes |
//! | `scripted` | a provider that does what a test tells it |
//! | `command` | a model behind any command line, asked what a message means |

mod command;
mod demo;
mod http;
pub mod openai;
pub mod scripted;
mod sse;

pub use command::CommandClassifier;
pub use demo::Demo;
pub use openai::OpenAi;
pub use scripted::Scripted;
