//! The writer of the crash tests: several sessions append turns until the process is killed. Every
//! turn that it printed must exist afterwards.

use std::io::Write;
use std::sync::Arc;

use serde_json::Value;
use ulid::Ulid;

use crate::problem::Problem;

use super::store_cells::AppendSession;
use super::workload::Workload;
use super::{CellArgs, open};

/// Prints `label turn` for every turn after it is on disk. Returns only on an error.
pub(super) async fn run(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let work = Arc::new(Workload::new());
    // The store is reused by later processes, so labels must be unique.
    let prefix = Ulid::new();
    let writer = |n: u64| {
        let (engine, work) = (engine.clone(), work.clone());
        tokio::spawn(async move {
            let mut session =
                AppendSession::create(&engine, &work, format!("{prefix}-{n}")).await?;
            let mut key = n * 1_000_000;
            loop {
                let turn = session.append(key).await?;
                // Standard output is flushed at every newline.
                writeln!(std::io::stdout(), "{} {turn}", session.label)
                    .map_err(|e| Problem::failed("internal", e.to_string()))?;
                key += 1;
            }
        })
    };
    for writer in (0..cell.sessions).map(writer).collect::<Vec<_>>() {
        let ended: Result<(), Problem> =
            writer.await.map_err(|e| Problem::failed("internal", e.to_string()))?;
        ended?;
    }
    Ok(Value::Null)
}
