//! The `ctx` program: command line and HTTP server over the engine. Both only translate to and from
//! the engine; they contain no rules.
//!
//! | file | owns |
//! |---|---|
//! | `agent_hooks/` | hooks of agents that run outside ctx |
//! | `cli/` | the command line, one verb per file |
//! | `git/` | conversations in a git repository: a branch, notes, Agent Trace records |
//! | `http/` | the HTTP API, one resource per file |
//! | `export/` | sessions for other tools, people and programs, one form per file |
//! | `import/` | reading the sessions of other tools, one tool per file |
//! | `mcp/` | the MCP server, on standard input and over HTTP |
//! | `json/` | JSON documents that both return |
//! | `config` | `ctx.toml` and its environment variables |
//! | `config_file` | changes of `ctx.toml` that the page asks for |
//! | `data_dir` | which store a command works on |
//! | `policy_file` | `policies.yaml`: reading it, and reading it again when it changes |
//! | `provider_setup` | the providers, from the configuration or from discovery |
//! | `remote/` | exchange of sessions with other machines |
//! | `provider_test` | one question to a provider, with timings |
//! | `task_record` | what the steps of a task recorded |
//! | `spending` | `[prices]` and `[budget]` of the configuration |
//! | `waiting_prompt` | a pending prompt with the message that waits for it |
//! | `channel_setup` | deliveries to the configured channels |
//! | `discovery/` | search for providers if none is configured |
//! | `markdown/` | Markdown as styled lines for a terminal |
//! | `chat/` | the full-screen conversation of `ctx chat` |
//! | `problem` | errors as the user sees them: message, hint, stable code, exit code |
//! | `bench/` | benchmark cells (`ctx bench`, hidden) |

mod acp;
mod agent_hooks;
mod bench;
mod channel_setup;
mod chat;
mod cli;
mod config;
mod config_file;
mod data_dir;
mod discovery;
mod export;
mod git;
mod http;
mod import;
mod json;
mod markdown;
mod mcp;
mod message_sources;
mod policy_file;
mod problem;
mod provider_setup;
mod provider_test;
mod remote;
mod spending;
mod task_record;
mod waiting_prompt;

use std::process::ExitCode;

/// Memory is often allocated by one thread and freed by another. With the system allocator a turn
/// takes an eighth more time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
