//! Tests of the program as its users run it: real processes, real sockets, a real store.
//!
//! | module | content |
//! |---|---|
//! | [`cli`] | one process per verb; exit codes, output, and the database |
//! | [`http`] | `ctx serve` over a socket, with agents and model servers |
//! | [`acp`] | `ctx acp` with an editor in front of it and agents behind it |
//! | [`mcp`] | the MCP server and the context pack |
//! | [`crash`] | processes killed and disks failing; what the store holds afterwards |
//! | [`chaos`] | three servers on one PostgreSQL database, and random faults |
//! | [`harness`] | starting, asking and killing the program; used by all of them |
//!
//! `cargo test -p ctx --test app -- --skip crash --skip chaos` leaves out the crash tests.

mod acp;
mod chaos;
mod cli;
mod crash;
mod harness;
mod http;
mod mcp;
