//! Tables of the reducer: what keys and events do to the state, and which effects they ask for.

use ctx_engine::Info;
use ctx_engine::core::decide::SessionView;
use ctx_engine::core::id::{MessageId, RunId, SessionId, SuspensionId};
use ctx_engine::core::inbox::{Item, ItemState, Mode, Overrides};
use ctx_engine::core::message::{Part, Role, Source};
use ctx_engine::core::run::{Phase, Run, TaskEffect};
use ctx_engine::core::session::{Activity, New, Origin};
use ctx_engine::core::suspension::{Awaited, Kind, Offer, Suspension};
use ctx_engine::core::time::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ulid::Ulid;

use super::draft_file::Draft;
use super::event::{Effect, Event, Failure, Feed, Opened};
use super::picker::PickerKind;
use super::state::State;
use super::transcript::tests::{delta, message, turn};
use super::update::update;

fn session_id(n: u128) -> SessionId {
    SessionId(Ulid(n))
}

fn info(n: u128, state: Activity, tracks: bool) -> Info {
    let new = New::idle(session_id(n), format!("s{n}"), "p".into(), Origin::Cli, Timestamp(0));
    let mut session = new.session();
    (session.state, session.track_tasks) = (state, tracks);
    SessionView::bare(session).into()
}

fn run(can_steer: bool) -> Run {
    Run {
        id: RunId(Ulid(1)),
        fence: 1,
        phase: Phase::Streaming,
        provider_id: "demo".to_owned(),
        model: None,
        can_steer,
        cancel: None,
        tools: Vec::new(),
        tool_rights: Vec::new(),
        task_effect: TaskEffect::Keep,
        deferred: Vec::new(),
        replies: ctx_engine::core::outbox::RunReplies::default(),
        recoveries: 0,
        turn_started_at: Timestamp(0),
        started_at: Timestamp(0),
        ended_at: None,
        outcome: None,
    }
}

fn running(can_steer: bool, tracks: bool) -> Info {
    Info { run: Some(run(can_steer)), ..info(1, Activity::Running, tracks) }
}

fn suspended(options: &[&str]) -> Info {
    let offer = |id: &&str| Offer { id: (*id).to_owned(), label: (*id).to_owned(), kind: None };
    let awaited = Awaited {
        kind: if options.is_empty() { Kind::Question } else { Kind::Permission },
        tool_calls: Vec::new(),
        options: options.iter().map(offer).collect(),
        question: Some("Write the file?".to_owned()),
        provider_state: None,
    };
    let suspension = Suspension { id: SuspensionId(Ulid(5)), awaited, created_at: Timestamp(0) };
    Info { suspensions: vec![suspension], ..info(1, Activity::Suspended, true) }
}

fn queued(id: u128, text: &str) -> Item {
    Item {
        message_id: MessageId(Ulid(id)),
        position: 1,
        mode: Mode::Queue,
        source: Source::Human,
        content: vec![Part::Text { text: text.to_owned() }],
        intent: None,
        overrides: Overrides::default(),
        state: ItemState::Waiting,
        enqueued_at: Timestamp(0),
    }
}

fn with(info: Info) -> State {
    State { info: Some(info), columns: 78, ..State::default() }
}

fn at(state: &mut State, event: Event, now: i64) -> Vec<Effect> {
    let effects = update(state, event, Timestamp(now));
    // Drafts and scrolling are looked at where they matter.
    let matters = |it: &Effect| !matches!(it, Effect::SaveDraft(_) | Effect::Scroll(_));
    effects.into_iter().filter(matters).collect()
}

fn press(state: &mut State, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    at(state, Event::Key(KeyEvent::new(code, modifiers)), 0)
}

fn key(state: &mut State, code: KeyCode) -> Vec<Effect> {
    press(state, code, KeyModifiers::NONE)
}

fn ctrl(state: &mut State, c: char) -> Vec<Effect> {
    press(state, KeyCode::Char(c), KeyModifiers::CONTROL)
}

fn typed(state: &mut State, text: &str) {
    for c in text.chars() {
        drop(key(state, KeyCode::Char(c)));
    }
}

fn enter(state: &mut State, text: &str) -> Vec<Effect> {
    typed(state, text);
    state.completion = None;
    key(state, KeyCode::Enter)
}

#[test]
fn the_footer_says_what_enter_does_now() {
    let table = [
        (State::default(), "Enter sends"),
        (with(info(1, Activity::Idle, true)), "Enter sends"),
        (with(running(false, true)), "Enter queues"),
        (with(running(true, true)), "Enter steers"),
        (with(running(true, false)), "Enter stops the run and sends"),
        (with(suspended(&["allow"])), "Enter queues"),
        (with(suspended(&[])), "Enter answers"),
    ];
    for (state, expected) in table {
        assert_eq!(state.enter_hint(), expected, "{:?}", state.info);
    }
}

#[test]
fn enter_sends_in_the_default_mode_and_tab_queues() {
    let mut state = with(running(true, true));
    let text = "also add logging".to_owned();
    let sent = Effect::Send { ticket: 1, text: text.clone(), mode: None };
    assert_eq!(enter(&mut state, &text), [sent]);
    typed(&mut state, &text);
    let queued = Effect::Send { ticket: 2, text, mode: Some(Mode::Queue) };
    assert_eq!(key(&mut state, KeyCode::Tab), [queued]);
    assert!(enter(&mut state, "  ").is_empty(), "an empty message is not sent");
}

#[test]
fn new_lines_do_not_send() {
    let mut state = with(info(1, Activity::Idle, true));
    typed(&mut state, "a");
    assert!(press(&mut state, KeyCode::Enter, KeyModifiers::ALT).is_empty());
    typed(&mut state, "b");
    assert!(ctrl(&mut state, 'j').is_empty());
    assert!(at(&mut state, Event::Paste("c\r\nd".to_owned()), 0).is_empty());
    assert_eq!(state.editor.text(), "a\nb\nc\nd");
}

#[test]
fn a_new_conversation_is_created_with_its_first_message() {
    let mut state = State::default();
    let created = enter(&mut state, "hello");
    let expected =
        Effect::Create { ticket: 1, text: "hello".to_owned(), provider: None, model: None };
    assert_eq!(created, [expected]);
    assert!(enter(&mut state, "second").is_empty(), "it waits for the session");
    assert_eq!(state.draft().sending, ["hello", "second"], "both survive a crash");
    let result = Ok((session_id(3), MessageId(Ulid(30))));
    let effects = at(&mut state, Event::Sent { ticket: 1, result }, 0);
    let send = Effect::Send { ticket: 2, text: "second".to_owned(), mode: None };
    assert_eq!(effects, [Effect::Open { epoch: 1, session: session_id(3), at: None }, send]);
}

#[test]
fn a_message_that_is_refused_comes_back_into_the_editor() {
    let mut state = with(info(1, Activity::Idle, true));
    enter(&mut state, "hello");
    typed(&mut state, "next");
    let failure = Failure { message: "the inbox is full".to_owned(), hint: None };
    at(&mut state, Event::Sent { ticket: 1, result: Err(failure) }, 0);
    assert_eq!(state.editor.text(), "hello\nnext");
    assert!(state.sending.is_empty());
    assert!(state.notice.as_ref().is_some_and(|notice| notice.text.contains("inbox is full")));
}

#[test]
fn the_draft_has_a_message_until_it_is_stored() {
    let mut state = with(info(1, Activity::Idle, true));
    typed(&mut state, "hello");
    let effects = update(&mut state, key_event(KeyCode::Enter), Timestamp(0));
    let draft = Draft { text: String::new(), sending: vec!["hello".to_owned()] };
    assert_eq!(effects[0], Effect::SaveDraft(draft), "before the message is sent");
    let result = Ok((session_id(1), MessageId(Ulid(9))));
    let effects = update(&mut state, Event::Sent { ticket: 1, result }, Timestamp(0));
    assert_eq!(effects, [Effect::SaveDraft(Draft::default())]);
    assert_eq!(state.sending.len(), 1, "it is shown until the session shows it");
    let open = vec![message(9, Role::User, "hello")];
    at(&mut state, Event::Feed { epoch: 0, feed: Feed::Open(open) }, 0);
    assert!(state.sending.is_empty());
}

fn key_event(code: KeyCode) -> Event {
    Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn the_second_ctrl_c_leaves_and_the_first_loses_nothing() {
    let mut state = with(running(false, true));
    typed(&mut state, "draft");
    assert!(ctrl(&mut state, 'c').is_empty());
    assert!(state.editor.is_empty());
    key(&mut state, KeyCode::Up);
    assert_eq!(state.editor.text(), "draft", "Up brings it back");
    ctrl(&mut state, 'c');
    assert_eq!(ctrl(&mut state, 'c'), [Effect::Quit]);
    let mut state = with(info(1, Activity::Idle, true));
    let press = || Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(at(&mut state, press(), 1000).is_empty());
    assert!(at(&mut state, press(), 9000).is_empty(), "too late: it asks again");
    assert_eq!(at(&mut state, press(), 9500), [Effect::Quit]);
    assert_eq!(ctrl(&mut State::default(), 'd'), [Effect::Quit]);
}

#[test]
fn escape_stops_only_what_runs() {
    let table = [
        (with(running(false, true)), vec![Effect::Cancel]),
        (with(suspended(&["allow"])), vec![Effect::Cancel]),
        (with(info(1, Activity::Idle, true)), vec![]),
        (State::default(), vec![]),
    ];
    for (mut state, expected) in table {
        assert_eq!(key(&mut state, KeyCode::Esc), expected, "{:?}", state.info);
    }
}

#[test]
fn a_permission_is_answered_in_place() {
    let answer = |choice: &str| Effect::Answer {
        suspension: SuspensionId(Ulid(5)),
        choice: choice.to_owned(),
    };
    let options = ["allow_once", "reject_once"];
    let mut state = with(suspended(&options));
    assert!(key(&mut state, KeyCode::Enter).is_empty(), "nothing is selected at first");
    assert_eq!(key(&mut state, KeyCode::Char('2')), [answer("reject_once")]);
    key(&mut state, KeyCode::Down);
    assert_eq!(key(&mut state, KeyCode::Enter), [answer("allow_once")]);
    assert!(key(&mut state, KeyCode::Char('7')).is_empty());
    assert_eq!(state.editor.text(), "7", "no such option: it is text");
    let mut state = with(suspended(&options));
    typed(&mut state, "use 2 spaces");
    assert_eq!(state.editor.text(), "use 2 spaces", "a digit in a text is text");
    let mut state = with(suspended(&options));
    assert_eq!(enter(&mut state, "Allow_once."), [answer("allow_once")]);
    let mut state = with(suspended(&[]));
    assert_eq!(enter(&mut state, "five"), [answer("five")], "a question takes any text");
}

#[test]
fn waiting_messages_are_edited_withdrawn_and_moved() {
    let id = |n: u128| MessageId(Ulid(n));
    let inbox = vec![queued(7, "first"), queued(8, "second")];
    let mut state = with(Info { inbox, ..running(false, true) });
    key(&mut state, KeyCode::F(4));
    key(&mut state, KeyCode::Down);
    let moved = press(&mut state, KeyCode::Up, KeyModifiers::ALT);
    assert_eq!(moved, [Effect::MoveQueued { id: id(8), to: 1 }]);
    assert_eq!(key(&mut state, KeyCode::Delete), [Effect::Withdraw(id(7))]);
    assert!(key(&mut state, KeyCode::Enter).is_empty());
    assert_eq!((state.editor.text(), state.editing), ("first", Some(id(7))));
    assert_eq!(state.draft(), Draft::default(), "its text is stored already");
    let text = "first, changed".to_owned();
    assert_eq!(enter(&mut state, ", changed"), [Effect::EditQueued { id: id(7), text }]);
    assert_eq!(press(&mut state, KeyCode::Up, KeyModifiers::ALT), [Effect::Withdraw(id(8))]);
    assert_eq!(state.editor.text(), "second", "Alt-Up takes the last one back");
}

#[test]
fn slash_commands_ask_for_their_effects() {
    let table: [(&str, Vec<Effect>); 9] = [
        ("/fork", vec![Effect::Fork { turn: None, title: None }]),
        ("/compact the schema", vec![Effect::Compact(Some("the schema".to_owned()))]),
        ("/retry", vec![Effect::Retry]),
        ("/rename New title", vec![Effect::Rename("New title".to_owned())]),
        ("/search retry logic", vec![Effect::Search("retry logic".to_owned())]),
        ("/sessions", vec![Effect::ListSessions]),
        ("/tree", vec![Effect::ListTree]),
        ("/rewind abcd", vec![Effect::RewindTo("abcd".to_owned())]),
        ("/quit", vec![Effect::Quit]),
    ];
    for (text, expected) in table {
        let mut state = with(info(1, Activity::Idle, true));
        assert_eq!(enter(&mut state, text), expected, "{text}");
        assert!(state.editor.is_empty(), "{text}");
    }
    for text in ["/done shipped", "/review"] {
        let mut state = with(info(1, Activity::Idle, true));
        let effects = enter(&mut state, text);
        assert!(matches!(effects.as_slice(), [Effect::Send { .. }]), "{text} is a message");
    }
    let mut state = State::default();
    assert!(enter(&mut state, "/fork").is_empty(), "there is nothing to fork");
    assert!(state.notice.is_some());
}

#[test]
fn rewinding_gives_the_message_back() {
    let mut state = with(info(1, Activity::Idle, true));
    for n in 1..4 {
        state.transcript.push(turn(n));
    }
    enter(&mut state, "/rewind");
    assert_eq!(state.picker.as_ref().map(|picker| picker.kind), Some(PickerKind::Rewind));
    key(&mut state, KeyCode::Down);
    assert_eq!(key(&mut state, KeyCode::Enter), [Effect::Rewind(turn(1).id)]);
    assert_eq!(state.editor.text(), "question 2");
}

#[test]
fn switching_keeps_the_draft_with_the_session_that_is_left() {
    let mut state = with(info(1, Activity::Idle, true));
    typed(&mut state, "half a thought");
    let effects = update(&mut state, Event::Switched(session_id(2)), Timestamp(0));
    let draft = Draft { text: "half a thought".to_owned(), sending: Vec::new() };
    assert_eq!(effects[0], Effect::SaveDraft(draft));
    assert_eq!(effects[1], Effect::Open { epoch: 1, session: session_id(2), at: None });
    assert!(state.editor.is_empty());
    let late = Event::Feed { epoch: 0, feed: Feed::Delta(delta(1, 0, "late")) };
    at(&mut state, late, 0);
    assert!(state.transcript.open.is_empty(), "events of the session that was left are dropped");
    let opened = Opened {
        info: info(2, Activity::Idle, true),
        turns: vec![turn(2), turn(1)],
        at: None,
        newer_missing: false,
        open: Vec::new(),
        draft: Draft { text: "kept".into(), sending: vec!["question 2".into(), "lost".into()] },
        commands: Vec::new(),
    };
    at(&mut state, Event::Feed { epoch: 1, feed: Feed::Opened(Box::new(opened)) }, 0);
    assert_eq!(state.editor.text(), "lost\nkept", "what is stored is not sent again");
}

#[test]
fn a_head_that_moved_elsewhere_is_read_again() {
    let mut state = with(info(1, Activity::Idle, true));
    state.transcript.push(turn(1));
    let mut moved = info(1, Activity::Idle, true);
    moved.session.head = Some(turn(1).id);
    let feed = |info: &Info| Event::Feed { epoch: 0, feed: Feed::Info(Box::new(info.clone())) };
    assert!(at(&mut state, feed(&moved), 0).is_empty());
    moved.session.head = Some(turn(9).id);
    let reload = Effect::Reload { epoch: 0, session: session_id(1) };
    assert_eq!(at(&mut state, feed(&moved), 0), [reload]);
}

#[test]
fn a_model_is_chosen_before_and_after_the_first_message() {
    let provider = super::state::ProviderChoice { name: "local".into(), ..Default::default() };
    let mut state = State { providers: vec![provider.clone()], ..State::default() };
    enter(&mut state, "/model local/big");
    assert_eq!(state.preferred, (Some("local".to_owned()), Some("big".to_owned())));
    let mut state = State { providers: vec![provider], ..with(info(1, Activity::Idle, true)) };
    let set = |provider: Option<&str>, model: Option<&str>| Effect::SetModel {
        provider: provider.map(str::to_owned),
        model: model.map(str::to_owned),
    };
    assert_eq!(enter(&mut state, "/model local"), [set(Some("local"), None)]);
    assert_eq!(enter(&mut state, "/model small"), [set(None, Some("small"))]);
}

#[test]
fn completions_are_chosen_with_tab() {
    let mut state = State { columns: 78, ..State::default() };
    typed(&mut state, "look at ");
    assert_eq!(key(&mut state, KeyCode::Char('@')), [Effect::ListFiles(String::new())]);
    let files = vec!["src/main.rs".to_owned(), "README.md".to_owned()];
    at(&mut state, Event::Files(files), 0);
    typed(&mut state, "ma");
    assert!(key(&mut state, KeyCode::Tab).is_empty());
    assert_eq!(state.editor.text(), "look at @src/main.rs ");
    let mut state = with(info(1, Activity::Idle, true));
    typed(&mut state, "/he");
    key(&mut state, KeyCode::Enter);
    assert!(state.shows_help, "Enter runs the completed command");
}
