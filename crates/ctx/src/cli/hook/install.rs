//! `ctx hook install`: show the change of a tool's settings, ask, back up, change.

use std::io::{BufRead, IsTerminal, Write};

use serde_json::json;

use super::super::Context;
use super::{ToolName, parse_tool, path_json};
use crate::agent_hooks::Installation;
use crate::problem::Problem;

#[derive(clap::Args)]
pub(in super::super) struct Args {
    /// Install the hook of this tool: claude-code, codex, opencode, gemini-cli or pi
    #[arg(value_name = "TOOL", value_parser = parse_tool)]
    tool: ToolName,
    /// Change the settings without asking; required without a terminal
    #[arg(short, long)]
    yes: bool,
    /// Show the change without making it
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let ToolName(tool) = args.tool;
    let installation = Installation::of(tool)?;
    let program = std::env::current_exe()
        .map_err(|e| Problem::failed("internal", format!("failed to find the path of ctx: {e}")))?;
    let plan = installation.plan_install(&program)?;
    let diff = plan.diff();
    let made = plan.changes() && !args.dry_run;
    if made && !args.yes {
        if context.out.is_json() || !std::io::stdin().is_terminal() {
            return Err(Problem::wrong_use(
                "needs_yes",
                format!("cannot ask before changing {}: no terminal", plan.path.display()),
            )
            .with("diff", json!(diff))
            .hint("show the change with `--dry-run`, make it with `--yes`"));
        }
        context.out.print_text(&diff)?;
        if !ask(&format!("Change {}?", plan.path.display()))? {
            return context.out.print(
                || json!({"tool": tool.name(), "changed": false, "installed": false}),
                || "Nothing was changed.".to_owned(),
            );
        }
    }
    if made {
        installation.install(&plan)?;
    }
    let backup = if args.dry_run { plan.backup.clone() } else { installation.backup() };
    context.out.print(
        || {
            json!({
                "tool": tool.name(),
                "file": path_json(&plan.path),
                "changed": made,
                "installed": made || !plan.changes(),
                "dry_run": args.dry_run,
                "diff": diff,
                "backup": backup.as_deref().map(path_json),
                "next_step": tool.next_step(),
            })
        },
        || {
            if !plan.changes() {
                return format!("The hook of {} is already installed.", tool.title());
            }
            let mut lines = if args.yes || args.dry_run { diff.clone() } else { String::new() };
            if !made {
                return lines.trim_end().to_owned();
            }
            lines.push_str(&format!("Installed the hook of {}.", tool.title()));
            if let Some(backup) = &backup {
                lines.push_str(&format!("\nBackup: {}", backup.display()));
            }
            if let Some(step) = tool.next_step() {
                lines.push_str(&format!("\nNext: {step}."));
            }
            lines
        },
    )
}

/// Asks on the terminal. Anything but yes is no.
fn ask(question: &str) -> Result<bool, Problem> {
    let failed = |e| Problem::failed("input", format!("failed to ask on the terminal: {e}"));
    let mut stderr = std::io::stderr();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
