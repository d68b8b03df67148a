//! Known agents on PATH. No program is started to check that it works.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::ProviderConfig;

use super::Found;

struct Agent {
    name: &'static str,
    kind: &'static str,
    command: &'static [&'static str],
}

/// In order of preference: adapters made for ACP first, then tools with an ACP mode.
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

pub(super) fn discover(path: &OsStr) -> Vec<Found> {
    // A relative directory would depend on the working directory, so it is ignored.
    let directories: Vec<PathBuf> =
        std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect();
    AGENTS.iter().filter_map(|agent| find(agent, &directories)).collect()
}

fn find(agent: &Agent, directories: &[PathBuf]) -> Option<Found> {
    let program = directories
        .iter()
        .map(|dir| dir.join(agent.command[0]))
        .find(|file| is_executable(file))?;
    let command = agent.command.iter().map(|word| (*word).to_owned()).collect();
    let config =
        ProviderConfig { kind: agent.kind.to_owned(), command, ..ProviderConfig::default() };
    Some(Found {
        name: agent.name.to_owned(),
        config,
        by: format!("{} is on PATH", program.display()),
    })
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
