//! What a request weighs, part by part, in the provider's own tokens as far as they are known.

use ctx_core::compaction::Trigger;
use ctx_core::compaction::plan::{Piece, Room, is_full, split};
use ctx_core::message::Role;
use ctx_core::turn::Kind;

use super::token_count::{self, CORRECTION_MAX, Counter, EXACT, corrected};
use crate::context::Assembled;
use crate::provider::About;

/// The parts of a request.
pub(crate) struct RequestSize {
    /// The system prompt, the tools and the open turn.
    pub(crate) fixed: u64,
    /// The summary that stands now.
    pub(crate) summary: u64,
    /// The pinned turns before all others.
    pub(crate) pinned: u64,
    /// Each turn of the history.
    pub(crate) turns: Vec<u64>,
    /// How far the provider's counts are from ours, in thousandths.
    pub(crate) correction: u64,
}

impl RequestSize {
    /// All of it.
    pub(crate) fn total(&self) -> u64 {
        self.fixed + self.summary + self.pinned + self.turns.iter().sum::<u64>()
    }
}

/// How many tokens fit, where a provider does not say.
const USUAL_WINDOW: u64 = 128_000;

/// How many tokens fit.
pub(crate) const fn window(about: &About) -> u64 {
    if about.context_window == 0 { USUAL_WINDOW } else { about.context_window }
}

impl Assembled {
    /// Whether the request fills too much of the window; counted only where it might.
    pub(crate) fn is_full(&self, window: u64) -> bool {
        let said: u64 = self.sent().iter().map(token_count::at_most).sum();
        let tools: u64 = self
            .request
            .tools
            .iter()
            .map(|tool| (tool.name.len() + tool.description.len()) as u64 + PARAMETERS_MAX)
            .sum();
        let system = self.request.system.as_ref().map_or(0, |text| text.len() as u64);
        is_full(corrected(said + tools + system, CORRECTION_MAX), window)
            && is_full(self.measure().total(), window)
    }

    /// The messages that go out: of an agent's own conversation, what it has not seen.
    fn sent(&self) -> &[ctx_core::message::Message] {
        &self.request.messages[self.request.own.as_ref().map_or(0, |own| own.unseen)..]
    }

    /// Weighs it.
    pub(crate) fn measure(&self) -> RequestSize {
        let counter = token_count::counter(self.request.model.as_deref());
        let raw = self.raw(counter.as_ref());
        let correction = self.correction(counter.as_ref(), &raw);
        let right = |tokens: u64| corrected(tokens, correction);
        RequestSize {
            fixed: right(raw.fixed),
            summary: right(raw.summary),
            pinned: right(raw.pinned),
            turns: raw.turns.iter().map(|tokens| right(*tokens)).collect(),
            correction,
        }
    }

    fn raw(&self, counter: &dyn Counter) -> RequestSize {
        let request = &self.request;
        let seen = request.own.as_ref().map_or(0, |own| own.unseen);
        let between = |from: usize, to: usize| {
            token_count::messages(counter, &request.messages[from.max(seen).min(to)..to])
        };
        let end = |turn: usize| self.starts.get(turn + 1).copied().unwrap_or(request.open);
        let first = self.starts.first().copied().unwrap_or(request.open);
        let after_summary = usize::from(self.history.compaction.is_some()).min(first);
        let system = request.system.as_ref().map_or(0, |text| counter.count(text));
        let tools: u64 = request.tools.iter().map(|tool| token_count::tool(counter, tool)).sum();
        RequestSize {
            fixed: system + tools + between(request.open, request.messages.len()),
            summary: between(0, after_summary),
            pinned: between(after_summary, first),
            turns: self
                .starts
                .iter()
                .enumerate()
                .map(|(turn, start)| between(*start, end(turn)))
                .collect(),
            correction: EXACT,
        }
    }

    /// What the provider counted for the newest turn of its own, against what we count for the same; else what was known
    /// when the newest compaction was made.
    fn correction(&self, counter: &dyn Counter, raw: &RequestSize) -> u64 {
        let newest = self.history.compaction;
        let since = newest.map_or(0, |at| at + 1);
        let request = &self.request;
        for (at, turn) in self.history.turns.iter().enumerate().skip(since).rev() {
            let model = turn.model.as_ref().or(request.model.as_ref());
            let same = turn.kind == Kind::Normal
                && turn.provider_id.as_deref() == Some(self.provider_id.as_str())
                && model == request.model.as_ref();
            let told = turn
                .usage
                .as_ref()
                .filter(|usage| usage.scope == "last_call")
                .and_then(|usage| usage.input_tokens);
            let (true, Some(told)) = (same && request.own.is_none(), told.filter(|told| *told > 0))
            else {
                continue;
            };
            // The last answer was not yet there when the provider counted.
            let end = self.starts.get(at + 1).copied().unwrap_or(request.open);
            let messages = &request.messages[self.starts[at]..end];
            let asked = messages
                .iter()
                .rposition(|message| message.role == Role::Assistant)
                .unwrap_or(messages.len());
            let open: u64 = token_count::messages(counter, &request.messages[request.open..]);
            let before = raw.fixed.saturating_sub(open)
                + raw.summary
                + raw.pinned
                + raw.turns[..at].iter().sum::<u64>();
            return token_count::correction(
                told,
                before + token_count::messages(counter, &messages[..asked]),
            );
        }
        let kept = newest
            .and_then(|at| self.history.turns[at].compaction.as_ref())
            .and_then(|row| row.metadata.correction);
        kept.unwrap_or(EXACT)
    }

    /// How many of the turns a summary takes the place of; nothing where that would gain nothing.
    pub(crate) fn split(&self, size: &RequestSize, window: u64, trigger: Trigger) -> Option<usize> {
        let piece = |(at, tokens): (usize, &u64)| Piece {
            tokens: *tokens,
            pinned: self.history.pins.contains(&self.history.turns[at].id),
        };
        let pieces: Vec<Piece> = size.turns.iter().enumerate().map(piece).collect();
        let mut at = split(&pieces, Room { window, fixed: size.fixed + size.pinned, trigger })?;
        // A compaction of before is nothing to keep.
        while self.history.turns.get(at).is_some_and(|turn| turn.kind == Kind::Compaction) {
            at += 1;
        }
        Some(at)
    }
}

/// More than the schema of a tool usually has; where that makes a difference, it is counted.
const PARAMETERS_MAX: u64 = 4096;
