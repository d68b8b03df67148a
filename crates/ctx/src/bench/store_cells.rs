//! Cells that measure the store through the engine, one function each. The driver of the comparison
//! reads the printed fields by name.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ctx_engine::core::id::TurnId;
use ctx_engine::core::session::Origin;
use ctx_engine::{Engine, Exchange};
use serde_json::{Map, Value, json};

use crate::problem::Problem;

use super::workload::Workload;
use super::{CellArgs, open};

/// The append cells start a new session after this many turns.
const TURNS_PER_SESSION: u64 = 100;
/// Number of concurrent tasks that fill a store.
const FILL_TASKS: u64 = 64;

/// A session to which turns are appended.
pub(super) struct AppendSession {
    engine: Engine,
    work: Arc<Workload>,
    pub(super) label: String,
    head: Option<TurnId>,
}

impl AppendSession {
    pub(super) async fn create(
        engine: &Engine,
        work: &Arc<Workload>,
        label: String,
    ) -> Result<Self, Problem> {
        engine.sessions().create_idle(&label, Origin::Api).await?;
        Ok(Self { engine: engine.clone(), work: work.clone(), label, head: None })
    }

    pub(super) async fn append(&mut self, key: u64) -> Result<TurnId, Problem> {
        let turn = self.work.turn(key, self.engine.now());
        let turn = self.engine.messages().append_turn(&self.label, self.head, turn).await?;
        self.head = Some(turn);
        Ok(turn)
    }
}

fn stats(latencies: &mut [Duration], elapsed: Duration, settle: Duration) -> Value {
    latencies.sort_unstable();
    let at = |p: f64| {
        latencies
            .get(((latencies.len().max(1) - 1) as f64 * p) as usize)
            .map_or(0.0, |d| d.as_secs_f64() * 1e3)
    };
    json!({
        "per_s": latencies.len() as f64 / (elapsed + settle).as_secs_f64(),
        "ops": latencies.len(),
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "per_s_before_settling": latencies.len() as f64 / elapsed.as_secs_f64(),
        "settle_ms": settle.as_secs_f64() * 1e3,
    })
}

fn rss_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0)
        * 4096.0
        / 1_048_576.0
}

fn disk_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
        meta => meta.map_or(0, |meta| meta.blocks() * 512),
    };
    entries.map(bytes).sum()
}

/// Closes the store completely: SQLite removes the log and the shared-memory file when the last
/// connection closes, which happens in the background.
fn close(engine: Engine, dir: &Path) {
    drop(engine);
    let until = Instant::now() + Duration::from_secs(5);
    while dir.join("ctx.db-shm").exists() && Instant::now() < until {
        checkpoint(dir);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Moves the write-ahead logs into the database and the search index.
pub(super) fn checkpoint(dir: &Path) {
    for name in ["ctx.db", "search.db"] {
        let _ = ctx_engine::truncate_log(&dir.join(name));
    }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

pub(super) async fn append1(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let work = Arc::new(Workload::new());
    let mut session = AppendSession::create(&engine, &work, "warm".to_owned()).await?;
    session.append(0).await?;
    let (start, mut latencies, mut n) = (Instant::now(), Vec::new(), 0);
    while start.elapsed().as_secs_f64() < cell.seconds {
        if n % TURNS_PER_SESSION == 0 {
            session = AppendSession::create(&engine, &work, format!("a{n}")).await?;
        }
        let began = Instant::now();
        n += 1;
        session.append(n).await?;
        latencies.push(began.elapsed());
    }
    let elapsed = start.elapsed();
    let settling = Instant::now();
    engine.maintenance().update_indexes().await?;
    Ok(stats(&mut latencies, elapsed, settling.elapsed()))
}

pub(super) async fn append64(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let work = Arc::new(Workload::new());
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(cell.seconds);
    let tasks: Vec<_> = (0..cell.sessions)
        .map(|task| tokio::spawn(append_until(end, engine.clone(), work.clone(), task)))
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.map_err(|e| Problem::failed("internal", e.to_string()))??);
    }
    let elapsed = start.elapsed();
    let settling = Instant::now();
    engine.maintenance().update_indexes().await?;
    Ok(stats(&mut latencies, elapsed, settling.elapsed()))
}

async fn append_until(
    end: Instant,
    engine: Engine,
    work: Arc<Workload>,
    task: u64,
) -> Result<Vec<Duration>, Problem> {
    let (mut latencies, mut n) = (Vec::new(), 0);
    let mut session = AppendSession::create(&engine, &work, format!("c{task}-0")).await?;
    while Instant::now() < end {
        if n > 0 && n % TURNS_PER_SESSION == 0 {
            session =
                AppendSession::create(&engine, &work, format!("c{task}-{}", n / TURNS_PER_SESSION))
                    .await?;
        }
        let began = Instant::now();
        session.append(task * 1_000_000 + n).await?;
        latencies.push(began.elapsed());
        n += 1;
    }
    Ok(latencies)
}

pub(super) async fn growth(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let mut session =
        AppendSession::create(&engine, &Arc::new(Workload::new()), "growth".to_owned()).await?;
    let (mut out, mut length) = (Map::new(), 0);
    for &point in &cell.points {
        while length < point {
            session.append(length).await?;
            length += 1;
        }
        engine.maintenance().update_indexes().await?;
        checkpoint(&cell.dir);
        let (before, mut latencies) = (disk_bytes(&cell.dir), Vec::new());
        for _ in 0..20 {
            let began = Instant::now();
            session.append(10_000_000 + length).await?;
            latencies.push(began.elapsed());
            length += 1;
        }
        engine.maintenance().update_indexes().await?;
        checkpoint(&cell.dir);
        latencies.sort_unstable();
        let bytes = (disk_bytes(&cell.dir) - before) as f64 / 20.0;
        out.insert(
            point.to_string(),
            json!({"ms": latencies[10].as_secs_f64() * 1e3, "bytes": bytes, "n": 20}),
        );
    }
    Ok(Value::Object(out))
}

pub(super) async fn size1000(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let mut session =
        AppendSession::create(&engine, &Arc::new(Workload::new()), "size".to_owned()).await?;
    for n in 0..1000 {
        session.append(n).await?;
    }
    engine.maintenance().update_indexes().await?;
    drop(session);
    close(engine, &cell.dir);
    let index = std::fs::metadata(cell.dir.join("search.db")).map_or(0, |meta| meta.blocks() * 512);
    let bytes = disk_bytes(&cell.dir);
    Ok(json!({
        "bytes_per_turn": bytes as f64 / 1000.0,
        "index_bytes_per_turn": index as f64 / 1000.0,
        "how": "measured",
    }))
}

pub(super) async fn fill(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let mut session =
        AppendSession::create(&engine, &Arc::new(Workload::new()), "main".to_owned()).await?;
    for n in 0..cell.turns {
        session.append(n).await?;
    }
    engine.maintenance().update_indexes().await?;
    checkpoint(&cell.dir);
    Ok(json!({"ok": true}))
}

/// Loads the whole history of a session and parses every message.
async fn load(engine: &Engine) -> Result<Vec<Exchange>, Problem> {
    Ok(engine.messages().conversation("main", usize::MAX).await?)
}

fn count(history: &[Exchange]) -> usize {
    history.iter().map(|turn| turn.messages.len()).sum()
}

pub(super) async fn resume(cell: &CellArgs, born: Instant) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let open_ms = ms(born);
    let began = Instant::now();
    let history = load(&engine).await?;
    let load_ms = ms(began);
    let messages = count(&history);
    Ok(json!({"open_ms": open_ms, "load_ms": load_ms, "messages": messages, "rss_mb": rss_mb()}))
}

pub(super) async fn fork(cell: &CellArgs) -> Result<Value, Problem> {
    const FORKS: usize = 20;
    let engine = open(&cell.dir)?;
    let history = engine.messages().history("main", usize::MAX).await?;
    let middle =
        history.get(history.len().saturating_sub(cell.turns as usize / 2)).map(|turn| turn.id);
    let middle = middle
        .ok_or_else(|| Problem::failed("not_found", "nothing to fork: the session has no turns"))?;
    checkpoint(&cell.dir);
    let before = disk_bytes(&cell.dir);
    let mut times = Vec::with_capacity(FORKS);
    for _ in 0..FORKS {
        let began = Instant::now();
        engine.sessions().fork("main", middle, None).await?;
        times.push(ms(began));
    }
    times.sort_by(f64::total_cmp);
    checkpoint(&cell.dir);
    let bytes = disk_bytes(&cell.dir).saturating_sub(before) as f64 / FORKS as f64;
    Ok(json!({"ms": times[FORKS / 2], "first_ms": times[FORKS - 1], "bytes": bytes,
        "how": "native, median of 20 forks"}))
}

pub(super) async fn fill_sessions(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let work = Arc::new(Workload::new());
    let fill = |task: u64| {
        let (engine, work, count) = (engine.clone(), work.clone(), cell.count);
        tokio::spawn(async move {
            for n in (task..count).step_by(FILL_TASKS as usize) {
                AppendSession::create(&engine, &work, format!("s{n}")).await?.append(n).await?;
            }
            Ok::<(), Problem>(())
        })
    };
    for task in (0..FILL_TASKS).map(fill).collect::<Vec<_>>() {
        task.await.map_err(|e| Problem::failed("internal", e.to_string()))??;
    }
    engine.maintenance().update_indexes().await?;
    Ok(json!({"ok": true}))
}

pub(super) async fn list(cell: &CellArgs) -> Result<Value, Problem> {
    const TIMES: u32 = 100;
    let engine = open(&cell.dir)?;
    let began = Instant::now();
    let n = engine.sessions().newest(50).await?.len();
    let first = ms(began);
    let began = Instant::now();
    for _ in 0..TIMES {
        engine.sessions().newest(50).await?;
    }
    Ok(json!({
        "ms": ms(began) / f64::from(TIMES),
        "first_ms": first,
        "n": n,
        "how": "indexed query",
    }))
}

pub(super) async fn startup(cell: &CellArgs, born: Instant) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let messages = count(&load(&engine).await?);
    Ok(json!({"ready": true, "messages": messages, "in_process_ms": ms(born), "rss_mb": rss_mb()}))
}

pub(super) async fn idle(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    engine.sessions().head("s0").await?;
    let base = rss_mb();
    let mut open = Vec::new();
    for n in 0..cell.count {
        let label = format!("s{n}");
        let head = engine.sessions().head(&label).await?;
        open.push((engine.tasks().existing_recorder(&label), head));
    }
    let rss = rss_mb();
    Ok(json!({
        "rss_mb": rss,
        "base_mb": base,
        "kb_per_session": (rss - base) * 1024.0 / cell.count as f64,
        "n": open.len(),
    }))
}
