//! Numbers drawn from one seed, which every failure message carries.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed of this run: `CTX_CRASH_SEED`, else the clock.
pub(crate) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
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
        println!("crash: seed {seed} (CTX_CRASH_SEED={seed} draws the same again)");
        seed
    })
}

/// What a section did, in one line.
pub(crate) fn tell(section: &str, kills: usize, more: &str) {
    println!("crash: seed {}, {kills} kills, {section}{more}", seed());
}

/// Xorshift: small, and the same everywhere.
pub(crate) struct Draw(u64);

impl Draw {
    /// A stream of its own for each purpose.
    pub(crate) fn new(stream: u64) -> Self {
        let mut draw = Self((seed() ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
        for _ in 0..8 {
            draw.next();
        }
        draw
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

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(count).collect()
    }

    /// At most `count` of them, in order: always the first and last two, the others drawn.
    pub(crate) fn some<T>(&mut self, mut all: Vec<T>, count: usize) -> Vec<T> {
        while all.len() > count.max(4) {
            let at = 2 + self.below(all.len() as u64 - 4) as usize;
            all.remove(at);
        }
        all
    }
}
