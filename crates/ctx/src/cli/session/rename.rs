//! `ctx session rename`: set the title or the label of a session.

use ctx_engine::core::decide::Patch;

use crate::problem::Problem;

use super::super::Context;
use super::{engine_without_runs, print_session};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Set this title
    #[arg(required_unless_present = "label")]
    title: Vec<String>,
    /// Set this label; the old one becomes an alias
    #[arg(long)]
    label: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let mut info = engine.sessions().get(&args.session_name).await?;
    let session = info.session.id.to_string();
    if let Some(label) = &args.label {
        info = engine.sessions().relabel(&session, label).await?;
    }
    if !args.title.is_empty() {
        let patch = Patch { title: Some(Some(args.title.join(" "))), ..Patch::default() };
        info = engine.sessions().update(&session, patch).await?;
    }
    print_session(context, &info, "Renamed")
}
