//! Agents on PATH. They are only looked for: nothing is started to see whether it works.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::ProviderConfig;

use super::Found;

/// An agent: what it is called, which kind it is, and how it is started.
struct Agent {
    name: &'static str,
    kind: &'static str,
    command: &'static [&'static str],
}

/// Those that are known, adapters made for ctx's protocol before tools that speak it beside other things.
const AGENTS: [Agent; 8] = [
    Agent { name: "claude", kind: "acp", command: &["claude-agent-acp"] },
    Agent { name: "codex", kind: "acp", command: &["codex-acp"] },
    Agent { name: "opencode", kind: "acp", command: &["opencode", "acp"] },
    Agent { name: "gemini", kind: "acp", command: &["gemini", "--acp"] },
    Agent { name: "qwen", kind: "acp", command: &["qwen", "--acp"] },
    Agent { name: "kimi", kind: "acp", command: &["kimi", "acp"] },
    Agent { name: "vibe", kind: "acp", command: &["vibe-acp"] },
    Agent { name: "pi", kind: "pi", command: &["pi"] },
];

/// The agents whose program is on a PATH.
pub(super) fn on_path(path: &OsStr) -> Vec<Found> {
    // A directory that is not named whole would be another one in every working directory.
    let directories: Vec<PathBuf> =
        std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect();
    AGENTS.iter().filter_map(|agent| found(agent, &directories)).collect()
}

fn found(agent: &Agent, directories: &[PathBuf]) -> Option<Found> {
    let program =
        directories.iter().map(|dir| dir.join(agent.command[0])).find(|file| is_program(file))?;
    let command = agent.command.iter().map(|word| (*word).to_owned()).collect();
    let config =
        ProviderConfig { kind: agent.kind.to_owned(), command, ..ProviderConfig::default() };
    Some(Found {
        name: agent.name.to_owned(),
        config,
        by: format!("{} is on PATH", program.display()),
    })
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
