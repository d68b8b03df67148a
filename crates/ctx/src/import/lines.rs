//! A file of JSON lines, read record by record in bounded memory.
//!
//! A file that is being written is read up to its last whole record: a last line without its end is
//! used only if it is valid JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A longer line is reported and skipped.
const LINE_MAX_BYTES: usize = 256 << 20;
const BUFFER_BYTES: usize = 1 << 20;

/// The lines of a file.
pub(super) struct Lines {
    from: Box<dyn BufRead + Send>,
    number: u64,
    line: Vec<u8>,
}

/// A line of a file.
pub(super) enum Line<'a> {
    /// A line that is not empty.
    Text { number: u64, text: &'a str },
    /// A line that cannot be a record.
    Bad { number: u64, why: &'static str },
}

impl Lines {
    /// Opens a file. A name that ends with `.zst` is decompressed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let from: Box<dyn BufRead + Send> = if path.extension().is_some_and(|end| end == "zst") {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::Decoder::new(file)?))
        } else {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
        };
        Ok(Self { from, number: 0, line: Vec::new() })
    }

    /// The next line; `None` at the end.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            self.line.clear();
            let limit = LINE_MAX_BYTES as u64 + 1;
            let read = self.from.by_ref().take(limit).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            let number = self.number;
            let ended = self.line.last() == Some(&b'\n');
            if read > LINE_MAX_BYTES && !ended {
                self.skip_line()?;
                return Ok(Some(Line::Bad { number, why: "the line is too long" }));
            }
            let text = self.line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            if !ended && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err() {
                // The tool is writing this record.
                return Ok(None);
            }
            return Ok(Some(match std::str::from_utf8(self.line.trim_ascii()) {
                Ok(text) => Line::Text { number, text },
                Err(_) => Line::Bad { number, why: "the line is not valid UTF-8" },
            }));
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.from.fill_buf()?;
            let (used, found) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.from.consume(used);
            if found {
                return Ok(());
            }
        }
    }
}
