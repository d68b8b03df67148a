//! What keys do. What is open on the screen gets a key first: the help, a list, the completions, a
//! question of the session, then the editor.

use ctx_engine::Info;
use ctx_engine::core::inbox::Mode;
use ctx_engine::core::suspension::Suspension;
use ctx_engine::core::text_limits::one_line;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::editor::{Delete, Move};
use super::event::{Effect, Scroll};
use super::picker::{Choice, Picker, PickerKind, Row};
use super::state::{LEAVE_MS, Pending, State};
use super::submit;
use super::update::{complete, open, open_new};

/// Lines that the mouse wheel or Ctrl-Up scrolls.
const SCROLL_LINES: isize = 3;
/// Rows that PageUp and PageDown move in a list.
const PAGE_ROWS: isize = 10;

pub(super) fn press(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
    if ctrl && key.code == KeyCode::Char('c') {
        return interrupt(state);
    }
    state.leaving_since = None;
    state.notice = None;
    match (key.code, ctrl) {
        (KeyCode::Char('l'), true) => return vec![Effect::Redraw],
        (KeyCode::Char('z'), true) => return vec![Effect::Suspend],
        _ => {}
    }
    if state.shows_help {
        state.shows_help = false;
        return Vec::new();
    }
    if let Some(picker) = state.picker.take() {
        return in_picker(state, picker, key);
    }
    if let Some(effects) = in_completion(state, key).or_else(|| in_question(state, key)) {
        return effects;
    }
    in_editor(state, key)
}

/// The first Ctrl-C closes or clears what is open, the second one leaves.
fn interrupt(state: &mut State) -> Vec<Effect> {
    let again = state.leaving_since.is_some_and(|since| state.now().since(since).0 < LEAVE_MS);
    if again {
        return vec![Effect::Quit];
    }
    state.leaving_since = Some(state.now());
    state.picker = None;
    state.shows_help = false;
    state.completion = None;
    let cleared = !state.editor.is_empty();
    if cleared {
        // The text stays in the history.
        drop(state.editor.take());
        state.editing = None;
    }
    state.inform(match (cleared, state.is_running()) {
        (true, _) => "Cleared; Up brings the text back. Ctrl-C again leaves.",
        (false, true) => {
            "Ctrl-C again leaves. A run of this window is interrupted; its text is kept."
        }
        (false, false) => "Ctrl-C again leaves.",
    });
    Vec::new()
}

fn in_editor(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    let has = |modifier| key.modifiers.contains(modifier);
    let (ctrl, alt) = (has(KeyModifiers::CONTROL), has(KeyModifiers::ALT));
    let (shift, width) = (has(KeyModifiers::SHIFT), state.columns);
    let editor = &mut state.editor;
    match key.code {
        KeyCode::Enter if alt || shift || ctrl => drop(editor.insert("\n")),
        KeyCode::Char('j') if ctrl => drop(editor.insert("\n")),
        KeyCode::Enter => return submit::submit(state, None),
        KeyCode::Tab => return submit::submit(state, Some(Mode::Queue)),
        KeyCode::Esc => return stop(state),
        KeyCode::F(1) => state.shows_help = true,
        KeyCode::F(2) => return list(state, PickerKind::Sessions, Effect::ListSessions),
        KeyCode::F(3) => return list(state, PickerKind::Tree, Effect::ListTree),
        KeyCode::F(4) => return show_queue(state),
        KeyCode::PageUp => return vec![Effect::Scroll(Scroll::Pages(-1))],
        KeyCode::PageDown => return vec![Effect::Scroll(Scroll::Pages(1))],
        KeyCode::Up if ctrl => return vec![Effect::Scroll(Scroll::Lines(-SCROLL_LINES))],
        KeyCode::Down if ctrl => return vec![Effect::Scroll(Scroll::Lines(SCROLL_LINES))],
        KeyCode::Home if ctrl => return vec![Effect::Scroll(Scroll::Top)],
        KeyCode::End if ctrl => return vec![Effect::Scroll(Scroll::Bottom)],
        KeyCode::Up if alt => return take_back(state),
        KeyCode::Char('o') if ctrl => state.shows_tools = !state.shows_tools,
        KeyCode::Char('t') if ctrl => state.shows_thoughts = !state.shows_thoughts,
        KeyCode::Char('d') if ctrl && editor.is_empty() => return vec![Effect::Quit],
        KeyCode::Char('d') if ctrl => editor.delete(Delete::After),
        KeyCode::Char('a') if ctrl => editor.move_cursor(Move::LineStart, width),
        KeyCode::Char('e') if ctrl => editor.move_cursor(Move::LineEnd, width),
        KeyCode::Char('w') if ctrl => editor.delete(Delete::WordBefore),
        KeyCode::Char('u') if ctrl => editor.delete(Delete::ToLineStart),
        KeyCode::Char('k') if ctrl => editor.delete(Delete::ToLineEnd),
        KeyCode::Char('y') if ctrl => editor.paste_deleted(),
        KeyCode::Char('b') if alt => editor.move_cursor(Move::WordLeft, width),
        KeyCode::Char('f') if alt => editor.move_cursor(Move::WordRight, width),
        KeyCode::Char('h') if ctrl => editor.delete(Delete::Before),
        KeyCode::Char(c) if !ctrl && !alt => {
            if !editor.insert(c.encode_utf8(&mut [0; 4])) {
                state.report("The text is too long for one message.");
            }
        }
        KeyCode::Backspace if alt || ctrl => editor.delete(Delete::WordBefore),
        KeyCode::Backspace => editor.delete(Delete::Before),
        KeyCode::Delete => editor.delete(Delete::After),
        KeyCode::Left if ctrl || alt => editor.move_cursor(Move::WordLeft, width),
        KeyCode::Right if ctrl || alt => editor.move_cursor(Move::WordRight, width),
        KeyCode::Left => editor.move_cursor(Move::Left, width),
        KeyCode::Right => editor.move_cursor(Move::Right, width),
        KeyCode::Up => editor.move_cursor(Move::Up, width),
        KeyCode::Down => editor.move_cursor(Move::Down, width),
        KeyCode::Home => editor.move_cursor(Move::LineStart, width),
        KeyCode::End => editor.move_cursor(Move::LineEnd, width),
        _ => return Vec::new(),
    }
    let is_typing = matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Delete);
    if is_typing {
        return complete(state).into_iter().collect();
    }
    state.completion = None;
    Vec::new()
}

/// Esc: leaves the waiting message as it was, or stops the run.
fn stop(state: &mut State) -> Vec<Effect> {
    if state.editing.take().is_some() {
        state.editor.set(String::new());
        return Vec::new();
    }
    let busy = state
        .info
        .as_ref()
        .is_some_and(|info| info.session.state != ctx_engine::core::session::Activity::Idle);
    if !busy {
        return Vec::new();
    }
    state.inform("Stopping …");
    vec![Effect::Cancel]
}

/// Opens a list whose rows are read.
pub(super) fn list(state: &mut State, kind: PickerKind, read: Effect) -> Vec<Effect> {
    if kind == PickerKind::Tree && state.info.is_none() {
        state.report("This conversation has no branches: it is not stored yet.");
        return Vec::new();
    }
    state.picker = Some(Picker::loading(kind));
    vec![read]
}

pub(super) fn show_queue(state: &mut State) -> Vec<Effect> {
    let rows = state.info.as_ref().map_or_else(Vec::new, queue_rows);
    if rows.is_empty() {
        state.inform("No message waits.");
    } else {
        state.picker = Some(Picker::with_rows(PickerKind::Queue, rows));
    }
    Vec::new()
}

/// The waiting messages as rows of a list.
pub(super) fn queue_rows(info: &Info) -> Vec<Row> {
    let row = |item: &ctx_engine::core::inbox::Item| Row {
        text: one_line(&item.text(), 200),
        detail: item.mode.name().to_owned(),
        choice: Choice::Queued { id: item.message_id, text: item.text() },
    };
    info.inbox.iter().map(row).collect()
}

/// Alt-Up: the last waiting message comes back into the editor.
fn take_back(state: &mut State) -> Vec<Effect> {
    let last = state.info.as_ref().and_then(|info| info.inbox.last());
    let Some((id, text)) = last.map(|item| (item.message_id, item.text())) else {
        return Vec::new();
    };
    if !state.editor.is_empty() {
        state.report("Send or clear the text first.");
        return Vec::new();
    }
    state.editor.set(text);
    vec![Effect::Withdraw(id)]
}

fn in_completion(state: &mut State, key: KeyEvent) -> Option<Vec<Effect>> {
    let completion = state.completion.as_mut()?;
    let count = completion.candidates.len();
    match key.code {
        KeyCode::Up => completion.selected = (completion.selected + count - 1) % count,
        KeyCode::Down => completion.selected = (completion.selected + 1) % count,
        KeyCode::Esc => state.completion = None,
        KeyCode::Tab | KeyCode::Enter if key.modifiers.is_empty() => {
            let chosen = state.completion.take()?;
            let (text, _) = chosen.candidates.get(chosen.selected)?;
            let is_command = text.starts_with('/');
            let typed = state.editor.text() == text;
            state.editor.replace(chosen.range, text);
            if is_command && key.code == KeyCode::Enter {
                return Some(submit::submit(state, None));
            }
            if !typed {
                state.editor.insert(" ");
            }
        }
        _ => return None,
    }
    Some(Vec::new())
}

/// Digits, arrows and Enter choose an option of what the session waits for, while the editor is
/// empty. No option is selected at first: a key that was meant for the editor answers nothing.
fn in_question(state: &mut State, key: KeyEvent) -> Option<Vec<Effect>> {
    let count = state.options().len();
    if count == 0 || !state.editor.is_empty() || !key.modifiers.is_empty() {
        return None;
    }
    match key.code {
        KeyCode::Char(c) => {
            let at = match c {
                '1'..='9' => c as usize - '1' as usize,
                'a' | 'A' if is_prompt(state) => 0,
                'b' | 'B' if is_prompt(state) => 1,
                _ => return None,
            };
            (at < count).then(|| answer(state, at))
        }
        KeyCode::Up => {
            state.option = Some(state.option.map_or(count - 1, |at| (at + count - 1) % count));
            Some(Vec::new())
        }
        KeyCode::Down => {
            state.option = Some(state.option.map_or(0, |at| (at + 1) % count));
            Some(Vec::new())
        }
        KeyCode::Enter => Some(match state.option {
            Some(at) => answer(state, at),
            None => Vec::new(),
        }),
        _ => None,
    }
}

fn is_prompt(state: &State) -> bool {
    matches!(state.pending(), Some(Pending::Prompt(_)))
}

fn answer(state: &mut State, at: usize) -> Vec<Effect> {
    let option = |it: &Suspension| {
        it.awaited
            .options
            .get(at)
            .map(|offer| Effect::Answer { suspension: it.id, choice: offer.id.clone() })
    };
    let effect = match state.pending() {
        Some(Pending::Suspension(suspension)) => option(suspension),
        Some(Pending::Prompt(prompt)) => {
            prompt.choices().get(at).map(|choice| Effect::AnswerPrompt(*choice))
        }
        None => None,
    };
    state.option = None;
    effect.into_iter().collect()
}

fn in_picker(state: &mut State, mut picker: Picker, key: KeyEvent) -> Vec<Effect> {
    let (ctrl, alt) =
        (key.modifiers.contains(KeyModifiers::CONTROL), key.modifiers.contains(KeyModifiers::ALT));
    let kind = picker.kind;
    let queued = match picker.choice() {
        Some(Choice::Queued { id, .. }) => Some(id),
        _ => None,
    };
    let branch = match picker.choice() {
        Some(Choice::Branch { turn, .. }) => Some(turn),
        _ => None,
    };
    let at = picker.selected();
    match key.code {
        KeyCode::Esc => return Vec::new(),
        KeyCode::Enter => {
            let choice = picker.choice();
            return choice.map_or_else(Vec::new, |choice| choose(state, choice));
        }
        KeyCode::Up if alt && queued.is_some() => {
            picker.move_by(-1);
            state.picker = Some(picker);
            return moved(queued, at.max(1));
        }
        KeyCode::Down if alt && queued.is_some() => {
            picker.move_by(1);
            state.picker = Some(picker);
            return moved(queued, at + 2);
        }
        KeyCode::Delete if kind == PickerKind::Queue => {
            state.picker = Some(picker);
            return queued.map(Effect::Withdraw).into_iter().collect();
        }
        KeyCode::Char('d') if ctrl && kind == PickerKind::Queue => {
            state.picker = Some(picker);
            return queued.map(Effect::Withdraw).into_iter().collect();
        }
        KeyCode::Char('f') if ctrl && branch.is_some() => {
            return vec![Effect::Fork { turn: branch, title: None }];
        }
        KeyCode::Char('r') if ctrl => {
            return branch.map(Effect::Rewind).into_iter().collect();
        }
        KeyCode::Up => picker.move_by(-1),
        KeyCode::Down | KeyCode::Tab => picker.move_by(1),
        KeyCode::PageUp => picker.move_by(-PAGE_ROWS),
        KeyCode::PageDown => picker.move_by(PAGE_ROWS),
        KeyCode::Home => picker.select(0),
        KeyCode::End => picker.select(usize::MAX),
        KeyCode::Backspace => picker.backspace(),
        KeyCode::Char(c) if !ctrl && !alt => picker.type_char(c),
        _ => {}
    }
    state.picker = Some(picker);
    Vec::new()
}

fn moved(queued: Option<ctx_engine::core::id::MessageId>, to: usize) -> Vec<Effect> {
    queued.map(|id| Effect::MoveQueued { id, to }).into_iter().collect()
}

fn choose(state: &mut State, choice: Choice) -> Vec<Effect> {
    match choice {
        Choice::NewSession => open_new(state),
        Choice::Session(session) if state.session() == Some(session) => Vec::new(),
        Choice::Session(session) => open(state, session, None),
        Choice::Hit { session, turn } => open(state, session, turn),
        Choice::Model { provider, model } => submit::set_model(state, Some(provider), model),
        Choice::Branch { head: Some(label), .. } => vec![Effect::OpenLabel(label)],
        Choice::Branch { turn, head: None } => {
            vec![Effect::Fork { turn: Some(turn), title: None }]
        }
        Choice::Rewind { to: Some(turn), text } => {
            if state.editor.is_empty() {
                state.editor.set(text);
            }
            vec![Effect::Rewind(turn)]
        }
        Choice::Rewind { to: None, .. } => {
            state.report("This is the first message; begin another conversation with /new.");
            Vec::new()
        }
        Choice::Queued { id, text } => {
            state.editing = Some(id);
            state.editor.set(text);
            Vec::new()
        }
        Choice::Nothing => Vec::new(),
    }
}
