//! Whether a policy matches a message. A policy is a list of tests, and all of them must hold.

use std::fmt;

use crate::identity::{Envelope, PeerKind, Principal, PrincipalType};
use crate::time::Timestamp;

use super::pattern;
use super::template::{peer_kind_name, type_name};

/// Length of the longest text of a message in a reason.
const SHOWN_MAX_CHARS: usize = 60;
const MINUTES_PER_DAY: u16 = 24 * 60;

/// A message with what is known about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub sender: &'a Principal,
    pub envelope: &'a Envelope,
    pub text: &'a str,
    pub verified: bool,
    pub now: Timestamp,
}

/// One condition of a policy.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    PrincipalType(Vec<PrincipalType>),
    /// A text of the principal or the envelope matches one of the patterns.
    Text(Field, Vec<String>),
    PeerKind(Vec<PeerKind>),
    /// Whether the message is in a thread.
    Thread(bool),
    /// Whether the link of the sender to its entity is verified.
    Verified(bool),
    TextStartsWith(Vec<String>),
    UtcHours(Hours),
}

/// A text that a policy can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    EntityId,
    Name,
    Relationship,
    Channel,
    AccountId,
    SenderId,
    PeerId,
}

impl Field {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::EntityId => "principal.entity_id",
            Self::Name => "principal.name",
            Self::Relationship => "principal.relationship",
            Self::Channel => "delivery.channel",
            Self::AccountId => "delivery.account_id",
            Self::SenderId => "delivery.sender_id",
            Self::PeerId => "delivery.peer_id",
        }
    }

    /// Calls `f` with the value. An entity's id is printed into a buffer on the stack.
    fn with_value<T>(self, subject: &Subject<'_>, f: impl FnOnce(Option<&str>) -> T) -> T {
        let Subject { sender, envelope, .. } = subject;
        match self {
            Self::EntityId => {
                let mut buffer = [0; ulid::ULID_LEN];
                f(sender.entity_id.map(|id| &*id.0.array_to_str(&mut buffer)))
            }
            Self::Name => f(known_name(sender)),
            Self::Relationship => f(sender.relationship.as_deref()),
            Self::Channel => f(Some(&envelope.channel)),
            Self::AccountId => f(envelope.account_id.as_deref()),
            Self::SenderId => f(Some(&envelope.sender_id)),
            Self::PeerId => f(envelope.peer_id.as_deref()),
        }
    }
}

/// A part of every day in UTC, in minutes after midnight. The end is not part of it. An end before
/// the start is on the next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hours {
    start: u16,
    end: u16,
}

impl Hours {
    /// Parses `09:00-17:30`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (start, end) = text.split_once('-')?;
        let hours = Self { start: minutes(start)?, end: minutes(end)? };
        (hours.start < MINUTES_PER_DAY && hours.start != hours.end).then_some(hours)
    }

    fn contains(self, now: Timestamp) -> bool {
        let minute = minute_of_day(now);
        if self.start < self.end {
            (self.start..self.end).contains(&minute)
        } else {
            minute >= self.start || minute < self.end
        }
    }
}

/// Minutes after midnight of `09:30`. `24:00` is the end of the day.
fn minutes(text: &str) -> Option<u16> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |text: &str| -> Option<u16> {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse().ok())?
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let minutes = hour * 60 + minute;
    (minute < 60 && minutes <= MINUTES_PER_DAY).then_some(minutes)
}

fn minute_of_day(now: Timestamp) -> u16 {
    let minutes = now.unix_seconds().div_euclid(60).rem_euclid(i64::from(MINUTES_PER_DAY));
    u16::try_from(minutes).expect("a day has 1440 minutes")
}

impl Test {
    pub(super) fn holds(&self, subject: &Subject<'_>) -> bool {
        let Subject { sender, envelope, text, verified, now } = subject;
        match self {
            Self::PrincipalType(types) => types.contains(&sender.kind),
            Self::Text(field, patterns) => field.with_value(subject, |value| {
                value.is_some_and(|value| patterns.iter().any(|p| pattern::matches(p, value)))
            }),
            Self::PeerKind(kinds) => kinds.contains(&envelope.peer_kind),
            Self::Thread(thread) => envelope.thread_id.is_some() == *thread,
            Self::Verified(wanted) => verified == wanted,
            Self::TextStartsWith(starts) => starts.iter().any(|start| text.starts_with(start)),
            Self::UtcHours(hours) => hours.contains(*now),
        }
    }

    /// Why the test does not hold: what the policy requires and what the message has.
    pub(super) fn mismatch(&self, subject: &Subject<'_>) -> String {
        let Subject { sender, envelope, text, verified, now } = subject;
        let has = match self {
            Self::PrincipalType(_) => type_name(sender.kind).to_owned(),
            Self::Text(Field::Name, _) if sender.name.is_some() && known_name(sender).is_none() => {
                "only claimed by an unknown sender".to_owned()
            }
            Self::Text(field, _) => field.with_value(subject, |value| {
                value.map_or_else(|| "absent".to_owned(), |value| format!("`{}`", shown(value)))
            }),
            Self::PeerKind(_) => peer_kind_name(envelope.peer_kind).to_owned(),
            Self::Thread(_) => envelope.thread_id.is_some().to_string(),
            Self::Verified(_) => verified.to_string(),
            // The texts of messages are not part of explanations.
            Self::TextStartsWith(_) if text.is_empty() => "empty".to_owned(),
            Self::TextStartsWith(_) => "different".to_owned(),
            Self::UtcHours(_) => {
                let minute = minute_of_day(*now);
                format!("{:02}:{:02}", minute / 60, minute % 60)
            }
        };
        format!("{self}, but it is {has}")
    }
}

/// What the test requires.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, wanted): (&str, Vec<String>) = match self {
            Self::PrincipalType(types) => {
                ("principal.type", types.iter().map(|kind| type_name(*kind).into()).collect())
            }
            Self::Text(field, patterns) => {
                (field.name(), patterns.iter().map(|text| format!("`{}`", shown(text))).collect())
            }
            Self::PeerKind(kinds) => (
                "delivery.peer_kind",
                kinds.iter().map(|kind| peer_kind_name(*kind).into()).collect(),
            ),
            Self::Thread(thread) => ("delivery.thread", vec![thread.to_string()]),
            Self::Verified(verified) => ("conditions.verified", vec![verified.to_string()]),
            Self::TextStartsWith(starts) => (
                "the start of the text",
                starts.iter().map(|text| format!("`{}`", shown(text))).collect(),
            ),
            Self::UtcHours(Hours { start, end }) => {
                let time = |at: &u16| format!("{:02}:{:02}", at / 60, at % 60);
                ("the time in UTC", vec![format!("{}-{}", time(start), time(end))])
            }
        };
        write!(f, "{name} must be {}", wanted.join(" or "))
    }
}

/// The name of the sender. An unknown sender chooses its name, so it could be that of another.
pub(super) fn known_name(sender: &Principal) -> Option<&str> {
    sender.name.as_deref().filter(|_| sender.kind != PrincipalType::Unknown)
}

/// A value in one line of limited length.
fn shown(value: &str) -> String {
    crate::text_limits::one_line(value, SHOWN_MAX_CHARS)
}
