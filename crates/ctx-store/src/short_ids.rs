//! [`Store`] calls about the beginnings of ids.

use ctx_core::id::{ObjectId, SessionId};
use ulid::Ulid;

use crate::relational::{id_rows, session_rows};
use crate::{Error, Store, Target, UlidKind};

impl Store {
    /// The session with a label or alias; else those whose id, or its random half, begins with
    /// `beginning`.
    pub async fn sessions_named(
        &self,
        name: &str,
        beginning: &str,
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        let (name, beginning) = (name.to_owned(), beginning.to_owned());
        self.read_rows(move |db| {
            if let Some(found) = session_rows::find(db, &Target::Label(name.clone()))? {
                return Ok(vec![found.session.id]);
            }
            let ids = id_rows::ids_beginning(db, UlidKind::Session, &beginning, limit)?;
            Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
        })
        .await
    }

    /// The records of a kind whose id, or its random half, begins with a text in upper case.
    pub async fn ids_beginning(
        &self,
        kind: UlidKind,
        beginning: &str,
        limit: usize,
    ) -> Result<Vec<Ulid>, Error> {
        let beginning = beginning.to_owned();
        self.read(move |db| {
            let ids = id_rows::ids_beginning(db, kind, &beginning, limit)?;
            Ok(ids.iter().filter_map(|id| Ulid::from_string(id).ok()).collect())
        })
        .await
    }

    /// The short ids of records, in the same order.
    pub async fn short_ids(&self, kind: UlidKind, ids: Vec<Ulid>) -> Result<Vec<String>, Error> {
        self.read(move |db| {
            ids.iter().map(|id| id_rows::short_id(db, kind, &id.to_string())).collect()
        })
        .await
    }

    /// The short ids of objects, in the same order.
    pub async fn short_hashes(&self, ids: Vec<ObjectId>) -> Result<Vec<String>, Error> {
        self.catch_up_if_writable().await?;
        self.read(move |db| ids.iter().map(|id| id_rows::short_hash(db, *id)).collect()).await
    }
}
