//! ctx keeps conversations with AI agents.
//!
//! | file | owns |
//! |---|---|
//! | `cli/` | the command line: one verb per file |
//! | `http/` | the HTTP surface: one resource per file |
//! | `config` | `ctx.toml` and the environment |
//! | `providers` | who can answer, by the configuration and by what is found |
//! | `location` | which store a verb works on |
//! | `shape` | the JSON that every surface gives |
//! | `problem` | how an error reaches the user: what, why, what next |
//! | `bench` | the cells of the comparison with other session stores |
//!
//! Surfaces only translate to and from the engine.

mod bench;
mod cli;
mod config;
mod discovery;
mod http;
mod location;
mod problem;
mod providers;
mod shape;

use std::process::ExitCode;

/// What many tasks make and others let go of is most of the work of an allocator here; the system's takes an eighth more time
/// for the whole of a turn.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
