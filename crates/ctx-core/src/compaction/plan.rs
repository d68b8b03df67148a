//! When a compaction is due, and where the history is split (R168–R172).
//!
//! The split is chosen by token counts. It is always between two turns, so a tool call and its
//! result are never separated.

use super::Trigger;

/// Percentage of the context window above which a request is preceded by a compaction.
pub const FULL_PERCENT: u64 = 85;
/// Target size of a request after a compaction, in percent of the window.
const TARGET_PERCENT: u64 = 60;
/// Target size after the provider rejected a request as too long, in percent of the window. It is
/// lower because the token count of the provider was higher than ours.
pub const OVERFLOW_PERCENT: u64 = 40;
/// Maximum size of the turns that a manual compaction keeps, in percent of the window.
const MANUAL_PERCENT: u64 = 10;
/// Maximum size of the turns that a manual compaction keeps, as a fraction (1/n) of the history.
const MANUAL_SHARE: u64 = 4;
/// Maximum size of a summary as a fraction (1/n) of the window.
const SUMMARY_SHARE: u64 = 8;
/// Maximum size of a summary in any window.
const SUMMARY_MAX_TOKENS: u64 = 4096;
/// Smallest limit of a summary, as a fraction (1/n) of its maximum. It holds even if the rest of
/// the request exceeds the target already.
const SUMMARY_MIN_SHARE: u64 = 8;
/// Maximum size of all pinned turns together as a fraction (1/n) of the window.
const PINNED_SHARE: u64 = 4;
/// Maximum size of all pinned turns together in any window.
pub const PINNED_MAX_TOKENS: u64 = 32_768;

/// Whether a request of `tokens` is preceded by a compaction: strictly above 85 % (R169).
pub const fn is_full(tokens: u64, window: u64) -> bool {
    // Integer arithmetic, so that exactly 85 % is not above the limit.
    tokens as u128 * 100 > window as u128 * FULL_PERCENT as u128
}

/// Maximum number of tokens of a summary.
pub const fn summary_max(window: u64) -> u64 {
    let share = window / SUMMARY_SHARE;
    if share < SUMMARY_MAX_TOKENS { share } else { SUMMARY_MAX_TOKENS }
}

/// Target size of a request after a compaction, in tokens.
const fn target(window: u64, trigger: Trigger) -> u64 {
    let percent = match trigger {
        Trigger::ContextLimit | Trigger::Manual | Trigger::Periodic => TARGET_PERCENT,
        Trigger::OverflowRecovery => OVERFLOW_PERCENT,
    };
    window.saturating_mul(percent) / 100
}

/// Maximum number of tokens of the summary in a request whose other parts have `rest` tokens, so
/// that the whole request is within the target.
pub const fn summary_limit(window: u64, trigger: Trigger, rest: u64) -> u64 {
    let (free, max) = (target(window, trigger).saturating_sub(rest), summary_max(window));
    let min = max / SUMMARY_MIN_SHARE;
    if free > max {
        max
    } else if free < min {
        min
    } else {
        free
    }
}

/// Maximum number of tokens of all pinned turns of a session together.
pub const fn pinned_max(window: u64) -> u64 {
    let share = window / PINNED_SHARE;
    if share < PINNED_MAX_TOKENS { share } else { PINNED_MAX_TOKENS }
}

/// The size of a turn that requests contain in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Piece {
    pub tokens: u64,
    /// Whether the turn is pinned, so that a compaction does not remove it from requests.
    pub pinned: bool,
}

/// The token budget of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Room {
    /// Size of the context window in tokens.
    pub window: u64,
    /// Tokens that every request contains: system prompt, tools, the unfinished turn and pinned
    /// turns that were summarised earlier.
    pub fixed: u64,
    pub trigger: Trigger,
}

/// Returns the number of oldest turns to summarise, or `None` if that would save no tokens.
///
/// As many of the newest turns are kept as fit beside the fixed tokens, the summary and the pinned
/// turns among the summarised ones.
pub fn split(turns: &[Piece], room: Room) -> Option<usize> {
    let free = target(room.window, room.trigger)
        .saturating_sub(room.fixed.saturating_add(summary_max(room.window)));
    let all: u64 = turns.iter().map(|turn| turn.tokens).sum();
    let limit = match room.trigger {
        Trigger::ContextLimit | Trigger::OverflowRecovery | Trigger::Periodic => free,
        Trigger::Manual => {
            let share = room.window.saturating_mul(MANUAL_PERCENT) / 100;
            free.min(share).min(all / MANUAL_SHARE)
        }
    };
    // A pinned turn uses its tokens on either side of the split.
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
    fn a_request_at_the_limit_is_not_above_it() {
        // R168, R169
        assert!(!is_full(85, 100));
        assert!(is_full(86, 100));
        assert!(!is_full(6800, 8000) && is_full(6801, 8000));
        assert!(!is_full(0, 0) && is_full(1, 0), "an unknown window has size 0");
        assert!(!is_full(u64::MAX / 2, u64::MAX));
        assert!(is_full(u64::MAX, u64::MAX));
    }

    #[test]
    fn split_is_chosen_by_tokens_not_by_turns() {
        // R172: of 10,000, 60 % is 6,000; the summary may have 1,250 of it, so 4,750 are left.
        let table = [
            ("small turns: many fit", pieces(&[500; 20]), Some(11)),
            ("large turns: few fit", pieces(&[3000; 4]), Some(3)),
            ("a turn that is too large ends the kept part", pieces(&[100, 9000, 200]), Some(2)),
            ("a single turn larger than the budget", pieces(&[9000]), Some(1)),
            ("exactly the budget", pieces(&[10, 4750]), Some(1)),
            ("one token above the budget", pieces(&[10, 4751]), Some(2)),
            ("everything fits", pieces(&[10, 10]), None),
            ("an empty history", pieces(&[]), None),
        ];
        for (why, turns, expected) in table {
            assert_eq!(split(&turns, room(10_000, 0, Trigger::ContextLimit)), expected, "{why}");
        }
    }

    #[test]
    fn trigger_decides_how_much_is_kept() {
        // R168, R170, R177
        let turns = pieces(&[500; 20]);
        assert_eq!(
            split(&turns, room(10_000, 0, Trigger::ContextLimit)),
            Some(20 - 9),
            "4,750 tokens remain of 60 %"
        );
        assert_eq!(
            split(&turns, room(10_000, 0, Trigger::OverflowRecovery)),
            Some(20 - 5),
            "2,750 tokens remain of 40 %"
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
            split(&turns, room(10_000, 4500, Trigger::ContextLimit)),
            Some(20),
            "the fixed tokens use the whole budget"
        );
    }

    #[test]
    fn the_summary_gets_what_the_other_parts_leave_of_the_target() {
        // R168, R170: of 10,000 the largest summary is 1,250 and the smallest limit 156.
        for (trigger, rest, expected) in [
            (Trigger::ContextLimit, 0, 1250),
            (Trigger::ContextLimit, 4750, 1250),
            (Trigger::ContextLimit, 5500, 500),
            (Trigger::Manual, 5500, 500),
            (Trigger::OverflowRecovery, 3500, 500),
            (Trigger::ContextLimit, 5900, 156),
            (Trigger::OverflowRecovery, 9000, 156),
        ] {
            assert_eq!(summary_limit(10_000, trigger, rest), expected, "{trigger:?} {rest}");
        }
    }

    #[test]
    fn a_pinned_turn_saves_no_tokens() {
        let turn = |tokens, pinned| Piece { tokens, pinned };
        let turns = [turn(1000, true), turn(4000, false), turn(3000, false), turn(1000, false)];
        assert_eq!(
            split(&turns, room(10_000, 0, Trigger::ContextLimit)),
            Some(3),
            "the pinned turn reduces the budget"
        );
        assert_eq!(
            split(&turns[..1], room(1000, 900, Trigger::ContextLimit)),
            None,
            "a pinned turn alone saves nothing"
        );
    }

    proptest! {
        #[test]
        fn kept_turns_fit_and_are_as_many_as_possible(
            turns in prop::collection::vec((0u64..3000, any::<bool>()), 0..60),
            window in 0u64..40_000,
            fixed in 0u64..20_000,
            manual in any::<bool>(),
        ) {
            // R172
            let turns: Vec<Piece> = turns
                .into_iter()
                .map(|(tokens, pinned)| Piece { tokens, pinned: pinned && tokens < 300 })
                .collect();
            let trigger = if manual { Trigger::Manual } else { Trigger::ContextLimit };
            let room = room(window, fixed, trigger);
            let Some(at) = split(&turns, room) else { return Ok(()) };
            prop_assert!((1..=turns.len()).contains(&at));
            prop_assert!(turns[..at].iter().any(|turn| !turn.pinned), "tokens are saved");
            let sent = |from: usize| -> u64 {
                let kept = |(n, turn): &(usize, &Piece)| *n >= from || turn.pinned;
                turns.iter().enumerate().filter(kept).map(|(_, turn)| turn.tokens).sum()
            };
            let limit = (window * 60 / 100).saturating_sub(fixed + summary_max(window));
            if at < turns.len() && turns[at..].iter().any(|turn| !turn.pinned) {
                prop_assert!(sent(at) <= limit, "the kept turns fit");
            }
            if trigger == Trigger::ContextLimit {
                prop_assert!(sent(at - 1) > limit, "one more turn would not fit");
            }
        }
    }
}
