//! `ctx remote remove NAME`.

use serde_json::json;

use crate::cli::Context;
use crate::problem::Problem;
use crate::remote::Remotes;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Remove the remote with this name
    name: String,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let mut remotes = Remotes::load(&context.data)?;
    let (name, _) = remotes.find(Some(&args.name))?;
    let name = name.to_owned();
    remotes.remotes.remove(&name);
    remotes.save(&context.data)?;
    context.out.print(|| json!({"removed": name}), || format!("Removed the remote {name}"))
}
