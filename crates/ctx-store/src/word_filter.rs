//! Words and the filters that say in which block of rows a word may be.
//!
//! A block is up to [`BLOCK_ROWS`] neighbouring rows. Its filter is a Bloom filter over the hashes of all
//! words in it: it may say *perhaps* wrongly and never says *no* wrongly, so a search reads the rows of
//! the blocks that say perhaps and checks the words themselves. Why not a full-text index:
//! `docs/decisions/0003-search-by-block-filters.md`.
//!
//! Words are read straight out of the canonical JSON of a record, escapes undone, letters folded to lower
//! case. Scripts without spaces give pairs of neighbouring letters.

use std::sync::Arc;

use crate::driver::Table;

/// The word hashes of a stored row.
pub(crate) type RowWords = (Table, i64, Arc<[u32]>);

/// Rows that share a filter.
pub(crate) const BLOCK_ROWS: usize = 64;

const BITS_PER_WORD: usize = 8;
const LINE_BYTES: usize = 64;
const PROBES: u32 = 4;

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

/// The hash of a word whose letters are folded, eight at a time.
fn hash(word: &[u8]) -> u32 {
    let mut hash = HASH_START;
    for eight in word.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..eight.len()].copy_from_slice(eight);
        hash = mixed(hash, u64::from_le_bytes(bytes));
    }
    finished(hash)
}

/// The same for a word of ASCII that stands in a text, folded on the way: ORing this bit makes capitals small and leaves
/// small letters and digits as they are.
fn hash_in(text: &[u8], from: usize, to: usize) -> u32 {
    const SMALL: u64 = 0x2020_2020_2020_2020;
    let mut hash = HASH_START;
    let mut at = from;
    while at < to {
        let mut bytes = [0; 8];
        match text.get(at..at + 8) {
            Some(eight) => bytes.copy_from_slice(eight),
            None => bytes[..text.len() - at].copy_from_slice(&text[at..]),
        }
        let within = u64::MAX >> (64 - 8 * (to - at).min(8));
        hash = mixed(hash, (u64::from_le_bytes(bytes) | SMALL) & within);
        at += 8;
    }
    finished(hash)
}

const HASH_START: u64 = 0x517C_C1B7_2722_0A95;

const fn mixed(hash: u64, eight: u64) -> u64 {
    let mixed = (hash ^ eight).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 32)
}

const fn finished(hash: u64) -> u32 {
    ((hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
}

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
    let mut words = Words { begun: Vec::new(), each };
    let mut at = 0;
    while at < bytes.len() {
        let end = at + plain_bytes(&bytes[at..], escapes);
        words.plain(&bytes[at..end]);
        at = end;
        match bytes.get(at) {
            None => break,
            Some(b'\\') => {
                // Canonical JSON escapes only quotes, backslashes and control characters: none is in a word.
                words.end();
                at += if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 };
            }
            Some(_) => {
                let len = bytes[at..].iter().take_while(|b| **b >= 0x80).count();
                words.wide(&String::from_utf8_lossy(&bytes[at..at + len]));
                at += len;
            }
        }
    }
    words.end();
}

/// How far it is to the next byte that is not ASCII or begins an escape.
fn plain_bytes(bytes: &[u8], escapes: Escapes) -> usize {
    let backslash = if escapes == Escapes::Json { b'\\' } else { 0x80 };
    let special = |byte: &u8| *byte >= 0x80 || *byte == backslash;
    // A block at a time first: a processor looks at many bytes at once where no answer depends on the one before.
    let blocks = bytes
        .chunks_exact(BLOCK_BYTES)
        .take_while(|block| !block.iter().fold(false, |found, byte| found | special(byte)));
    let clean = blocks.count() * BLOCK_BYTES;
    bytes[clean..].iter().position(special).map_or(bytes.len(), |n| clean + n)
}

const BLOCK_BYTES: usize = 64;

/// One bit for each byte of a block of ASCII: whether it is a letter or digit.
fn letters(block: &[u8]) -> u64 {
    let mut is = [0_u8; BLOCK_BYTES];
    for (is, byte) in is.iter_mut().zip(block) {
        *is = u8::from((byte | 0x20).wrapping_sub(b'a') < 26)
            | u8::from(byte.wrapping_sub(b'0') < 10);
    }
    // Eight bytes of 0 or 1 become eight bits: the product moves each into its place in the highest byte.
    let bits =
        |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    is.as_chunks().0.iter().rev().fold(0, |all, eight| all << 8 | bits(eight))
}

/// The words of a text that comes in pieces.
struct Words<'a, F> {
    /// The folded letters of a word that the next piece may go on with.
    begun: Vec<u8>,
    each: &'a mut F,
}

impl<F: FnMut(u32)> Words<'_, F> {
    /// Here no word goes on.
    fn end(&mut self) {
        if !self.begun.is_empty() {
            (self.each)(hash(&self.begun));
            self.begun.clear();
        }
    }

    /// A piece of ASCII without escapes.
    fn plain(&mut self, piece: &[u8]) {
        if piece.first().is_some_and(|byte| !byte.is_ascii_alphanumeric()) {
            self.end();
        }
        let mut from = None;
        for (n, block) in piece.chunks(BLOCK_BYTES).enumerate() {
            let letters = letters(block);
            // Where a word begins or ends.
            let mut edges = letters ^ (letters << 1 | u64::from(from.is_some()));
            while edges != 0 {
                let at = n * BLOCK_BYTES + edges.trailing_zeros() as usize;
                edges &= edges - 1;
                from = match from {
                    None => Some(at),
                    Some(start) if at == piece.len() => Some(start),
                    Some(start) => {
                        self.word(piece, start, at);
                        None
                    }
                };
            }
        }
        if let Some(start) = from {
            self.begun.extend(piece[start..].iter().map(u8::to_ascii_lowercase));
        }
    }

    fn word(&mut self, piece: &[u8], from: usize, to: usize) {
        if self.begun.is_empty() {
            (self.each)(hash_in(piece, from, to));
        } else {
            self.begun.extend(piece[from..to].iter().map(u8::to_ascii_lowercase));
            self.end();
        }
    }

    /// A piece without ASCII.
    fn wide(&mut self, piece: &str) {
        let mut before: Option<char> = None;
        for c in piece.chars() {
            if unspaced(c) || !c.is_alphanumeric() {
                self.end();
            } else {
                let mut utf8 = [0; 4];
                folded(c).for_each(|c| {
                    self.begun.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
                });
            }
            if let Some(left) = before.filter(|_| unspaced(c)) {
                (self.each)(hash(String::from_iter([left, c]).as_bytes()));
            }
            before = Some(c).filter(|c| unspaced(*c));
        }
    }
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
mod slowly;

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
        for word in [
            "fix", "retry", "logic", "über", "naïve", "tabs", "x1", "quoted", "back", "slash",
            "end", "ÜBER",
        ] {
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
