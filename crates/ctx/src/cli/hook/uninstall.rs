//! `ctx hook uninstall`: restore the settings of a tool.

use serde_json::json;

use super::super::Context;
use super::{ToolName, parse_tool, path_json};
use crate::agent_hooks::Installation;
use crate::problem::Problem;

#[derive(clap::Args)]
pub(in super::super) struct Args {
    /// Remove the hook of this tool: claude-code, codex, opencode, gemini-cli or pi
    #[arg(value_name = "TOOL", value_parser = parse_tool)]
    tool: ToolName,
    /// Show the change without making it
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let ToolName(tool) = args.tool;
    let installation = Installation::of(tool)?;
    let plan = installation.plan_uninstall()?;
    let diff = plan.diff();
    let made = plan.changes() && !args.dry_run;
    if !args.dry_run {
        installation.uninstall(&plan)?;
        context.spool().remove_unused();
    }
    context.out.print(
        || {
            json!({
                "tool": tool.name(),
                "file": path_json(&plan.path),
                "changed": made,
                "dry_run": args.dry_run,
                "diff": diff,
            })
        },
        || match (plan.changes(), made) {
            (false, _) => format!("The hook of {} is not installed.", tool.title()),
            (true, false) => diff.trim_end().to_owned(),
            (true, true) => format!("{diff}Removed the hook of {}.", tool.title()),
        },
    )
}
