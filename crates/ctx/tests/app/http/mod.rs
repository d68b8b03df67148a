//! `ctx serve` as clients meet it: the real program, a socket, and nothing in between.

mod agents;
mod branches;
mod bundles;
mod context;
mod crash;
mod describe;
mod disk;
mod errors;
mod events;
mod keys;
mod lab;
mod models;
mod operation;
mod pictures;
mod reading;
mod server;
mod sessions;
mod sse;
mod switching;
mod talking;
mod tokens;
mod trust;
mod two;
mod workers;
