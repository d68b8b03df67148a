//! The cells of the comparison with other session stores: `ctx bench CELL JSON` prints one JSON object.
//!
//! Durations count everything a caller waits for. The rates of the append cells also count the time until
//! the indexes behind the commits have caught up, so no work is left out of the window. `BENCH_COMPRESS=0`
//! stores bodies as they are.

mod cells;
mod context;
mod crowd;
mod serve;
mod workload;

use std::path::{Path, PathBuf};
use std::time::Instant;

use ctx_engine::{Engine, Indexing, Options};
use serde::Deserialize;
use serde_json::Value;

use crate::problem::Problem;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which cell
    cell: String,
    /// Its arguments, as JSON
    arguments: String,
}

/// The arguments of every cell; each takes what it needs.
#[derive(Deserialize)]
#[serde(default)]
struct Wanted {
    dir: PathBuf,
    seconds: f64,
    sessions: u64,
    points: Vec<u64>,
    turns: u64,
    count: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            dir: PathBuf::new(),
            seconds: 3.0,
            sessions: 64,
            points: vec![10, 100, 1000, 5000],
            turns: 1000,
            count: 1000,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Problem> {
    let born = Instant::now();
    let wanted: Wanted = serde_json::from_str(&args.arguments)
        .map_err(|e| Problem::wrong_use("bad_arguments", e.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Problem::failed("internal", e.to_string()))?;
    let result = runtime.block_on(async {
        Ok::<Value, Problem>(match args.cell.as_str() {
            "append1" => cells::append1(&wanted).await?,
            "append64" => cells::append64(&wanted).await?,
            "growth" => cells::growth(&wanted).await?,
            "size1000" => cells::size1000(&wanted).await?,
            "fill" => cells::fill(&wanted).await?,
            "resume" => cells::resume(&wanted, born).await?,
            "fork" => cells::fork(&wanted).await?,
            "fill_sessions" => cells::fill_sessions(&wanted).await?,
            "list" => cells::list(&wanted).await?,
            "fill_search" => cells::fill_search(&wanted).await?,
            "search" => cells::search(&wanted).await?,
            "startup" => cells::startup(&wanted, born).await?,
            "idle" => cells::idle(&wanted).await?,
            "context" => context::context(&wanted).await?,
            "crowd" => crowd::crowd(&wanted).await?,
            "serve" => serve::serve(&wanted).await?,
            other => serde_json::json!({"unsupported": format!("no cell {other}")}),
        })
    })?;
    println!("{result}");
    Ok(())
}

fn open(dir: &Path) -> Result<Engine, Problem> {
    let compress = std::env::var("BENCH_COMPRESS").map_or(true, |set| set != "0");
    Engine::init(dir, "bench")?;
    Ok(Engine::sqlite(dir, Options { compress, indexing: Indexing::Background })?)
}
