//! The `git` program in the repository of the working directory.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::problem::Problem;

/// A git repository.
pub(crate) struct Repository {
    /// The root of the work tree.
    pub(crate) root: PathBuf,
}

impl Repository {
    /// Finds the repository of a directory.
    ///
    /// # Errors
    /// If there is none, or `git` cannot be run.
    pub(crate) fn find(dir: &Path) -> Result<Self, Problem> {
        let found = Command::new("git")
            .args(["rev-parse", "--show-toplevel"])
            .current_dir(dir)
            .output()
            .map_err(|error| {
                Problem::failed("git_unavailable", format!("failed to run git: {error}"))
                    .hint("install git")
            })?;
        let root = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        if !found.status.success() || root.is_empty() {
            let message = format!("no git repository found in {}", dir.display());
            return Err(Problem::failed("no_repository", message)
                .hint("run the command in the work tree of a git repository"));
        }
        Ok(Self { root: PathBuf::from(root) })
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("git");
        command.args(["-c", "core.quotePath=false"]).args(arguments);
        command.current_dir(&self.root).env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The output of a command, or `None` if git says no.
    ///
    /// # Errors
    /// If `git` cannot be run.
    pub(super) fn query<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Option<String>, Problem> {
        let output = self.command(arguments).output().map_err(|error| failed(&error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(output.status.success().then_some(text))
    }

    /// The output of a command that must succeed.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String, Problem> {
        let output = self.command(arguments).output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The id of a ref; `None` if it does not exist.
    ///
    /// # Errors
    /// If `git` cannot be run.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<String>, Problem> {
        let commit = format!("{name}^{{commit}}");
        let found = self.query(["rev-parse", "--verify", "--quiet", &commit])?;
        Ok(found.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()))
    }

    /// Moves a ref from `old` to the end of another ref, which is deleted. All or nothing.
    ///
    /// # Errors
    /// If the ref has another value by now.
    pub(super) fn take_over(
        &self,
        name: &str,
        old: Option<&str>,
        from: &str,
    ) -> Result<String, Problem> {
        let new = self.resolve(from)?.ok_or_else(|| failed(&"the import left no commit"))?;
        let update = match old {
            Some(old) => format!("update {name} {new} {old}\n"),
            None => format!("create {name} {new}\n"),
        };
        let mut child = self.start(&["update-ref", "--stdin"])?;
        child.write(format!("{update}delete {from}\n").as_bytes())?;
        child.finish()?;
        Ok(new)
    }

    /// Starts a command that reads its standard input.
    ///
    /// # Errors
    /// If `git` cannot be run.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<GitInput, Problem> {
        let mut command = self.command(arguments);
        let child = command.stdin(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
        Ok(GitInput { child })
    }

    /// Calls `each` with the content of each blob that exists and is at most `max` bytes long.
    ///
    /// # Errors
    /// If `git` fails.
    pub(super) fn each_blob(
        &self,
        ids: &[String],
        max: u64,
        mut each: impl FnMut(&str, &[u8]),
    ) -> Result<(), Problem> {
        let mut command = self.command(["cat-file", "--batch"]);
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let names = ids.join("\n") + "\n";
        // The program writes while it still reads.
        let feeder = std::thread::spawn(move || {
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(names.as_bytes());
            }
        });
        if let Some(stdout) = stdout {
            let mut output = BufReader::new(stdout);
            while let Some((id, bytes)) = next_blob(&mut output, max).map_err(|e| failed(&e))? {
                if let Some(bytes) = bytes {
                    each(&id, &bytes);
                }
            }
        }
        let _ = feeder.join();
        child.wait().map(drop).map_err(|error| failed(&error))
    }
}

/// The next blob of `git cat-file --batch`; without its content if it is missing or too large.
fn next_blob(
    output: &mut impl BufRead,
    max: u64,
) -> std::io::Result<Option<(String, Option<Vec<u8>>)>> {
    let mut header = String::new();
    if output.read_line(&mut header)? == 0 {
        return Ok(None);
    }
    let mut fields = header.split_whitespace();
    let id = fields.next().unwrap_or_default().to_owned();
    let Some(size) = fields.nth(1).and_then(|size| size.parse::<u64>().ok()) else {
        return Ok(Some((id, None)));
    };
    let mut body = output.take(size + 1);
    if size > max {
        std::io::copy(&mut body, &mut std::io::sink())?;
        return Ok(Some((id, None)));
    }
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes)?;
    bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    Ok(Some((id, Some(bytes))))
}

/// A command that reads its standard input.
pub(super) struct GitInput {
    child: Child,
}

impl GitInput {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        match self.child.stdin.as_mut() {
            Some(stdin) => stdin.write_all(bytes).map_err(|error| failed(&error)),
            None => Err(failed(&"its input is closed")),
        }
    }

    /// Writes a block of data as `git fast-import` reads it.
    pub(super) fn data(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.write(format!("data {}\n", bytes.len()).as_bytes())?;
        self.write(bytes)?;
        self.write(b"\n")
    }

    /// Closes the input and waits.
    pub(super) fn finish(mut self) -> Result<(), Problem> {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().map_err(|error| failed(&error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(&String::from_utf8_lossy(&output.stderr).trim()))
    }
}

pub(super) fn failed(why: &dyn std::fmt::Display) -> Problem {
    Problem::failed("git_failed", format!("git failed: {why}"))
        .hint("check the repository with `git fsck`")
}

/// A path as `git fast-import` reads it; `None` if it would leave the tree.
pub(super) fn tree_path(path: &str) -> Option<String> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != ".." && part != ".git";
    if path.contains('\0') || !path.split('/').all(is_plain) {
        return None;
    }
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    Some(format!("\"{escaped}\""))
}

/// A name for an author line.
pub(super) fn author(name: &str) -> String {
    let name: String =
        name.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).take(100).collect();
    let name = name.trim();
    format!("{} <ctx@ctx.invalid>", if name.is_empty() { "ctx" } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_the_tree() {
        assert_eq!(tree_path("a/b c.rs").as_deref(), Some("\"a/b c.rs\""));
        assert_eq!(tree_path("a\"b\\c").as_deref(), Some("\"a\\\"b\\\\c\""));
        for bad in ["../a", "/a", "a//b", "a/../b", ".git/config", "", "a/./b"] {
            assert_eq!(tree_path(bad), None, "{bad}");
        }
        assert_eq!(author("mo<del>\n"), "model <ctx@ctx.invalid>");
        assert_eq!(author(" \n"), "ctx <ctx@ctx.invalid>");
    }
}
