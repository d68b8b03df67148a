//! [`Store`]: the steps that touched a file.

use ctx_core::time::Timestamp;

use crate::relational::task_rows;
use crate::{Error, Store, StoredStep};

impl Store {
    /// The newest steps until a time that touched a file whose path contains a text, newest first.
    /// The caller compares the paths.
    pub async fn file_steps(
        &self,
        part: &str,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<StoredStep>, Error> {
        let part = part.to_owned();
        self.read(move |db| task_rows::file_steps(db, &part, until, limit)).await
    }
}
