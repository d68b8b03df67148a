//! `ctx init`: create a store for a project.

use std::path::{Path, PathBuf};

use ctx_engine::{Engine, Location, Options};
use serde_json::json;

use crate::data_dir::DIR_NAME;
use crate::problem::Problem;

use super::{Context, DEFAULT_SESSION};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Create the store in .ctx inside this directory
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Name the project [default: the name of the directory]
    #[arg(long)]
    project: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let data = if context.data_is_named { context.data.clone() } else { args.dir.join(DIR_NAME) };
    let project = args.project.clone().unwrap_or_else(|| project_name(&args.dir));
    let location = match context.location(&context.config()?)? {
        server @ Location::Server(_) => server,
        Location::Directory(dir) if context.store.is_some() => Location::Directory(dir),
        Location::Directory(_) => Location::from(&data),
    };
    let (engine, created) = create(&location, &project).await?;
    let data = data.canonicalize().unwrap_or(data);
    let store = match location {
        Location::Directory(dir) => dir.canonicalize().unwrap_or(dir).display().to_string(),
        server @ Location::Server(_) => server.to_string(),
    };
    context.out.print(
        || json!({"data": data, "store": store, "project": engine.project(), "created": created}),
        || match created {
            true => format!("Created a store for {} in {store}", engine.project()),
            false => format!("The store for {} already exists in {store}", engine.project()),
        },
    )
}

/// Creates a store if it does not exist, and completes an `init` that was interrupted.
async fn create(location: &Location, project: &str) -> Result<(Engine, bool), Problem> {
    let created = Engine::init(location, project)?;
    let engine = Engine::open(location, Options::default())?;
    if let Location::Directory(dir) = location {
        // The store must not be committed to the project's repository.
        let ignore = dir.join(".gitignore");
        if std::fs::metadata(&ignore).map_or(0, |meta| meta.len()) == 0 {
            let _ = std::fs::write(ignore, "*\n");
        }
    }
    engine.tasks().recorder(DEFAULT_SESSION).await?;
    Ok((engine, created))
}

/// Creates the store if it does not exist. For verbs that a new user may run first.
pub(super) async fn ensure_store(context: &Context) -> Result<(), Problem> {
    let location = context.location(&context.config()?)?;
    if matches!(&location, Location::Directory(dir) if dir.join("ctx.db").exists()) {
        return Ok(());
    }
    create(&location, &project_name(Path::new("."))).await.map(drop)
}

/// The default name of a project: that of its directory.
pub(super) fn project_name(dir: &Path) -> String {
    let absolute = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    absolute
        .file_name()
        .map_or_else(|| "project".to_owned(), |name| name.to_string_lossy().into_owned())
}
