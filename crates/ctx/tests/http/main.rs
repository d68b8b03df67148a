//! `ctx serve` as clients meet it: the real program, a socket, and nothing in between.

mod context;
mod crash;
mod describe;
mod disk;
mod errors;
mod events;
mod lab;
mod operation;
mod reading;
mod server;
mod sessions;
mod sse;
mod talking;
mod trust;
mod two;
mod workers;
