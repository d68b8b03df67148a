//! The engine on a real store, with a scripted provider and a manual clock.
//!
//! [`harness`] opens the store and the engine; the other modules are named after their subject.

mod harness;

mod agent_window;
mod channels;
mod context_window;
mod exchange;
mod feed;
mod images;
mod inbox;
mod inbox_limits;
mod kept_history;
mod long_history;
mod message_pages;
mod nested_workers;
mod outbox;
mod process_death;
mod recorder;
mod runs;
mod schedules;
mod session_status;
mod summary_limits;
mod suspensions;
mod tasks;
mod usage;
mod worker_tools;
mod workers;
