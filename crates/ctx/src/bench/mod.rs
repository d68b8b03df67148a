//! Benchmark cells: `ctx bench CELL JSON` prints one JSON object. A cell is one measurement of the
//! comparison with other session stores.
//!
//! Durations include everything a caller waits for. The rates of the append cells also include the
//! time until the indexer has caught up, so that deferred work is counted. With `BENCH_COMPRESS=0`
//! bodies are stored uncompressed. With `BENCH_STORE=postgres://…` the cells of `store_cells` use
//! an empty database instead of a directory.
//!
//! | file | cells |
//! |---|---|
//! | `store_cells` | append, growth, size, load, fork, list, search, idle |
//! | `usage_cell` | reports of usage |
//! | `long_context_cell` | context assembly early and late in a long session |
//! | `search_cell` | search over many messages: speed, size of the index, cost to appends |
//! | `serve_cell` | messages, messages from channels and deltas through real servers |
//! | `write_until_killed` | writer for the crash tests, no measurement |
//! | `workload` | the turn that all cells store |

mod long_context_cell;
mod search_cell;
mod serve_cell;
mod store_cells;
mod usage_cell;
mod workload;
mod write_until_killed;

use std::path::{Path, PathBuf};
use std::time::Instant;

use ctx_engine::{Engine, Indexing, Location, Options};
use serde::Deserialize;
use serde_json::Value;

use crate::problem::Problem;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run this cell
    cell: String,
    /// Pass these arguments, as JSON
    arguments: String,
}

/// The arguments of all cells; each cell uses some of them.
#[derive(Deserialize)]
#[serde(default)]
struct CellArgs {
    dir: PathBuf,
    seconds: f64,
    sessions: u64,
    points: Vec<u64>,
    turns: u64,
    count: u64,
    rounds: u64,
}

impl Default for CellArgs {
    fn default() -> Self {
        Self {
            dir: PathBuf::new(),
            seconds: 3.0,
            sessions: 64,
            points: vec![10, 100, 1000, 5000],
            turns: 1000,
            count: 1000,
            rounds: 3,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Problem> {
    let born = Instant::now();
    let cell: CellArgs = serde_json::from_str(&args.arguments)
        .map_err(|e| Problem::wrong_use("bad_arguments", e.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Problem::failed("internal", e.to_string()))?;
    let result = runtime.block_on(async {
        Ok::<Value, Problem>(match args.cell.as_str() {
            "append1" => store_cells::append1(&cell).await?,
            "append64" => store_cells::append64(&cell).await?,
            "growth" => store_cells::growth(&cell).await?,
            "size1000" => store_cells::size1000(&cell).await?,
            "fill" => store_cells::fill(&cell).await?,
            "resume" => store_cells::resume(&cell, born).await?,
            "fork" => store_cells::fork(&cell).await?,
            "fill_sessions" => store_cells::fill_sessions(&cell).await?,
            "list" => store_cells::list(&cell).await?,
            "fill_search" => search_cell::fill(&cell).await?,
            "search" => search_cell::search(&cell).await?,
            "append_search" => search_cell::append(&cell).await?,
            "startup" => store_cells::startup(&cell, born).await?,
            "idle" => store_cells::idle(&cell).await?,
            "fill_usage" => usage_cell::fill(&cell).await?,
            "usage" => usage_cell::report(&cell, born).await?,
            "context" => long_context_cell::context(&cell).await?,
            "write_until_killed" => write_until_killed::run(&cell).await?,
            "serve" => serve_cell::serve(&cell).await?,
            "inbound" => serve_cell::inbound(&cell).await?,
            "nodes" => serve_cell::nodes(&cell).await?,
            other => serde_json::json!({"unsupported": format!("unknown cell {other}")}),
        })
    })?;
    println!("{result}");
    Ok(())
}

fn open(dir: &Path) -> Result<Engine, Problem> {
    let compress = std::env::var("BENCH_COMPRESS").map_or(true, |set| set != "0");
    let location = std::env::var("BENCH_STORE").map_or(dir.into(), |url| Location::parse(&url));
    Engine::init(&location, "bench")?;
    Ok(Engine::open(&location, Options { compress, indexing: Indexing::Background })?)
}
