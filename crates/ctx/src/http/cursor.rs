//! Page cursors: opaque strings that encode where the next page starts. The first character is the
//! type of the cursor; clients do not interpret it.

use axum::http::StatusCode;
use ctx_engine::core::id::{ObjectId, SessionId, TurnId};
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Order, Place};

use super::problem_details::{Error, HttpResult};

/// A position in a message history, for one reading order.
pub(super) fn of_place(order: Order, place: Place) -> String {
    let mut bytes = place.turn.0.as_bytes().to_vec();
    bytes.extend_from_slice(&place.depth.to_be_bytes());
    bytes.extend_from_slice(&(place.done as u64).to_be_bytes());
    hex(mark(order), &bytes)
}

pub(super) fn to_place(order: Order, cursor: &str) -> HttpResult<Place> {
    if cursor.len() == 97 && cursor.starts_with(['a', 'd']) && !cursor.starts_with(mark(order)) {
        return Err(not_found());
    }
    let bytes: [u8; 48] = unhex(mark(order), cursor)?;
    let (turn, rest) = bytes.split_first_chunk::<32>().ok_or_else(invalid)?;
    let (depth, done) = rest.split_first_chunk::<8>().ok_or_else(invalid)?;
    let done: [u8; 8] = done.try_into().map_err(|_| invalid())?;
    let done = usize::try_from(u64::from_be_bytes(done)).map_err(|_| invalid())?;
    Ok(Place { turn: TurnId(ObjectId::from_bytes(*turn)), depth: u64::from_be_bytes(*depth), done })
}

/// A position in the session list, which is ordered by last activity.
pub(super) fn of_session(at: Timestamp, id: SessionId) -> String {
    let mut bytes = at.0.to_be_bytes().to_vec();
    bytes.extend_from_slice(&id.0.0.to_be_bytes());
    hex('s', &bytes)
}

pub(super) fn to_session(cursor: &str) -> HttpResult<(Timestamp, SessionId)> {
    let bytes: [u8; 24] = unhex('s', cursor)?;
    let (at, id) = bytes.split_first_chunk::<8>().ok_or_else(invalid)?;
    let id: [u8; 16] = id.try_into().map_err(|_| invalid())?;
    Ok((Timestamp(i64::from_be_bytes(*at)), SessionId(ulid::Ulid(u128::from_be_bytes(id)))))
}

/// A row number; the next page starts before it. `mark` is the type of the list.
pub(super) fn of_row(mark: char, row: i64) -> String {
    hex(mark, &row.to_be_bytes())
}

pub(super) fn to_row(mark: char, cursor: &str) -> HttpResult<i64> {
    Ok(i64::from_be_bytes(unhex(mark, cursor)?))
}

/// The id of a turn or a commit.
pub(super) fn of_object(id: ObjectId) -> String {
    id.to_string()
}

pub(super) fn to_object(cursor: &str) -> HttpResult<ObjectId> {
    cursor.parse().map_err(|_| invalid())
}

pub(super) fn invalid() -> Error {
    Error::invalid("invalid_cursor", "the cursor does not belong to this list")
        .hint("read the first page again, without `cursor`")
}

/// The cursor points to something that was deleted, or it has another reading order.
pub(super) fn not_found() -> Error {
    Error::new(StatusCode::NOT_FOUND, "no_cursor", "the position of the cursor no longer exists")
        .hint("read the first page again, without `cursor`")
}

const fn mark(order: Order) -> char {
    match order {
        Order::Asc => 'a',
        Order::Desc => 'd',
    }
}

fn hex(mark: char, bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{mark}{digits}")
}

fn unhex<const N: usize>(mark: char, text: &str) -> HttpResult<[u8; N]> {
    let digits = text
        .strip_prefix(mark)
        .filter(|digits| digits.len() == 2 * N && digits.is_ascii())
        .ok_or_else(invalid)?;
    let mut bytes = [0; N];
    for (n, byte) in bytes.iter_mut().enumerate() {
        let pair = digits.get(2 * n..2 * n + 2).ok_or_else(invalid)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_reject_other_strings() {
        let place = Place { turn: TurnId(ObjectId::of(&[b"x"])), depth: 7, done: 3 };
        let cursor = of_place(Order::Asc, place);
        assert_eq!(to_place(Order::Asc, &cursor).expect("a place"), place);
        let session = (Timestamp(5), SessionId(ulid::Ulid(9)));
        assert_eq!(to_session(&of_session(session.0, session.1)).expect("a session"), session);
        assert_eq!(to_row('h', &of_row('h', 77)).expect("a row"), 77);
        for wrong in ["", "a", "zz", "aéé", &cursor[1..], &format!("{cursor}0")] {
            assert!(to_place(Order::Asc, wrong).is_err(), "{wrong}");
        }
        assert!(to_place(Order::Desc, &cursor).is_err(), "cursor of the other order");
    }
}
