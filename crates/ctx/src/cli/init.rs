//! `ctx init`: make a store for a project.

use std::path::{Path, PathBuf};

use ctx_engine::{Engine, Options};
use serde_json::json;

use crate::location::DIR_NAME;
use crate::problem::Problem;

use super::{Context, DEFAULT_SESSION};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The project's directory; its store is made in .ctx inside it
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// What to call the project [default: the directory's name]
    #[arg(long)]
    project: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let data = if context.data_is_named { context.data.clone() } else { args.dir.join(DIR_NAME) };
    let project = args.project.clone().unwrap_or_else(|| name_of(&args.dir));
    let (engine, created) = make(&data, &project).await?;
    let shown = data.canonicalize().unwrap_or(data);
    context.out.say(
        || json!({"data": shown, "project": engine.project(), "created": created}),
        || match created {
            true => format!("Made a store for {} in {}", engine.project(), shown.display()),
            false => {
                format!("There is a store for {} in {} already", engine.project(), shown.display())
            }
        },
    )
}

/// Makes a store where there is none; an init that was cut off is finished here.
async fn make(data: &Path, project: &str) -> Result<(Engine, bool), Problem> {
    let created = Engine::init(data, project)?;
    let engine = Engine::sqlite(data, Options::default())?;
    // The store is the user's memory, not part of what they publish.
    let ignore = data.join(".gitignore");
    if std::fs::metadata(&ignore).map_or(0, |meta| meta.len()) == 0 {
        let _ = std::fs::write(ignore, "*\n");
    }
    engine.tasks().recorder(DEFAULT_SESSION).await?;
    Ok((engine, created))
}

/// For a verb that may be a newcomer's first: the store that was found, made where there is none.
pub(super) async fn unless_there(context: &Context) -> Result<(), Problem> {
    if context.data.join("ctx.db").exists() {
        return Ok(());
    }
    make(&context.data, &name_of(Path::new("."))).await.map(drop)
}

/// What a project in a directory is called.
pub(super) fn name_of(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    whole
        .file_name()
        .map_or_else(|| "project".to_owned(), |name| name.to_string_lossy().into_owned())
}
