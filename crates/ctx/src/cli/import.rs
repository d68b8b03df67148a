//! `ctx import`: a session from a bundle, or the sessions of other tools.

use std::path::{Path, PathBuf};

use ctx_engine::ImportEffect;
use ctx_engine::core::bundle::{self, SESSION_MAX_BYTES};
use ctx_engine::core::redaction::Redactor;
use serde_json::json;

use crate::export::{Secrets, report};
use crate::import::{AGENT_SESSIONS, TOOLS};
use crate::json::import_json::Imported;
use crate::json::session_json::Session;
use crate::problem::Problem;

use super::import_agent_sessions::Completed;
use super::import_watch::Watched;
use super::output::{plural, visible_text};
use super::session::transcript::session_line;
use super::{Context, bundle_file, import_agent_sessions, import_tools, import_watch};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Import this bundle, which `ctx export` wrote; `-` reads standard input. With --from: a
    /// session file of the tool, or a directory with sessions [default: the tool's own directory]
    #[arg(value_name = "FILE", required_unless_present_any = ["from", "all"])]
    file: Option<PathBuf>,
    /// Import the sessions of this tool
    #[arg(long, value_name = "TOOL", value_parser = source_names(), conflicts_with = "all")]
    from: Option<String>,
    /// Import the sessions of all tools that are found on this machine
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// Do not ask before importing the sessions that --all found
    #[arg(long, short)]
    yes: bool,
    /// Keep following: import what changes until Ctrl-C; needs --from or --all
    #[arg(long)]
    watch: bool,
    /// Set the status of completed sessions of an older session server; needs --from
    /// agent-sessions [default: active]
    #[arg(long, value_name = "STATUS", requires = "from")]
    completed: Option<Completed>,
    /// Replace secrets by `[redacted:KIND]` before they are stored, and count them
    #[arg(long)]
    redact: bool,
}

/// The tools whose sessions `ctx continue` lists.
pub(super) fn tool_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(TOOLS.iter().map(|tool| tool.name()))
}

/// The tools whose sessions can be imported.
fn source_names() -> clap::builder::PossibleValuesParser {
    let names = TOOLS.iter().map(|tool| tool.name()).chain([AGENT_SESSIONS]);
    clap::builder::PossibleValuesParser::new(names)
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let is_server = args.from.as_deref() == Some(AGENT_SESSIONS);
    if args.completed.is_some() && !is_server {
        return Err(Problem::wrong_use(
            "wrong_use",
            "--completed has no effect: it needs --from agent-sessions",
        )
        .hint("omit --completed"));
    }
    let completed = args.completed.unwrap_or(Completed::Active);
    let secrets = if args.redact { Secrets::Redact } else { Secrets::Keep };
    match (&args.from, args.file.as_deref()) {
        (Some(_), None) if is_server => {
            Err(Problem::wrong_use("wrong_use", "no file given: agent-sessions needs its database")
                .hint("use `ctx import --from agent-sessions FILE`"))
        }
        (Some(_), Some(path)) if is_server && args.watch => {
            import_watch::run(context, Watched::Server { path, completed }, secrets).await
        }
        (Some(_), Some(path)) if is_server => {
            import_agent_sessions::run(context, path, completed, secrets).await
        }
        (Some(name), path) if args.watch => {
            import_watch::run(context, Watched::Tool { name, path }, secrets).await
        }
        (Some(tool), path) => import_tools::from_tool(context, tool, path, secrets).await,
        (None, Some(_)) if args.watch => {
            Err(Problem::wrong_use("wrong_use", "cannot watch a bundle: it does not change")
                .hint("use --watch with --from TOOL or --all"))
        }
        (None, Some(file)) => from_bundle(context, file, secrets).await,
        (None, None) if args.watch => {
            import_watch::run(context, Watched::All { yes: args.yes }, secrets).await
        }
        (None, None) => import_tools::from_all(context, args.yes, secrets).await,
    }
}

async fn from_bundle(context: &Context, file: &Path, secrets: Secrets) -> Result<(), Problem> {
    let mut bytes = bundle_file::read(file, SESSION_MAX_BYTES)?;
    let mut redactor = Redactor::default();
    if secrets == Secrets::Redact && bytes.len() <= SESSION_MAX_BYTES {
        bytes = bundle::redact(bytes, &mut redactor).map_err(ctx_engine::Error::from)?;
    }
    let engine = context.engine()?;
    // The working directory is kept only if it exists on this machine too.
    let local_dir = |dir: &str| Path::new(dir).is_dir().then(|| dir.to_owned());
    let imported = engine.bundles().import(&bytes, local_dir).await?;
    let info = engine.sessions().get(&imported.session.to_string()).await?;
    context.out.print(
        || {
            let mut document = json!(Imported::of(&imported, Session::from(&info)));
            if secrets == Secrets::Redact {
                document["redacted"] = report::document(&redactor);
            }
            document
        },
        || {
            let what = match imported.arrival {
                ImportEffect::Created => "Created",
                ImportEffect::Extended => "Extended",
                ImportEffect::Unchanged => "No new turns in",
            };
            let mut lines = format!("{what} {}", session_line(&info, &context.out));
            if let Some(label) = &imported.renamed_from {
                lines.push_str(&format!(
                    "\nThe label `{}` is in use here, so the session has a new label.",
                    visible_text(label)
                ));
            }
            if imported.tasks_left > 0 {
                lines.push_str(&format!(
                    "\nSkipped {}: another task is open here.",
                    plural(imported.tasks_left, "task")
                ));
            }
            if secrets == Secrets::Redact {
                lines.push_str(&format!("\n{}", report::line(&redactor)));
            }
            lines
        },
    )
}
