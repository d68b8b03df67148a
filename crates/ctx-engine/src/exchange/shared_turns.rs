//! How many turns two histories share, counted from the root. All ancestors of a shared turn are
//! shared too, so the number is found by search, with a few queries of each peer.

use ctx_core::exchange::{PathQuery, QUERY_IDS_MAX};
use ctx_core::id::TurnId;

use super::peer::{Peer, PeerError};

/// Depths that one query asks for.
const PROBES: u64 = 15;

/// A head and the number of turns that lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tip {
    pub(super) head: TurnId,
    pub(super) turns: u64,
}

/// The turn of one path at a depth.
pub(super) async fn turn_at(
    peer: &dyn Peer,
    head: TurnId,
    depth: u64,
) -> Result<TurnId, PeerError> {
    let found = turns_at(peer, &[(head, depth)]).await?;
    let turn = found.into_iter().next().flatten();
    turn.ok_or_else(|| PeerError::protocol("a turn of a session's history is missing"))
}

/// The turns of paths, each at one depth.
pub(super) async fn turns_at(
    peer: &dyn Peer,
    places: &[(TurnId, u64)],
) -> Result<Vec<Option<TurnId>>, PeerError> {
    let mut turns = Vec::with_capacity(places.len());
    for places in places.chunks(QUERY_IDS_MAX) {
        let query = |(head, depth): &(TurnId, u64)| PathQuery { head: *head, depths: vec![*depth] };
        let queries: Vec<PathQuery> = places.iter().map(query).collect();
        let answers = peer.paths(&queries).await?;
        if answers.len() != queries.len() || answers.iter().any(|answer| answer.len() != 1) {
            return Err(PeerError::protocol("wrong number of turns"));
        }
        turns.extend(answers.into_iter().flatten());
    }
    Ok(turns)
}

/// Whether turns are stored in a peer.
pub(super) async fn stored(peer: &dyn Peer, turns: &[TurnId]) -> Result<Vec<bool>, PeerError> {
    let mut all = Vec::with_capacity(turns.len());
    for turns in turns.chunks(QUERY_IDS_MAX) {
        let answers = peer.have(turns).await?;
        if answers.len() != turns.len() {
            return Err(PeerError::protocol("wrong number of answers"));
        }
        all.extend(answers);
    }
    Ok(all)
}

/// Number of turns that two paths share.
pub(super) async fn shared(
    source: &dyn Peer,
    target: &dyn Peer,
    here: Tip,
    there: Tip,
) -> Result<u64, PeerError> {
    let (mut low, mut high) = (0, here.turns.min(there.turns));
    while low < high {
        let depths = probes(low, high);
        let ours = path(source, here.head, &depths).await?;
        let theirs = path(target, there.head, &depths).await?;
        let equal = ours.iter().zip(&theirs).take_while(|(a, b)| a.is_some() && a == b).count();
        narrow(&mut low, &mut high, &depths, equal);
    }
    Ok(low)
}

/// Number of turns of a path that the target has, in any session.
pub(super) async fn shared_with_any(
    source: &dyn Peer,
    target: &dyn Peer,
    here: Tip,
) -> Result<u64, PeerError> {
    let (mut low, mut high) = (0, here.turns);
    while low < high {
        let depths = probes(low, high);
        let ours: Option<Vec<TurnId>> =
            path(source, here.head, &depths).await?.into_iter().collect();
        let ours = ours.ok_or_else(|| PeerError::protocol("a turn of a history is missing"))?;
        let equal = stored(target, &ours).await?.into_iter().take_while(|stored| *stored).count();
        narrow(&mut low, &mut high, &depths, equal);
    }
    Ok(low)
}

async fn path(
    peer: &dyn Peer,
    head: TurnId,
    depths: &[u64],
) -> Result<Vec<Option<TurnId>>, PeerError> {
    let query = PathQuery { head, depths: depths.to_vec() };
    match peer.paths(&[query]).await?.pop() {
        Some(turns) if turns.len() == depths.len() => Ok(turns),
        _ => Err(PeerError::protocol("wrong number of turns")),
    }
}

/// Depths above `low` up to `high`, the last of which is `high`.
fn probes(low: u64, high: u64) -> Vec<u64> {
    let step = (high - low).div_ceil(PROBES);
    let mut depths: Vec<u64> = (1..=PROBES).map(|n| (low + n * step).min(high)).collect();
    depths.dedup();
    depths
}

/// The first `equal` probes are shared, and the one after them is not.
fn narrow(low: &mut u64, high: &mut u64, depths: &[u64], equal: usize) {
    if let Some(depth) = depths.get(equal) {
        *high = depth - 1;
    }
    if let Some(depth) = equal.checked_sub(1).and_then(|at| depths.get(at)) {
        *low = *depth;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_at_the_last_shared_depth() {
        for total in 0..200_u64 {
            for shared in 0..=total {
                let (mut low, mut high, mut rounds) = (0, total, 0);
                while low < high {
                    let depths = probes(low, high);
                    let equal = depths.iter().take_while(|depth| **depth <= shared).count();
                    narrow(&mut low, &mut high, &depths, equal);
                    rounds += 1;
                }
                assert!(low == shared && rounds <= 3, "{total} {shared}: {low} in {rounds}");
            }
        }
    }
}
