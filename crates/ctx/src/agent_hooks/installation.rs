//! Installs and removes the hook of one tool.
//!
//! The file is replaced as a whole, under its real path. Before that it is copied beside itself, to
//! a name that ends with the hash of the new content. If the content still has this hash,
//! uninstalling restores the copy byte for byte. Otherwise the file was changed since, and only the
//! entries of ctx are removed.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ctx_engine::core::object::Object;

use super::entries::EntryStyle;
use super::{Form, HookedTool, home_dir};
use crate::problem::Problem;

/// Larger settings are refused.
const FILE_MAX_BYTES: u64 = 8 << 20;
const BACKUP_MARK: &str = ".ctx-backup-";
const HASH_CHARS: usize = 16;
/// Directories that an installation creates at most.
const CREATED_DIRS_MAX: usize = 3;
const BEGIN: &str = "// ctx hooks: begin";
const END: &str = "// ctx hooks: end";

/// The file of a tool.
pub(crate) struct Installation {
    tool: &'static dyn HookedTool,
    /// The real path, behind symbolic links.
    path: PathBuf,
}

/// A change of the file that was not made yet.
pub(crate) struct Plan {
    pub(crate) path: PathBuf,
    /// `None` if the file does not exist.
    pub(crate) before: Option<String>,
    /// `None` if the file is removed.
    pub(crate) after: Option<String>,
    /// The copy of the file from before the installation.
    pub(crate) backup: Option<PathBuf>,
    mode: u32,
}

impl Plan {
    pub(crate) fn changes(&self) -> bool {
        self.before != self.after
    }

    /// The change as a unified diff.
    pub(crate) fn diff(&self) -> String {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        let name = |text: Option<&str>| match text {
            Some(_) => self.path.display().to_string(),
            None => "/dev/null".to_owned(),
        };
        similar::TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default())
            .unified_diff()
            .header(&name(before), &name(after))
            .to_string()
    }
}

impl Installation {
    pub(crate) fn of(tool: &'static dyn HookedTool) -> Result<Self, Problem> {
        let path = tool.file().ok_or_else(|| {
            Problem::failed("no_home", "cannot find the settings: HOME is not set")
        })?;
        // A link to a file elsewhere stays a link.
        Ok(Self { tool, path: path.canonicalize().unwrap_or(path) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of events whose hook is installed, and number of all events.
    pub(crate) fn installed(&self) -> Result<(usize, usize), Problem> {
        let text = self.read()?;
        match (self.tool.form(), text) {
            (Form::Entries(style), text) => {
                let blank = text.as_deref().is_none_or(|text| text.trim().is_empty());
                let text = text.filter(|_| !blank).unwrap_or_else(|| "{}".to_owned());
                let found = style.installed(&text).map_err(|why| self.invalid(&why))?;
                Ok((found.len(), style.events.len()))
            }
            (Form::OwnFile(_), text) => {
                Ok((usize::from(text.is_some_and(|text| text.contains(BEGIN))), 1))
            }
        }
    }

    /// What installing would change. Nothing if the same hook is installed.
    pub(crate) fn plan_install(&self, program: &Path) -> Result<Plan, Problem> {
        let before = self.read()?;
        let program = program.to_str().ok_or_else(|| {
            Problem::failed("bad_path", "the path of ctx is not valid UTF-8")
                .hint("move the program to another directory")
        })?;
        let after = match self.tool.form() {
            Form::Entries(style) => self.with_entries(&style, before.as_deref(), program)?,
            Form::OwnFile(template) => self.own_file(template, before.as_deref(), program)?,
        };
        let backup = match self.backup() {
            Some(backup) => Some(backup),
            None => before.as_ref().map(|_| self.backup_path(&after)),
        };
        Ok(Plan { path: self.path.clone(), before, after: Some(after), backup, mode: self.mode() })
    }

    /// Entries with another program or of an older version are replaced.
    fn with_entries(
        &self,
        style: &EntryStyle,
        before: Option<&str>,
        program: &str,
    ) -> Result<String, Problem> {
        let invalid = |why: String| self.invalid(&why);
        let added = style.add(before, program).map_err(invalid)?;
        let Some(before) = before.filter(|text| !text.trim().is_empty()) else { return Ok(added) };
        let bare = style.remove(before, self.backup_text()?.as_deref()).map_err(invalid)?;
        if bare == before {
            return Ok(added);
        }
        let fresh = style.add(Some(&bare), program).map_err(invalid)?;
        // The same entries in another layout are not a change.
        let is_same = style.own_entries(&fresh) == style.own_entries(before);
        Ok(if is_same { before.to_owned() } else { fresh })
    }

    fn own_file(
        &self,
        template: &str,
        before: Option<&str>,
        program: &str,
    ) -> Result<String, Problem> {
        let quoted = serde_json::Value::from(program).to_string();
        let own = template.replace("{{PROGRAM}}", &quoted);
        match before {
            None => Ok(own),
            Some(text) if text.contains(&own) => Ok(text.to_owned()),
            Some(text) => match without_section(text) {
                Some(rest) => Ok(format!("{rest}{own}")),
                None => Err(Problem::failed(
                    "file_exists",
                    format!("{} exists and was not written by ctx", self.path.display()),
                )
                .hint("move the file away and run the command again")),
            },
        }
    }

    /// What uninstalling would change.
    pub(crate) fn plan_uninstall(&self) -> Result<Plan, Problem> {
        let (before, backup) = (self.read()?, self.backup());
        let after = match before.as_deref() {
            None => None,
            Some(text) if backup.as_deref().is_some_and(|it| it == self.backup_path(text)) => {
                self.backup_text()?
            }
            Some(text) => self.without_own(text)?,
        };
        Ok(Plan { path: self.path.clone(), before, after, backup, mode: self.mode() })
    }

    /// The text without the entries of ctx. `None` if nothing is left of a file that ctx created.
    fn without_own(&self, text: &str) -> Result<Option<String>, Problem> {
        match self.tool.form() {
            Form::Entries(style) => {
                let before = self.backup_text()?;
                let left =
                    style.remove(text, before.as_deref()).map_err(|why| self.invalid(&why))?;
                let created = before.is_none() && left != text && EntryStyle::is_blank(&left);
                Ok((!created).then_some(left))
            }
            Form::OwnFile(_) => match without_section(text) {
                Some(left) => Ok((!left.trim().is_empty()).then_some(left)),
                None => Ok(Some(text.to_owned())),
            },
        }
    }

    /// Makes a planned installation.
    pub(crate) fn install(&self, plan: &Plan) -> Result<(), Problem> {
        let Some(after) = plan.after.as_deref().filter(|_| plan.changes()) else { return Ok(()) };
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(|e| self.failed("create the directory of", &e))?;
        }
        let backup = self.backup_path(after);
        match (self.backup(), &plan.before) {
            // The copy keeps the state from before the first installation.
            (Some(existing), _) => fs::rename(existing, &backup),
            (None, Some(before)) => write_file(&backup, before, plan.mode),
            (None, None) => Ok(()),
        }
        .map_err(|e| self.failed("back up", &e))?;
        write_file(&self.path, after, plan.mode).map_err(|e| self.failed("write", &e))
    }

    /// Makes a planned removal, and removes the copy.
    pub(crate) fn uninstall(&self, plan: &Plan) -> Result<(), Problem> {
        if plan.changes() {
            match &plan.after {
                Some(after) => write_file(&self.path, after, plan.mode),
                None => fs::remove_file(&self.path),
            }
            .map_err(|e| self.failed("restore", &e))?;
        }
        if let Some(backup) = self.backup() {
            fs::remove_file(backup).map_err(|e| self.failed("remove the copy of", &e))?;
        }
        if plan.changes() && plan.after.is_none() {
            // Directories that were made for the file; one that has anything in it is kept.
            let home = home_dir();
            for dir in self.path.ancestors().skip(1).take(CREATED_DIRS_MAX) {
                if Some(dir) == home.as_deref() || fs::remove_dir(dir).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<Option<String>, Problem> {
        read_text(&self.path).map_err(|e| self.failed("read", &e))
    }

    fn backup_text(&self) -> Result<Option<String>, Problem> {
        match self.backup() {
            Some(backup) => read_text(&backup).map_err(|e| self.failed("read the copy of", &e)),
            None => Ok(None),
        }
    }

    /// The copy from before the installation.
    pub(crate) fn backup(&self) -> Option<PathBuf> {
        let prefix = format!("{}{BACKUP_MARK}", self.path.file_name()?.to_str()?);
        let names = fs::read_dir(self.path.parent()?).ok()?.flatten();
        let own =
            |name: &str| name.strip_prefix(&prefix).is_some_and(|hash| hash.len() == HASH_CHARS);
        let mut found = names.filter(|it| it.file_name().to_str().is_some_and(own));
        found.next().map(|entry| entry.path())
    }

    fn backup_path(&self, after: &str) -> PathBuf {
        let hash = Object::blob(after.as_bytes().to_vec()).id().to_string();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.path.with_file_name(format!("{name}{BACKUP_MARK}{}", &hash[..HASH_CHARS]))
    }

    fn mode(&self) -> u32 {
        fs::metadata(&self.path).map_or(0o600, |meta| meta.permissions().mode() & 0o777)
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Problem {
        Problem::failed("unwritable", format!("failed to {what} {}: {error}", self.path.display()))
    }

    fn invalid(&self, why: &str) -> Problem {
        let path = self.path.display();
        Problem::failed("bad_settings", format!("cannot change {path}: {why}"))
            .hint(format!("correct the file for {} and run the command again", self.tool.title()))
    }
}

/// The text before and after the section of ctx; `None` if there is no such section.
fn without_section(text: &str) -> Option<String> {
    let start = text.find(BEGIN)?;
    let end = start + text[start..].find(END)? + END.len();
    let end = if text[end..].starts_with('\n') { end + 1 } else { end };
    Some(format!("{}{}", &text[..start], &text[end..]))
}

fn read_text(path: &Path) -> std::io::Result<Option<String>> {
    match fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
        Ok(meta) if meta.len() > FILE_MAX_BYTES => {
            Err(std::io::Error::other(format!("it has more than {FILE_MAX_BYTES} bytes")))
        }
        Ok(_) => fs::read_to_string(path).map(Some),
    }
}

/// Replaces a file as a whole: a crash leaves the old or the new content.
fn write_file(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let part = path.with_file_name(format!("{name}.ctx-{}", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&part)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
