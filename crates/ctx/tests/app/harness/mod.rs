//! The harness of all tests of the program.
//!
//! | module | content |
//! |---|---|
//! | `repo` | a project directory with a store, and verbs run in it |
//! | `server` | a running `ctx serve` |
//! | `client` | an HTTP client, its responses, and event streams |
//! | `chat_client` | a client of the OpenAI-compatible API, with its history |
//! | `mcp_client` | an MCP client, over pipes and HTTP |
//! | `model_server` | a model server with scripted responses |
//! | `fake_ssh` | an ssh command that stays on this machine |
//! | `adapter` | the channel adapters of `examples/`, and policies for them |
//! | `irc_server` | a real IRC server, and a person on it |
//! | `hook_server` | a receiver of webhooks that checks signatures |
//! | `agent_server` | a `ctx serve` with scripted ACP agents |
//! | `editor` | a `ctx acp`, and an editor in front of it |
//! | `test_store` | the database of a test, and its rows |
//! | `seed` | random numbers that can be drawn again |
//! | `terminal` | the program on a pseudo terminal, and its screen |
//! | `strace` | system calls of a verb, and faults injected into them |
//!
//! A test never sleeps to give something time: it waits for a condition with [`wait_until`].

pub(crate) mod adapter;
pub(crate) mod agent_server;
pub(crate) mod chat_client;
pub(crate) mod client;
pub(crate) mod editor;
pub(crate) mod fake_ssh;
pub(crate) mod hook_server;
pub(crate) mod irc_server;
pub(crate) mod mcp_client;
pub(crate) mod model_server;
pub(crate) mod repo;
pub(crate) mod seed;
pub(crate) mod server;
pub(crate) mod strace;
pub(crate) mod terminal;
pub(crate) mod test_store;

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use repo::Outcome;

/// Longer than anything takes that works, on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two looks at a condition.
const POLL: Duration = Duration::from_millis(5);

/// Path of the program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ctx");

/// A command in a directory, without the settings of the user who runs the tests.
pub(crate) fn command(program: &str, dir: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(dir).env("HOME", home);
    for kept in ["PATH", "TMPDIR"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    // Agents and keys of this machine must not answer.
    command.env("CTX_DISCOVERY_ENABLED", "false");
    command
}

/// The program in a directory `home` whose data directory is `home/data`.
pub(crate) fn ctx(home: &Path) -> Command {
    let mut command = command(PROGRAM, home, home);
    command.env("CTX_DATA", home.join("data"));
    test_store::set_store(&mut command, home);
    command
}

/// Runs `ctx verify` on the store of a home directory.
#[track_caller]
pub(crate) fn verify(home: &Path, here: &str) {
    let output = ctx(home).arg("verify").output().expect("ctx runs");
    assert!(output.status.success(), "{here}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Waits for a condition; fails after [`TIMEOUT`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Waits for a value; fails after [`TIMEOUT`].
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        std::thread::sleep(POLL);
    }
}

/// Kills a process after a delay, for tests that kill at random moments. It may have ended before.
pub(crate) fn kill_after(mut child: Child, delay: Duration) -> Outcome {
    std::thread::sleep(delay);
    child.kill().expect("a child can be killed");
    child.wait_with_output().expect("its end").into()
}

/// Lets a random time pass, between the requests of a test that makes load. No test may rely on
/// what happens within it.
pub(crate) fn random_delay(random: &mut seed::Random, min: Duration, max: Duration) {
    std::thread::sleep(random.duration(min, max));
}
