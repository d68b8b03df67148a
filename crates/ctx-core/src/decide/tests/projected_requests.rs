//! Whatever happened to earlier requests, the next request contains each message of the user once,
//! marked if it was not answered, and no two messages of the user are joined without a mark.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::sample::select;
use proptest::strategy::Just;
use proptest::test_runner::TestRunner;
use ulid::Ulid;

use super::model::{Model, completed};
use crate::decide::{
    self, Change, Checkpoint, ClassifyMode, Decided, EndedRun, Fork, Invocation, Patch,
    ProviderCapabilities, ProviderCatalog, RunHost, RunPolicy, SessionView, Submit, SubmitTarget,
    Suspending, TerminationCause, TurnPosition, item_message, retry_items,
};
use crate::draft::{Draft, Entry};
use crate::history_text;
use crate::id::{MessageId, NodeId, SessionId, TurnId};
use crate::inbox::{ItemState, Mode, Overrides};
use crate::message::{Message, Part, Role, Source};
use crate::projection::{
    ImageHandling, PastTurn, Projection, alternate, is_mark, states_end_of_turn,
};
use crate::run::{Outcome, Run};
use crate::session::Activity;
use crate::suspension::{Awaited, Kind};
use crate::turn::{About, Ready};

const CASES: u32 = 512;
const COMMANDS_MAX: usize = 40;
const PROVIDERS: [&str; 2] = ["a", "b"];

#[derive(Debug, Clone)]
enum Command {
    Send(Mode),
    Deliver,
    /// The agent writes a word.
    Word,
    /// The agent calls a tool whose result does not arrive.
    Call,
    /// A steering message reaches the agent.
    Inject,
    Complete,
    Fail,
    /// The user cancels; the run ends, or is ended from outside.
    Cancel {
        outside: bool,
    },
    /// A run that was asked to end does so.
    Stop,
    Crash,
    Suspend,
    Retry {
        provider: usize,
    },
    Fork {
        back: usize,
    },
    Switch {
        provider: usize,
    },
}

fn command() -> impl Strategy<Value = Command> {
    use Command as C;
    let mode = select(vec![Mode::Queue, Mode::Queue, Mode::Collect, Mode::Interrupt, Mode::Steer]);
    proptest::prop_oneof![
        8 => mode.prop_map(C::Send),
        4 => Just(C::Deliver),
        4 => Just(C::Word),
        2 => Just(C::Call),
        2 => Just(C::Inject),
        4 => Just(C::Complete),
        2 => Just(C::Fail),
        2 => any::<bool>().prop_map(|outside| C::Cancel { outside }),
        2 => Just(C::Stop),
        2 => Just(C::Crash),
        1 => Just(C::Suspend),
        2 => (0_usize..2).prop_map(|provider| C::Retry { provider }),
        1 => (0_usize..4).prop_map(|back| C::Fork { back }),
        1 => (0_usize..2).prop_map(|provider| C::Switch { provider }),
    ]
}

/// What a mark must say about a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Failed,
    Cancelled,
    NewerMessage,
    Crash,
}

impl End {
    const fn of_request(self) -> &'static str {
        match self {
            Self::Completed => "answered",
            Self::Failed => "failed before it was answered",
            Self::Cancelled => "cancelled by the user before it was answered",
            Self::NewerMessage => "interrupted by a newer message",
            Self::Crash => "interrupted by a restart before it was answered",
        }
    }

    const fn of_answer(self) -> Option<&'static str> {
        match self {
            Self::Completed => None,
            Self::Failed => Some("the provider failed"),
            Self::Cancelled => Some("cancelled by the user"),
            Self::NewerMessage => Some("a newer message of the user interrupted it"),
            Self::Crash => Some("a restart interrupted it"),
        }
    }
}

/// A conversation, and what the test itself knows about its turns.
struct Story {
    model: Model,
    run_host: RunHost,
    /// Messages of the open turn that the agent wrote something after.
    answered: Vec<MessageId>,
    /// Per stored turn: how it ended, and the messages that were answered.
    turns: HashMap<TurnId, (End, Vec<MessageId>)>,
    next: u128,
}

impl Story {
    fn new(tracked: bool) -> Self {
        let mut model = Model::empty();
        model.view.session.track_tasks = tracked;
        let capabilities = |can_steer| ProviderCapabilities {
            can_steer,
            supports_tools: true,
            ..Default::default()
        };
        let providers = PROVIDERS.map(|name| (name.to_owned(), capabilities(name == "a")));
        let catalog = ProviderCatalog {
            default: "a".to_owned(),
            providers: providers.into(),
            personas: Vec::new(),
        };
        let run_host = RunHost { node: NodeId(Ulid(3)), catalog };
        Self { model, run_host, answered: Vec::new(), turns: HashMap::new(), next: 0 }
    }

    fn view(&self) -> &SessionView {
        &self.model.view
    }

    fn open_run(&self) -> Option<Run> {
        self.view().run.clone().filter(|run| run.ended_at.is_none())
    }

    /// Carries out a rule. A turn that it stores ended as `end` says.
    fn run<R>(
        &mut self,
        end: End,
        rule: impl FnOnce(&SessionView, &Invocation) -> Decided<R>,
    ) -> bool {
        let Ok(decision) = rule(self.view(), &self.model.invocation()) else { return false };
        let before = self.model.turns.len();
        self.model.apply(decision);
        for (turn, _) in &self.model.turns[before..] {
            self.turns.insert(*turn, (end, std::mem::take(&mut self.answered)));
        }
        true
    }

    fn id(&mut self) -> MessageId {
        self.next += 1;
        MessageId(Ulid(1_000 + self.next))
    }

    fn give(&mut self, command: &Command) {
        match command {
            Command::Send(mode) => self.send(*mode),
            Command::Deliver => {
                let (settings, run_host) = (self.model.settings.clone(), self.run_host.clone());
                self.run(End::Completed, |view, invocation| {
                    decide::deliver(view, &HashMap::new(), &run_host, &settings, invocation)
                });
            }
            Command::Word => {
                let word = Entry::Text { text: format!("answer {}", self.next) };
                self.write(word);
            }
            Command::Call => {
                let (id, name) = (format!("call{}", self.next), "look".to_owned());
                self.write(Entry::ToolCall { id, name, params: serde_json::json!({}) });
            }
            Command::Inject => self.inject(),
            Command::Complete => self.end(Outcome::Completed, End::Completed),
            Command::Fail => self.end(Outcome::Failed, End::Failed),
            Command::Cancel { outside } => self.cancel(*outside),
            Command::Stop => self.stop(),
            Command::Crash => {
                let Some(run) = self.open_run() else { return };
                let end = asked_to_end(&run).unwrap_or(End::Crash);
                self.run(end, |view, invocation| {
                    decide::terminate_run(view, run.id, TerminationCause::ProcessLost, invocation)
                });
            }
            Command::Suspend => self.suspend(),
            Command::Retry { provider } => self.retry(PROVIDERS[*provider]),
            Command::Fork { back } => self.fork(*back),
            Command::Switch { provider } => {
                let provider_id = Some(Some(PROVIDERS[*provider].to_owned()));
                let patch = Patch { provider_id, ..Patch::default() };
                let catalog = self.run_host.catalog.clone();
                self.run(End::Completed, |view, invocation| {
                    decide::update_session(view, &patch, &catalog, invocation)
                });
            }
        }
    }

    fn send(&mut self, mode: Mode) {
        let (settings, run_host) = (self.model.settings.clone(), self.run_host.clone());
        let message_id = self.id();
        let submit = Submit {
            message_id,
            content: vec![Part::Text { text: format!("please do m{}m", self.next) }],
            mode: Some(mode),
            source: Source::Human,
            overrides: Overrides::default(),
            classify_mode: ClassifyMode::Immediate,
            run_policy: RunPolicy::StartRun,
        };
        // Only a suspended session closes its turn for a message.
        let suspended = self.view().session.state == Activity::Suspended;
        let end = if suspended { End::NewerMessage } else { End::Completed };
        let to = SubmitTarget::Existing;
        self.run(end, |view, invocation| {
            decide::submit(Some(view), &to, &submit, &run_host, &settings, invocation)
        });
    }

    /// The agent writes into the open turn.
    fn write(&mut self, entry: Entry) {
        let Some(run) = self.open_run() else { return };
        let (id, at) = (self.id(), self.model.now);
        let begin = Entry::Message { id, role: Role::Assistant, source: None, at };
        let new = Checkpoint { entries: vec![begin, entry], ..Checkpoint::default() };
        assert!(self.run(End::Completed, |view, invocation| {
            decide::checkpoint(view, run.id, run.fence, &new, invocation)
        }));
        let open = self.open_turn();
        let users = open.iter().filter(|message| message.role == Role::User);
        self.answered = users.map(|message| message.id).collect();
    }

    fn inject(&mut self) {
        let steering = |state| state == ItemState::Steering;
        let item = self.view().inbox.iter().find(|item| steering(item.state)).cloned();
        let (Some(run), Some(item)) = (self.open_run(), item) else { return };
        let (id, source, at) = (item.message_id, Some(item.source), item.enqueued_at);
        let begin = Entry::Message { id, role: Role::User, source, at };
        let entries = vec![begin, Entry::Text { text: item.text() }];
        let new = Checkpoint { entries, injected: vec![id], ..Checkpoint::default() };
        assert!(self.run(End::Completed, |view, invocation| {
            decide::checkpoint(view, run.id, run.fence, &new, invocation)
        }));
    }

    fn end(&mut self, outcome: Outcome, end: End) {
        let Some(run) = self.open_run() else { return };
        let mut draft = Draft::of(self.view().drafts.iter().cloned());
        if outcome == Outcome::Failed {
            let (id, at) = (self.id(), self.model.now);
            draft.add(Entry::Message { id, role: Role::Assistant, source: None, at });
            let (code, message) = ("rate_limited".to_owned(), "later".to_owned());
            draft.add(Entry::Error { code, message, provider_id: None });
        }
        draft.cut_off();
        let (made, _) = draft.finish();
        let messages = self.taken().chain(made).collect();
        let about = About {
            status: outcome.turn_status(),
            provider_id: Some(run.provider_id.clone()),
            ..About::at(self.model.now)
        };
        let (ready, body) = Ready::new(about, messages);
        let ended = EndedRun { outcome, ..completed(&run, ready) };
        assert!(self.run(end, |view, invocation| {
            let mut decision = decide::end_run(view, &ended, invocation)?;
            decision.objects.push(body);
            Ok(decision)
        }));
    }

    fn cancel(&mut self, outside: bool) {
        assert!(self.run(End::Cancelled, decide::cancel));
        let Some(run) = self.open_run() else { return };
        if outside {
            self.run(End::Cancelled, |view, invocation| {
                decide::terminate_run(view, run.id, TerminationCause::Cancelled, invocation)
            });
        } else {
            self.end(Outcome::Cancelled, End::Cancelled);
        }
    }

    fn stop(&mut self) {
        let Some(run) = self.open_run() else { return };
        if let (Some(cancel), Some(end)) = (run.cancel, asked_to_end(&run)) {
            self.end(cancel.outcome(), end);
        }
    }

    fn suspend(&mut self) {
        let Some(run) = self.open_run() else { return };
        let awaited = vec![Awaited {
            kind: Kind::ToolResult,
            tool_calls: Vec::new(),
            options: Vec::new(),
            question: None,
            provider_state: None,
        }];
        let end = asked_to_end(&run).unwrap_or(End::Completed);
        self.run(end, |view, invocation| {
            let suspending = Suspending { awaited: awaited.clone(), ..Suspending::default() };
            decide::suspend(view, run.id, run.fence, &suspending, invocation)
        });
    }

    fn retry(&mut self, provider: &str) {
        let Some((head, header)) = self.path().last().cloned() else { return };
        let overrides =
            Overrides { provider_id: Some(provider.to_owned()), ..Overrides::default() };
        let messages = self.model.bodies[&head].clone();
        let items = retry_items(messages, &overrides, &self.model.invocation());
        let run_host = self.run_host.clone();
        let before = decide::HeadBefore { parent: header.parent, turns: 1 };
        self.run(End::Completed, |view, invocation| {
            decide::retry(view, head, before, &items, &run_host, invocation)
        });
    }

    /// Continues in a fork at an ancestor of the head.
    fn fork(&mut self, back: usize) {
        let path = self.path();
        let Some(depth) = path.len().checked_sub(back).filter(|depth| *depth > 0) else { return };
        let turn = path[depth - 1].0;
        let mut view = self.view().clone();
        let pins = Vec::new();
        view.turn = Some(TurnPosition { turn, depth: depth as u64, reachable: true, pins });
        let (id, label) = (SessionId(Ulid(90_000 + self.next)), format!("fork{}", self.next));
        let fork = Fork { id, label, turn: Some(turn), title: None, working_dir: None };
        let decision = decide::fork(&view, &fork, &self.model.invocation()).expect("an ancestor");
        let [Change::CreateSession(new)] = decision.changes.as_slice() else {
            panic!("{:?}", decision.changes)
        };
        self.model.view = SessionView::bare(new.session());
        self.answered.clear();
    }

    fn taken(&self) -> impl Iterator<Item = Message> {
        let taken = self.view().inbox.iter().filter(|item| item.state == ItemState::Taken);
        taken.map(item_message).collect::<Vec<_>>().into_iter()
    }

    /// The messages of the open turn.
    fn open_turn(&self) -> Vec<Message> {
        let drafts = Draft::of(self.view().drafts.iter().cloned());
        self.taken().chain(drafts.messages).collect()
    }

    /// The stored turns from the root to the head.
    fn path(&self) -> Vec<(TurnId, crate::turn::Header)> {
        let mut path = Vec::new();
        let mut at = self.view().session.head;
        while let Some(turn) = at {
            let found = self.model.turns.iter().find(|(id, _)| *id == turn);
            let (id, header) = found.expect("a stored turn").clone();
            at = header.parent;
            path.push((id, header));
        }
        path.reverse();
        path
    }

    /// Checks the request that the open or next run would send to a provider.
    fn check(&self, provider: &str) {
        let mut projection = Projection::new(provider, ImageHandling::Describe);
        let path = self.path();
        for (id, header) in &path {
            let (provider_id, messages) =
                (header.provider_id.clone(), self.model.bodies[id].clone());
            projection.turn(&PastTurn { provider_id, status: header.status, messages });
        }
        let open_from = projection.len();
        let open = self.open_turn();
        projection.open_turn(&open);
        let request = projection.finish();
        let before = self.check_history(&path, &request[..open_from]);
        let open = open.iter().filter(|message| message.role == Role::User);
        let sent: Vec<MessageId> =
            before.into_iter().chain(open.map(|message| message.id)).collect();
        let users = request.iter().filter(|message| message.role == Role::User);
        let found: Vec<MessageId> =
            users.filter(|message| !is_mark(message)).map(|message| message.id).collect();
        assert_eq!(found, sent, "each message of the user is there once and in order");
        let open_marks = request[open_from..].iter().filter(|message| states_end_of_turn(message));
        assert_eq!(open_marks.count(), 0, "the current request is not marked");
        for pair in request.windows(2) {
            let joined = pair.iter().all(|m| m.role == Role::User && !is_mark(m));
            assert!(!joined, "two messages without a mark between them: {pair:?}");
        }
        check_texts(&request);
    }

    /// Checks the marks of the stored turns. Returns their messages of the user.
    fn check_history(
        &self,
        path: &[(TurnId, crate::turn::Header)],
        request: &[Message],
    ) -> Vec<MessageId> {
        let mut sent = Vec::new();
        for (id, _) in path {
            let (end, answered) = &self.turns[id];
            let messages = &self.model.bodies[id];
            for message in messages.iter().filter(|message| message.role == Role::User) {
                sent.push(message.id);
                let at = request.iter().position(|m| m.id == message.id && !is_mark(m));
                let next = at.and_then(|at| request.get(at + 1));
                let mark = next.filter(|next| states_end_of_turn(next)).map(text);
                if answered.contains(&message.id) {
                    assert_eq!(mark, None, "an answered message is not marked");
                } else {
                    let mark = mark.expect("a message without an answer is marked");
                    assert!(mark.contains(end.of_request()), "{end:?}: {mark}");
                }
            }
            let answer = messages.iter().rev().find(|message| {
                let shown = |part: &Part| matches!(part, Part::Text { .. } | Part::ToolCall { .. });
                message.role == Role::Assistant && message.content.iter().any(shown)
            });
            let Some(answer) = answer else { continue };
            let last = request.iter().rposition(|m| m.id == answer.id && m.role != Role::User);
            let next = last.and_then(|at| request.get(at + 1)).filter(|next| is_mark(next));
            match end.of_answer() {
                Some(why) => {
                    let mark = next.map(text).expect("a partial answer is marked");
                    assert!(mark.contains("incomplete") && mark.contains(why), "{end:?}: {mark}");
                }
                None => assert_eq!(next, None, "a complete answer is not marked"),
            }
        }
        sent
    }
}

/// The end of a run that was asked to end, whoever ends it.
fn asked_to_end(run: &Run) -> Option<End> {
    run.cancel.map(|cancel| match cancel {
        crate::run::Cancel::User => End::Cancelled,
        crate::run::Cancel::Message => End::NewerMessage,
    })
}

fn text(message: &Message) -> &str {
    message.content.iter().find_map(Part::searchable_text).unwrap_or_default()
}

/// The forms in which models and agents receive the request contain each message once, and the text
/// after it is not another message of the user.
fn check_texts(request: &[Message]) {
    let is_request = |part: &Part| part.searchable_text().is_some_and(|t| t.starts_with("please"));
    for message in alternate(request) {
        for pair in message.parts.windows(2) {
            let joined = pair.iter().all(|part| is_request(part));
            assert!(!joined, "two messages without a mark between them: {pair:?}");
        }
    }
    let words = history_text::handover(request);
    let users = request.iter().filter(|m| m.role == Role::User && !is_mark(m));
    for message in users {
        let line = format!("User: {}\n", text(message));
        assert_eq!(words.matches(&line).count(), 1, "{line}{words}");
    }
}

#[test]
fn every_request_contains_each_message_once_and_marks_what_was_not_answered() {
    // R228, R235, R236, R237, R238
    let config =
        ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let stories = (any::<bool>(), vec(command(), 1..=COMMANDS_MAX));
    let result = TestRunner::new(config).run(&stories, |(tracked, commands)| {
        let mut story = Story::new(tracked);
        for command in &commands {
            story.give(command);
            for provider in PROVIDERS {
                story.check(provider);
            }
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
