//! The size of a request in tokens, part by part, corrected by the provider's own counts.

use ctx_core::compaction::Trigger;
use ctx_core::compaction::plan::{Piece, Room, is_full, split};
use ctx_core::message::Role;
use ctx_core::turn::{Kind, Usage};

use super::token_count::{self, CORRECTION_MAX, Counter, EXACT, corrected};
use crate::context::Assembled;
use crate::provider::About;

/// The size of each part of a request, in tokens.
pub(crate) struct RequestSize {
    /// The system prompt, the tools and the open turn.
    pub(crate) fixed: u64,
    /// The summary of the newest compaction.
    pub(crate) summary: u64,
    /// Pinned turns that are older than the kept ones.
    pub(crate) pinned: u64,
    /// Each turn of the history.
    pub(crate) turns: Vec<u64>,
    /// The provider's counts relative to ours, in thousandths.
    pub(crate) correction: u64,
}

impl RequestSize {
    /// The sum of all parts.
    pub(crate) fn total(&self) -> u64 {
        self.fixed + self.summary + self.pinned + self.turns.iter().sum::<u64>()
    }
}

/// Context window in tokens, for providers that report none.
const USUAL_WINDOW: u64 = 128_000;

/// The context window of a provider in tokens.
pub(crate) const fn window(about: &About) -> u64 {
    if about.context_window == 0 { USUAL_WINDOW } else { about.context_window }
}

impl Assembled {
    /// Whether the request exceeds the limit of the window. Tokens are counted only if an upper
    /// bound exceeds it.
    pub(crate) fn is_full(&self, window: u64) -> bool {
        let messages: u64 = self.sent().iter().map(token_count::at_most).sum();
        let tools: u64 = self
            .request
            .tools
            .iter()
            .map(|tool| (tool.name.len() + tool.description.len()) as u64 + PARAMETERS_MAX)
            .sum();
        let system = self.request.system.as_ref().map_or(0, |text| text.len() as u64);
        is_full(corrected(messages + tools + system, CORRECTION_MAX), window)
            && is_full(self.measure().total(), window)
    }

    /// The messages that are sent; for an agent with a session of its own, those that it has not
    /// seen.
    fn sent(&self) -> &[ctx_core::message::Message] {
        &self.request.messages[self.request.own.as_ref().map_or(0, |own| own.unseen)..]
    }

    /// Counts the tokens of each part.
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

    /// The provider's count of its newest turn relative to ours, else the correction at the newest
    /// compaction.
    fn correction(&self, counter: &dyn Counter, raw: &RequestSize) -> u64 {
        let newest = self.history.compaction;
        let since = newest.map_or(0, |at| at + 1);
        let request = &self.request;
        for (at, turn) in self.history.turns.iter().enumerate().skip(since).rev() {
            let model = turn.model.as_ref().or(request.model.as_ref());
            let same = turn.kind == Kind::Normal
                && turn.provider_id.as_deref() == Some(self.provider_id.as_str())
                && model == request.model.as_ref();
            let reported = turn.usage.as_ref().and_then(Usage::last_call_input);
            let (true, Some(reported)) =
                (same && request.own.is_none(), reported.filter(|reported| *reported > 0))
            else {
                continue;
            };
            // The provider counted before its last answer existed.
            let end = self.starts.get(at + 1).copied().unwrap_or(request.open);
            let messages = &request.messages[self.starts[at]..end];
            let counted = messages
                .iter()
                .rposition(|message| message.role == Role::Assistant)
                .unwrap_or(messages.len());
            let open: u64 = token_count::messages(counter, &request.messages[request.open..]);
            let before = raw.fixed.saturating_sub(open)
                + raw.summary
                + raw.pinned
                + raw.turns[..at].iter().sum::<u64>();
            return token_count::correction(
                reported,
                before + token_count::messages(counter, &messages[..counted]),
            );
        }
        let kept = newest
            .and_then(|at| self.history.turns[at].compaction.as_ref())
            .and_then(|row| row.metadata.correction);
        kept.unwrap_or(EXACT)
    }

    /// The number of oldest turns that a summary replaces; none where that would save nothing.
    pub(crate) fn split(&self, size: &RequestSize, window: u64, trigger: Trigger) -> Option<usize> {
        let piece = |(at, tokens): (usize, &u64)| Piece {
            tokens: *tokens,
            pinned: self.history.pins.contains(&self.history.turns[at].id),
        };
        let pieces: Vec<Piece> = size.turns.iter().enumerate().map(piece).collect();
        let mut at = split(&pieces, Room { window, fixed: size.fixed + size.pinned, trigger })?;
        // An earlier compaction is not kept.
        while self.history.turns.get(at).is_some_and(|turn| turn.kind == Kind::Compaction) {
            at += 1;
        }
        Some(at)
    }
}

/// Upper bound for the schema of a tool; larger requests are counted exactly.
const PARAMETERS_MAX: u64 = 4096;
