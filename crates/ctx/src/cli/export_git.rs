//! `ctx export [SESSION] --git BRANCH`, `--notes` and `--trace`: conversations in the git
//! repository of the working directory.

use serde_json::json;

use crate::data_dir;
use crate::git::{
    ExportedBranch, Repository, SealedTasks, export_branch, export_notes, export_traces,
};
use crate::problem::Problem;

use super::Context;
use super::output::plural;

#[derive(clap::Args)]
pub(super) struct GitArgs {
    /// Write turns and commits to this branch of the git repository of the working directory;
    /// without SESSION those of every session of the project
    #[arg(long, value_name = "BRANCH", conflicts_with = "output")]
    git: Option<String>,
    /// Attach sealed tasks to the git commits that contain their work, as notes in refs/notes/ctx
    #[arg(long, conflicts_with = "output")]
    notes: bool,
    /// Append sealed tasks to .agent-trace/traces.jsonl of the repository, as Agent Trace records
    #[arg(long, conflicts_with = "output")]
    trace: bool,
}

impl GitArgs {
    /// Whether the export goes to a git repository.
    pub(super) const fn is_used(&self) -> bool {
        self.git.is_some() || self.notes || self.trace
    }
}

pub(super) async fn run(
    context: &Context,
    session: Option<&str>,
    args: &GitArgs,
) -> Result<(), Problem> {
    let here = std::env::current_dir().map_err(|error| {
        Problem::failed("no_repository", format!("no working directory: {error}"))
    })?;
    let repository = Repository::find(&here)?;
    let engine = context.engine()?;
    let only = match session {
        Some(session) => Some(engine.sessions().get(session).await?.session.id),
        None => None,
    };
    let branch = match &args.git {
        Some(branch) => Some(export_branch(&engine, &repository, branch, session).await?),
        None => None,
    };
    let (mut notes, mut traces) = (None, None);
    if args.notes || args.trace {
        let root = data_dir::project_root(&context.data);
        let sealed = SealedTasks::read(&engine, &repository, &root, only).await?;
        if args.notes {
            notes = Some(export_notes(&repository, &sealed)?);
        }
        if args.trace {
            traces = Some(export_traces(&engine, &repository, &sealed).await?);
        }
    }
    let document = || {
        json!({
            "branch": args.git,
            "head": branch.as_ref().and_then(|branch| branch.head.clone()),
            "previous": branch.as_ref().and_then(|branch| branch.previous.clone()),
            "turns": branch.as_ref().map(|branch| branch.turns),
            "commits": branch.as_ref().map(|branch| branch.commits),
            "notes": notes.as_ref().map(|notes| notes.written),
            "notes_skipped": notes.as_ref().map(|notes| notes.skipped),
            "traces": traces,
        })
    };
    context.out.print(document, || {
        let mut lines = Vec::new();
        if let (Some(name), Some(branch)) = (&args.git, &branch) {
            lines.push(branch_line(name, branch));
        }
        if let Some(notes) = &notes {
            lines.push(format!(
                "Wrote {} to refs/notes/ctx. Read them with `git log --notes=ctx`.",
                plural(notes.written as u64, "note")
            ));
            if notes.skipped > 0 {
                let skipped = plural(notes.skipped as u64, "git commit");
                lines.push(format!("{skipped} with a note of another program: left unchanged."));
            }
        }
        if let Some(traces) = traces {
            let records = plural(traces as u64, "record");
            lines.push(format!("Appended {records} to .agent-trace/traces.jsonl."));
        }
        lines.join("\n")
    })
}

fn branch_line(name: &str, branch: &ExportedBranch) -> String {
    let Some(head) = &branch.head else {
        return "Nothing to export: there are no turns and no commits.".to_owned();
    };
    if branch.turns + branch.commits == 0 {
        return format!("Branch {name} is up to date at {}.", &head[..head.len().min(12)]);
    }
    format!(
        "Added {} and {} to branch {name}, now at {}.",
        plural(branch.turns as u64, "turn"),
        plural(branch.commits as u64, "commit"),
        &head[..head.len().min(12)]
    )
}
