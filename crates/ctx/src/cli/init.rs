//! `ctx init`: create a store for a project.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use ctx_engine::{CommitQuery, DEFAULT_SESSION, Engine, Info, Location, Options, PAGE_MAX};
use serde_json::json;

use crate::data_dir::{DIR_NAME, project_root, user_data_dir};
use crate::problem::Problem;

use super::Context;
use super::output::plural;
use super::session::terminal_prompts;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Create the store in .ctx inside this directory
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Name the project [default: the name of the directory]
    #[arg(long)]
    project: Option<String>,
    /// Move the conversations of this directory here from the store of the user
    #[arg(long = "move")]
    moves: bool,
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
    let store = match &location {
        Location::Directory(dir) => {
            dir.canonicalize().unwrap_or_else(|_| dir.clone()).display().to_string()
        }
        server @ Location::Server(_) => server.to_string(),
    };
    let elsewhere = match &location {
        Location::Directory(dir) => Elsewhere::find(dir, &args.dir).await?,
        Location::Server(_) => None,
    };
    let text = match created {
        true => format!("Created a store for {} in {store}", engine.project()),
        false => format!("The store for {} already exists in {store}", engine.project()),
    };
    let mut document =
        json!({"data": data, "store": store, "project": engine.project(), "created": created});
    let Some(elsewhere) = elsewhere else { return context.out.print(|| document, || text) };
    let is_asked = terminal_prompts::is_interactive(context) && !args.moves;
    let notice = elsewhere.notice();
    let what = if elsewhere.sessions.len() == 1 { "it" } else { "them" };
    let moves = match is_asked {
        true => {
            context.out.print_text(&format!("{text}\n{notice}\n"))?;
            let answer = terminal_prompts::read_line(&format!("Move {what} here? [y/N] ")).await?;
            answer.is_some_and(|answer| matches!(answer.as_str(), "y" | "Y" | "yes"))
        }
        false => args.moves,
    };
    let mut lines = if is_asked { Vec::new() } else { vec![text] };
    if moves {
        let moved = elsewhere.move_to(&engine).await?;
        lines.push(format!("Moved {} here.", plural(moved.sessions, "conversation")));
        if moved.tasks > 0 {
            let tasks = plural(moved.tasks, "task");
            lines.push(format!("{tasks} moved too. Commits have new ids: `ctx log` lists them."));
        }
        if moved.left > 0 {
            let left = plural(moved.left, "conversation");
            lines.push(format!("{left} stayed: busy, or with waiting messages or questions."));
        }
        document["moved"] =
            json!({"sessions": moved.sessions, "tasks": moved.tasks, "left": moved.left});
    } else {
        let how = format!("Move {what} here with `ctx init --move`.");
        lines.push(if is_asked { how } else { format!("{notice}\n{how}") });
    }
    document["elsewhere"] = json!({"store": elsewhere.dir, "sessions": elsewhere.sessions.len()});
    context.out.print(|| document, || lines.join("\n"))
}

/// What a move did.
#[derive(Default)]
struct Moved {
    sessions: u64,
    tasks: u64,
    /// Conversations that stayed.
    left: u64,
}

/// Conversations of this directory in the store of the user.
struct Elsewhere {
    dir: PathBuf,
    engine: Engine,
    sessions: Vec<Info>,
}

impl Elsewhere {
    /// Looks into the store of the user, if there is one and it is another one.
    async fn find(store: &Path, project: &Path) -> Result<Option<Self>, Problem> {
        let same = |a: &Path, b: &Path| a.canonicalize().ok() == b.canonicalize().ok();
        let Some(dir) = user_data_dir().filter(|dir| dir.join("ctx.db").exists()) else {
            return Ok(None);
        };
        if same(&dir, store) {
            return Ok(None);
        }
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let engine = Engine::open(Location::from(&dir), Options::default())?;
        let mut found =
            engine.sessions().in_directory(&project.to_string_lossy(), PAGE_MAX).await?;
        // In the order of their newest commits, so that HEAD is the newest one after the move.
        let query = CommitQuery { limit: PAGE_MAX, ..CommitQuery::default() };
        let commits = engine.records().commits(&query).await?;
        let age =
            |info: &Info| commits.iter().position(|(_, commit)| commit.session == info.session.id);
        // The default session of the directory is no conversation as long as it is empty.
        found.retain(|info| {
            info.session.turn_count > 0 || info.task.is_some() || age(info).is_some()
        });
        found.sort_by_key(|info| Reverse(age(info).unwrap_or(usize::MAX)));
        Ok((!found.is_empty()).then_some(Self { dir, engine, sessions: found }))
    }

    fn notice(&self) -> String {
        let count = plural(self.sessions.len() as u64, "conversation");
        let verb = if self.sessions.len() == 1 { "is" } else { "are" };
        format!("{count} of this directory {verb} in {}.", self.dir.display())
    }

    /// Moves the conversations with their tasks and commits. One that runs, or has something that a
    /// bundle does not hold, stays. Each is deleted in the old store after the new one has all of
    /// it.
    async fn move_to(&self, to: &Engine) -> Result<Moved, Problem> {
        let mut moved = Moved::default();
        for info in &self.sessions {
            let session = info.session.id.to_string();
            let is_open = info.is_busy() || !info.inbox.is_empty() || info.prompt.is_some();
            if is_open || !info.suspensions.is_empty() {
                moved.left += 1;
                continue;
            }
            let mut export = self.engine.bundles().export(&session).await?;
            let mut bytes = Vec::new();
            while let Some(part) = export.next_part().await? {
                bytes.extend(part);
            }
            let imported = to.bundles().move_here(&bytes).await?;
            let here = imported.session.to_string();
            let arrived = to.sessions().get(&here).await?.session;
            if imported.tasks_left > 0 || arrived.turn_count != info.session.turn_count {
                moved.left += 1;
                continue;
            }
            for pin in self.engine.contexts().pins(&session).await? {
                to.contexts().pin(&here, pin.turn).await?;
            }
            self.engine.sessions().delete(&session).await?;
            moved.sessions += 1;
            moved.tasks += imported.tasks as u64;
        }
        Ok(moved)
    }
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
    if !project.is_empty() {
        engine.tasks().recorder(DEFAULT_SESSION).await?;
    }
    Ok((engine, created))
}

/// Creates the store if it does not exist. For verbs that a new user may run first.
pub(super) async fn ensure_store(context: &Context) -> Result<(), Problem> {
    let location = context.location(&context.config()?)?;
    if matches!(&location, Location::Directory(dir) if dir.join("ctx.db").exists()) {
        return Ok(());
    }
    create(&location, &implicit_project(context, &location)).await.map(drop)
}

/// The project of a store that is created without `ctx init`. The store in the user's data
/// directory is shared by projects, so it has none.
pub(super) fn implicit_project(context: &Context, location: &Location) -> String {
    match location {
        Location::Directory(dir) if Some(dir) == user_data_dir().as_ref() => String::new(),
        Location::Directory(dir) => project_name(&project_root(dir)),
        Location::Server(_) => project_name(&project_root(&context.data)),
    }
}

/// The working directory. It is the project in a store that is shared by projects.
pub(super) fn current_dir() -> String {
    let here = Path::new(".").canonicalize().unwrap_or_else(|_| Path::new(".").to_owned());
    here.to_string_lossy().into_owned()
}

/// The default name of a project: that of its directory.
pub(super) fn project_name(dir: &Path) -> String {
    let absolute = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    absolute
        .file_name()
        .map_or_else(|| "project".to_owned(), |name| name.to_string_lossy().into_owned())
}
