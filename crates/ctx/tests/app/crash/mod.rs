//! What is left when the process dies: real processes are killed and real disks fail, then all is checked.
//!
//! | file | kills |
//! |---|---|
//! | `boundaries` | every verb that writes, at every system call of it that changes a file |
//! | `init` | `ctx init`, likewise |
//! | `moments` | a mix of verbs, one by one and three at a time, at random moments |
//! | `checkpoints` | verbs that move the log into the database |
//! | `crowd` | a process in which many write at once, at random moments |
//! | `upkeep` | `search`, `gc`, `backup`, `verify --repair` |
//! | `disk` | nobody: the disk fails, or is full |
//!
//! `lab` runs ctx, `state` says what a store holds, `strace` places the kills, `seed` draws the moments.
//! Every failure names the seed; `CTX_CRASH_SEED` repeats its draws. What must always hold: a store opens
//! and verifies, an interrupted verb happened wholly or not at all, and nothing acknowledged is lost.

// A module of that name, so that `--skip crash` leaves out all of it.
#[path = "."]
mod crash {
    mod boundaries;
    mod checkpoints;
    mod crowd;
    mod disk;
    mod init;
    mod lab;
    mod moments;
    mod seed;
    mod state;
    mod strace;
    mod upkeep;
}
