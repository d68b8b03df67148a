//! The reducer: an event changes the state and may ask for effects. No I/O, no clock.

use ctx_engine::Info;
use ctx_engine::core::id::{MessageId, SessionId, TurnId};
use ctx_engine::core::message::{Message, Role};
use ctx_engine::core::time::Timestamp;

use super::completion;
use super::event::{Effect, Event, Failure, Feed, Opened, Scroll};
use super::keys;
use super::state::State;
use super::transcript::{Side, Transcript, text_of};

/// Changes the state and returns what is to be done, in order.
pub(super) fn update(state: &mut State, event: Event, now: Timestamp) -> Vec<Effect> {
    state.now_ms = now.0;
    // Streamed text comes often and does not change the draft.
    let streams = matches!(&event, Event::Feed { feed: Feed::Delta(_), .. } | Event::Tick);
    let before = (!streams).then(|| state.draft());
    let mut effects = match event {
        Event::Key(key) => keys::press(state, key),
        Event::Paste(text) => paste(state, &text),
        Event::Resize | Event::Tick => Vec::new(),
        Event::Terminate => vec![Effect::Quit],
        Event::Feed { epoch, feed } if epoch == state.epoch => on_feed(state, feed),
        Event::Feed { .. } => Vec::new(),
        Event::Sent { ticket, result } => on_sent(state, ticket, result),
        Event::Rows { kind, rows, selected } => {
            if let Some(picker) = state.picker.as_mut().filter(|picker| picker.kind == kind) {
                let was_loading = picker.is_loading;
                picker.set_rows(rows);
                if was_loading {
                    picker.select(selected);
                }
            }
            Vec::new()
        }
        Event::Files(files) => {
            state.files = Some(files);
            complete(state);
            Vec::new()
        }
        Event::Switched(session) => open(state, session, None),
        Event::Done(text) => {
            state.inform(text);
            Vec::new()
        }
        Event::Failed(failure) => {
            report(state, &failure);
            Vec::new()
        }
        Event::NearEdge(side) => load(state, side),
    };
    let is_changed = before.is_some_and(|before| before != state.draft());
    if is_changed && !effects.iter().any(|it| matches!(it, Effect::SaveDraft(_))) {
        effects.push(Effect::SaveDraft(state.draft()));
    }
    effects
}

fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    if let Some(picker) = &mut state.picker {
        text.chars().filter(|c| !c.is_control()).for_each(|c| picker.type_char(c));
        return Vec::new();
    }
    if !state.editor.insert(text) {
        state.report("The text is too long for one message.");
    }
    state.completion = None;
    Vec::new()
}

/// Brings the candidates up to date with what is typed. Asks for the files at the first `@`.
pub(super) fn complete(state: &mut State) -> Option<Effect> {
    let files = state.files.as_deref().unwrap_or_default();
    state.completion = completion::complete(&state.editor, files, &state.agent_commands);
    let wants_files = completion::subject(&state.editor) == Some(completion::Subject::File);
    let of_session = state.info.as_ref().and_then(|info| info.session.working_dir.clone());
    let dir = of_session.unwrap_or_else(|| state.dir.clone());
    (wants_files && state.files.is_none()).then_some(Effect::ListFiles(dir))
}

fn report(state: &mut State, failure: &Failure) {
    let hint = failure.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
    state.report(format!("{}{hint}", failure.message));
}

/// Continues in another session, or at another turn of this one. The text of the editor stays with
/// the session that is left.
pub(super) fn open(state: &mut State, session: SessionId, at: Option<TurnId>) -> Vec<Effect> {
    let draft = state.draft();
    leave(state);
    state.is_opening = true;
    let open = Effect::Open { epoch: state.epoch, session, at };
    vec![Effect::SaveDraft(draft), open, Effect::Scroll(Scroll::Bottom)]
}

/// Begins a conversation that is stored with its first message.
pub(super) fn open_new(state: &mut State) -> Vec<Effect> {
    let draft = state.draft();
    leave(state);
    state.preferred = (None, None);
    vec![Effect::SaveDraft(draft), Effect::OpenNew { epoch: state.epoch }]
}

fn leave(state: &mut State) {
    state.epoch += 1;
    state.info = None;
    state.transcript = Transcript::default();
    state.sending.clear();
    state.editor.set(String::new());
    state.editing = None;
    state.option = None;
    state.picker = None;
    state.files = None;
    state.agent_commands.clear();
    state.notice = None;
}

fn load(state: &mut State, side: Side) -> Vec<Effect> {
    if state.transcript.loading.is_some() {
        return Vec::new();
    }
    let from = match side {
        Side::Older => state.transcript.older_from(),
        Side::Newer if state.transcript.newer_missing => state.transcript.last(),
        Side::Newer => None,
    };
    let Some(from) = from else { return Vec::new() };
    state.transcript.loading = Some(side);
    vec![Effect::LoadTurns { side, from }]
}

fn on_sent(
    state: &mut State,
    ticket: u64,
    result: Result<(SessionId, MessageId), Failure>,
) -> Vec<Effect> {
    let at = state.sending.iter().position(|sent| sent.ticket == ticket);
    match result {
        Ok((session, message)) => {
            if let Some(at) = at {
                state.sending[at].stored = Some(message);
                drop_seen(state);
            }
            if state.info.is_none() && !state.is_opening && at.is_some() {
                return on_created(state, session);
            }
            Vec::new()
        }
        Err(failure) => {
            report(state, &failure);
            // Messages that waited for the session come back too.
            let failed = |sent: &super::state::Sending| sent.ticket == ticket || sent.is_held;
            let (back, kept): (Vec<_>, Vec<_>) = state.sending.drain(..).partition(failed);
            state.sending = kept;
            let mut texts: Vec<String> = back.into_iter().map(|sent| sent.text).collect();
            texts.extend(Some(state.editor.text().to_owned()).filter(|text| !text.is_empty()));
            state.editor.set(texts.join("\n"));
            Vec::new()
        }
    }
}

/// The conversation is stored now: follow it, and send what was typed meanwhile.
fn on_created(state: &mut State, session: SessionId) -> Vec<Effect> {
    state.epoch += 1;
    state.is_opening = true;
    let mut effects = vec![
        Effect::SaveDraft(super::draft_file::Draft::default()),
        Effect::Open { epoch: state.epoch, session, at: None },
    ];
    for sent in state.sending.iter_mut().filter(|sent| sent.is_held) {
        sent.is_held = false;
        let (ticket, text, mode) = (sent.ticket, sent.text.clone(), sent.mode);
        effects.push(Effect::Send { ticket, text, mode });
    }
    effects.push(Effect::SaveDraft(state.draft()));
    effects
}

fn on_feed(state: &mut State, feed: Feed) -> Vec<Effect> {
    match feed {
        Feed::Opened(opened) => {
            let at = opened.at;
            on_opened(state, *opened);
            drop_seen(state);
            return at.map(|turn| Effect::Scroll(Scroll::Turn(turn))).into_iter().collect();
        }
        Feed::Info(info) => return on_info(state, *info),
        Feed::Open(open) => state.transcript.set_open(open),
        Feed::Turn(turn) => {
            if !state.transcript.push(*turn) {
                return reload(state);
            }
        }
        Feed::Delta(delta) => {
            if !state.transcript.append(&delta, state.now()) {
                return vec![Effect::ReadOpen];
            }
            return Vec::new();
        }
        Feed::Page { side, turns, reached_end } => {
            state.transcript.extend(side, turns, reached_end);
        }
        Feed::Commands(commands) => state.agent_commands = commands,
        Feed::Deleted => {
            let mut effects = open_new(state);
            state.report("The conversation was deleted. This is a new one.");
            effects.retain(|effect| !matches!(effect, Effect::SaveDraft(_)));
            return effects;
        }
        Feed::Failed(failure) => {
            state.is_opening = false;
            state.transcript.loading = None;
            report(state, &failure);
        }
    }
    drop_seen(state);
    Vec::new()
}

fn on_opened(state: &mut State, opened: Opened) {
    let Opened { info, turns, newer_missing, open, draft, commands, .. } = opened;
    state.is_opening = false;
    let is_first = state.session() != Some(info.session.id);
    state.transcript = Transcript::newest(turns, open);
    state.transcript.newer_missing = newer_missing;
    state.agent_commands = commands;
    state.info = Some(info);
    if !is_first {
        return;
    }
    state.option = None;
    state.editor.forget_history();
    let asked: Vec<String> = state
        .transcript
        .turns
        .iter()
        .flat_map(|turn| &turn.messages)
        .filter(|message| message.role == Role::User)
        .map(text_of)
        .collect();
    asked.iter().for_each(|text| state.editor.remember(text));
    if state.editor.is_empty() && state.sending.is_empty() && !draft.is_empty() {
        let known = |text: &str| has_message(state, |message| text_of(message) == text);
        let restored = draft.restored(known);
        state.editor.set(restored);
    }
}

fn on_info(state: &mut State, info: Info) -> Vec<Effect> {
    let moved = info.session.head != state.transcript.last() && !state.transcript.newer_missing;
    let question = |info: &Info| {
        (info.suspensions.first().map(|it| it.id), info.prompt.as_ref().map(|it| it.id))
    };
    if state.info.as_ref().is_none_or(|known| question(known) != question(&info)) {
        state.option = None;
    }
    if let Some(picker) = &mut state.picker
        && picker.kind == super::picker::PickerKind::Queue
    {
        picker.set_rows(keys::queue_rows(&info));
    }
    state.info = Some(info);
    drop_seen(state);
    if moved { reload(state) } else { Vec::new() }
}

fn reload(state: &State) -> Vec<Effect> {
    let reload = |session| Effect::Reload { epoch: state.epoch, session };
    state.session().map(reload).into_iter().collect()
}

/// Forgets sent messages that the session shows now.
fn drop_seen(state: &mut State) {
    let sending = std::mem::take(&mut state.sending);
    let unseen = |id: MessageId| {
        let waits = |info: &Info| info.inbox.iter().any(|item| item.message_id == id);
        !has_message(state, |message| message.id == id) && !state.info.as_ref().is_some_and(waits)
    };
    let kept = sending.into_iter().filter(|sent| sent.stored.is_none_or(&unseen)).collect();
    state.sending = kept;
}

fn has_message(state: &State, is_it: impl Fn(&Message) -> bool) -> bool {
    let newest = state.transcript.turns.iter().rev().take(4);
    newest.flat_map(|turn| &turn.messages).chain(&state.transcript.open).any(is_it)
}
