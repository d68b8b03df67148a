//! Server-sent events out of bytes, however the network cut them.
//!
//! Only the data of events is kept: the APIs that are read here say in it all that they say. A line ends with LF or
//! CRLF. Neither a line nor an event grows past [`EVENT_MAX_BYTES`].

/// The most one event, and so one line, may hold.
pub(crate) const EVENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// A line or an event is past its bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// What was read and not yet told.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The line that has not ended.
    line: Vec<u8>,
    /// The data of the event that has not ended.
    data: Option<Vec<u8>>,
}

impl Events {
    /// Takes bytes, and adds the data of each event that they complete to `told`.
    ///
    /// # Errors
    /// If something is too long; what came before it has been told.
    pub(crate) fn feed(&mut self, bytes: &[u8], told: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > EVENT_MAX_BYTES {
                return Err(TooLong);
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, told)?;
            }
        }
        Ok(())
    }

    /// The bytes have ended. What was not closed by an empty line counts too: servers forget that line.
    ///
    /// # Errors
    /// If the last event is too long.
    pub(crate) fn finish(mut self, told: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, told)?;
        told.extend(self.data);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], told: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            told.extend(self.data.take());
            return Ok(());
        }
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let Some(data) = line.strip_prefix(b"data:") else { return Ok(()) };
        let data = data.strip_prefix(b" ").unwrap_or(data);
        match &mut self.data {
            Some(before) if before.len() + data.len() >= EVENT_MAX_BYTES => return Err(TooLong),
            Some(before) => {
                before.push(b'\n');
                before.extend_from_slice(data);
            }
            None => self.data = Some(data.to_vec()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\u{feff}: hello\r\nevent: x\r\ndata: {\"a\":\r\ndata: \"é🚀\"}\r\n\r\n\n\ndata:two\n\nid: 3\n\ndata: three";

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (mut events, mut told) = (Events::default(), Vec::new());
        for piece in pieces {
            events.feed(piece, &mut told).expect("short");
        }
        events.finish(&mut told).expect("short");
        told.into_iter().map(|data| String::from_utf8(data).expect("text")).collect()
    }

    #[test]
    fn cutting_the_bytes_anywhere_gives_the_same_events() {
        let bytes = STREAM.as_bytes();
        let whole = read(&[bytes]);
        assert_eq!(whole, ["{\"a\":\n\"é🚀\"}", "two", "three"]);
        for at in 0..=bytes.len() {
            assert_eq!(read(&[&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
        }
        assert_eq!(read(&bytes.chunks(1).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn a_line_without_end_is_refused_and_what_came_before_it_is_told() {
        let (mut events, mut told) = (Events::default(), Vec::new());
        let mut bytes = b"data: one\n\ndata: ".to_vec();
        bytes.resize(bytes.len() + EVENT_MAX_BYTES, b'x');
        assert_eq!(events.feed(&bytes, &mut told), Err(TooLong));
        assert_eq!(told, [b"one".to_vec()]);
    }

    #[test]
    fn an_event_of_many_lines_is_bounded_too() {
        let (mut events, mut told) = (Events::default(), Vec::new());
        let line = [b"data: ".as_slice(), &vec![b'x'; EVENT_MAX_BYTES / 4], b"\n"].concat();
        let fed: Vec<_> = (0..5).map(|_| events.feed(&line, &mut told)).collect();
        assert_eq!(fed, [Ok(()), Ok(()), Ok(()), Err(TooLong), Err(TooLong)]);
    }
}
