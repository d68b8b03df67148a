//! Conversations that run, on a real store, with a provider that does what the test tells it.

mod bench;

mod crashes;
mod feeds;
mod inbox;
mod inbox_bounds;
mod pages;
mod pictures;
mod runs;
mod statuses;
mod suspensions;
mod tasks;
