//! Search over many messages: how fast rows are indexed and found, how large the index is, and what
//! it costs the appends. The text is made of words with the frequencies of a natural language.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::session::Origin;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::About;
use ctx_engine::{Engine, Indexing, Location, NewTurn, Options, SearchRequest};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::problem::Problem;

use super::CellArgs;
use super::store_cells::checkpoint;

/// Number of different words.
const VOCABULARY: usize = 60_000;
/// Bytes of a message.
const MESSAGE_BYTES: usize = 1024;
const MESSAGES_PER_TURN: u64 = 2;
const TURNS_PER_SESSION: u64 = 500;
/// Sessions that are filled at the same time.
const FILL_TASKS: u64 = 32;
/// In every tenth message.
const COMMON: &str = "commonplace";
/// In one of 50,000 messages.
const RARE: &str = "zyzzyva";
/// How often each query is measured.
const TIMES: usize = 20;

/// Texts by number.
struct Texts {
    words: Vec<String>,
}

impl Texts {
    fn new() -> Self {
        const SYLLABLES: [&str; 24] = [
            "ba", "con", "de", "er", "fi", "go", "hu", "in", "ko", "la", "me", "no", "or", "pa",
            "que", "re", "sa", "ti", "un", "ver", "wa", "ex", "yo", "ze",
        ];
        let word = |n: usize| {
            let (mut word, mut rest) = (String::new(), n * 7 + 5);
            while rest > 0 {
                word.push_str(SYLLABLES[rest % SYLLABLES.len()]);
                rest /= SYLLABLES.len();
            }
            word
        };
        Self { words: (0..VOCABULARY).map(word).collect() }
    }

    /// The text of a message. A word's frequency is inverse to its rank.
    fn text(&self, n: u64) -> String {
        let mut seed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut text = String::with_capacity(MESSAGE_BYTES + 32);
        while text.len() < MESSAGE_BYTES {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let uniform = (seed >> 11) as f64 / (1_u64 << 53) as f64;
            let rank = (VOCABULARY as f64).powf(uniform) as usize;
            text.push_str(&self.words[rank.min(VOCABULARY - 1)]);
            text.push(if seed.is_multiple_of(11) { '\n' } else { ' ' });
        }
        if n.is_multiple_of(10) {
            text.push_str(COMMON);
        }
        if n.is_multiple_of(50_000) {
            text.push(' ');
            text.push_str(RARE);
        }
        text
    }

    fn turn(&self, n: u64, at: Timestamp) -> NewTurn {
        let message = |part: u64| Message {
            id: MessageId(Ulid::new()),
            role: if part == 0 { Role::User } else { Role::Assistant },
            source: (part == 0).then_some(Source::Human),
            content: vec![Part::Text { text: self.text(MESSAGES_PER_TURN * n + part) }],
            created_at: at,
        };
        let messages = (0..MESSAGES_PER_TURN).map(message).collect();
        NewTurn { about: About::at(at), messages, blobs: Vec::new() }
    }
}

fn open(cell: &CellArgs, indexing: Indexing) -> Result<Engine, Problem> {
    let location =
        std::env::var("BENCH_STORE").map_or(cell.dir.as_path().into(), |url| Location::parse(&url));
    Engine::init(&location, "bench")?;
    Ok(Engine::open(&location, Options { compress: true, indexing })?)
}

/// Stores `count` messages without indexing them, then indexes them on one thread.
pub(super) async fn fill(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(cell, Indexing::OnDemand)?;
    let texts = Arc::new(Texts::new());
    let turns = cell.count.div_ceil(MESSAGES_PER_TURN);
    let began = Instant::now();
    let fill = |task: u64| {
        let (engine, texts) = (engine.clone(), texts.clone());
        tokio::spawn(async move {
            let mut bytes = 0;
            let mut first = task * TURNS_PER_SESSION;
            while first < turns {
                let label = format!("q{first}");
                engine.sessions().create_idle(&label, Origin::Api).await?;
                let mut head = None;
                for n in first..turns.min(first + TURNS_PER_SESSION) {
                    let turn = texts.turn(n, engine.now());
                    bytes += turn.messages.iter().map(text_bytes).sum::<usize>();
                    head = Some(engine.messages().append_turn(&label, head, turn).await?);
                }
                first += FILL_TASKS * TURNS_PER_SESSION;
            }
            Ok::<usize, Problem>(bytes)
        })
    };
    let mut text = 0;
    for task in (0..FILL_TASKS).map(fill).collect::<Vec<_>>() {
        text += task.await.map_err(|e| Problem::failed("internal", e.to_string()))??;
    }
    let stored = began.elapsed();
    let indexing = Instant::now();
    engine.maintenance().update_indexes().await?;
    let indexing = indexing.elapsed();
    checkpoint(&cell.dir);
    let file = std::fs::metadata(cell.dir.join("search.db")).map_or(0, |meta| meta.blocks() * 512);
    let size = engine.maintenance().health().await?.size("search").max(file);
    Ok(json!({
        "messages": cell.count,
        "text_mb": text as f64 / 1e6,
        "stored_per_s": cell.count as f64 / stored.as_secs_f64(),
        "indexed_per_s": cell.count as f64 / indexing.as_secs_f64(),
        "index_mb": size as f64 / 1e6,
        "index_per_text": size as f64 / text as f64,
    }))
}

fn text_bytes(message: &Message) -> usize {
    message.content.iter().filter_map(Part::searchable_text).map(str::len).sum()
}

/// Measures queries in a store that [`fill`] made. Times are medians, after one query that loads
/// the pages.
pub(super) async fn search(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(cell, Indexing::OnDemand)?;
    let mut result = json!({});
    let queries = [
        ("rare_word", RARE.to_owned()),
        ("common_word", COMMON.to_owned()),
        ("prefix", "commonp*".to_owned()),
        ("short_prefix", "co*".to_owned()),
        ("two_words", format!("{COMMON} baconde*")),
        ("phrase", format!("\"{COMMON} {RARE}\"")),
        ("expression", format!("{COMMON} /z[y]+z/")),
        ("misspelt", "zyzyva".to_owned()),
        ("session", format!("{COMMON} session:q0")),
    ];
    for (name, query) in queries {
        let request = SearchRequest::new(&query, 20);
        let began = Instant::now();
        let hits = engine.records().search(&request).await?.hits.len();
        let first = began.elapsed();
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let began = Instant::now();
            engine.records().search(&request).await?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let ms = |time: Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
        let (median, worst) = (ms(times[TIMES / 2]), ms(times[TIMES - 1]));
        result[name] =
            json!({"ms": median, "worst_ms": worst, "first_ms": ms(first), "hits": hits});
    }
    Ok(result)
}

/// Appends of 64 sessions with and without the indexer beside them, in turn.
pub(super) async fn append(cell: &CellArgs) -> Result<Value, Problem> {
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..cell.rounds * 2 {
        let with_index = usize::from(round % 2 == 1);
        let dir = cell.dir.join(format!("round{round}"));
        let part = CellArgs { dir, ..CellArgs::default() };
        let indexing = [Indexing::OnDemand, Indexing::Background][with_index];
        let engine = open(&part, indexing)?;
        rates[with_index].push(append_for(&engine, cell).await?);
    }
    let median = |mut rates: Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let [without, with] = rates.map(median);
    Ok(json!({"without_per_s": without, "with_per_s": with, "ratio": with / without}))
}

/// Turns per second.
async fn append_for(engine: &Engine, cell: &CellArgs) -> Result<f64, Problem> {
    let texts = Arc::new(Texts::new());
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(cell.seconds);
    let append = |task: u64| {
        let (engine, texts) = (engine.clone(), texts.clone());
        tokio::spawn(async move {
            let label = format!("a{task}");
            engine.sessions().create_idle(&label, Origin::Api).await?;
            let (mut head, mut n) = (None, 0);
            while Instant::now() < until {
                let turn = texts.turn((task << 32) + n, engine.now());
                head = Some(engine.messages().append_turn(&label, head, turn).await?);
                n += 1;
            }
            Ok::<u64, Problem>(n)
        })
    };
    let mut turns = 0;
    for task in (0..cell.sessions).map(append).collect::<Vec<_>>() {
        turns += task.await.map_err(|e| Problem::failed("internal", e.to_string()))??;
    }
    Ok(turns as f64 / began.elapsed().as_secs_f64())
}
