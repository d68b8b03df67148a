//! The command line as a user meets it: one process per verb, nothing shared but the store.
//!
//! A test has a directory of its own and sees only what a user sees: exit codes, what is printed, and,
//! where the question is what is really on disk, the database. Modules are named after verbs or themes;
//! [`repo`] holds the project that every test works in.

mod repo;

mod ageing;
mod busy;
mod classify;
mod config;
mod context;
mod damage;
mod disk;
mod handoff;
mod help;
mod init;
mod input;
mod log;
mod long;
mod message;
mod moves;
mod observe;
mod prompt;
mod provider;
mod recover;
mod run;
mod scenario;
mod search;
mod session;
mod show;
mod transitions;
mod upkeep;
mod workers;
mod wrong_use;
