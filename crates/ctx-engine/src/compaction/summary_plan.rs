//! Prepares a compaction: the model that is asked, the request, and the stored row. The runner
//! carries it out.

use std::collections::BTreeMap;
use std::sync::Arc;

use ctx_core::compaction::key_facts::{KeyFacts, Work};
use ctx_core::compaction::plan::summary_limit;
use ctx_core::compaction::request::{SYSTEM, ask, extract, flat, instruction, shortened, summary};
use ctx_core::compaction::{By, Compaction, Metadata, Trigger, Type};
use ctx_core::decide::{Needs, SessionView};
use ctx_core::id::{MessageId, RunId};
use ctx_core::message::{Message, Part, Role};
use ctx_core::refusal::Refusal;
use ctx_core::session::Session;
use ctx_core::turn::{Kind, Usage};
use ctx_store::Target;
use ulid::Ulid;

use super::request_size::window as window_of;
use super::token_count::{self, Counter, MESSAGE_TOKENS, corrected, uncorrected};
use crate::configured_providers::Summariser;
use crate::context::{Assembled, RESULTS_MAX_BYTES, Turn, show_results};
use crate::engine::{Engine, Error};
use crate::provider::{Provider, Request};

/// Most calls of a model for one summary. If more were needed, the oldest parts are left out.
const CALLS_MAX: usize = 6;
/// Share of the summarising model's window that is used for input, in percent.
const READ_PERCENT: u64 = 85;
/// Share of a summary that the key facts may take, in percent.
const FACTS_PERCENT: u64 = 75;
/// Characters per token, where only a bound is needed.
const CHARS_PER_TOKEN: u64 = 3;

/// Why the context is compacted, and the focus of the summary.
pub(crate) struct CompactionRequest {
    pub(crate) trigger: Trigger,
    pub(crate) focus: Option<String>,
}

/// A compaction that is prepared.
pub(crate) struct Plan {
    focus: Option<String>,
    /// Provider and model that are asked; none where only an agent is available.
    pub(crate) who: Option<(String, Option<String>)>,
    /// The messages to summarise, in parts that fit into the model's window.
    pub(crate) parts: Vec<Vec<Message>>,
    /// The earlier summary that the new one includes.
    before: Option<String>,
    /// The turns that are summarised.
    turns: Vec<Vec<Message>>,
    /// The text of the key facts, which precedes the text of the model.
    key_facts: String,
    row: Compaction,
    /// Counts tokens as the size of the request was counted.
    counter: Box<dyn Counter>,
    /// Maximum size of the summary, counted without the correction.
    summary_max: u64,
    /// Maximum size of the model's part of it.
    words_max: u64,
    /// Size of the request without the summary.
    rest: u64,
}

/// A model's answer.
pub(crate) struct Words {
    pub(crate) text: String,
    pub(crate) usage: Usage,
    pub(crate) millis: u64,
}

/// Prepares a compaction. None where nothing would be saved.
pub(crate) async fn plan(
    engine: &Engine,
    session: &Session,
    assembled: &Assembled,
    window: u64,
    CompactionRequest { trigger, focus }: CompactionRequest,
) -> Result<Option<Plan>, Error> {
    let size = &assembled.measure();
    let Some(at) = assembled.split(size, window, trigger) else { return Ok(None) };
    let history = &assembled.history;
    let newest = history.compaction.map(|at| &history.turns[at]);
    let known = newest.and_then(|turn| turn.compaction.as_ref());
    let turns = history.turns[..at].iter().map(Arc::as_ref);
    let summarised: Vec<&Turn> = turns.filter(|turn| turn.kind == Kind::Normal).collect();
    let view = engine
        .store()
        .view(&Target::Id(session.id), Needs::SEAL)
        .await?
        .ok_or(Refusal::NoSession)?;
    let mut turns: Vec<Vec<Message>> = summarised.iter().map(|turn| turn.projected("")).collect();
    let mut room = RESULTS_MAX_BYTES;
    for message in turns.iter_mut().flatten().rev() {
        show_results(engine, message, &mut room).await?;
    }
    let key_facts = key_facts(known, &turns, &view);
    let who = summariser(engine, &assembled.provider_id, assembled.request.model.as_ref());
    let counter = token_count::counter(assembled.request.model.as_deref());
    let pins: u64 = history.turns[..at]
        .iter()
        .zip(&size.turns)
        .filter(|(turn, _)| history.pins.contains(&turn.id))
        .map(|(_, w)| w)
        .sum();
    let kept: u64 = size.turns[at..].iter().sum();
    let rest = size.fixed + size.pinned + pins + kept;
    let summary_max = uncorrected(summary_limit(window, trigger, rest), size.correction)
        .saturating_sub(MESSAGE_TOKENS);
    let facts =
        key_facts.text_within(summary_max * FACTS_PERCENT / 100, |text| counter.count(text));
    let words_max = summary_max.saturating_sub(counter.count(&summary(&facts, "."))).max(1);
    let before = newest.and_then(|_| history.summary()).map(|message| text_of(&message));
    let parts = match &who {
        Some((provider, _, _)) => {
            parts(&turns, window_of(&provider.about()), words_max, counter.as_ref())
        }
        None => Vec::new(),
    };
    let row = Compaction {
        summary: String::new(),
        summarized_through: summarised.last().map(|turn| turn.id),
        first_kept: history.turns.get(at).map(|turn| turn.id),
        turns_summarized: known.map_or(0, |row| row.turns_summarized) + summarised.len() as u64,
        kind: Type::Summary,
        model: None,
        provider: None,
        tokens_before: size.total(),
        tokens_after: 0,
        summary_tokens: 0,
        summarization_input_tokens: None,
        summarization_output_tokens: None,
        duration_ms: 0,
        trigger,
        metadata: Metadata {
            by: By::Ctx,
            focus: focus.clone(),
            folds: newest.map(|turn| turn.id),
            key_facts,
            correction: Some(size.correction),
            failure: None,
        },
    };
    let who = who.map(|(_, name, model)| (name, model));
    Ok(Some(Plan {
        focus,
        who,
        parts,
        before,
        turns,
        key_facts: facts,
        row,
        counter,
        summary_max,
        words_max,
        rest,
    }))
}

fn key_facts(known: Option<&Compaction>, turns: &[Vec<Message>], view: &SessionView) -> KeyFacts {
    let messages: Vec<&[Message]> = turns.iter().map(Vec::as_slice).collect();
    let before = known.map(|row| row.metadata.key_facts.clone()).unwrap_or_default();
    before.with(&messages, Work { task: view.task.as_ref(), files: &view.files })
}

/// The configured provider of summaries, else the session's, unless that is an agent.
fn summariser(
    engine: &Engine,
    provider_id: &str,
    model: Option<&String>,
) -> Option<(Arc<dyn Provider>, String, Option<String>)> {
    let shared = engine.shared();
    let (name, model) = match &shared.providers().summariser {
        Some(Summariser { provider, model }) => (provider.clone(), model.clone()),
        None => (provider_id.to_owned(), model.cloned()),
    };
    let provider = shared.provider(&name)?;
    let about = provider.about();
    if about.agent.is_some() || about.unavailable.is_some() {
        return None;
    }
    let model = model.or(about.model);
    Some((provider, name, model))
}

fn text_of(message: &Message) -> String {
    message.content.iter().filter_map(Part::searchable_text).collect::<Vec<_>>().join("\n")
}

/// Splits the turns into parts that fit into the window, oldest first. If there are too many, the
/// newest are kept.
fn parts(
    turns: &[Vec<Message>],
    window: u64,
    words_max: u64,
    counter: &dyn Counter,
) -> Vec<Vec<Message>> {
    let room = (window.saturating_mul(READ_PERCENT) / 100).saturating_sub(2 * words_max).max(200);
    let mut parts: Vec<Vec<Message>> = Vec::new();
    let mut used = u64::MAX;
    for turn in turns {
        let mut shown = flat(turn);
        let mut tokens = token_count::messages(counter, &shown);
        if tokens > room {
            shorten(&mut shown, room);
            tokens = room;
        }
        if used.saturating_add(tokens) > room {
            parts.push(Vec::new());
            used = 0;
        }
        used += tokens;
        if let Some(part) = parts.last_mut() {
            part.extend(shown);
        }
    }
    parts.split_off(parts.len().saturating_sub(CALLS_MAX))
}

/// Removes the middle of long messages, so that all of them fit.
fn shorten(messages: &mut [Message], room: u64) {
    let parts = messages.iter().map(|message| message.content.len()).sum::<usize>().max(1);
    let each = usize::try_from(room * CHARS_PER_TOKEN).unwrap_or(usize::MAX) / parts;
    for part in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let Part::Text { text } = part
            && text.chars().count() > each
        {
            let chars: Vec<char> = text.chars().collect();
            let side = each / 2;
            let (head, tail): (String, String) =
                (chars[..side].iter().collect(), chars[chars.len() - side..].iter().collect());
            *text = format!("{head}\n[…]\n{tail}");
        }
    }
}

impl Plan {
    /// The request for the summary of one part, given the summary of the parts before it.
    pub(crate) fn request(
        &self,
        session: &Session,
        run: RunId,
        part: usize,
        so_far: Option<&str>,
        now: ctx_core::time::Timestamp,
    ) -> Request {
        let id = || MessageId(Ulid::new());
        let mut messages = Vec::new();
        if let Some(text) = so_far.or(self.before.as_deref()) {
            let content = vec![Part::Summary { text: text.to_owned() }];
            messages.push(Message {
                id: id(),
                role: Role::System,
                source: None,
                content,
                created_at: now,
            });
        }
        messages.extend(self.parts.get(part).cloned().unwrap_or_default());
        let open = messages.len();
        messages.push(ask(id(), instruction(self.focus.as_deref(), self.words_max), now));
        Request {
            session: session.id,
            run,
            working_dir: None,
            model: self.who.as_ref().and_then(|(_, model)| model.clone()),
            system: Some(SYSTEM.to_owned()),
            messages,
            images: BTreeMap::new(),
            tools: Vec::new(),
            options: session.options.clone(),
            resumes: Vec::new(),
            open,
            own: None,
            tool_rights: Vec::new(),
        }
    }

    /// The finished row: with the model's summary, or with an extract and the reason why no model
    /// wrote it.
    pub(crate) fn finish(mut self, wrote: Result<Words, String>) -> (Compaction, Option<Usage>) {
        let chars_max = usize::try_from(self.words_max * CHARS_PER_TOKEN).unwrap_or(usize::MAX);
        let correction = self.row.metadata.correction.unwrap_or(token_count::EXACT);
        let row = &mut self.row;
        let mut usage = None;
        let text = match wrote {
            Ok(summary) => {
                (row.provider, row.model) =
                    self.who.take().map_or((None, None), |(name, model)| (Some(name), model));
                row.summarization_input_tokens = summary.usage.input_tokens;
                row.summarization_output_tokens = summary.usage.output_tokens;
                row.duration_ms = summary.millis;
                usage = Some(summary.usage)
                    .filter(|usage| usage.input_tokens.is_some() || usage.output_tokens.is_some());
                summary.text
            }
            Err(why) => {
                row.kind = Type::SlidingWindow;
                row.metadata.failure = Some(why);
                let turns: Vec<&[Message]> = self.turns.iter().map(Vec::as_slice).collect();
                extract(self.before.as_deref(), &turns, chars_max)
            }
        };
        let whole = self.summary_within_limit(&text);
        let tokens = self.counter.count(&whole);
        let mut row = self.row;
        row.summary = whole;
        row.summary_tokens = corrected(tokens, correction);
        row.tokens_after = self.rest + corrected(tokens + MESSAGE_TOKENS, correction);
        (row, usage)
    }

    /// A model's text, cut to the length that was asked for.
    pub(crate) fn shortened(&self, text: &str) -> String {
        shortened(text, self.words_max, |text| self.counter.count(text))
    }

    /// The key facts and the text, cut so that both are within the limit of the summary.
    fn summary_within_limit(&self, text: &str) -> String {
        let mut words_max = self.words_max;
        loop {
            let words = shortened(text, words_max, |text| self.counter.count(text));
            let whole = summary(&self.key_facts, &words);
            // Two texts can have more tokens together than alone.
            let excess = self.counter.count(&whole).saturating_sub(self.summary_max);
            if excess == 0 || words_max == 0 {
                return whole;
            }
            words_max = words_max.saturating_sub(excess);
        }
    }
}
