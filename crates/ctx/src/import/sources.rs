//! Which sessions of which tools are on this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ctx_engine::core::time::Timestamp;

use super::Tool;
use super::reading::{Facts, Reading};

/// Directories below a tool's own that are searched.
const DEPTH_MAX: usize = 6;

/// The variables and the home directory that decide where tools store their sessions.
pub(crate) struct Environment {
    home: Option<PathBuf>,
    variable: fn(&str) -> Option<String>,
}

impl Environment {
    /// The environment of this process.
    pub(crate) fn of_process() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self { home: variable("HOME").map(PathBuf::from), variable }
    }

    /// The directory that a variable names.
    pub(crate) fn dir(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).map(PathBuf::from)
    }

    /// The directory for the data of programs.
    pub(crate) fn data_home(&self) -> Option<PathBuf> {
        self.dir("XDG_DATA_HOME").or_else(|| self.in_home(".local/share"))
    }

    /// A directory in the home directory.
    pub(crate) fn in_home(&self, name: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(name))
    }
}

/// One of several sessions in a file.
pub(super) struct SourcePart {
    /// The id that the tool gave it.
    pub(super) id: String,
    /// A number that changes when the session changes.
    pub(super) updated: Option<i64>,
}

/// A session of a tool: a file, or a part of one.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) tool: &'static dyn Tool,
    pub(crate) path: PathBuf,
    /// The id of the session in a file with several.
    pub(crate) part: Option<String>,
    /// The state of that session.
    pub(super) updated: Option<i64>,
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
}

impl Source {
    /// The name of its file without the ending, until its records say the id.
    pub(super) fn name(&self) -> String {
        if let Some(part) = &self.part {
            return part.clone();
        }
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or("session");
        name.split('.').next().unwrap_or(name).to_owned()
    }

    /// When the file was changed.
    pub(crate) fn modified_at(&self) -> Timestamp {
        let since = self.modified.duration_since(SystemTime::UNIX_EPOCH);
        let at = since.ok().and_then(|since| i64::try_from(since.as_millis()).ok());
        Timestamp(self.updated.filter(|_| self.tool.name() == "opencode").or(at).unwrap_or(0))
    }

    /// What a list shows, read from the beginning of the file.
    pub(crate) fn facts(&self) -> io::Result<Facts> {
        let enough = || io::Error::other("enough was read");
        let mut emit = |_| Err(enough());
        let name = self.name();
        let mut reading = Reading::new(self.tool.name(), &name, &mut emit);
        match self.tool.read(self, &mut reading) {
            Err(error) if error.kind() != io::ErrorKind::Other => Err(error),
            _ => Ok(reading.main.facts),
        }
    }
}

/// A file with sessions of a tool, as it was found.
#[derive(Clone)]
pub(crate) struct FoundFile {
    tool: &'static dyn Tool,
    pub(crate) path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

/// What changes when a file or its write-ahead log changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    bytes: u64,
    modified: SystemTime,
    log: Option<(u64, Option<SystemTime>)>,
}

impl FileStamp {
    /// The state of a file; `None` if there is none.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self { bytes: about.len(), modified: about.modified().ok()?, log: log_of(path) })
    }
}

/// Size and time of change of the write-ahead log of a database.
fn log_of(path: &Path) -> Option<(u64, Option<SystemTime>)> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).ok().map(|about| (about.len(), about.modified().ok()))
}

impl FoundFile {
    fn of(tool: &'static dyn Tool, path: PathBuf, about: &fs::Metadata) -> io::Result<Self> {
        Ok(Self { tool, path, bytes: about.len(), modified: about.modified()? })
    }

    /// Identifies the state of the file.
    pub(crate) fn stamp(&self) -> FileStamp {
        FileStamp { bytes: self.bytes, modified: self.modified, log: log_of(&self.path) }
    }

    /// Names the file among those of all tools.
    pub(crate) fn key(&self) -> (&'static str, PathBuf) {
        (self.tool.name(), self.path.clone())
    }

    /// The sessions in the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn sources(&self) -> io::Result<Vec<Source>> {
        let whole = Source {
            tool: self.tool,
            bytes: self.bytes,
            modified: self.modified,
            part: None,
            updated: None,
            path: self.path.clone(),
        };
        let part_of = |part: SourcePart| Source {
            part: Some(part.id),
            updated: part.updated,
            ..whole.clone()
        };
        let parts = self.tool.parts(&whole.path)?;
        Ok(parts
            .map_or_else(|| vec![whole.clone()], |parts| parts.into_iter().map(part_of).collect()))
    }
}

/// The sessions of a tool below a file or directory, oldest first.
///
/// # Errors
/// If the path cannot be read.
pub(crate) fn below(tool: &'static dyn Tool, path: &Path) -> io::Result<Vec<Source>> {
    let mut found = Vec::new();
    for file in files_below(tool, path)? {
        found.extend(file.sources()?);
    }
    Ok(found)
}

/// The files of a tool below a file or directory, oldest first.
///
/// # Errors
/// If the path cannot be read.
pub(crate) fn files_below(tool: &'static dyn Tool, path: &Path) -> io::Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let about = fs::metadata(path)?;
    if about.is_dir() {
        walk(tool, path, 0, &mut found)?;
    } else {
        found.push(FoundFile::of(tool, path.to_path_buf(), &about)?);
    }
    found.sort_by(|a, b| (a.modified, &a.path).cmp(&(b.modified, &b.path)));
    Ok(found)
}

/// The sessions of a tool in its own directories, oldest first.
pub(crate) fn at_home(tool: &'static dyn Tool, environment: &Environment) -> Vec<Source> {
    let homes = tool.homes(environment).into_iter();
    homes.filter_map(|home| below(tool, &home).ok()).flatten().collect()
}

/// The files of a tool in its own directories, oldest first.
pub(crate) fn files_at_home(tool: &'static dyn Tool, environment: &Environment) -> Vec<FoundFile> {
    let homes = tool.homes(environment).into_iter();
    homes.filter_map(|home| files_below(tool, &home).ok()).flatten().collect()
}

fn walk(
    tool: &'static dyn Tool,
    dir: &Path,
    depth: usize,
    found: &mut Vec<FoundFile>,
) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // A link could lead in a circle.
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_dir() && depth < DEPTH_MAX {
            // A directory that cannot be read hides nothing but itself.
            let _ = walk(tool, &path, depth + 1, found);
        } else if kind.is_file()
            && tool.is_source(&path)
            // A tool may delete a file while its directory is read.
            && let Ok(about) = entry.metadata()
        {
            found.push(FoundFile::of(tool, path, &about)?);
        }
    }
    Ok(())
}
