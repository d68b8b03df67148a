//! `policies.yaml`: reading it, and reading it again when it changes while the server runs.
//!
//! A file that cannot be read or parsed never replaces the policies in force. A file that does not
//! exist means that there are no policies, so that no message from a channel is admitted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctx_engine::core::policy::{FILE_MAX_BYTES, Policies, PolicyError};
use ctx_engine::{Engine, Persona};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

const FILE_NAME: &str = "policies.yaml";
/// Interval between two looks at the file. A change takes effect after two of them at most.
const POLL: Duration = Duration::from_millis(200);

/// The path of the policies: beside the configuration file if it is named, else in the data
/// directory.
pub(crate) fn path(data: &Path, config: Option<&Path>) -> PathBuf {
    match config {
        Some(config) => config.with_file_name(FILE_NAME),
        None => data.join(FILE_NAME),
    }
}

/// Reads and parses a file. `None` if it does not exist.
///
/// Fails if it cannot be read, or a policy is not valid.
pub(crate) fn load(path: &Path) -> Result<Option<Policies>, Problem> {
    match read(path)? {
        Some(text) => Policies::parse(&text).map(Some).map_err(|error| invalid(path, &error)),
        None => Ok(None),
    }
}

/// A warning for each persona that a policy sets and the configuration does not have.
pub(crate) fn unknown_personas<T>(
    policies: &Policies,
    personas: &BTreeMap<String, T>,
) -> Vec<String> {
    let unknown = policies.personas().into_iter().filter(|(name, _)| !personas.contains_key(*name));
    unknown
        .map(|(persona, policy)| {
            format!("policy `{policy}` sets the persona `{persona}`, which ctx.toml does not have")
        })
        .collect()
}

fn read(path: &Path) -> Result<Option<String>, Problem> {
    let failed = |why: String| {
        Problem::failed("bad_policies", format!("failed to read {}: {why}", path.display()))
            .with("file", json!(path))
    };
    match std::fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e.to_string())),
        // Opening a pipe would wait for a writer.
        Ok(found) if !found.is_file() => return Err(failed("it is not a regular file".to_owned())),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let limit = FILE_MAX_BYTES as u64 + 1;
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e.to_string())),
        Ok(_) => {}
    }
    if bytes.len() > FILE_MAX_BYTES {
        let message = format!("the file has more than {FILE_MAX_BYTES} bytes");
        return Err(invalid(path, &PolicyError { line: None, policy: None, message }));
    }
    String::from_utf8(bytes).map(Some).map_err(|e| {
        let valid = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        let message = "the text is not valid UTF-8".to_owned();
        invalid(path, &PolicyError { line: Some(line), policy: None, message })
    })
}

/// The error of a file: its path, the line, the policy and the fault.
fn invalid(path: &Path, error: &PolicyError) -> Problem {
    let line = error.line.map_or_else(String::new, |line| format!(", line {line}"));
    let policy =
        error.policy.as_ref().map_or_else(String::new, |policy| format!(", policy `{policy}`"));
    let message = format!("{}{line}{policy}: {}", path.display(), error.message);
    Problem::failed("bad_policies", message)
        .with("file", json!(path))
        .with("line", json!(error.line))
        .with("policy", json!(error.policy))
}

/// What changes when a file is written or replaced. `None` if there is no file.
type Stamp = Option<(u64, u64, i64, i64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    let (modified, changed) =
        ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
    Some((found.ino(), found.len(), modified.0, modified.1, changed.0, changed.1))
}

/// The policies of a server and the file that they come from.
pub(crate) struct PolicyFile {
    path: PathBuf,
    /// The state of the file when it was read.
    read: Stamp,
    /// The policies that were read and are not in force yet.
    loaded: Option<Policies>,
}

impl PolicyFile {
    /// Reads the file.
    ///
    /// Fails if it cannot be read, or a policy is not valid.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Problem> {
        // The stamp is taken first: a write while the file is read is noticed later.
        let read = stamp(&path);
        let loaded = load(&path)?;
        Ok(Self { path, read, loaded })
    }

    /// Brings the policies that were read into force.
    pub(crate) fn apply(&mut self, engine: &Engine) {
        let policies = self.loaded.take();
        report(&self.path, policies.as_ref(), &engine.providers().personas);
        engine.inbound().set_policies(policies);
    }

    /// Reads the file again whenever it changed, until the server shuts down.
    ///
    /// A file is read when two consecutive looks found it in the same state, so that a file that is
    /// being written is not read half.
    pub(crate) async fn watch(mut self, engine: Engine, shutdown: CancellationToken) {
        let mut seen = self.read;
        while shutdown.run_until_cancelled(tokio::time::sleep(POLL)).await.is_some() {
            let (path, read, before) = (self.path.clone(), self.read, seen);
            let look = tokio::task::spawn_blocking(move || {
                let now = stamp(&path);
                let is_new = now != read && now == before;
                (now, is_new.then(|| load(&path)))
            });
            let Ok((now, loaded)) = look.await else { continue };
            seen = now;
            let Some(loaded) = loaded else { continue };
            self.read = now;
            match loaded {
                Ok(policies) => {
                    self.loaded = policies;
                    self.apply(&engine);
                }
                Err(problem) => tracing::error!(
                    code = %problem.code,
                    "the policies were not reloaded, those before stay in force: {}",
                    problem.message
                ),
            }
        }
    }
}

fn report(path: &Path, policies: Option<&Policies>, personas: &BTreeMap<String, Persona>) {
    let file = path.display();
    match policies {
        Some(policies) => {
            tracing::info!(policies = policies.len(), %file, "policies are in force");
            for warning in unknown_personas(policies, personas) {
                tracing::warn!(%file, "{warning}");
            }
        }
        None => tracing::info!(
            policies = 0,
            %file,
            "there is no policies.yaml: messages from channels are not admitted"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_are_beside_the_configuration() {
        for (config, expected) in [
            (None, "data/policies.yaml"),
            (Some("etc/my.toml"), "etc/policies.yaml"),
            (Some("my.toml"), "policies.yaml"),
        ] {
            assert_eq!(path(Path::new("data"), config.map(Path::new)), Path::new(expected));
        }
    }

    #[test]
    fn only_a_missing_file_means_no_policies() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(FILE_NAME);
        assert_eq!(load(&file).expect("none"), None);
        std::fs::write(&file, "name: a\n").expect("a file");
        assert_eq!(load(&file).expect("a policy").map(|policies| policies.len()), Some(1));
        let message = |path: &Path| load(path).expect_err("refused").message;
        assert!(message(dir.path()).ends_with("it is not a regular file"));
        std::fs::write(&file, b"name: a\nmatch: \xff\n").expect("a file");
        assert!(message(&file).ends_with("line 2: the text is not valid UTF-8"));
        std::fs::write(&file, "#".repeat(FILE_MAX_BYTES + 1)).expect("a file");
        assert!(message(&file).contains("more than 1000000 bytes"), "{}", message(&file));
        // A character of several bytes at the limit is not taken for invalid UTF-8.
        std::fs::write(&file, format!("{}é", "#".repeat(FILE_MAX_BYTES))).expect("a file");
        assert!(message(&file).contains("more than 1000000 bytes"), "{}", message(&file));
    }
}
