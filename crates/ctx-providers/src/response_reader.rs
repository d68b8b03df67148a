//! Reads a response of any API incrementally: bytes in, deltas out, one end.
//!
//! A server may send one JSON document instead of the requested stream. Every response is limited
//! in size, and an incomplete response is always a failure.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Failure, Stop};
use serde::Deserialize;

use crate::failure;
use crate::sse_decoder::{EventDecoder, TooLong};

/// Maximum size of the text and the call arguments of a response.
const CONTENT_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of a response on the wire: a stream wraps each word in hundreds of bytes, and a
/// server may send comments without end.
const WIRE_MAX_BYTES: usize = 16 * CONTENT_MAX_BYTES;
/// Length of the quotation of an unreadable event in the error message.
const SAMPLE_MAX_CHARS: usize = 80;

/// Parses the responses of one API.
pub(crate) trait ResponseParser: Send {
    /// The form in which JSON is parsed.
    type Json<'a>: Deserialize<'a>;

    /// Parses one event of a stream and appends its deltas to `out`.
    fn on_event(&mut self, json: &Self::Json<'_>, out: &mut Vec<Delta>) -> Result<(), Failure>;

    /// Parses a response that is one JSON document.
    fn on_document(&mut self, json: &Self::Json<'_>, out: &mut Vec<Delta>) -> Result<(), Failure>;

    /// The server sent `[DONE]`.
    fn on_done_marker(&mut self) {}

    /// Whether the response has ended; later events are ignored.
    fn is_done(&self) -> bool;

    /// Whether the response is complete except for its usage, which may follow.
    fn is_complete(&self) -> bool {
        self.is_done()
    }

    /// The reason for the end; deferred deltas are appended to `out`. An incomplete response is a
    /// failure.
    fn finish(&mut self, out: &mut Vec<Delta>) -> Result<Stop, Failure>;

    /// The reported usage.
    fn take_usage(&mut self) -> Option<Usage>;
}

/// Reads one response.
pub(crate) struct ResponseReader<'a, F> {
    parser: &'a mut F,
    format: Format,
    wire_bytes: usize,
}

/// The format of a response, which its first byte determines.
enum Format {
    Unknown,
    Stream(EventDecoder),
    Document(Vec<u8>),
}

impl<'a, F: ResponseParser> ResponseReader<'a, F> {
    pub(crate) fn new(parser: &'a mut F) -> Self {
        Self { parser, format: Format::Unknown, wire_bytes: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.parser.is_complete()
    }

    /// Reads a chunk and appends its deltas to `out`, on an error those before the error.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.wire_bytes += bytes.len();
        if self.wire_bytes > WIRE_MAX_BYTES {
            return Err(failure::too_large("it does not end"));
        }
        if matches!(self.format, Format::Unknown) {
            self.format = match bytes.trim_ascii_start().first() {
                None => return Ok(()),
                Some(b'{') => Format::Document(Vec::new()),
                Some(b'<') => {
                    return Err(failure::malformed("it is an HTML page. Check `base_url`"));
                }
                Some(_) => Format::Stream(EventDecoder::default()),
            };
        }
        match &mut self.format {
            Format::Document(document) if document.len() + bytes.len() > CONTENT_MAX_BYTES => {
                Err(too_large())
            }
            Format::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(())
            }
            Format::Stream(decoder) => {
                let mut parsed = Ok(());
                let parse = &mut |data: &[u8]| parse_event(self.parser, data, &mut parsed, out);
                let decoded = decoder.feed(bytes, parse);
                parsed.and_then(|()| decoded.map_err(event_too_long))
            }
            Format::Unknown => Ok(()),
        }
    }

    /// Ends the response after its last byte or after an error. The remaining deltas are appended
    /// to `out`.
    pub(crate) fn finish(mut self, outcome: Result<(), Failure>, out: &mut Vec<Delta>) -> End {
        let parsed = outcome.and_then(|()| self.close(out));
        let stop = parsed.and_then(|()| self.parser.finish(out));
        out.extend(self.parser.take_usage().map(Delta::Usage));
        stop.map_or_else(End::Failed, End::Done)
    }

    fn close(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match std::mem::replace(&mut self.format, Format::Unknown) {
            Format::Unknown => Ok(()),
            Format::Stream(decoder) => {
                let mut parsed = Ok(());
                let parse = &mut |data: &[u8]| parse_event(self.parser, data, &mut parsed, out);
                let decoded = decoder.finish(parse);
                parsed.and_then(|()| decoded.map_err(event_too_long))
            }
            Format::Document(document) => match serde_json::from_slice::<F::Json<'_>>(&document) {
                Ok(json) => self.parser.on_document(&json, out),
                Err(error) if error.is_eof() => Err(failure::cut_off()),
                Err(error) => Err(failure::malformed(&error.to_string())),
            },
        }
    }
}

/// Parses the data of one event, unless an earlier one has failed or has ended the response.
fn parse_event<F: ResponseParser>(
    parser: &mut F,
    data: &[u8],
    parsed: &mut Result<(), Failure>,
    out: &mut Vec<Delta>,
) {
    if parsed.is_err() || parser.is_done() {
        return;
    }
    match data.trim_ascii() {
        b"" => {}
        b"[DONE]" => parser.on_done_marker(),
        data => {
            *parsed = match serde_json::from_slice(data) {
                Err(error) => Err(unreadable(data, &error.to_string())),
                Ok(_) if !data.starts_with(b"{") => Err(unreadable(data, "not an object")),
                Ok(json) => parser.on_event(&json, out),
            };
        }
    }
}

/// Counts the text and the call arguments of a response.
#[derive(Debug, Default)]
pub(crate) struct SizeLimit(usize);

impl SizeLimit {
    /// Counts more bytes; a failure beyond the limit.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Failure> {
        self.0 += bytes;
        if self.0 > CONTENT_MAX_BYTES { Err(too_large()) } else { Ok(()) }
    }
}

fn event_too_long(TooLong: TooLong) -> Failure {
    failure::too_large("an event is too long")
}

fn too_large() -> Failure {
    failure::too_large(&format!("it has more than {} MiB", CONTENT_MAX_BYTES >> 20))
}

fn unreadable(data: &[u8], why: &str) -> Failure {
    let sample: String = String::from_utf8_lossy(&data[..data.len().min(4 * SAMPLE_MAX_CHARS)])
        .chars()
        .take(SAMPLE_MAX_CHARS)
        .collect();
    failure::malformed(&format!("{why} in `{sample}`"))
}
