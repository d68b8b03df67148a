//! Segment files: `segments/N`, for groups of many writes.
//!
//! A body in the database is written twice: to the log, and from there to the database. For a
//! single writer that is cheaper than a second sync; for many writers at once it is not. Bodies of
//! a large group are therefore written once, one after the other, with direct I/O. They are synced
//! before the rows that refer to them are committed, so a row never refers to a missing body. Bytes
//! that a failed group leaves in the file are never read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rusqlite::Connection;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::Error;

use super::open::{Files, meta};
use super::segment;

/// Size in bytes from which a file is complete.
const FILE_MAX_BYTES: u64 = 1 << 30;
/// Direct I/O requires that groups begin and end at a page boundary.
const PAGE_BYTES: usize = 4096;

/// A segment file that only this process appends to; it holds the lock on the file.
pub(crate) struct SegmentFile {
    pub(crate) number: i64,
    file: File,
    /// Offset of the current group in the file.
    start: u64,
    buffer: Buffer,
    /// A write failed. Its bytes may be on the disk in part, so the file is not used again.
    failed: bool,
}

/// Bytes that begin at a page boundary in memory, as direct I/O requires.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Number of unused bytes before the boundary.
    padding: usize,
}

impl Buffer {
    fn with_capacity(bytes: usize) -> Self {
        let bytes = Vec::with_capacity(bytes + 2 * PAGE_BYTES);
        let mut buffer = Self { bytes, padding: 0 };
        buffer.reset();
        buffer
    }

    fn reset(&mut self) {
        self.bytes.clear();
        self.padding = self.bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        self.bytes.resize(self.padding, 0);
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.padding..]
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.padding
    }

    /// Fills the last page with zeros. Aligns the bytes again if they moved because the buffer
    /// grew.
    fn pad_to_page(&mut self) {
        self.bytes.resize(self.padding + self.len().next_multiple_of(PAGE_BYTES), 0);
        if self.as_slice().as_ptr().align_offset(PAGE_BYTES) != 0 {
            let mut aligned = Self::with_capacity(self.len());
            aligned.bytes.extend_from_slice(self.as_slice());
            *self = aligned;
        }
    }
}

impl SegmentFile {
    /// Locks a file that no process appends to, or creates one.
    pub(crate) fn claim(files: &Files, database: &Connection) -> Result<Self, Error> {
        let dir = files.segments();
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e.into()),
            Err(_) => {}
            Ok(()) => File::open(&files.dir)?.sync_all()?,
        }
        let mut highest = segment::highest_in_database(database)?.max(newest_number(database)?);
        for number in files.segment_numbers()? {
            highest = highest.max(number);
            // If a backup was restored beside the segment files, these segments are already in the
            // database.
            if segment::is_in_chunks(database, number)? {
                continue;
            }
            let file = open_direct(&files.segment(number), OpenOptions::new().write(true))?;
            if file.try_lock().is_ok() {
                let start = file.metadata()?.len().next_multiple_of(PAGE_BYTES as u64);
                let segment = Self::new(number, file, start);
                if segment.is_writable() {
                    return Ok(segment);
                }
            }
        }
        let number = highest + 1;
        if number >= segment::SEGMENTS_MAX {
            return Err(Error::Unavailable(format!(
                "cannot create a segment file in {}: all numbers are in use",
                dir.display()
            )));
        }
        let file = open_direct(
            &files.segment(number),
            OpenOptions::new().write(true).create_new(true).mode(0o600),
        )?;
        file.try_lock().map_err(io::Error::from)?;
        File::open(&dir)?.sync_all()?;
        database.execute(
            "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)",
            [NEWEST_NUMBER_KEY, &number.to_string()],
        )?;
        Ok(Self::new(number, file, 0))
    }

    fn new(number: i64, file: File, start: u64) -> Self {
        Self { number, file, start, buffer: Buffer::default(), failed: false }
    }

    /// Whether further groups can be appended.
    pub(crate) fn is_writable(&self) -> bool {
        !self.failed && self.start < FILE_MAX_BYTES
    }

    /// Begins a group of about this many bytes. It may grow, because steps and commits are created
    /// inside the transaction.
    pub(crate) fn begin_group(&mut self, bytes: usize) {
        if self.buffer.bytes.capacity() < bytes + 2 * PAGE_BYTES {
            self.buffer = Buffer::with_capacity(bytes);
        } else {
            self.buffer.reset();
        }
    }

    /// Appends bytes to the group and returns their offset in the file.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.start + self.buffer.len() as u64;
        self.buffer.bytes.extend_from_slice(bytes);
        at
    }

    /// Writes and syncs the group.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.len() == 0 {
            return Ok(());
        }
        self.buffer.pad_to_page();
        self.failed = true;
        self.write()?;
        self.file.sync_data()?;
        self.failed = false;
        self.start += self.buffer.len() as u64;
        Ok(())
    }

    fn write(&self) -> io::Result<()> {
        match self.file.write_all_at(self.buffer.as_slice(), self.start) {
            // Some file systems accept direct I/O when the file is opened but not for the write.
            Err(e) if e.kind() == ErrorKind::InvalidInput => {
                fcntl_setfl(&self.file, fcntl_getfl(&self.file)? - OFlags::DIRECT)?;
                self.file.write_all_at(self.buffer.as_slice(), self.start)
            }
            written => written,
        }
    }
}

/// Key in `meta` of the highest number that a file was created under. Rows may still refer to a
/// file that was lost; a new file with its number would be read and erased in its place.
const NEWEST_NUMBER_KEY: &str = "segment";

fn newest_number(database: &Connection) -> Result<i64, Error> {
    Ok(meta(database, NEWEST_NUMBER_KEY)?.and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// Opens a file for direct I/O if the file system supports it.
fn open_direct(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match options.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path) {
        Err(e) if e.kind() == ErrorKind::InvalidInput => options.custom_flags(0).open(path),
        opened => opened,
    }
}

impl Files {
    /// Numbers of all segment files, in ascending order.
    pub(crate) fn segment_numbers(&self) -> Result<Vec<i64>, Error> {
        let entries = match fs::read_dir(self.segments()) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries?,
        };
        let number =
            |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        let mut numbers: Vec<i64> = entries
            .filter_map(number)
            .filter(|number| (1..segment::SEGMENTS_MAX).contains(number))
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_writes_fall_back_to_the_page_cache() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Files { dir: dir.path().to_owned() };
        let database = Connection::open_in_memory().expect("a database");
        database
            .execute_batch(
                "CREATE TABLE bodies (id INTEGER PRIMARY KEY, data BLOB);
                 CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
            )
            .expect("two tables");
        let mut segment = SegmentFile::claim(&files, &database).expect("a file");
        segment.start = 1;
        segment.begin_group(10);
        assert_eq!(segment.put(b"ten bytes."), 1);
        segment.flush().expect("written");
        assert_eq!(fs::read(files.segment(1)).expect("the file")[1..11], *b"ten bytes.");
    }

    #[test]
    fn a_buffer_is_page_aligned_even_if_it_grows_beyond_its_capacity() {
        for (capacity, length) in [(0, 1), (10, 4096), (100, 50_000), (50_000, 100), (8192, 8192)] {
            let mut buffer = Buffer::with_capacity(capacity);
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            bytes.chunks(1000).for_each(|some| buffer.bytes.extend_from_slice(some));
            buffer.pad_to_page();
            assert_eq!(buffer.as_slice().as_ptr().align_offset(PAGE_BYTES), 0);
            assert_eq!(buffer.len() % PAGE_BYTES, 0);
            assert_eq!(buffer.as_slice()[..length], bytes);
        }
    }
}
