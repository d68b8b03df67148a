//! What Enter and Tab do with the text of the editor: a message, an answer, a change of a waiting
//! message, or a command.

use ctx_engine::core::answer_match::numbered_option;
use ctx_engine::core::inbox::Mode;
use ctx_engine::core::text_limits::one_line;

use super::event::{Effect, Scroll};
use super::keys::{list, show_queue};
use super::picker::{Choice, Picker, PickerKind, Row};
use super::slash_commands::{self, SlashCommand};
use super::state::{Pending, Sending, State};
use super::update::open_new;

/// Characters of a message in the list of earlier messages.
const ROW_CHARS: usize = 200;

/// Sends the text of the editor. Without a mode, the session's default mode applies.
pub(super) fn submit(state: &mut State, mode: Option<Mode>) -> Vec<Effect> {
    state.completion = None;
    let text = state.editor.text().trim_end().to_owned();
    if text.trim().is_empty() {
        return Vec::new();
    }
    if state.is_opening {
        state.inform("The conversation is being opened …");
        return Vec::new();
    }
    if let Some(id) = state.editing.take() {
        drop(state.editor.take());
        return vec![Effect::EditQueued { id, text }];
    }
    if let Some(command) = slash_commands::parse(&text) {
        drop(state.editor.take());
        return run_command(state, command);
    }
    if mode.is_none()
        && let Some(effect) = as_answer(state, &text)
    {
        drop(state.editor.take());
        return vec![effect];
    }
    drop(state.editor.take());
    send(state, text, mode)
}

/// The text as an answer to what the session waits for.
fn as_answer(state: &State, text: &str) -> Option<Effect> {
    match state.pending()? {
        Pending::Suspension(suspension) => {
            let offers = &suspension.awaited.options;
            let choice = match numbered_option(offers, text) {
                Some(offer) => offer.id.clone(),
                None if offers.is_empty() => text.to_owned(),
                None => suspension.matching_option(text)?.id.clone(),
            };
            Some(Effect::Answer { suspension: suspension.id, choice })
        }
        Pending::Prompt(prompt) => prompt.choice_of(text).map(Effect::AnswerPrompt),
    }
}

fn send(state: &mut State, text: String, mode: Option<Mode>) -> Vec<Effect> {
    state.tickets += 1;
    let ticket = state.tickets;
    let is_new = state.info.is_none();
    let is_held = is_new && !state.sending.is_empty();
    let effect = if is_held {
        None
    } else if is_new {
        let (provider, model) = state.preferred.clone();
        Some(Effect::Create { ticket, text: text.clone(), provider, model })
    } else {
        Some(Effect::Send { ticket, text: text.clone(), mode })
    };
    state.sending.push(Sending { ticket, text, mode, stored: None, is_held });
    // The draft has the message until it is stored.
    let saved = Effect::SaveDraft(state.draft());
    Some(saved).into_iter().chain(effect).chain([Effect::Scroll(Scroll::Bottom)]).collect()
}

fn run_command(state: &mut State, command: SlashCommand) -> Vec<Effect> {
    let is_new = state.info.is_none();
    match command {
        SlashCommand::Help => {
            state.shows_help = true;
            Vec::new()
        }
        SlashCommand::Quit => vec![Effect::Quit],
        SlashCommand::New => open_new(state),
        SlashCommand::Sessions(filter) => {
            let effects = list(state, PickerKind::Sessions, Effect::ListSessions);
            if let Some(picker) = &mut state.picker {
                picker.filter = filter;
            }
            effects
        }
        SlashCommand::Model(name) if name.is_empty() => {
            list(state, PickerKind::Models, Effect::ListModels)
        }
        SlashCommand::Model(name) => {
            let (provider, model) = named_model(state, &name);
            set_model(state, provider, model)
        }
        SlashCommand::Search(words) if words.is_empty() => {
            state.report("Give the words to search for: /search WORDS");
            Vec::new()
        }
        SlashCommand::Search(words) => list(state, PickerKind::Search, Effect::Search(words)),
        SlashCommand::Tree => list(state, PickerKind::Tree, Effect::ListTree),
        SlashCommand::Queue => show_queue(state),
        _ if is_new => {
            state.report("The conversation is not stored yet: send a message first.");
            Vec::new()
        }
        SlashCommand::Fork(title) => {
            let title = Some(title).filter(|title| !title.is_empty());
            vec![Effect::Fork { turn: None, title }]
        }
        SlashCommand::Rewind(turn) if turn.is_empty() => show_earlier(state),
        SlashCommand::Rewind(turn) => vec![Effect::RewindTo(turn)],
        SlashCommand::Compact(focus) => {
            vec![Effect::Compact(Some(focus).filter(|focus| !focus.is_empty()))]
        }
        SlashCommand::Retry => vec![Effect::Retry, Effect::Scroll(Scroll::Bottom)],
        SlashCommand::Rename(title) if title.is_empty() => {
            state.report("Give the new title: /rename TITLE");
            Vec::new()
        }
        SlashCommand::Rename(title) => vec![Effect::Rename(title)],
        SlashCommand::Stop => vec![Effect::Cancel],
    }
}

/// `provider`, `provider/model`, or a model of the current provider.
fn named_model(state: &State, name: &str) -> (Option<String>, Option<String>) {
    let is_provider = |name: &str| state.providers.iter().any(|known| known.name == name);
    if is_provider(name) {
        return (Some(name.to_owned()), None);
    }
    match name.split_once('/') {
        Some((provider, model)) if is_provider(provider) => {
            (Some(provider.to_owned()), Some(model.to_owned()))
        }
        _ => (None, Some(name.to_owned())),
    }
}

pub(super) fn set_model(
    state: &mut State,
    provider: Option<String>,
    model: Option<String>,
) -> Vec<Effect> {
    if state.info.is_some() {
        return vec![Effect::SetModel { provider, model }];
    }
    if provider.is_some() {
        state.preferred.0 = provider;
    }
    state.preferred.1 = model;
    Vec::new()
}

/// The messages that the conversation can go back to, newest first.
fn show_earlier(state: &mut State) -> Vec<Effect> {
    let row = |turn: &super::transcript::Turn| {
        let text = turn.question()?;
        let choice = Choice::Rewind { to: turn.parent, text: text.clone() };
        let detail = turn.id.0.short();
        Some(Row { text: one_line(&text, ROW_CHARS), detail, choice })
    };
    let rows: Vec<Row> = state.transcript.turns.iter().rev().filter_map(row).collect();
    if rows.is_empty() {
        state.report("There is no earlier message.");
    } else {
        state.picker = Some(Picker::with_rows(PickerKind::Rewind, rows));
    }
    Vec::new()
}
