//! Segments that are files: `segments/N`, for groups of many writes.
//!
//! A body that is stored in the database is written twice, into the log and from there into the database. For one writer that is
//! cheaper than a second sync; for many at once it is not. Their bodies are written once, end to end, straight to the disk, and
//! are there before the rows that name them are committed, so that a row never names a body that is not. What a failed
//! group leaves in the file is never read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rusqlite::Connection;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::Error;

use super::open::{Files, meta};
use super::segment;

/// A file that has grown to this takes no more.
const FILE_MAX_BYTES: u64 = 1 << 30;
/// Groups begin and end at a page: the disk is written to directly, and no page is written by two.
const PAGE_BYTES: usize = 4096;

/// A segment that this process alone adds to: it has the file locked.
pub(crate) struct SegmentFile {
    pub(crate) number: i64,
    file: File,
    /// Where the bytes of this group begin.
    start: u64,
    buffer: Buffer,
    /// A write failed: what of it is on the disk is not known, and nothing more is written here.
    failed: bool,
}

/// Bytes that begin at a page in memory, as a disk that is written to directly wants them.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// So many come before the first of them.
    skip: usize,
}

impl Buffer {
    fn with_room(bytes: usize) -> Self {
        let bytes = Vec::with_capacity(bytes + 2 * PAGE_BYTES);
        let mut buffer = Self { bytes, skip: 0 };
        buffer.begin();
        buffer
    }

    fn begin(&mut self) {
        self.bytes.clear();
        self.skip = self.bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        self.bytes.resize(self.skip, 0);
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.skip..]
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.skip
    }

    /// Fills up the last page. Where more came than there was room for, the bytes have moved and are laid anew.
    fn finish(&mut self) {
        self.bytes.resize(self.skip + self.len().next_multiple_of(PAGE_BYTES), 0);
        if self.as_slice().as_ptr().align_offset(PAGE_BYTES) != 0 {
            let mut again = Self::with_room(self.len());
            again.bytes.extend_from_slice(self.as_slice());
            *self = again;
        }
    }
}

impl SegmentFile {
    /// Takes up a file that nobody adds to, or makes one.
    pub(crate) fn claim(files: &Files, database: &Connection) -> Result<Self, Error> {
        let dir = files.segments();
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e.into()),
            Err(_) => {}
            Ok(()) => File::open(&files.dir)?.sync_all()?,
        }
        let mut highest = segment::highest_in_database(database)?.max(newest_made(database)?);
        for number in files.segment_numbers()? {
            highest = highest.max(number);
            // A copy that was put back beside the files it was made of has these in the database already.
            if segment::is_in_chunks(database, number)? {
                continue;
            }
            let file = open(&files.segment(number), OpenOptions::new().write(true))?;
            if file.try_lock().is_ok() {
                let start = file.metadata()?.len().next_multiple_of(PAGE_BYTES as u64);
                let segment = Self::new(number, file, start);
                if segment.is_open() {
                    return Ok(segment);
                }
            }
        }
        let number = highest + 1;
        if number >= segment::SEGMENTS_MAX {
            return Err(Error::Unavailable(format!(
                "there is no number left for a file in {}",
                dir.display()
            )));
        }
        let file = open(
            &files.segment(number),
            OpenOptions::new().write(true).create_new(true).mode(0o600),
        )?;
        file.try_lock().map_err(io::Error::from)?;
        File::open(&dir)?.sync_all()?;
        database.execute(
            "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)",
            [NEWEST_MADE, &number.to_string()],
        )?;
        Ok(Self::new(number, file, 0))
    }

    fn new(number: i64, file: File, start: u64) -> Self {
        Self { number, file, start, buffer: Buffer::default(), failed: false }
    }

    /// Whether it takes more.
    pub(crate) fn is_open(&self) -> bool {
        !self.failed && self.start < FILE_MAX_BYTES
    }

    /// Begins a group of so many bytes, or somewhat more: steps and commits are made inside the transaction.
    pub(crate) fn begin(&mut self, bytes: usize) {
        if self.buffer.bytes.capacity() < bytes + 2 * PAGE_BYTES {
            self.buffer = Buffer::with_room(bytes);
        } else {
            self.buffer.begin();
        }
    }

    /// Takes bytes along, and says from where on they will lie.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.start + self.buffer.len() as u64;
        self.buffer.bytes.extend_from_slice(bytes);
        at
    }

    /// Writes what was put; it is on the disk when this returns.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.len() == 0 {
            return Ok(());
        }
        self.buffer.finish();
        self.failed = true;
        self.write()?;
        self.file.sync_data()?;
        self.failed = false;
        self.start += self.buffer.len() as u64;
        Ok(())
    }

    fn write(&self) -> io::Result<()> {
        match self.file.write_all_at(self.buffer.as_slice(), self.start) {
            // The file can be opened so and yet not be written so.
            Err(e) if e.kind() == ErrorKind::InvalidInput => {
                fcntl_setfl(&self.file, fcntl_getfl(&self.file)? - OFlags::DIRECT)?;
                self.file.write_all_at(self.buffer.as_slice(), self.start)
            }
            written => written,
        }
    }
}

/// The newest number that a file was made under, in `meta`. A file that was lost leaves rows behind; another under its number would be
/// taken for it, and what these rows still erase would be erased there.
const NEWEST_MADE: &str = "segment";

fn newest_made(database: &Connection) -> Result<i64, Error> {
    Ok(meta(database, NEWEST_MADE)?.and_then(|number| number.parse().ok()).unwrap_or(0))
}

/// Opens a file past the page cache, where the file system says that it can.
fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    match how.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path) {
        Err(e) if e.kind() == ErrorKind::InvalidInput => how.custom_flags(0).open(path),
        opened => opened,
    }
}

impl Files {
    /// The numbers of all segments that are files, in order.
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
    fn a_disk_that_wants_its_bytes_otherwise_gets_them_through_the_cache() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Files { dir: dir.path().to_owned() };
        let database = Connection::open_in_memory().expect("a database");
        database
            .execute_batch("CREATE TABLE bodies (id INTEGER PRIMARY KEY, data BLOB); CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
            .expect("two tables");
        let mut segment = SegmentFile::claim(&files, &database).expect("a file");
        segment.start = 1;
        segment.begin(10);
        assert_eq!(segment.put(b"ten bytes."), 1);
        segment.flush().expect("written");
        assert_eq!(fs::read(files.segment(1)).expect("the file")[1..11], *b"ten bytes.");
    }

    #[test]
    fn bytes_begin_and_end_at_a_page_even_where_more_came_than_was_said() {
        for (said, came) in [(0, 1), (10, 4096), (100, 50_000), (50_000, 100), (8192, 8192)] {
            let mut buffer = Buffer::with_room(said);
            let bytes: Vec<u8> = (0..came).map(|n| (n % 251) as u8).collect();
            bytes.chunks(1000).for_each(|some| buffer.bytes.extend_from_slice(some));
            buffer.finish();
            assert_eq!(buffer.as_slice().as_ptr().align_offset(PAGE_BYTES), 0);
            assert_eq!(buffer.len() % PAGE_BYTES, 0);
            assert_eq!(buffer.as_slice()[..came], bytes);
        }
    }
}
