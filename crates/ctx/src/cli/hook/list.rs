//! `ctx hook list` (`status`): which hooks are installed, and what waits in the spool.

use serde_json::json;

use super::super::Context;
use super::super::output::{DIM, GREEN, YELLOW};
use super::path_json;
use crate::agent_hooks::{HookedTool, Installation, TOOLS};
use crate::problem::Problem;

#[derive(clap::Args)]
pub(in super::super) struct Args {}

/// The state of the hook of one tool.
struct Listed {
    tool: &'static dyn HookedTool,
    state: &'static str,
    installation: Option<Installation>,
    error: Option<String>,
}

pub(super) fn run(context: &Context, _: &Args) -> Result<(), Problem> {
    let tools: Vec<Listed> = TOOLS.into_iter().map(listed).collect();
    let waiting = context.spool().waiting();
    context.out.print(
        || {
            let tool = |it: &Listed| {
                let installation = it.installation.as_ref();
                json!({
                    "tool": it.tool.name(),
                    "title": it.tool.title(),
                    "installed": matches!(it.state, "installed" | "outdated"),
                    "state": it.state,
                    "file": installation.map(|it| path_json(it.path())),
                    "backup": installation.and_then(|it| it.backup()).as_deref().map(path_json),
                    "error": it.error,
                })
            };
            json!({"hooks": tools.iter().map(tool).collect::<Vec<_>>(), "waiting": waiting})
        },
        || {
            let mut lines: Vec<String> = tools.iter().map(line).collect();
            if waiting > 0 {
                lines.push(format!("{waiting} records wait for the store"));
            }
            lines.join("\n")
        },
    )
}

fn listed(tool: &'static dyn HookedTool) -> Listed {
    let found = Installation::of(tool).and_then(|it| it.installed().map(|state| (it, state)));
    match found {
        Ok((installation, (events, all))) => {
            let state = match events {
                0 => "not_installed",
                some if some < all => "incomplete",
                _ if is_outdated(&installation) => "outdated",
                _ => "installed",
            };
            Listed { tool, state, installation: Some(installation), error: None }
        }
        Err(problem) => {
            let installation = Installation::of(tool).ok();
            Listed { tool, state: "unknown", installation, error: Some(problem.message) }
        }
    }
}

/// Whether installing again would change the hook: it runs another program, or is of another
/// version.
fn is_outdated(installation: &Installation) -> bool {
    let program = std::env::current_exe().ok();
    let plan = program.and_then(|program| installation.plan_install(&program).ok());
    plan.is_some_and(|plan| plan.changes())
}

fn line(listed: &Listed) -> String {
    let colour = if listed.state == "installed" { GREEN } else { YELLOW };
    let file = listed.installation.as_ref().map(|it| it.path().display().to_string());
    let detail = listed.error.clone().or(file).unwrap_or_default();
    format!(
        "{:<12} {colour}{:<13}{colour:#} {DIM}{detail}{DIM:#}",
        listed.tool.name(),
        listed.state.replace('_', " ")
    )
}
