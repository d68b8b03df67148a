//! Positions in a session's Durable Stream: offsets, cursors, and the query that carries them.
//!
//! The offset after an event is its `seq` with leading zeros, so offsets sort as text. The width
//! never changes: clients store offsets.

use std::time::Duration;

use axum::http::StatusCode;
use ctx_engine::core::time::Timestamp;

use super::problem_details::Error;

/// Digits of an offset.
const OFFSET_DIGITS: usize = 16;
/// Longest cursor that is compared; a longer one is ignored.
const CURSOR_DIGITS_MAX: usize = 15;
/// The protocol's epoch of cursors: 2024-10-09T00:00:00Z.
const CURSOR_EPOCH_SECONDS: i64 = 1_728_432_000;
const CURSOR_INTERVAL_SECONDS: i64 = 20;
/// Upper bound of the jitter that the protocol adds to a cursor that did not advance.
const JITTER_MAX_SECONDS: i64 = 3600;
/// Waiting time of a long-poll request without `timeout`.
const LONG_POLL_DEFAULT_SECONDS: u64 = 20;
pub(super) const LONG_POLL_MAX_SECONDS: u64 = 60;

/// Where a read begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// After the event with this number; 0 is the beginning.
    After(u64),
    /// At the end of the stream.
    Now,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    CatchUp,
    LongPoll { timeout: Duration },
    Sse,
}

/// The query of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadQuery {
    pub(super) start: Start,
    pub(super) mode: Mode,
    /// The cursor of the previous response.
    pub(super) cursor: Option<u64>,
}

impl ReadQuery {
    /// Parses the pairs of a query string. Unknown names are ignored, as in the protocol.
    pub(super) fn parse(pairs: &[(String, String)]) -> Result<Self, Error> {
        let offset = single(pairs, "offset")?;
        let start = offset.map_or(Ok(Start::After(0)), parse_offset)?;
        let mode = match single(pairs, "live")? {
            None => Mode::CatchUp,
            Some("long-poll") => Mode::LongPoll { timeout: timeout(single(pairs, "timeout")?)? },
            Some("sse") => Mode::Sse,
            Some(_) => {
                return Err(bad_request("invalid_live", "`live` must be `long-poll` or `sse`"));
            }
        };
        if offset.is_none() && mode != Mode::CatchUp {
            let why = "a live read needs `offset`: -1 for the beginning, now for the end";
            return Err(bad_request("invalid_offset", why));
        }
        let is_cursor = |text: &&str| {
            text.len() <= CURSOR_DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let cursor = single(pairs, "cursor")?.filter(is_cursor).and_then(|text| text.parse().ok());
        Ok(Self { start, mode, cursor })
    }
}

/// The offset after the event with this number.
pub(super) fn offset(seq: u64) -> String {
    format!("{seq:0OFFSET_DIGITS$}")
}

/// The cursor of a live response. It is above the client's cursor, so that a cache never repeats a
/// response.
pub(super) fn cursor(now: Timestamp, client: Option<u64>) -> u64 {
    let elapsed = now.unix_seconds().saturating_sub(CURSOR_EPOCH_SECONDS);
    let interval = u64::try_from(elapsed / CURSOR_INTERVAL_SECONDS).unwrap_or(0);
    match client {
        Some(client) if client >= interval => {
            // Any spread between clients will do: the milliseconds of the clock.
            let jitter = 1 + now.0.rem_euclid(JITTER_MAX_SECONDS);
            client + u64::try_from(jitter.div_euclid(CURSOR_INTERVAL_SECONDS)).unwrap_or(0) + 1
        }
        _ => interval,
    }
}

/// 400 is the protocol's status for invalid parameters.
pub(super) fn bad_request(code: &'static str, why: &str) -> Error {
    Error::new(StatusCode::BAD_REQUEST, code, why)
}

fn single<'a>(pairs: &'a [(String, String)], name: &str) -> Result<Option<&'a str>, Error> {
    let mut values = pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(bad_request("invalid_query", &format!("the query has `{name}` twice"))),
    }
}

fn parse_offset(text: &str) -> Result<Start, Error> {
    match text {
        "-1" => Ok(Start::After(0)),
        "now" => Ok(Start::Now),
        _ if text.len() == OFFSET_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Start::After(text.parse().unwrap_or(u64::MAX)))
        }
        _ => Err(bad_request(
            "invalid_offset",
            "`offset` must be -1, now, or a Stream-Next-Offset of this stream",
        )),
    }
}

fn timeout(text: Option<&str>) -> Result<Duration, Error> {
    let Some(text) = text else { return Ok(Duration::from_secs(LONG_POLL_DEFAULT_SECONDS)) };
    match text.parse() {
        Ok(seconds @ 1..=LONG_POLL_MAX_SECONDS) => Ok(Duration::from_secs(seconds)),
        _ => Err(bad_request("invalid_timeout", "`timeout` must be 1 to 60 seconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &[(&str, &str)]) -> Result<ReadQuery, Error> {
        let pairs: Vec<_> =
            query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ReadQuery::parse(&pairs)
    }

    #[test]
    fn offsets_sort_as_text_and_read_back() {
        let offsets: Vec<String> =
            [0, 1, 9, 10, 99, 12_345, u64::from(u32::MAX)].map(offset).into();
        assert!(offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
        assert!("-1" < offsets[0].as_str());
        let query = parse(&[("offset", &offset(12_345))]).expect("an offset");
        assert_eq!(query.start, Start::After(12_345));
    }

    #[test]
    fn a_query_is_read_as_the_protocol_says() {
        let catch_up = |start| ReadQuery { start, mode: Mode::CatchUp, cursor: None };
        assert_eq!(parse(&[]).expect("no query"), catch_up(Start::After(0)));
        assert_eq!(parse(&[("offset", "-1"), ("x", "")]).expect("-1"), catch_up(Start::After(0)));
        assert_eq!(parse(&[("offset", "now")]).expect("now"), catch_up(Start::Now));
        let live = [("offset", "now"), ("live", "long-poll"), ("cursor", "7"), ("timeout", "3")];
        let live = parse(&live).expect("a long poll");
        let timeout = Duration::from_secs(3);
        assert_eq!((live.mode, live.cursor), (Mode::LongPoll { timeout }, Some(7)));
        for cursor in ["", "x", "-1", "9999999999999999"] {
            let query = parse(&[("offset", "-1"), ("live", "sse"), ("cursor", cursor)]);
            assert_eq!(query.expect("a query").cursor, None, "`{cursor}` is ignored");
        }
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let zero = offset(0);
        let table: [&[(&str, &str)]; 12] = [
            &[("offset", "")],
            &[("offset", "5")],
            &[("offset", "0000000000000005,1")],
            &[("offset", " 000000000000005")],
            &[("offset", "+000000000000005")],
            &[("offset", "NOW")],
            &[("offset", &zero), ("offset", &zero)],
            &[("live", "sse")],
            &[("live", "long-poll")],
            &[("offset", "-1"), ("live", "true")],
            &[("offset", "-1"), ("live", "long-poll"), ("timeout", "0")],
            &[("offset", "-1"), ("live", "long-poll"), ("timeout", "61")],
        ];
        for query in table {
            assert!(parse(query).is_err(), "{query:?}");
        }
    }

    #[test]
    fn a_cursor_is_the_interval_and_never_repeats_the_clients() {
        let now = Timestamp((CURSOR_EPOCH_SECONDS + 20_000) * 1000 + 999);
        assert_eq!((cursor(now, None), cursor(now, Some(999))), (1000, 1000));
        for ms in [0, 1, 999, 3599, 3600] {
            for client in [1000, 1001, 50_000] {
                let next = cursor(Timestamp(now.0 + ms), Some(client));
                assert!(next > client && next <= client + 181, "{client} → {next}");
            }
        }
        assert_eq!(cursor(Timestamp(0), None), 0, "a clock before the epoch");
    }
}
