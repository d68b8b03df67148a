//! A page of sessions with all that a list shows of them: one query per table, however many sessions there are.

use std::collections::HashMap;

use ctx_core::decide::SessionView;
use ctx_core::session::Activity;
use rusqlite::Connection;

use crate::{Error, SessionQuery};

use super::rows::{self, SessionRow};
use super::{list, talk};

/// The sessions that are asked for, in order.
pub(crate) fn of_page(
    connection: &Connection,
    query: &SessionQuery,
) -> Result<Vec<SessionView>, Error> {
    let found = list::session_rows(connection, query)?;
    let busy = |state: Activity| move |found: &&SessionRow| found.session.state == state;
    let all = list_of(found.iter().map(|found| found.row))?;
    let suspended = list_of(found.iter().filter(busy(Activity::Suspended)).map(|found| found.row))?;
    let active = list_of(
        found.iter().filter(|found| found.session.state != Activity::Idle).map(|found| found.row),
    )?;
    let tasks = rows::tasks_by_rows(
        connection,
        &list_of(found.iter().filter_map(|found| found.task_row))?,
    )?;
    let mut tasks: HashMap<_, _> = tasks.into_iter().map(|task| (task.session, task)).collect();
    let mut inboxes = grouped(talk::inboxes(connection, &all)?);
    let mut runs = grouped(talk::newest_runs(connection, &active)?);
    let mut suspensions = grouped(talk::suspensions_of(connection, &suspended)?);
    let view = |found: SessionRow| {
        let prompt = found
            .prompt
            .as_deref()
            .map(|text| rows::json("a session's question", text))
            .transpose()?;
        Ok(SessionView {
            task: tasks.remove(&found.session.id),
            prompt,
            run: runs.remove(&found.row).and_then(|mut runs| runs.pop()),
            suspensions: suspensions.remove(&found.row).unwrap_or_default(),
            inbox: inboxes.remove(&found.row).unwrap_or_default(),
            ..SessionView::bare(found.session)
        })
    };
    found.into_iter().map(view).collect()
}

fn list_of(rows: impl Iterator<Item = i64>) -> Result<String, Error> {
    serde_json::to_string(&rows.collect::<Vec<_>>()).map_err(|e| Error::Internal(e.to_string()))
}

fn grouped<T>(rows: Vec<(i64, T)>) -> HashMap<i64, Vec<T>> {
    let mut groups: HashMap<i64, Vec<T>> = HashMap::new();
    for (session, one) in rows {
        groups.entry(session).or_default().push(one);
    }
    groups
}
