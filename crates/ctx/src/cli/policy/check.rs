//! `ctx policy check`: parse a policy file and list its policies.

use std::path::PathBuf;

use ctx_engine::core::policy::{Effect, Policies};
use serde_json::json;

use crate::policy_file;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{BOLD, GREEN, RED, YELLOW, visible_text};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Check this file [default: policies.yaml beside ctx.toml]
    file: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let path = args.file.clone().unwrap_or_else(|| context.policy_file());
    let personas = context.config()?.personas;
    let policies = policy_file::load(&path)?.ok_or_else(|| {
        Problem::failed("no_policy", format!("there is no {}", path.display()))
            .hint("docs/policies.md describes the file; without it, no message is admitted")
    })?;
    let warnings = policy_file::unknown_personas(&policies, &personas);
    context.out.print(
        || {
            let list: Vec<_> = policies
                .summaries()
                .map(|(name, priority, effect)| {
                    json!({"name": name, "priority": priority, "effect": effect})
                })
                .collect();
            json!({"file": path, "count": list.len(), "policies": list, "warnings": warnings})
        },
        || {
            let mut lines = vec![count_line(&policies, &path.display().to_string())];
            lines.extend(policy_lines(&policies));
            for warning in &warnings {
                lines.push(format!("{YELLOW}warning{YELLOW:#}: {}", visible_text(warning)));
            }
            lines.join("\n")
        },
    )
}

fn count_line(policies: &Policies, file: &str) -> String {
    match policies.len() {
        0 => format!("{file}: no policies, so no message is admitted"),
        1 => format!("{file}: 1 policy"),
        count => format!("{file}: {count} policies, in the order of evaluation"),
    }
}

fn policy_lines(policies: &Policies) -> Vec<String> {
    let line = |(name, priority, effect): (&str, u8, Effect)| {
        let name = visible_text(name);
        format!("{priority:>5}  {}  {BOLD}{name}{BOLD:#}", effect_word(effect))
    };
    policies.summaries().map(line).collect()
}

/// The effect in a column of fixed width.
pub(super) fn effect_word(effect: Effect) -> String {
    match effect {
        Effect::Allow => format!("{GREEN}allow{GREEN:#}"),
        Effect::Deny => format!("{RED}deny {RED:#}"),
    }
}
