//! When a compaction is due, and where the history is split: by tokens, between two turns and so never between a tool
//! call and its result (R168–R172).

use super::Trigger;

/// A request that fills more of the window than this is preceded by a compaction, in percent.
pub const FULL_PERCENT: u64 = 85;
/// What a compaction before a call aims at.
const PROACTIVE_PERCENT: u64 = 60;
/// What one aims at after the provider said that it did not fit: its count was higher than ours.
pub const REACTIVE_PERCENT: u64 = 40;
/// One that was asked for keeps at most this much of the window, and at most a quarter of the history.
const MANUAL_PERCENT: u64 = 10;
const MANUAL_SHARE: u64 = 4;
/// A summary has at most this share of the window,
const SUMMARY_SHARE: u64 = 8;
/// and at most so many tokens.
const SUMMARY_MAX_TOKENS: u64 = 4096;
/// Pinned turns have at most this share of the window,
const PINNED_SHARE: u64 = 4;
/// and at most so many tokens.
pub const PINNED_MAX_TOKENS: u64 = 32_768;

/// Whether a request of that size is preceded by a compaction: strictly above 85 % (R169).
pub const fn is_full(tokens: u64, window: u64) -> bool {
    // Whole numbers, so that exactly 85 % is exactly that.
    tokens as u128 * 100 > window as u128 * FULL_PERCENT as u128
}

/// How many tokens a summary may have.
pub const fn summary_max(window: u64) -> u64 {
    let share = window / SUMMARY_SHARE;
    if share < SUMMARY_MAX_TOKENS { share } else { SUMMARY_MAX_TOKENS }
}

/// How many tokens all pinned turns of a session may have together.
pub const fn pinned_max(window: u64) -> u64 {
    let share = window / PINNED_SHARE;
    if share < PINNED_MAX_TOKENS { share } else { PINNED_MAX_TOKENS }
}

/// A turn that is sent as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// What it takes.
    pub tokens: u64,
    /// Whether it is sent as it is whatever becomes of its neighbours.
    pub pinned: bool,
}

/// What has to fit beside the turns that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// How many tokens fit at all.
    pub window: u64,
    /// What is sent in any case: the system prompt, the tools, the open turn, pinned turns of long ago.
    pub fixed: u64,
    /// Why it is made.
    pub trigger: Trigger,
}

/// How many of the oldest turns are summarised; nothing where that would gain nothing.
///
/// As many of the newest are kept as fit beside what is fixed, the summary, and the pinned turns among the summarised.
pub fn split(turns: &[Piece], room: Room) -> Option<usize> {
    let percent = |percent: u64| room.window.saturating_mul(percent) / 100;
    let free = |target: u64| percent(target).saturating_sub(room.fixed + summary_max(room.window));
    let all: u64 = turns.iter().map(|turn| turn.tokens).sum();
    let limit = match room.trigger {
        Trigger::Proactive => free(PROACTIVE_PERCENT),
        Trigger::Reactive => free(REACTIVE_PERCENT),
        Trigger::Manual => {
            free(PROACTIVE_PERCENT).min(percent(MANUAL_PERCENT)).min(all / MANUAL_SHARE)
        }
    };
    // A pinned turn takes its room on either side of the split.
    let mut used: u64 = turns.iter().filter(|turn| turn.pinned).map(|turn| turn.tokens).sum();
    let mut summarised = turns.len();
    while let Some(next) = summarised.checked_sub(1).map(|at| turns[at]) {
        let more = if next.pinned { 0 } else { next.tokens };
        if used + more > limit {
            break;
        }
        used += more;
        summarised -= 1;
    }
    let gained = turns[..summarised].iter().any(|turn| !turn.pinned && turn.tokens > 0);
    gained.then_some(summarised)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(tokens: &[u64]) -> Vec<Piece> {
        tokens.iter().map(|tokens| Piece { tokens: *tokens, pinned: false }).collect()
    }

    fn room(window: u64, fixed: u64, trigger: Trigger) -> Room {
        Room { window, fixed, trigger }
    }

    #[test]
    fn exactly_the_limit_is_not_above_it() {
        // R168, R169
        assert!(!is_full(85, 100));
        assert!(is_full(86, 100));
        assert!(!is_full(6800, 8000) && is_full(6801, 8000));
        assert!(
            !is_full(0, 0) && is_full(1, 0),
            "a provider that says nothing of its window has none"
        );
        assert!(!is_full(u64::MAX / 2, u64::MAX));
        assert!(is_full(u64::MAX, u64::MAX));
    }

    #[test]
    fn the_split_is_by_tokens_and_not_by_turns() {
        // R172: of 10,000, 60 % is 6,000; the summary may have 1,250 of it, so 4,750 are left.
        let table = [
            ("small turns: many are kept", pieces(&[500; 20]), Some(11)),
            ("large turns: few are kept", pieces(&[3000; 4]), Some(3)),
            (
                "one too large is not kept, nor what is before it",
                pieces(&[100, 9000, 200]),
                Some(2),
            ),
            ("one that is larger than all room", pieces(&[9000]), Some(1)),
            ("exactly the room", pieces(&[10, 4750]), Some(1)),
            ("a token more than the room", pieces(&[10, 4751]), Some(2)),
            ("everything fits", pieces(&[10, 10]), None),
            ("nothing is there", pieces(&[]), None),
        ];
        for (why, turns, expected) in table {
            assert_eq!(split(&turns, room(10_000, 0, Trigger::Proactive)), expected, "{why}");
        }
    }

    #[test]
    fn the_trigger_says_how_much_is_kept() {
        // R168, R170, R177
        let turns = pieces(&[500; 20]);
        assert_eq!(
            split(&turns, room(10_000, 0, Trigger::Proactive)),
            Some(20 - 9),
            "4,750 are left of 60 %"
        );
        assert_eq!(
            split(&turns, room(10_000, 0, Trigger::Reactive)),
            Some(20 - 5),
            "2,750 are left of 40 %"
        );
        assert_eq!(
            split(&turns, room(10_000, 0, Trigger::Manual)),
            Some(20 - 2),
            "a tenth of the window"
        );
        assert_eq!(
            split(&pieces(&[10; 4]), room(10_000, 0, Trigger::Manual)),
            Some(3),
            "a quarter of a short history"
        );
        assert_eq!(split(&pieces(&[10]), room(10_000, 0, Trigger::Manual)), Some(1));
        assert_eq!(
            split(&turns, room(10_000, 4500, Trigger::Proactive)),
            Some(20),
            "what is fixed leaves no room"
        );
    }

    #[test]
    fn a_pinned_turn_is_neither_gain_nor_loss() {
        let turn = |tokens, pinned| Piece { tokens, pinned };
        let turns = [turn(1000, true), turn(4000, false), turn(3000, false), turn(1000, false)];
        assert_eq!(
            split(&turns, room(10_000, 0, Trigger::Proactive)),
            Some(3),
            "the pinned one leaves less room"
        );
        assert_eq!(
            split(&turns[..1], room(1000, 900, Trigger::Proactive)),
            None,
            "alone it cannot be made shorter"
        );
    }

    proptest! {
        #[test]
        fn what_is_kept_fits_and_is_as_much_as_fits(
            turns in prop::collection::vec((0u64..3000, any::<bool>()), 0..60),
            window in 0u64..40_000,
            fixed in 0u64..20_000,
            manual in any::<bool>(),
        ) {
            // R172
            let turns: Vec<Piece> = turns.into_iter().map(|(tokens, pinned)| Piece { tokens, pinned: pinned && tokens < 300 }).collect();
            let trigger = if manual { Trigger::Manual } else { Trigger::Proactive };
            let room = room(window, fixed, trigger);
            let Some(at) = split(&turns, room) else { return Ok(()) };
            prop_assert!((1..=turns.len()).contains(&at));
            prop_assert!(turns[..at].iter().any(|turn| !turn.pinned), "something is gained");
            let sent = |from: usize| -> u64 {
                turns.iter().enumerate().filter(|(n, turn)| *n >= from || turn.pinned).map(|(_, turn)| turn.tokens).sum()
            };
            let limit = (window * 60 / 100).saturating_sub(fixed + summary_max(window));
            if at < turns.len() && turns[at..].iter().any(|turn| !turn.pinned) {
                prop_assert!(sent(at) <= limit, "what is kept fits");
            }
            if trigger == Trigger::Proactive {
                prop_assert!(sent(at - 1) > limit, "one more would not");
            }
        }
    }
}
