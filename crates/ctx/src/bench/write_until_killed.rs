//! No measurement: many write until the process is killed, and each turn that is stored is told. What was told must be there.

use std::io::Write;
use std::sync::Arc;

use serde_json::Value;
use ulid::Ulid;

use crate::problem::Problem;

use super::cells::Line;
use super::workload::Workload;
use super::{Wanted, open};

/// Prints `label turn` for every turn, once it is on disk. It ends only by an error.
pub(super) async fn crowd(wanted: &Wanted) -> Result<Value, Problem> {
    let engine = open(&wanted.dir)?;
    let work = Arc::new(Workload::new());
    // The same store is used again and again; its labels are in use.
    let name = Ulid::new();
    let member = |n: u64| {
        let (engine, work) = (engine.clone(), work.clone());
        tokio::spawn(async move {
            let mut line = Line::new(&engine, &work, format!("{name}-{n}")).await?;
            let mut key = n * 1_000_000;
            loop {
                let turn = line.append(key).await?;
                // Standard output writes a line as soon as it is whole.
                writeln!(std::io::stdout(), "{} {turn}", line.label)
                    .map_err(|e| Problem::failed("internal", e.to_string()))?;
                key += 1;
            }
        })
    };
    for member in (0..wanted.sessions).map(member).collect::<Vec<_>>() {
        let ended: Result<(), Problem> =
            member.await.map_err(|e| Problem::failed("internal", e.to_string()))?;
        ended?;
    }
    Ok(Value::Null)
}
