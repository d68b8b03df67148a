//! `ctx hook …`: record the work of agents that run outside ctx.

mod install;
mod list;
mod record;
mod uninstall;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::agent_hooks::{HookedTool, TOOLS, tool};
use crate::problem::Problem;

use super::Context;
pub(super) use record::{is_record_command, record, run as run_record, store_records};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Install the hook of a tool: its prompts, tool uses and file changes are recorded
    Install(install::Args),
    /// Remove the hook of a tool and restore its settings
    Uninstall(uninstall::Args),
    /// Show for each tool whether its hook is installed
    #[command(visible_alias = "status")]
    List(list::Args),
    /// Record one event of a tool, from the JSON document on standard input
    #[command(hide = true)]
    Record(record::Args),
}

/// A tool, by its name on the command line.
#[derive(Clone, Copy)]
pub(super) struct ToolName(&'static dyn HookedTool);

fn parse_tool(name: &str) -> Result<ToolName, String> {
    tool(name).map(ToolName).ok_or_else(|| {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name()).collect();
        format!("unknown tool; known tools: {}", names.join(", "))
    })
}

pub(super) fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Install(args) => install::run(context, &args),
        Verb::Uninstall(args) => uninstall::run(context, &args),
        Verb::List(args) => list::run(context, &args),
        Verb::Record(args) => {
            run_record(context, &args);
            Ok(())
        }
    }
}

/// A path in a JSON document.
fn path_json(path: &std::path::Path) -> Value {
    json!(path.to_string_lossy())
}
