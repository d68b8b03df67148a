//! Tests of the rules as sequences and tables. Each names the requirements that it checks.

pub(super) mod model;

mod clocks;
mod commits;
mod conversation_commands;
mod conversations;
mod forks;
mod message_table;
mod notes;
mod observations;
mod outgoing_rows;
mod outside_work;
mod owners;
mod pins;
mod projected_requests;
mod prompts;
mod session_imports;
mod task_imports;
mod texts;
mod transitions;
mod worked_example;
mod workers;
