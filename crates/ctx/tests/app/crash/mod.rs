//! Crashes: real processes are killed, real disks fail, and the store is checked afterwards.
//!
//! | module | fault |
//! |---|---|
//! | `kill_at_syscall` | every verb that writes, killed at every system call that changes a file |
//! | `kill_adapter` | a server and the adapter of a channel, either or both, at random moments |
//! | `kill_init` | `ctx init`, likewise |
//! | `kill_maintenance` | `search`, `gc`, `backup` and `verify --repair`, likewise |
//! | `kill_in_checkpoint` | verbs that move the write-ahead log into the database |
//! | `kill_at_random` | a mix of verbs, one or three at a time, killed at random moments |
//! | `kill_concurrent_writers` | a process with many concurrent writers, killed at random moments |
//! | `kill_openai_client` | a server with clients of the OpenAI-compatible API |
//! | `kill_push` | `ctx push` and `ctx pull` with the other side, at random moments |
//! | `kill_server` | a server under load, with a compaction, with workers |
//! | `kill_after_acceptance` | a server that just accepted messages, or shows answers |
//! | `kill_store_copy` | `ctx store copy`, at random moments |
//! | `kill_while_routing` | a server while senders become known and entities are merged |
//! | `failing_disk`, `server_failing_disk` | no kill: writes and syncs fail, or the disk is full |
//!
//! `store_state` reads the content of a store. Every failure names the seed; `CTX_CRASH_SEED`
//! repeats its draws. Invariants: a store opens and verifies, an interrupted verb happened
//! completely or not at all, and nothing acknowledged is lost.

mod failing_disk;
mod kill_adapter;
mod kill_after_acceptance;
mod kill_at_random;
mod kill_at_syscall;
mod kill_concurrent_writers;
mod kill_in_checkpoint;
mod kill_init;
mod kill_maintenance;
mod kill_openai_client;
mod kill_push;
mod kill_server;
mod kill_server_with_workers;
mod kill_store_copy;
mod kill_while_routing;
mod server_failing_disk;
mod store_state;

use crate::harness::repo::Repo;
use crate::harness::seed::Random;

/// A project with a store, a file of 10 KiB and a file of a few bytes.
fn repo_with_files() -> Repo {
    let repo = Repo::bare();
    repo.ok(["init", "--project", "crash"]);
    repo.write("ten.bin", Random::new(10).bytes(10_240));
    repo.write("small.txt", b"a few bytes\n");
    repo
}
