//! [`Store`]: the steps that touched a file.

use crate::relational::task_rows;
use crate::{Error, Store, StoredStep};

impl Store {
    /// The newest steps that touched a file whose path contains a text, newest first. The caller
    /// compares the paths.
    pub async fn file_steps(&self, part: &str, limit: usize) -> Result<Vec<StoredStep>, Error> {
        let part = part.to_owned();
        self.read(move |db| task_rows::file_steps(db, &part, limit)).await
    }
}
