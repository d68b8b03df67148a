//! An answer while it arrives: bytes in, deltas out, one end, whichever API sends it.
//!
//! A server that sends one JSON document although it was asked for a stream is understood as well. No answer grows past
//! its bounds, and none that broke off passes for a whole one.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Failure, Stop};
use serde_json::Value;

use crate::failure;
use crate::sse_decoder::{Events, TooLong};

/// The most words and arguments that an answer may hold.
const ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes that may carry them: a stream wraps each word in hundreds, and a server may send nothing but comments.
const WIRE_MAX_BYTES: usize = 16 * ANSWER_MAX_BYTES;
/// How much of what cannot be read is repeated.
const SAMPLE_MAX_CHARS: usize = 80;

/// What an API makes of its answer.
pub(crate) trait Fold: Send {
    /// Takes one event, and adds what it says to `out`.
    fn event(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure>;

    /// Takes an answer that came as one document.
    fn document(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure>;

    /// The server said that nothing follows.
    fn close(&mut self) {}

    /// Whether nothing follows.
    fn is_done(&self) -> bool;

    /// Whether nothing that matters is missing; the usage may still come.
    fn is_whole(&self) -> bool {
        self.is_done()
    }

    /// Why it stopped; what waited until now goes to `out`. A failure where it broke off.
    fn stop(&mut self, out: &mut Vec<Delta>) -> Result<Stop, Failure>;

    /// What it cost, if that was told.
    fn usage(&mut self) -> Option<Usage>;
}

/// What has arrived.
pub(crate) struct Answer<'a, F> {
    fold: &'a mut F,
    shape: Shape,
    wire_bytes: usize,
}

/// How the server answers; its first byte tells.
enum Shape {
    Unknown,
    Stream(Events),
    Document(Vec<u8>),
}

impl<'a, F: Fold> Answer<'a, F> {
    /// Nothing yet.
    pub(crate) fn new(fold: &'a mut F) -> Self {
        Self { fold, shape: Shape::Unknown, wire_bytes: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.fold.is_done()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.fold.is_whole()
    }

    /// Takes bytes, and adds what they say to `out`, also what they say before they fail.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.wire_bytes += bytes.len();
        if self.wire_bytes > WIRE_MAX_BYTES {
            return Err(failure::too_large("it does not end"));
        }
        if matches!(self.shape, Shape::Unknown) {
            self.shape = match bytes.trim_ascii_start().first() {
                None => return Ok(()),
                Some(b'{') => Shape::Document(Vec::new()),
                Some(b'<') => return Err(failure::bad_stream("it is a page. Is base_url right?")),
                Some(_) => Shape::Stream(Events::default()),
            };
        }
        match &mut self.shape {
            Shape::Document(document) if document.len() + bytes.len() > ANSWER_MAX_BYTES => {
                Err(past_bound())
            }
            Shape::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(())
            }
            Shape::Stream(events) => {
                let mut told = Vec::new();
                let fed = events.feed(bytes, &mut told);
                self.take_events(told, fed, out)
            }
            Shape::Unknown => Ok(()),
        }
    }

    /// The bytes have ended, or failed: adds what is left to `out` and says how it ends.
    pub(crate) fn end(mut self, outcome: Result<(), Failure>, out: &mut Vec<Delta>) -> End {
        let closed = outcome.and_then(|()| self.close(out));
        let stop = closed.and_then(|()| self.fold.stop(out));
        out.extend(self.fold.usage().map(Delta::Usage));
        stop.map_or_else(End::Failed, End::Done)
    }

    fn close(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match std::mem::replace(&mut self.shape, Shape::Unknown) {
            Shape::Unknown => Ok(()),
            Shape::Stream(events) => {
                let mut told = Vec::new();
                let fed = events.finish(&mut told);
                self.take_events(told, fed, out)
            }
            Shape::Document(document) => match serde_json::from_slice::<Value>(&document) {
                Ok(json) => self.fold.document(&json, out),
                Err(error) if error.is_eof() => Err(failure::cut()),
                Err(error) => Err(failure::bad_stream(&error.to_string())),
            },
        }
    }

    fn take_events(
        &mut self,
        told: Vec<Vec<u8>>,
        fed: Result<(), TooLong>,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        for data in told {
            match data.trim_ascii() {
                _ if self.fold.is_done() => break,
                b"" => {}
                b"[DONE]" => self.fold.close(),
                data => {
                    let json: Value = serde_json::from_slice(data)
                        .map_err(|error| unreadable(data, &error.to_string()))?;
                    if !json.is_object() {
                        return Err(unreadable(data, "not an object"));
                    }
                    self.fold.event(&json, out)?;
                }
            }
        }
        fed.map_err(|TooLong| failure::too_large("one event of it has no end"))
    }
}

/// How much of an answer there is.
#[derive(Debug, Default)]
pub(crate) struct Weight(usize);

impl Weight {
    /// Adds bytes of words or arguments, as long as there is room.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Failure> {
        self.0 += bytes;
        if self.0 > ANSWER_MAX_BYTES { Err(past_bound()) } else { Ok(()) }
    }
}

fn past_bound() -> Failure {
    failure::too_large(&format!("it has more than {} MiB", ANSWER_MAX_BYTES >> 20))
}

fn unreadable(data: &[u8], why: &str) -> Failure {
    let sample: String = String::from_utf8_lossy(&data[..data.len().min(4 * SAMPLE_MAX_CHARS)])
        .chars()
        .take(SAMPLE_MAX_CHARS)
        .collect();
    failure::bad_stream(&format!("{why} in `{sample}`"))
}
