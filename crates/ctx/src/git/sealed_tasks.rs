//! What sealed tasks wrote, and the git commits that contain it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use ctx_engine::Engine;
use ctx_engine::core::blame::FILE_MAX_BYTES;
use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::{CommitId, SessionId};
use ctx_engine::core::step::Entry;
use ctx_engine::core::stored_content::Content;

use crate::problem::Problem;

use super::repository::Repository;

/// Steps per read.
const STEPS_PAGE: usize = 500;
/// Newest git commits that are searched.
const GIT_COMMITS_MAX: usize = 10_000;

/// A file that a task wrote, by its path in the repository.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct WrittenFile {
    /// The content that was read before the first write.
    pub(super) before: Option<String>,
    /// The last content.
    pub(super) after: Option<String>,
    /// Hashes of all contents that the task wrote.
    versions: HashSet<[u8; 32]>,
}

/// A sealed task and its files.
pub(super) struct SealedTask {
    pub(super) id: CommitId,
    pub(super) commit: Commit,
    pub(super) files: BTreeMap<String, WrittenFile>,
    /// The git commits that contain its work, newest first.
    pub(super) git_commits: Vec<String>,
}

/// The sealed tasks that wrote files of a repository, oldest first.
pub(crate) struct SealedTasks {
    pub(super) tasks: Vec<SealedTask>,
}

/// A commit of the repository.
#[derive(Debug, PartialEq, Eq)]
struct GitCommit {
    id: String,
    /// Seconds since 1970.
    at: i64,
    /// Path and blob of each file that it changed.
    files: Vec<(String, String)>,
}

impl SealedTasks {
    /// Reads the sealed tasks of a session, or of the project. `root` is the directory that
    /// recorded paths are relative to.
    ///
    /// # Errors
    /// If git or the store fails.
    pub(crate) async fn read(
        engine: &Engine,
        repository: &Repository,
        root: &Path,
        session: Option<SessionId>,
    ) -> Result<Self, Problem> {
        let top = repository.root.canonicalize().unwrap_or_else(|_| repository.root.clone());
        let mut tasks = Vec::new();
        for (id, commit) in super::commits(engine, session).await? {
            let dir = engine.sessions().get(&commit.session.to_string()).await.ok();
            let dir = dir.and_then(|info| info.session.working_dir);
            let in_repository = |path: &str| {
                let bases = [Some(root), dir.as_deref().map(Path::new)];
                let inside = |base: &Path| {
                    let path = base.join(path);
                    Some(path.strip_prefix(&top).ok()?.to_str()?.to_owned())
                };
                bases.into_iter().flatten().find_map(inside)
            };
            let files = written_files(engine, &commit, &in_repository).await?;
            if !files.is_empty() {
                tasks.push(SealedTask { id, commit, files, git_commits: Vec::new() });
            }
        }
        let mut sealed = Self { tasks };
        sealed.find_git_commits(repository)?;
        Ok(sealed)
    }

    fn find_git_commits(&mut self, repository: &Repository) -> Result<(), Problem> {
        let oldest = self.tasks.iter().map(|task| task.commit.started_at.0 / 1000).min();
        let Some(oldest) = oldest else { return Ok(()) };
        let since = format!("--since={oldest}");
        let count = format!("--max-count={GIT_COMMITS_MAX}");
        let log = repository.query([
            "log",
            "--format=%x01%H %ct",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "--first-parent",
            "-m",
            &since,
            &count,
            "HEAD",
            "--",
        ])?;
        // A repository without a commit has no HEAD.
        let commits = git_commits(&log.unwrap_or_default());
        let mut wanted: Vec<String> = commits
            .iter()
            .flat_map(|commit| &commit.files)
            .filter(|(path, _)| self.tasks.iter().any(|task| task.files.contains_key(path)))
            .map(|(_, blob)| blob.clone())
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut hashes: HashMap<String, [u8; 32]> = HashMap::new();
        if !wanted.is_empty() {
            repository.each_blob(&wanted, FILE_MAX_BYTES as u64, |id, bytes| {
                hashes.insert(id.to_owned(), hash(bytes));
            })?;
        }
        for task in &mut self.tasks {
            let contains = |commit: &&GitCommit| task.is_in(commit, &hashes);
            task.git_commits =
                commits.iter().filter(contains).map(|commit| commit.id.clone()).collect();
        }
        Ok(())
    }
}

impl SealedTask {
    /// Whether a git commit contains a version that the task wrote, or was made while the task was
    /// open and changed one of its files.
    fn is_in(&self, commit: &GitCommit, hashes: &HashMap<String, [u8; 32]>) -> bool {
        let open = self.commit.started_at.0 / 1000..=self.commit.created_at.0 / 1000;
        commit.files.iter().any(|(path, blob)| {
            self.files.get(path).is_some_and(|file| {
                open.contains(&commit.at)
                    || hashes.get(blob).is_some_and(|hash| file.versions.contains(hash))
            })
        })
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// The commits in the output of `git log --format=%x01%H %ct --raw`.
fn git_commits(log: &str) -> Vec<GitCommit> {
    let parse = |part: &str| {
        let mut lines = part.lines();
        let (id, at) = lines.next()?.split_once(' ')?;
        let file = |line: &str| {
            let (about, path) = line.strip_prefix(':')?.split_once('\t')?;
            let blob = about.split(' ').nth(3)?;
            Some((path.to_owned(), blob.to_owned()))
        };
        let files = lines.filter_map(file).collect();
        Some(GitCommit { id: id.to_owned(), at: at.trim().parse().ok()?, files })
    };
    log.split('\u{1}').filter_map(parse).collect()
}

async fn written_files(
    engine: &Engine,
    commit: &Commit,
    in_repository: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, WrittenFile>, Problem> {
    let mut files: BTreeMap<String, WrittenFile> = BTreeMap::new();
    let mut after = 0;
    loop {
        let steps = engine.tasks().steps(commit.task, after, STEPS_PAGE).await?;
        let Some(last) = steps.last() else { break };
        after = last.seq;
        for entry in steps.into_iter().flat_map(|stored| stored.step.payload) {
            let (path, content, is_write) = match entry {
                Entry::FileRead { path, content } => (path, Some(content), false),
                Entry::FileWrite { path, content } => (path, content, true),
                _ => continue,
            };
            let Some(path) = in_repository(&path) else { continue };
            let bytes = match content {
                Some(content) => bytes_of(engine, &content).await?,
                None => None,
            };
            let file = files.entry(path).or_default();
            let text = bytes.as_ref().and_then(|bytes| String::from_utf8(bytes.clone()).ok());
            if is_write {
                file.versions.extend(bytes.as_deref().map(hash));
                file.after = text;
            } else if file.versions.is_empty() && file.before.is_none() {
                file.before = text;
            }
        }
    }
    files.retain(|_, file| !file.versions.is_empty());
    Ok(files)
}

async fn bytes_of(engine: &Engine, content: &Content) -> Result<Option<Vec<u8>>, Problem> {
    Ok(match content {
        Content::Text(text) => Some(text.clone().into_bytes()),
        Content::Blob { blob, bytes } if *bytes <= FILE_MAX_BYTES as u64 => {
            engine.records().object(blob.0).await?.map(|object| object.bytes)
        }
        Content::Blob { .. } | Content::Omitted { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_git_is_read_with_its_files() {
        let log = "\u{1}aaa 17\n\n:100644 100644 old new M\ta b.rs\n\
                   :000000 100644 000 n2 A\tsrc/c.rs\n\u{1}bbb 16\n";
        let file = |path: &str, blob: &str| (path.to_owned(), blob.to_owned());
        assert_eq!(
            git_commits(log),
            [
                GitCommit {
                    id: "aaa".to_owned(),
                    at: 17,
                    files: vec![file("a b.rs", "new"), file("src/c.rs", "n2")],
                },
                GitCommit { id: "bbb".to_owned(), at: 16, files: vec![] },
            ]
        );
        assert_eq!(git_commits(""), []);
    }
}
