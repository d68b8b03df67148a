//! Words and the filters that say in which block of rows a word may be.
//!
//! A block is up to [`BLOCK_ROWS`] neighbouring rows. Its filter is a Bloom filter over the hashes of all
//! words in it: it may say *perhaps* wrongly and never says *no* wrongly, so a search reads the rows of
//! the blocks that say perhaps and checks the words themselves. Why not a full-text index:
//! `docs/decisions/0003-search-by-block-filters.md`.
//!
//! Words are read straight out of the canonical JSON of a record, escapes undone, letters folded to lower
//! case. Scripts without spaces give pairs of neighbouring letters.

/// How many rows share a filter.
pub(crate) const BLOCK_ROWS: usize = 64;

const BITS_PER_WORD: usize = 10;
const LINE_BYTES: usize = 64;
const PROBES: u32 = 6;

/// The hashes of the words in the JSON of a record.
pub(crate) fn hashes(json: &[u8]) -> Vec<u32> {
    let mut out = Vec::with_capacity(json.len() / 6);
    each_word(json, Escapes::Json, &mut |hash| out.push(hash));
    out
}

/// The hashes of the words in a query.
pub(crate) fn of_query(text: &str) -> Vec<u32> {
    let mut out = Vec::new();
    each_word(text.as_bytes(), Escapes::None, &mut |hash| out.push(hash));
    out.sort_unstable();
    out.dedup();
    out
}

/// Two cycles a letter; the mixing is left to the end of the word.
struct Hasher(u64);

impl Hasher {
    const START: u64 = 5381;

    fn add(&mut self, byte: u8) {
        self.0 = (self.0 << 5).wrapping_add(self.0) ^ u64::from(byte);
    }

    fn add_char(&mut self, c: char) {
        let mut buffer = [0; 4];
        c.encode_utf8(&mut buffer).bytes().for_each(|byte| self.add(byte));
    }

    const fn finish(&self) -> u32 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
    }
}

/// Letters and digits of ASCII in lower case; 0 for what is in no word.
const ASCII: [u8; 128] = {
    let mut folded = [0; 128];
    let mut byte: u8 = 0;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            folded[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    folded
};

/// Whether a backslash escapes what follows it.
#[derive(Clone, Copy, PartialEq)]
enum Escapes {
    Json,
    None,
}

/// One letter in lower case; the two small sigmas are one letter.
pub(crate) fn folded(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c })
}

fn each_word(bytes: &[u8], escapes: Escapes, each: &mut impl FnMut(u32)) {
    let mut hasher = Hasher(Hasher::START);
    let mut inside = false;
    let mut at = 0;
    while at < bytes.len() {
        at += plain(&bytes[at..], escapes, &mut hasher, &mut inside, each);
        match bytes.get(at) {
            None => break,
            Some(b'\\') => {
                // Canonical JSON escapes only quotes, backslashes and control characters: none is in a word.
                if inside {
                    each(hasher.finish());
                    (hasher, inside) = (Hasher(Hasher::START), false);
                }
                at += if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 };
            }
            Some(_) => at = wide(bytes, at, &mut hasher, &mut inside, each),
        }
    }
    if inside {
        each(hasher.finish());
    }
}

/// The words up to the next byte that is not plain ASCII or begins an escape; returns how far that is.
///
/// Where a word ends is nothing a processor can guess, so no branch depends on it: every byte stores what
/// would be a word's hash, and only the end of a word moves on to the next place.
fn plain(bytes: &[u8], escapes: Escapes, hasher: &mut Hasher, inside: &mut bool, each: &mut impl FnMut(u32)) -> usize {
    let special = |byte: &u8| *byte >= 0x80 || (*byte == b'\\' && escapes == Escapes::Json);
    let end = bytes.iter().position(special).unwrap_or(bytes.len());
    let mut hash = hasher.0;
    let mut within = u64::from(*inside);
    let mut found = [0; PLAIN_BATCH + 1];
    for batch in bytes[..end].chunks(PLAIN_BATCH) {
        let mut count = 0;
        for &byte in batch {
            let letter = ASCII[usize::from(byte & 0x7f)];
            let is_letter = u64::from(letter != 0);
            found[count] = hash;
            count += usize::from(within > is_letter);
            let next = (hash << 5).wrapping_add(hash) ^ u64::from(letter);
            hash = if letter != 0 { next } else { Hasher::START };
            within = is_letter;
        }
        found[..count].iter().for_each(|hash| each(Hasher(*hash).finish()));
    }
    (hasher.0, *inside) = (hash, within == 1);
    end
}

/// Bytes whose words are gathered before they are told.
const PLAIN_BATCH: usize = 512;

/// A run of text beyond ASCII, from `at`; returns where it ends.
fn wide(bytes: &[u8], at: usize, hasher: &mut Hasher, inside: &mut bool, each: &mut impl FnMut(u32)) -> usize {
    let len = bytes[at..].iter().take_while(|b| **b >= 0x80).count();
    let text = String::from_utf8_lossy(&bytes[at..at + len]);
    let mut before: Option<char> = None;
    for c in text.chars() {
        if unspaced(c) {
            if let Some(left) = before {
                let mut pair = Hasher(Hasher::START);
                pair.add_char(left);
                pair.add_char(c);
                each(pair.finish());
            }
            before = Some(c);
        } else if c.is_alphanumeric() {
            folded(c).for_each(|c| hasher.add_char(c));
            *inside = true;
            before = None;
        } else {
            before = None;
        }
        if *inside && (unspaced(c) || !c.is_alphanumeric()) {
            each(hasher.finish());
            hasher.0 = Hasher::START;
            *inside = false;
        }
    }
    at + len
}

/// Letters of scripts that are written without spaces.
pub(crate) fn unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// The filter of a block; the hashes come in any order, with repeats.
pub(crate) fn filter(hashes: &[u32]) -> Vec<u8> {
    let lines = (distinct(hashes) * BITS_PER_WORD).div_ceil(LINE_BYTES * 8).max(1);
    let mut filter = vec![0; lines * LINE_BYTES];
    for hash in hashes {
        let (line, bits) = probes(*hash, lines);
        for bit in bits {
            filter[line * LINE_BYTES + bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// About how many different ones there are: cheaper than sorting them, and a size needs no more.
fn distinct(hashes: &[u32]) -> usize {
    let bits = (hashes.len() * 8).next_power_of_two().max(64);
    let mut seen = vec![0_u64; bits / 64];
    let mut count = 0;
    for hash in hashes {
        let at = hash.wrapping_mul(0x9E37_79B1) as usize & (bits - 1);
        let bit = 1 << (at % 64);
        count += usize::from(seen[at / 64] & bit == 0);
        seen[at / 64] |= bit;
    }
    count
}

/// Whether a block may hold the word.
pub(crate) fn perhaps(filter: &[u8], hash: u32) -> bool {
    let lines = filter.len() / LINE_BYTES;
    if lines == 0 {
        return false;
    }
    let (line, bits) = probes(hash, lines);
    bits.into_iter().all(|bit| filter[line * LINE_BYTES + bit / 8] & (1 << (bit % 8)) != 0)
}

fn probes(hash: u32, lines: usize) -> (usize, [usize; PROBES as usize]) {
    let line = ((u64::from(hash) * lines as u64) >> 32) as usize;
    let mixed = u64::from(hash).wrapping_mul(0x94D0_49BB_1331_11EB);
    let mixed = mixed ^ (mixed >> 31);
    let bits = std::array::from_fn(|n| (mixed >> (n * 10)) as usize % (LINE_BYTES * 8));
    (line, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> u32 {
        let hashes = of_query(word);
        assert_eq!(hashes.len(), 1, "{word}");
        hashes[0]
    }

    #[test]
    fn words_are_found_whatever_stands_around_them() {
        let text = "Fix the Retry-logic:\nÜBER naïve\ttabs; x1 \"quoted\" back\\slash \u{1} end";
        let json = serde_json::to_vec(text).expect("json");
        let found = hashes(&json);
        for word in ["fix", "retry", "logic", "über", "naïve", "tabs", "x1", "quoted", "back", "slash", "end", "ÜBER"] {
            assert!(found.contains(&of(word)), "{word}");
        }
        assert!(!found.contains(&of("nüber")) && !found.contains(&of("u0001")));
    }

    #[test]
    fn scripts_without_spaces_are_found_by_pairs() {
        let found = hashes("添加日志记录 and ログ".as_bytes());
        for word in ["日志", "添加", "ログ"] {
            assert!(found.contains(&of(word)), "{word}");
        }
        assert!(found.contains(&of("and")));
    }

    #[test]
    fn a_filter_never_denies_what_is_there_and_seldom_claims_what_is_not() {
        let words: Vec<u32> = (0..5000).map(|n| of(&format!("word{n}"))).collect();
        let filter = filter(&words);
        assert!(words.iter().all(|hash| perhaps(&filter, *hash)));
        let wrong = (0..10_000).filter(|n| perhaps(&filter, of(&format!("other{n}")))).count();
        assert!(wrong < 300, "{wrong} of 10000");
        assert!(!perhaps(&[], 1));
    }
}
