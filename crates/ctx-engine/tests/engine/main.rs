//! Conversations that run, on a real store, with a provider that does what the test tells it.

mod agents;
mod bench;

mod context;
mod crashes;
mod feeds;
mod inbox;
mod inbox_bounds;
mod long;
mod pages;
mod pictures;
mod runs;
mod statuses;
mod suspensions;
mod tasks;
mod workers;
