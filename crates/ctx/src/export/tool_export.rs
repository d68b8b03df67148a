//! A session into the home of a tool. The target appears complete or not at all, and a session that
//! is there is never changed.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ctx_engine::Engine;
use ctx_engine::core::redaction::Redactor;
use ctx_engine::core::session::Session;
use serde_json::Value;

use crate::import::Environment;
use crate::problem::Problem;

use super::claude_code_file::ClaudeCodeFile;
use super::codex_rollout::CodexRollout;
use super::native_ids::NativeIds;
use super::new_file::NewFile;
use super::opencode_database::database_path;
use super::opencode_rows::OpenCodeRows;
use super::pi_file::PiFile;
use super::session_reader::{Secrets, SessionReader, TurnOrder};
use super::{Native, NativeSession, NativeTool};

/// The provider of Codex without a configured one.
const CODEX_PROVIDER: &str = "openai";

/// A session that was written for a tool.
pub(crate) struct ToolExport {
    pub(crate) session: Session,
    /// The id that the tool knows the session by.
    pub(crate) id: String,
    /// The file or database that contains it.
    pub(crate) file: PathBuf,
    pub(crate) working_dir: String,
    /// The command that continues it.
    pub(crate) resume_command: String,
    pub(crate) redactor: Redactor,
}

/// Writes a session into the home of a tool, or below `output` in its place.
///
/// # Errors
/// If the tool has the session, its home is unknown or cannot be written, or the store fails.
pub(crate) async fn export_to_tool(
    engine: &Engine,
    name: &str,
    tool: NativeTool,
    output: Option<&Path>,
    secrets: Secrets,
) -> Result<ToolExport, Problem> {
    let environment = Environment::of_process();
    let (home, own_place) = match output {
        Some(dir) => {
            let dir = std::path::absolute(dir).map_err(|error| not_written(tool, dir, &error))?;
            (dir, None)
        }
        None => {
            let home = home_of(tool, &environment).ok_or_else(|| unknown_home(tool))?;
            (home, own_place(tool, &environment))
        }
    };
    let place = Place { home: home.clone(), own_place };
    let mut reader = SessionReader::open(engine, name, TurnOrder::AsRequested, secrets).await?;
    let native = native_session(tool, reader.session())?;
    let mut writing = Writing::start(tool, &place, &native, &environment)
        .map_err(|error| not_written(tool, &home, &error))?;
    while let Some(turns) = reader.next().await? {
        for turn in &turns {
            writing.turn(turn).map_err(|error| not_written(tool, &home, &error))?;
        }
    }
    let (id, file) = writing.finish().map_err(|error| not_written(tool, &home, &error))?;
    let elsewhere = output.map(|_| home.as_path());
    Ok(ToolExport {
        resume_command: resume_command(tool, &id, &native.working_dir, elsewhere),
        id,
        file,
        working_dir: native.working_dir,
        redactor: reader.redactor().clone(),
        session: reader.session().clone(),
    })
}

/// The directory that the variable of a tool names, or its default.
fn home_of(tool: NativeTool, environment: &Environment) -> Option<PathBuf> {
    match tool {
        NativeTool::ClaudeCode => {
            environment.dir("CLAUDE_CONFIG_DIR").or_else(|| environment.in_home(".claude"))
        }
        NativeTool::Codex => {
            environment.dir("CODEX_HOME").or_else(|| environment.in_home(".codex"))
        }
        NativeTool::OpenCode => environment.data_home(),
        NativeTool::Pi => {
            environment.dir("PI_CODING_AGENT_DIR").or_else(|| environment.in_home(".pi/agent"))
        }
    }
}

/// Where a session is written.
struct Place {
    home: PathBuf,
    /// The place of sessions, if the user moved it out of the home.
    own_place: Option<PathBuf>,
}

/// The directory of sessions of pi, or the database of OpenCode, that a variable names.
fn own_place(tool: NativeTool, environment: &Environment) -> Option<PathBuf> {
    match tool {
        NativeTool::Pi => environment.dir("PI_CODING_AGENT_SESSION_DIR"),
        NativeTool::OpenCode => {
            environment.dir("OPENCODE_DB").filter(|path| path.as_os_str() != ":memory:")
        }
        NativeTool::ClaudeCode | NativeTool::Codex => None,
    }
}

/// The variable that names the home of a tool.
const fn variable_of(tool: NativeTool) -> &'static str {
    match tool {
        NativeTool::ClaudeCode => "CLAUDE_CONFIG_DIR",
        NativeTool::Codex => "CODEX_HOME",
        NativeTool::OpenCode => "XDG_DATA_HOME",
        NativeTool::Pi => "PI_CODING_AGENT_DIR",
    }
}

fn native_session(tool: NativeTool, session: &Session) -> Result<NativeSession, Problem> {
    let working_dir = match &session.working_dir {
        Some(dir) => dir.clone(),
        // A session without a directory is continued where it was exported.
        None => std::env::current_dir()
            .map_err(|error| {
                Problem::failed("working_dir_missing", format!("no working directory: {error}"))
            })?
            .display()
            .to_string(),
    };
    Ok(NativeSession {
        ids: NativeIds::new(session, tool.name()),
        title: session.title.clone(),
        working_dir,
        created_at: session.created_at,
        updated_at: session.last_activity_at,
    })
}

fn resume_command(tool: NativeTool, id: &str, working_dir: &str, home: Option<&Path>) -> String {
    let variable = home
        .map(|home| format!("{}={} ", variable_of(tool), shell_word(&home.display().to_string())));
    let command = match tool {
        NativeTool::ClaudeCode => "claude --resume",
        NativeTool::Codex => "codex resume",
        NativeTool::OpenCode => "opencode --session",
        NativeTool::Pi => "pi --session",
    };
    let dir = shell_word(working_dir);
    format!("cd {dir} && {}{command} {id}", variable.unwrap_or_default())
}

/// A word for a shell, in quotes if it needs them.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn unknown_home(tool: NativeTool) -> Problem {
    let (name, variable) = (tool.name(), variable_of(tool));
    Problem::failed("no_home", format!("the home of {name} is unknown: HOME is not set"))
        .hint(format!("set {variable}, or give a directory: `--output DIR`"))
}

fn not_written(tool: NativeTool, home: &Path, error: &io::Error) -> Problem {
    let (name, home) = (tool.name(), home.display());
    match error.kind() {
        ErrorKind::AlreadyExists => {
            let message = format!("{name} has this session already in {home}: nothing was changed");
            Problem::failed("target_exists", message)
                .hint("continue the session that is there, or write elsewhere: `--output DIR`")
        }
        ErrorKind::Unsupported => {
            let message = format!("the database of {name} in {home} cannot be written: {error}");
            Problem::failed("unsupported_version", message)
                .hint("export to another tool, or as `--to jsonl`")
        }
        ErrorKind::StorageFull => {
            Problem::failed("disk_full", format!("failed to write to {home}: {error}"))
        }
        _ => Problem::failed("output", format!("failed to write to {home}: {error}"))
            .hint("check that you may write there, or give a directory: `--output DIR`"),
    }
}

/// A target that is being written.
enum Writing {
    File {
        format: Box<dyn Native>,
        file: NewFile,
        buffer: Vec<u8>,
    },
    /// The database, and the file that becomes the database if there was none.
    Database {
        rows: Box<OpenCodeRows>,
        path: PathBuf,
        new: Option<NewFile>,
    },
}

impl Writing {
    fn start(
        tool: NativeTool,
        place: &Place,
        native: &NativeSession,
        environment: &Environment,
    ) -> io::Result<Self> {
        let home = &place.home;
        let format: Box<dyn Native> = match tool {
            NativeTool::ClaudeCode => Box::new(ClaudeCodeFile::new(native)),
            NativeTool::Codex => Box::new(CodexRollout::new(native, codex_provider(home))),
            NativeTool::Pi => Box::new(PiFile::new(native)),
            NativeTool::OpenCode => return Self::database(place, native, environment),
        };
        let path = format.path();
        let path = match (&place.own_place, path.file_name()) {
            (Some(dir), Some(name)) => dir.join(name),
            _ => home.join(path),
        };
        let file = NewFile::create(&path)?;
        let mut writing = Self::File { format, file, buffer: Vec::new() };
        if let Self::File { format, file, buffer } = &mut writing {
            format.start(buffer);
            file.write(buffer)?;
        }
        Ok(writing)
    }

    fn database(
        place: &Place,
        native: &NativeSession,
        environment: &Environment,
    ) -> io::Result<Self> {
        let path = database_path(&place.home, place.own_place.as_deref());
        let configured = opencode_model(environment);
        if path.exists() {
            let rows = Box::new(OpenCodeRows::create(&path, native, configured)?);
            return Ok(Self::Database { rows, path, new: None });
        }
        let new = NewFile::create(&path)?;
        // SQLite creates the file itself.
        fs::remove_file(new.part())?;
        let rows = Box::new(OpenCodeRows::create(new.part(), native, configured)?);
        Ok(Self::Database { rows, path, new: Some(new) })
    }

    fn turn(&mut self, turn: &super::Turn) -> io::Result<()> {
        match self {
            Self::File { format, file, buffer } => {
                buffer.clear();
                format.turn(turn, buffer);
                file.write(buffer)
            }
            Self::Database { rows, .. } => rows.turn(turn),
        }
    }

    /// Makes the target visible. Returns the id of the session and its file.
    fn finish(self) -> io::Result<(String, PathBuf)> {
        match self {
            Self::File { mut format, mut file, mut buffer } => {
                buffer.clear();
                format.end(&mut buffer);
                file.write(&buffer)?;
                let id = format.id().to_owned();
                let path = file.path().to_owned();
                file.finish()?;
                Ok((id, path))
            }
            Self::Database { rows, path, new } => {
                let id = rows.finish()?;
                if let Some(new) = new {
                    new.finish()?;
                }
                Ok((id, path))
            }
        }
    }
}

/// The provider of the configuration of Codex.
fn codex_provider(home: &Path) -> String {
    let text = fs::read_to_string(home.join("config.toml")).unwrap_or_default();
    let config: Option<toml::Table> = text.parse().ok();
    let provider =
        config.and_then(|config| Some(config.get("model_provider")?.as_str()?.to_owned()));
    provider.unwrap_or_else(|| CODEX_PROVIDER.to_owned())
}

/// The model of the configuration of OpenCode: provider and model.
fn opencode_model(environment: &Environment) -> Option<(String, String)> {
    let home = environment.dir("XDG_CONFIG_HOME").or_else(|| environment.in_home(".config"))?;
    let text = fs::read_to_string(home.join("opencode").join("opencode.json")).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    let (provider, model) = config.get("model")?.as_str()?.split_once('/')?;
    Some((provider.to_owned(), model.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_resume_is_valid_in_a_shell() {
        let command = resume_command(NativeTool::Codex, "id", "/home/me/it's", None);
        assert_eq!(command, r"cd '/home/me/it'\''s' && codex resume id");
        let command = resume_command(NativeTool::Pi, "id", "/p", Some(Path::new("/x y")));
        assert_eq!(command, "cd /p && PI_CODING_AGENT_DIR='/x y' pi --session id");
    }
}
