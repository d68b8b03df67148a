//! ACP agents behind a real server: their requests, their context, and how their processes end.

mod capabilities;
mod history;
mod permissions;
mod process_end;
mod requests;
