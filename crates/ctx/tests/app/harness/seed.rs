//! Random numbers drawn from one seed. Every failure of a test that draws names it.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static SEED: OnceLock<u64> = OnceLock::new();

/// The seed of this run: `CTX_CRASH_SEED`, else the clock.
pub(crate) fn seed() -> u64 {
    *SEED.get_or_init(|| {
        let given = std::env::var("CTX_CRASH_SEED")
            .ok()
            .map(|text| text.parse().expect("CTX_CRASH_SEED is a number"));
        let clock = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(1, |now| now.as_nanos() as u64 & 0xFFFF_FFFF)
        };
        let seed = given.unwrap_or_else(clock);
        println!("seed {seed} (CTX_CRASH_SEED={seed} repeats the draws)");
        seed
    })
}

/// `seed N: ` once a seed was drawn, for messages of failures.
pub(crate) fn prefix() -> String {
    SEED.get().map(|seed| format!("seed {seed}: ")).unwrap_or_default()
}

/// Prints the result of a crash test in one line.
pub(crate) fn report(section: &str, kills: usize, more: &str) {
    println!("crash: seed {}, {kills} kills, {section}{more}", seed());
}

/// Xorshift: small, and the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    /// A stream of numbers; each test has a number of its own.
    pub(crate) fn new(stream: u64) -> Self {
        Self::from_seed(seed() ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Self(seed | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    /// A stream for another thread.
    pub(crate) fn fork(&mut self) -> Self {
        Self::from_seed(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing to draw from");
        (self.next() >> 11) % end
    }

    /// A time of at least `min` and less than `max`.
    pub(crate) fn duration(&mut self, min: Duration, max: Duration) -> Duration {
        min + Duration::from_micros(self.below((max - min).as_micros() as u64))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(count).collect()
    }

    /// At most `count` of them, in order: always the first and last two, the others drawn.
    pub(crate) fn sample<T>(&mut self, mut all: Vec<T>, count: usize) -> Vec<T> {
        while all.len() > count.max(4) {
            let at = 2 + self.below(all.len() as u64 - 4) as usize;
            all.remove(at);
        }
        all
    }
}
