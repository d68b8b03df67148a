//! The `ctx` program: command line and HTTP server over the engine. Both only translate to and from
//! the engine; they contain no rules.
//!
//! | file | owns |
//! |---|---|
//! | `cli/` | the command line, one verb per file |
//! | `http/` | the HTTP API, one resource per file |
//! | `json/` | JSON documents that both return |
//! | `config` | `ctx.toml` and its environment variables |
//! | `data_dir` | which store a command works on |
//! | `policy_file` | `policies.yaml`: reading it, and reading it again when it changes |
//! | `provider_setup` | the providers, from the configuration or from discovery |
//! | `channel_setup` | deliveries to the configured channels |
//! | `discovery/` | search for providers if none is configured |
//! | `problem` | errors as the user sees them: message, hint, stable code, exit code |
//! | `bench/` | benchmark cells (`ctx bench`, hidden) |

mod bench;
mod channel_setup;
mod cli;
mod config;
mod data_dir;
mod discovery;
mod http;
mod json;
mod message_sources;
mod policy_file;
mod problem;
mod provider_setup;

use std::process::ExitCode;

/// Memory is often allocated by one thread and freed by another. With the system allocator a turn
/// takes an eighth more time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
