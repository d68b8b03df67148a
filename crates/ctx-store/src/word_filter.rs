//! Splits text into words, and builds the filters that select the blocks of rows to search.
//!
//! A block is up to [`BLOCK_ROWS`] consecutive rows. Its filter is a Bloom filter over the hashes
//! of all words of the block. It has false positives but no false negatives: a search reads the
//! rows of each block whose filter matches, and compares the words themselves. Decision
//! `docs/decisions/0003-search-by-block-filters.md` explains why there is no full-text index.
//!
//! Words are read from the canonical JSON of a record, with escapes removed and letters folded to
//! lower case. Scripts that are written without spaces are indexed as pairs of adjacent letters.

use std::sync::Arc;

use crate::driver::Table;

/// The text of a stored row: table, row number, unpacked bytes.
pub(crate) type RowText = (Table, i64, Arc<Vec<u8>>);

/// Number of rows that share a filter.
pub(crate) const BLOCK_ROWS: usize = 64;

const BITS_PER_WORD: usize = 8;
/// All bits of a word are in one cache line, so that a lookup reads only one.
const LINE_BYTES: usize = 64;
const PROBES: u32 = 4;

/// Hashes of the words in the JSON of a record, in order and with repeats.
pub(crate) fn record_hashes(json: &[u8]) -> Vec<u32> {
    let mut out = Vec::with_capacity(json.len() / 6);
    for_each_word(json, Escapes::Json, &mut |hash| out.push(hash));
    out
}

/// Hashes of the words in a query, sorted and without repeats.
pub(crate) fn query_hashes(text: &str) -> Vec<u32> {
    let mut out = Vec::new();
    for_each_word(text.as_bytes(), Escapes::None, &mut |hash| out.push(hash));
    out.sort_unstable();
    out.dedup();
    out
}

/// Hashes a word whose letters are already folded, eight bytes per step.
fn hash(word: &[u8]) -> u32 {
    let mut hash = HASH_START;
    for eight in word.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..eight.len()].copy_from_slice(eight);
        hash = mix(hash, u64::from_le_bytes(bytes));
    }
    finish(hash)
}

/// Same as [`hash`] for an ASCII word in a text that is not folded yet. `LOWER_CASE_BIT` turns
/// upper-case letters into lower-case ones and does not change lower-case letters and digits.
fn hash_ascii(text: &[u8], from: usize, to: usize) -> u32 {
    const LOWER_CASE_BIT: u64 = 0x2020_2020_2020_2020;
    let mut hash = HASH_START;
    let mut at = from;
    while at < to {
        let mut bytes = [0; 8];
        match text.get(at..at + 8) {
            Some(eight) => bytes.copy_from_slice(eight),
            None => bytes[..text.len() - at].copy_from_slice(&text[at..]),
        }
        let used_bytes = u64::MAX >> (64 - 8 * (to - at).min(8));
        hash = mix(hash, (u64::from_le_bytes(bytes) | LOWER_CASE_BIT) & used_bytes);
        at += 8;
    }
    finish(hash)
}

const HASH_START: u64 = 0x517C_C1B7_2722_0A95;

const fn mix(hash: u64, eight: u64) -> u64 {
    let mixed = (hash ^ eight).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 32)
}

const fn finish(hash: u64) -> u32 {
    ((hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
}

/// Whether a backslash begins an escape sequence.
#[derive(Clone, Copy, PartialEq)]
enum Escapes {
    Json,
    None,
}

/// Folds a letter to lower case. The final form of sigma becomes the ordinary one.
pub(crate) fn fold_case(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c })
}

fn for_each_word(bytes: &[u8], escapes: Escapes, emit: &mut impl FnMut(u32)) {
    let mut scanner = WordScanner { partial: Vec::new(), emit };
    let mut at = 0;
    while at < bytes.len() {
        let end = at + plain_ascii_len(&bytes[at..], escapes);
        scanner.ascii(&bytes[at..end]);
        at = end;
        match bytes.get(at) {
            None => break,
            Some(b'\\') => {
                // Canonical JSON escapes only quotes, backslashes and control characters. None of
                // them belongs to a word.
                scanner.end_word();
                at += if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 };
            }
            Some(_) => {
                let len = bytes[at..].iter().take_while(|b| **b >= 0x80).count();
                scanner.non_ascii(&String::from_utf8_lossy(&bytes[at..at + len]));
                at += len;
            }
        }
    }
    scanner.end_word();
}

/// Number of bytes before the next one that is not ASCII or begins an escape.
fn plain_ascii_len(bytes: &[u8], escapes: Escapes) -> usize {
    let backslash = if escapes == Escapes::Json { b'\\' } else { 0x80 };
    let special = |byte: &u8| *byte >= 0x80 || *byte == backslash;
    // Whole blocks first: without a branch per byte, the compiler vectorises the check.
    let blocks = bytes
        .chunks_exact(BLOCK_BYTES)
        .take_while(|block| !block.iter().fold(false, |found, byte| found | special(byte)));
    let clean = blocks.count() * BLOCK_BYTES;
    bytes[clean..].iter().position(special).map_or(bytes.len(), |n| clean + n)
}

const BLOCK_BYTES: usize = 64;

/// Bit mask of a block of ASCII: a bit is set where the byte is a letter or a digit.
fn alphanumeric_mask(block: &[u8]) -> u64 {
    let mut flags = [0_u8; BLOCK_BYTES];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from((byte | 0x20).wrapping_sub(b'a') < 26)
            | u8::from(byte.wrapping_sub(b'0') < 10);
    }
    // Eight bytes of 0 or 1 become eight bits: the product moves each one to its position in the
    // highest byte.
    let bits =
        |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    flags.as_chunks().0.iter().rev().fold(0, |all, eight| all << 8 | bits(eight))
}

/// Splits a text that arrives in pieces, and reports the hash of each word.
struct WordScanner<'a, F> {
    /// Folded letters of a word that the next piece may continue.
    partial: Vec<u8>,
    emit: &'a mut F,
}

impl<F: FnMut(u32)> WordScanner<'_, F> {
    /// Reports the pending word, if there is one.
    fn end_word(&mut self) {
        if !self.partial.is_empty() {
            (self.emit)(hash(&self.partial));
            self.partial.clear();
        }
    }

    /// Scans a piece of ASCII without escapes.
    fn ascii(&mut self, piece: &[u8]) {
        if piece.first().is_some_and(|byte| !byte.is_ascii_alphanumeric()) {
            self.end_word();
        }
        let mut from = None;
        for (n, block) in piece.chunks(BLOCK_BYTES).enumerate() {
            let letters = alphanumeric_mask(block);
            // Bits at which a word begins or ends.
            let mut edges = letters ^ (letters << 1 | u64::from(from.is_some()));
            while edges != 0 {
                let at = n * BLOCK_BYTES + edges.trailing_zeros() as usize;
                edges &= edges - 1;
                from = match from {
                    None => Some(at),
                    Some(start) if at == piece.len() => Some(start),
                    Some(start) => {
                        self.finish_word(piece, start, at);
                        None
                    }
                };
            }
        }
        if let Some(start) = from {
            self.partial.extend(piece[start..].iter().map(u8::to_ascii_lowercase));
        }
    }

    fn finish_word(&mut self, piece: &[u8], from: usize, to: usize) {
        if self.partial.is_empty() {
            (self.emit)(hash_ascii(piece, from, to));
        } else {
            self.partial.extend(piece[from..to].iter().map(u8::to_ascii_lowercase));
            self.end_word();
        }
    }

    /// Scans a piece that contains no ASCII.
    fn non_ascii(&mut self, piece: &str) {
        let mut before: Option<char> = None;
        for c in piece.chars() {
            if is_unspaced_script(c) || !c.is_alphanumeric() {
                self.end_word();
            } else {
                let mut utf8 = [0; 4];
                fold_case(c).for_each(|c| {
                    self.partial.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
                });
            }
            if let Some(left) = before.filter(|_| is_unspaced_script(c)) {
                (self.emit)(hash(String::from_iter([left, c]).as_bytes()));
            }
            before = Some(c).filter(|c| is_unspaced_script(*c));
        }
    }
}

/// Whether a letter belongs to a script that is written without spaces.
pub(crate) fn is_unspaced_script(c: char) -> bool {
    matches!(
        u32::from(c),
        0x0E00..=0x0EFF
            | 0x1000..=0x109F
            | 0x1780..=0x17FF
            | 0x3040..=0x30FF
            | 0x3400..=0x9FFF
            | 0xF900..=0xFAFF
            | 0x20000..=0x3FFFF
    )
}

/// Builds the filter of a block. The hashes may be in any order and may repeat.
pub(crate) fn filter(hashes: &[u32]) -> Vec<u8> {
    let lines = (estimate_distinct(hashes) * BITS_PER_WORD).div_ceil(LINE_BYTES * 8).max(1);
    let mut filter = vec![0; lines * LINE_BYTES];
    for hash in hashes {
        let (line, bits) = probes(*hash, lines);
        for bit in bits {
            filter[line * LINE_BYTES + bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// Estimates the number of distinct hashes. An estimate is cheaper than sorting and is precise
/// enough to choose the size of a filter.
fn estimate_distinct(hashes: &[u32]) -> usize {
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

/// Whether the block of a filter may contain the word; `false` is certain.
pub(crate) fn may_contain(filter: &[u8], hash: u32) -> bool {
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
mod word_properties;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> u32 {
        let hashes = query_hashes(word);
        assert_eq!(hashes.len(), 1, "{word}");
        hashes[0]
    }

    #[test]
    fn words_are_found_next_to_punctuation_and_escapes() {
        let text = "Fix the Retry-logic:\nÜBER naïve\ttabs; x1 \"quoted\" back\\slash \u{1} end";
        let json = serde_json::to_vec(text).expect("json");
        let found = record_hashes(&json);
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
        let found = record_hashes("添加日志记录 and ログ".as_bytes());
        for word in ["日志", "添加", "ログ"] {
            assert!(found.contains(&of(word)), "{word}");
        }
        assert!(found.contains(&of("and")));
    }

    #[test]
    fn a_filter_has_no_false_negatives_and_few_false_positives() {
        let words: Vec<u32> = (0..5000).map(|n| of(&format!("word{n}"))).collect();
        let filter = filter(&words);
        assert!(words.iter().all(|hash| may_contain(&filter, *hash)));
        let wrong = (0..10_000).filter(|n| may_contain(&filter, of(&format!("other{n}")))).count();
        assert!(wrong < 300, "{wrong} of 10000");
        assert!(!may_contain(&[], 1));
    }
}
