//! The size of a request in tokens, part by part, corrected by the provider's own counts.

use ctx_core::compaction::Trigger;
use ctx_core::compaction::plan::{Piece, Room, is_full, split};
use ctx_core::message::{Message, Role};
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
    /// bound exceeds it: the vocabulary takes time and memory.
    pub(crate) fn is_full(&self, window: u64) -> bool {
        is_full(self.at_most(), window) && is_full(self.measure().total(), window)
    }

    /// An upper bound for the size: a token has at least one byte. Where the provider has counted
    /// an earlier request, only what follows it is estimated.
    fn at_most(&self) -> u64 {
        let request = &self.request;
        let tools: u64 = request.tools.iter().map(|tool| token_count::tool_at_most(tool)).sum();
        let fixed = tools + request.system.as_ref().map_or(0, |text| text.len() as u64);
        let bytes = |messages: &[Message]| messages.iter().map(token_count::at_most).sum::<u64>();
        match self.newest_report() {
            // The report includes the system prompt and the tools of that request.
            Some(report) => {
                let after = bytes(&request.messages[report.end..]);
                report.tokens + fixed + corrected(after, CORRECTION_MAX)
            }
            None => corrected(bytes(self.sent()) + fixed, self.kept_correction()),
        }
    }

    /// The messages that are sent; for an agent with a session of its own, those that it has not
    /// seen.
    fn sent(&self) -> &[Message] {
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
        let Some(Report { turn, tokens, end }) = self.newest_report() else {
            return self.kept_correction();
        };
        let request = &self.request;
        let open: u64 = token_count::messages(counter, &request.messages[request.open..]);
        let before = raw.fixed.saturating_sub(open)
            + raw.summary
            + raw.pinned
            + raw.turns[..turn].iter().sum::<u64>();
        let counted = token_count::messages(counter, &request.messages[self.starts[turn]..end]);
        token_count::correction(tokens, before + counted)
    }

    /// The newest count of the provider since the newest compaction.
    fn newest_report(&self) -> Option<Report> {
        let request = &self.request;
        let since = self.history.compaction.map_or(0, |at| at + 1);
        let turns = self.history.turns.iter().enumerate().skip(since).rev();
        turns.filter(|_| request.own.is_none()).find_map(|(at, turn)| {
            let model = turn.model.as_ref().or(request.model.as_ref());
            let same = turn.kind == Kind::Normal
                && turn.provider_id.as_deref() == Some(self.provider_id.as_str())
                && model == request.model.as_ref();
            let reported = turn.usage.as_ref().and_then(Usage::last_call_input);
            let tokens = reported.filter(|reported| same && *reported > 0)?;
            let start = self.starts[at];
            let end = self.starts.get(at + 1).copied().unwrap_or(request.open);
            // The provider counted before its last answer existed.
            let answer =
                request.messages[start..end].iter().rposition(|it| it.role == Role::Assistant);
            Some(Report { turn: at, tokens, end: answer.map_or(end, |answer| start + answer) })
        })
    }

    /// The correction at the newest compaction.
    fn kept_correction(&self) -> u64 {
        let newest = self.history.compaction;
        let row = newest.and_then(|at| self.history.turns[at].compaction.as_ref());
        row.and_then(|row| row.metadata.correction).unwrap_or(EXACT)
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

/// The provider's count of a request.
struct Report {
    /// The turn of the history that it belongs to.
    turn: usize,
    tokens: u64,
    /// The end of the messages that were counted.
    end: usize,
}
