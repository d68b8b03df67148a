//! Measures how long a delta takes from the provider to a follower, with many streaming sessions.
//! The second number is that of a plain channel at the same time: the share of the scheduler.
//!
//! `cargo run --release -p ctx-engine --example stream_delay -- SESSIONS TOKENS_PER_SECOND SECONDS`

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ctx_engine::provider::{About, Delta, End, Link, Provider, Request, Stop};
use ctx_engine::{Engine, EngineTimeouts, FeedItem, NewMessage, NewSession, Options, Providers};
use tokio::sync::broadcast;

/// Sends the time as text, at a fixed rate.
struct Ticking {
    pause: Duration,
    count: usize,
    start: Instant,
    plain: broadcast::Sender<u128>,
}

#[async_trait]
impl Provider for Ticking {
    fn about(&self) -> About {
        About { kind: "ticking", context_window: 1_000_000, ..About::default() }
    }

    async fn run(&self, _: Request, link: Link) -> End {
        let mut timer = tokio::time::interval(self.pause);
        for _ in 0..self.count {
            timer.tick().await;
            let at = self.start.elapsed().as_micros();
            let _ = self.plain.send(at);
            link.send(Delta::Text(format!("{at} "))).await;
        }
        End::Done(Stop::EndTurn)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("number"));
    let mut next = |otherwise| arguments.next().unwrap_or(otherwise);
    let (sessions, rate, seconds) = (next(16), next(100), next(5));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(measure(sessions, rate, seconds));
}

async fn measure(sessions: usize, rate: usize, seconds: usize) {
    let dir = tempfile::tempdir_in(".").expect("a directory");
    Engine::init(dir.path(), "bench").expect("a store");
    let start = Instant::now();
    let pause = Duration::from_secs(1) / u32::try_from(rate).expect("a rate");
    let (plain, mut plainly) = broadcast::channel(100_000);
    let provider = Arc::new(Ticking { pause, count: rate * seconds, start, plain });
    let total = sessions * rate * seconds;
    let plain = tokio::spawn(async move {
        let mut delays = Vec::new();
        while delays.len() < total
            && let Ok(at) = plainly.recv().await
        {
            delays.push(start.elapsed().as_micros() - at);
        }
        delays
    });
    let engine = Engine::open(dir.path(), Options::default()).expect("a store");
    let engine =
        engine.with_providers(Providers::only("ticking", provider), EngineTimeouts::default());
    engine.background().start().await.expect("started");
    let mut followers = Vec::new();
    for n in 0..sessions {
        let label = format!("s{n}");
        let new = NewSession { label: Some(label.clone()), ..NewSession::default() };
        engine.sessions().create(new, None, None).await.expect("created");
        let mut follow = engine.events().follow(&label, None).await.expect("followed");
        followers.push(tokio::spawn(async move {
            let mut delays = Vec::new();
            while let Some(item) = follow.next().await.expect("an item") {
                match item {
                    FeedItem::Delta(delta) => {
                        let now = start.elapsed().as_micros();
                        let sent = delta.text.split_whitespace();
                        delays.extend(sent.map(|at| now - at.parse::<u128>().expect("a time")));
                    }
                    FeedItem::Event(event) if event.event.name() == "run.completed" => break,
                    FeedItem::Event(_) => {}
                }
            }
            delays
        }));
    }
    let (io, cpu) = (written_bytes(), cpu_ticks());
    let began = Instant::now();
    for n in 0..sessions {
        let text = NewMessage::text("go");
        engine.messages().submit(&format!("s{n}"), text, None).await.expect("sent");
        tokio::time::sleep(pause / u32::try_from(sessions).expect("a number")).await;
    }
    let mut delays = Vec::new();
    let mut wal = 0;
    for follower in followers {
        delays.extend(follower.await.expect("a follower"));
        wal =
            wal.max(std::fs::metadata(dir.path().join("ctx.db-wal")).map_or(0, |file| file.len()));
    }
    let took = began.elapsed().as_secs_f64();
    let mut plain = plain.await.expect("the delays");
    delays.sort_unstable();
    plain.sort_unstable();
    let of = |delays: &[u128], share: f64| {
        delays[((delays.len() - 1) as f64 * share) as usize] as f64 / 1e3
    };
    let at = |share| of(&delays, share);
    let tokens = delays.len() as f64;
    println!(
        "{sessions} sessions x {rate}/s, {tokens} tokens in {took:.2} s: delay p50 {:.2} ms, p99 \
         {:.2} ms, max {:.2} ms (plain channel: {:.2}, {:.2}, {:.2}); {:.1} KB written and {:.0} \
         us CPU per token; log {:.1} MB, database {:.1} MB",
        at(0.5),
        at(0.99),
        at(1.0),
        of(&plain, 0.5),
        of(&plain, 0.99),
        of(&plain, 1.0),
        (written_bytes() - io) / tokens / 1e3,
        (cpu_ticks() - cpu) / tokens * 1e4,
        wal as f64 / 1e6,
        std::fs::metadata(dir.path().join("ctx.db")).map_or(0, |file| file.len()) as f64 / 1e6,
    );
    engine.background().shutdown().await;
}

fn written_bytes() -> f64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("a Linux machine");
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).expect("a line");
    line.parse().expect("a number")
}

/// CPU time of this process in ticks of 10 ms.
fn cpu_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a Linux machine");
    let fields: Vec<f64> = stat
        .rsplit_once(')')
        .expect("a name")
        .1
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse().expect("a number"))
        .collect();
    fields.iter().sum()
}
