//! Decodes server-sent events from chunks of bytes.
//!
//! Only the `data` of an event is returned: the supported APIs repeat the event name inside it. A
//! line ends with LF or CRLF. A line or an event longer than [`EVENT_MAX_BYTES`] is an error.

/// Maximum size of one line and of the data of one event.
pub(crate) const EVENT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// A line or an event exceeds [`EVENT_MAX_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The incomplete line and event at the end of the bytes read so far.
#[derive(Debug, Default)]
pub(crate) struct EventDecoder {
    line: Vec<u8>,
    /// Data lines of the incomplete event, joined by newlines. The buffer is used again.
    data: Vec<u8>,
    has_data: bool,
}

impl EventDecoder {
    /// Decodes a chunk and passes the data of each completed event to `on_event`.
    ///
    /// # Errors
    /// If a line or an event is too long; `on_event` has received those before it.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        on_event: &mut impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > EVENT_MAX_BYTES {
                return Err(TooLong);
            }
            match (piece.ends_with(b"\n"), self.line.is_empty()) {
                (true, true) => self.take_line(piece, on_event)?,
                (true, false) => {
                    let mut line = std::mem::take(&mut self.line);
                    line.extend_from_slice(piece);
                    self.take_line(&line, on_event)?;
                }
                (false, _) => self.line.extend_from_slice(piece),
            }
        }
        Ok(())
    }

    /// Ends the stream. An event without a final empty line is complete too, because some servers
    /// omit that line.
    ///
    /// # Errors
    /// If the last event is too long.
    pub(crate) fn finish(mut self, on_event: &mut impl FnMut(&[u8])) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, on_event)?;
        self.end_event(on_event);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], on_event: &mut impl FnMut(&[u8])) -> Result<(), TooLong> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            self.end_event(on_event);
            return Ok(());
        }
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let Some(data) = line.strip_prefix(b"data:") else { return Ok(()) };
        let data = data.strip_prefix(b" ").unwrap_or(data);
        if self.has_data {
            if self.data.len() + data.len() >= EVENT_MAX_BYTES {
                return Err(TooLong);
            }
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        self.has_data = true;
        Ok(())
    }

    fn end_event(&mut self, on_event: &mut impl FnMut(&[u8])) {
        if std::mem::take(&mut self.has_data) {
            on_event(&self.data);
            self.data.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        "\u{feff}: hello\r\nevent: x\r\ndata: {\"a\":\r\ndata: \"é🚀\"}\r\n\r\n",
        "\n\ndata:two\n\nid: 3\n\ndata: three",
    );

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (mut decoder, mut events) = (EventDecoder::default(), Vec::new());
        let mut add = |data: &[u8]| events.push(String::from_utf8(data.to_vec()).expect("text"));
        for piece in pieces {
            decoder.feed(piece, &mut add).expect("short");
        }
        decoder.finish(&mut add).expect("short");
        events
    }

    #[test]
    fn chunk_boundaries_do_not_change_the_events() {
        let bytes = STREAM.as_bytes();
        let whole = read(&[bytes]);
        assert_eq!(whole, ["{\"a\":\n\"é🚀\"}", "two", "three"]);
        for at in 0..=bytes.len() {
            assert_eq!(read(&[&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
        }
        assert_eq!(read(&bytes.chunks(1).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn overlong_line_is_an_error_after_the_events_before_it() {
        let (mut decoder, mut events) = (EventDecoder::default(), Vec::new());
        let mut bytes = b"data: one\n\ndata: ".to_vec();
        bytes.resize(bytes.len() + EVENT_MAX_BYTES, b'x');
        let mut add = |data: &[u8]| events.push(data.to_vec());
        assert_eq!(decoder.feed(&bytes, &mut add), Err(TooLong));
        assert_eq!(events, [b"one".to_vec()]);
    }

    #[test]
    fn overlong_event_of_many_lines_is_an_error() {
        let mut decoder = EventDecoder::default();
        let line = [b"data: ".as_slice(), &vec![b'x'; EVENT_MAX_BYTES / 4], b"\n"].concat();
        let fed: Vec<_> = (0..5).map(|_| decoder.feed(&line, &mut |_| {})).collect();
        assert_eq!(fed, [Ok(()), Ok(()), Ok(()), Err(TooLong), Err(TooLong)]);
    }
}
