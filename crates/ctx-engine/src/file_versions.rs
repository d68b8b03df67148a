//! The version of a file that was recorded before a task wrote it.

use std::path::Path;

use ctx_core::id::{SessionId, TaskId};
use ctx_core::step::{Entry, Step};
use ctx_core::stored_content::Content;
use ctx_core::time::Timestamp;

use crate::blame::normal;
use crate::engine::Error;
use crate::records::Records;

/// Newest steps of files with the same name that are searched.
const STEPS_MAX: usize = 100;

/// What recorded paths of a session are relative to.
struct Place {
    working_dir: Option<String>,
    /// `None` if the session was deleted.
    project: Option<String>,
}

impl Place {
    /// Whether a path that was recorded here is the same file as one that was recorded there. Paths
    /// of a session without a working directory are relative to the project.
    fn is_same_file(&self, path: &str, there: &Self, other: &str) -> bool {
        if let (Some(here), Some(there)) = (&self.working_dir, &there.working_dir) {
            return normal(&Path::new(here).join(path)) == normal(&Path::new(there).join(other));
        }
        let same_project = match (&self.project, &there.project) {
            (Some(here), Some(there)) => here == there,
            _ => true,
        };
        same_project && path == other
    }
}

impl Records<'_> {
    /// The newest content of a file that other tasks read or wrote until `at`; `None` if there is
    /// none, or the file was deleted last. `path` is the path that `task` recorded.
    ///
    /// Fails if the task does not exist, or the store fails.
    pub async fn version_before(
        self,
        task: TaskId,
        path: &str,
        at: Timestamp,
    ) -> Result<Option<Content>, Error> {
        let Some(name) = Path::new(path).file_name().and_then(|name| name.to_str()) else {
            return Ok(None);
        };
        let Some(own) = self.engine.store().task(task).await? else { return Ok(None) };
        let here = self.place(own.session).await;
        for stored in self.engine.store().file_steps(name, at, STEPS_MAX).await? {
            let step = stored.step;
            if step.task == task {
                continue;
            }
            let there = self.place(step.session).await;
            if let Some(content) =
                last_version(&step, |other| here.is_same_file(path, &there, other))
            {
                return Ok(content);
            }
        }
        Ok(None)
    }

    async fn place(self, session: SessionId) -> Place {
        let session = self.engine.sessions().get(&session.to_string()).await.ok();
        let session = session.map(|info| info.session);
        Place {
            working_dir: session.as_ref().and_then(|session| session.working_dir.clone()),
            project: session.map(|session| session.project),
        }
    }
}

/// The last content of a file in a step; `Some(None)` if it was deleted there.
fn last_version(step: &Step, is_file: impl Fn(&str) -> bool) -> Option<Option<Content>> {
    step.payload.iter().rev().find_map(|entry| match entry {
        Entry::FileWrite { path, content } if is_file(path) => Some(content.clone()),
        Entry::FileRead { path, content } if is_file(path) => Some(Some(content.clone())),
        _ => None,
    })
}
