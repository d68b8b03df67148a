//! The part of the transcript on the screen: rendered turns, scroll position, and what is drawn.
//!
//! Turns are rendered once per width. Lines far from the screen are dropped when there are many;
//! only their number is kept.

use std::collections::HashMap;

use ctx_engine::core::id::TurnId;

use super::event::Scroll;
use super::state::State;
use super::transcript::{Side, Turn};
use super::turn_lines::{Block, RenderedTexts, Unfolded, blocks, unsent_block};
use crate::markdown::Line;

/// Lines that are kept beside those on the screen.
const LINES_MAX: usize = 1000;

/// The place of the first line on the screen: a turn, and a line of it. Without a turn it is in the
/// open turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    turn: Option<TurnId>,
    line: usize,
}

struct RenderedTurn {
    height: usize,
    blocks: Option<Vec<Block>>,
}

#[derive(Default)]
pub(super) struct Viewport {
    width: usize,
    height: usize,
    unfolded: Unfolded,
    turns: HashMap<TurnId, RenderedTurn>,
    /// The open turn and unsent messages.
    open: Vec<Block>,
    /// The first line; none while the end is followed.
    anchor: Option<Anchor>,
    /// Lines above the screen, and all lines, at the last layout.
    top: usize,
    total: usize,
}

impl Viewport {
    /// Renders what changed, and returns the lines on the screen with their indentation.
    pub(super) fn layout(
        &mut self,
        state: &State,
        width: usize,
        height: usize,
    ) -> Vec<(usize, &Line)> {
        let unfolded = Unfolded { tools: state.shows_tools, thoughts: state.shows_thoughts };
        if (width, unfolded) != (self.width, self.unfolded) {
            self.turns.clear();
            self.open.clear();
            (self.width, self.unfolded) = (width, unfolded);
        }
        self.height = height;
        self.render_open(state);
        let loaded = &state.transcript.turns;
        for turn in loaded {
            if !self.turns.contains_key(&turn.id) {
                self.render(turn);
            }
        }
        if self.turns.len() > loaded.len() {
            self.turns.retain(|id, _| loaded.iter().any(|turn| turn.id == *id));
        }
        let heights = || loaded.iter().map(|turn| self.turns[&turn.id].height);
        let open: usize = self.open.iter().map(|block| block.lines().len()).sum();
        self.total = heights().sum::<usize>() + open;
        self.top = self.first_line(state).min(self.total.saturating_sub(height));
        if self.top + height >= self.total {
            self.anchor = None;
        }
        let (top, bottom) = (self.top, (self.top + height).min(self.total));
        let mut at = 0;
        for turn in loaded {
            let rendered = self.turns[&turn.id].height;
            if at < bottom && at + rendered > top && self.turns[&turn.id].blocks.is_none() {
                self.render(turn);
            }
            at += rendered;
        }
        self.forget_far(state);
        self.collect(state, top, bottom)
    }

    fn render(&mut self, turn: &Turn) {
        let texts = RenderedTexts::default();
        let blocks = blocks(&turn.messages, Some(turn.status), self.unfolded, self.width, texts);
        let height = blocks.iter().map(|block| block.lines().len()).sum();
        self.turns.insert(turn.id, RenderedTurn { height, blocks: Some(blocks) });
    }

    fn render_open(&mut self, state: &State) {
        let known = RenderedTexts::of(self.open.drain(..));
        if !state.transcript.newer_missing {
            self.open = blocks(&state.transcript.open, None, self.unfolded, self.width, known);
            let unsent = state.sending.iter().map(|sent| unsent_block(&sent.text, self.width));
            self.open.extend(unsent);
        }
    }

    /// The line at the anchor, or the first line of the last screen.
    fn first_line(&self, state: &State) -> usize {
        let end = self.total.saturating_sub(self.height);
        let Some(anchor) = self.anchor else { return end };
        let mut at = 0;
        for turn in &state.transcript.turns {
            if Some(turn.id) == anchor.turn {
                return at + anchor.line;
            }
            at += self.turns[&turn.id].height;
        }
        match (anchor.turn, state.transcript.turns.back()) {
            // The open turn was committed meanwhile.
            (None, Some(last)) if state.transcript.open.is_empty() => {
                at - self.turns[&last.id].height + anchor.line
            }
            (None, _) => at + anchor.line,
            (Some(_), _) => end,
        }
    }

    fn collect(&self, state: &State, top: usize, bottom: usize) -> Vec<(usize, &Line)> {
        let finished = state.transcript.turns.iter().filter_map(|turn| {
            let rendered = self.turns.get(&turn.id)?;
            Some((rendered.height, rendered.blocks.as_deref().unwrap_or_default()))
        });
        let open = self.open.iter().map(|block| block.lines().len()).sum();
        let mut lines = Vec::with_capacity(bottom - top);
        let mut at = 0;
        for (height, blocks) in finished.chain([(open, self.open.as_slice())]) {
            if at < bottom && at + height > top {
                let mut line = at;
                for block in blocks {
                    let of_block = block.lines();
                    let from = top.saturating_sub(line).min(of_block.len());
                    let to = bottom.saturating_sub(line).min(of_block.len());
                    let shown = of_block.get(from..to).unwrap_or_default();
                    lines.extend(shown.iter().map(|line| (block.indent(), line)));
                    line += of_block.len();
                }
            }
            at += height;
        }
        lines
    }

    /// Drops the lines of turns that are not on the screen, if there are many.
    fn forget_far(&mut self, state: &State) {
        let has_lines = |turn: &RenderedTurn| turn.blocks.is_some();
        let kept = self.turns.values().filter(|turn| has_lines(turn)).map(|turn| turn.height);
        if kept.sum::<usize>() <= LINES_MAX {
            return;
        }
        let (first, last) = (self.top.saturating_sub(self.height), self.top + 2 * self.height);
        let mut at = 0;
        for turn in &state.transcript.turns {
            let Some(rendered) = self.turns.get_mut(&turn.id) else { continue };
            if at > last || at + rendered.height < first {
                rendered.blocks = None;
            }
            at += rendered.height;
        }
    }

    pub(super) fn scroll(&mut self, state: &State, by: Scroll) {
        let page = self.height.saturating_sub(2).max(1) as isize;
        let lines = match by {
            Scroll::Lines(lines) => lines,
            Scroll::Pages(pages) => pages * page,
            Scroll::Top => isize::MIN,
            Scroll::Bottom => {
                self.anchor = None;
                return;
            }
            // The layout that follows finds the line.
            Scroll::Turn(turn) => {
                self.anchor = Some(Anchor { turn: Some(turn), line: 0 });
                return;
            }
        };
        let end = self.total.saturating_sub(self.height);
        let target = self.top.saturating_add_signed(lines).min(end);
        self.anchor = (target < end).then(|| self.anchor_at(state, target));
    }

    fn anchor_at(&self, state: &State, line: usize) -> Anchor {
        let mut at = 0;
        for turn in &state.transcript.turns {
            let height = self.turns.get(&turn.id).map_or(0, |rendered| rendered.height);
            if line < at + height {
                return Anchor { turn: Some(turn.id), line: line - at };
            }
            at += height;
        }
        Anchor { turn: None, line: line - at }
    }

    /// The side at which more turns are needed soon.
    pub(super) fn near_edge(&self, state: &State) -> Option<Side> {
        let transcript = &state.transcript;
        if transcript.loading.is_some() {
            return None;
        }
        let near_end = self.top + 2 * self.height >= self.total;
        if transcript.newer_missing && near_end {
            return Some(Side::Newer);
        }
        let near_start = self.top < self.height;
        (near_start && transcript.older_from().is_some()).then_some(Side::Older)
    }

    /// Lines below the screen.
    pub(super) fn below(&self) -> usize {
        self.total.saturating_sub(self.top + self.height)
    }
}

#[cfg(test)]
mod tests {
    use ctx_engine::core::time::Timestamp;

    use super::super::transcript::Transcript;
    use super::super::transcript::tests::{delta, turn};
    use super::*;
    use crate::markdown::plain_line;

    fn shown(viewport: &mut Viewport, state: &State) -> Vec<String> {
        let lines = viewport.layout(state, 40, 8);
        lines.into_iter().map(|(indent, line)| " ".repeat(indent) + &plain_line(line)).collect()
    }

    fn state_with(turns: std::ops::Range<u16>) -> State {
        let transcript = Transcript::newest(turns.rev().map(turn).collect(), Vec::new());
        State { transcript, ..State::default() }
    }

    #[test]
    fn the_end_is_shown_and_followed() {
        let mut state = state_with(1..20);
        let mut viewport = Viewport::default();
        assert_eq!(shown(&mut viewport, &state).last().map(String::as_str), Some("  answer 19"));
        state.transcript.append(&delta(900, 0, "streamed"), Timestamp(0));
        assert_eq!(shown(&mut viewport, &state).last().map(String::as_str), Some("  streamed"));
        assert_eq!(viewport.below(), 0);
    }

    #[test]
    fn scrolled_lines_stay_while_text_is_added_at_both_ends() {
        let mut state = state_with(10..20);
        let mut viewport = Viewport::default();
        shown(&mut viewport, &state);
        viewport.scroll(&state, Scroll::Pages(-2));
        let before = shown(&mut viewport, &state);
        state.transcript.append(&delta(900, 0, "streamed\n\nmore"), Timestamp(0));
        assert_eq!(shown(&mut viewport, &state), before);
        state.transcript.extend(Side::Older, (1..10).rev().map(turn).collect(), true);
        assert_eq!(shown(&mut viewport, &state), before);
        viewport.scroll(&state, Scroll::Top);
        assert_eq!(shown(&mut viewport, &state)[1], "❯ question 1");
        viewport.scroll(&state, Scroll::Bottom);
        assert_eq!(shown(&mut viewport, &state).last().map(String::as_str), Some("  more"));
    }

    #[test]
    fn a_turn_is_shown_from_its_first_line_on() {
        let mut state = state_with(1..30);
        state.transcript.newer_missing = true;
        let mut viewport = Viewport::default();
        viewport.scroll(&state, Scroll::Turn(turn(15).id));
        assert_eq!(shown(&mut viewport, &state)[1], "❯ question 15");
        assert_eq!(shown(&mut viewport, &state)[1], "❯ question 15", "and it stays");
        assert_eq!(viewport.near_edge(&state), None);
    }

    #[test]
    fn older_turns_are_wanted_near_the_beginning() {
        let mut state = state_with(10..20);
        let mut viewport = Viewport::default();
        shown(&mut viewport, &state);
        assert_eq!(viewport.near_edge(&state), None);
        viewport.scroll(&state, Scroll::Top);
        shown(&mut viewport, &state);
        assert_eq!(viewport.near_edge(&state), Some(Side::Older));
        state.transcript.loading = Some(Side::Older);
        assert_eq!(viewport.near_edge(&state), None, "one read at a time");
    }

    #[test]
    fn lines_far_from_the_screen_are_dropped_and_come_back() {
        let turns: Vec<Turn> = (1..200)
            .rev()
            .map(|n| {
                let mut long = turn(n);
                long.messages[1] = super::super::transcript::tests::message(
                    5000 + u128::from(n),
                    ctx_engine::core::message::Role::Assistant,
                    &"word\n\n".repeat(40),
                );
                long
            })
            .collect();
        let state = State { transcript: Transcript::newest(turns, Vec::new()), ..State::default() };
        let mut viewport = Viewport::default();
        shown(&mut viewport, &state);
        shown(&mut viewport, &state);
        let kept: usize = viewport
            .turns
            .values()
            .filter(|turn| turn.blocks.is_some())
            .map(|turn| turn.height)
            .sum();
        assert!(kept <= LINES_MAX, "{kept}");
        viewport.scroll(&state, Scroll::Top);
        assert_eq!(shown(&mut viewport, &state)[1], "❯ question 1");
    }
}
