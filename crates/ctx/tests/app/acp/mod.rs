//! `ctx acp`: an editor in front of ctx, over standard input and output.

mod agent_behind;
mod attached_clients;
mod ctx_questions;
mod editor_services;
mod protocol;
mod sessions;
