//! The command line: one process per verb, nothing shared but the store.
//!
//! A test has a directory of its own and sees only what a user sees: exit codes, output, and, where
//! the question is what is on disk, the database. Modules are named after verbs or subjects.

mod behaviour;
mod blame;
mod chat;
mod chat_leaving;
mod classify;
mod concurrent_processes;
mod config;
mod damaged_store;
mod entities;
mod export_documents;
mod export_git;
mod export_import;
mod export_tools;
mod help;
mod hook_install;
mod hook_record;
mod hook_spool;
mod import_agent_sessions;
mod import_tools;
mod import_watch;
mod init;
mod invalid_input;
mod lists;
mod log;
mod long_task;
mod maintenance;
mod nothing_recorded;
mod observe;
mod policies;
mod prompt;
mod provider;
mod reading;
mod recover;
mod remotes;
mod run;
mod search;
mod session;
mod session_cancel;
mod session_compact;
mod session_workers;
mod short_ids;
mod show;
mod stage_message;
mod stale_task;
mod store_copy;
mod task_transitions;
mod terminal_verbs;
mod transition_records;
mod unknown_names;
mod unwritable_disk;
mod usage;
mod usage_errors;
mod worked_examples;
