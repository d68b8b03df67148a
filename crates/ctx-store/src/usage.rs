//! [`Store`]: sums of tokens, cost, messages and time.

use ctx_core::id::SessionId;
use ctx_core::usage_query::UsageQuery;

use crate::relational::{session_rows, usage_rows};
use crate::{Error, Store, UsageRow};

/// What was used in the scopes of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageOfScopes {
    /// By all sessions on a day.
    pub day: Vec<UsageRow>,
    /// By a session.
    pub session: Vec<UsageRow>,
}

impl Store {
    /// The sums of a query, by its keys and by provider and model. Forks share turns; a turn counts
    /// once, for the session that made it.
    pub async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
        self.read(move |db| usage_rows::list(db, &query)).await
    }

    /// The sums of a day and of a session, by provider and model.
    pub async fn usage_of_scopes(
        &self,
        session: SessionId,
        day: i64,
    ) -> Result<UsageOfScopes, Error> {
        self.read_rows(move |db| {
            let session = session_rows::known_row(db, session)?;
            let (day, session) = usage_rows::of_scopes(db, session, day)?;
            Ok(UsageOfScopes { day, session })
        })
        .await
    }
}
