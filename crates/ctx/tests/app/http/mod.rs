//! `ctx serve` over a socket, as HTTP clients use it.

mod adapters;
mod agents;
mod api_tokens;
mod branches;
mod bundles;
mod compaction;
mod dialogues;
mod errors;
mod event_stream_reconnect;
mod events;
mod hooks;
mod host_and_origin;
mod images;
mod inbound;
mod large_session;
mod messages;
mod model_switch;
mod openapi;
mod outbox;
mod provider_keys;
mod read_routes;
mod schedules;
mod server_lifecycle;
mod sessions;
mod two_servers;
mod unanswered_requests;
