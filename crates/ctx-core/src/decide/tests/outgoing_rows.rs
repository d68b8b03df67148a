//! What goes to channels: answers, prompts, permissions and questions, one row per recipient.

use ulid::Ulid;

use super::model::{Model, completed};
use crate::decide::{
    self, Checkpoint, Decided, EndedRun, Invocation, ProviderCapabilities, ProviderCatalog,
    RunHost, RunPolicy, SessionView, Submit, SubmitTarget, Suspending, TerminationCause,
};
use crate::draft::{Draft, Entry};
use crate::id::{MessageId, NodeId};
use crate::identity::{Envelope, PeerKind};
use crate::inbox::{Mode, Overrides};
use crate::intent::Intent;
use crate::message::{Part, Role, Source};
use crate::outbox::{Kind, Outgoing, Spoken};
use crate::prompt::Choice;
use crate::run::{Outcome, Run};
use crate::suspension::{self, Answer, Awaited, Offer};
use crate::turn::{About, Ready};

/// A session that gets messages from channels.
struct Chat {
    model: Model,
    host: RunHost,
    next: u128,
}

fn from(sender: &str) -> Option<Envelope> {
    Some(Envelope {
        channel: "irc".to_owned(),
        account_id: None,
        sender_id: sender.to_owned(),
        sender_name: None,
        peer_kind: PeerKind::Dm,
        peer_id: None,
        thread_id: None,
        reply_to_id: None,
    })
}

fn permission() -> Awaited {
    let offer = |id: &str| Offer { id: id.to_owned(), label: id.to_uppercase(), kind: None };
    Awaited {
        kind: suspension::Kind::Permission,
        tool_calls: Vec::new(),
        options: vec![offer("allow"), offer("reject")],
        question: Some("May I?".to_owned()),
        provider_state: None,
    }
}

impl Chat {
    fn new() -> Self {
        let capabilities =
            ProviderCapabilities { can_steer: true, repeatable: true, ..Default::default() };
        let catalog = ProviderCatalog {
            default: "main".to_owned(),
            providers: [("main".to_owned(), capabilities)].into(),
            personas: Vec::new(),
        };
        let host = RunHost { node: NodeId(Ulid(7)), catalog };
        Self { model: Model::empty(), host, next: 1 << 64 }
    }

    fn decide<R: Clone>(&mut self, rule: impl Fn(&SessionView, &Invocation) -> Decided<R>) -> R {
        let decision = rule(&self.model.view, &self.model.invocation()).expect("accepted");
        let reply = decision.reply.clone();
        self.model.apply(decision);
        reply
    }

    fn say(&mut self, envelope: Option<Envelope>, mode: Option<Mode>, text: &str) -> MessageId {
        self.next += 1;
        let new = Submit {
            message_id: MessageId(Ulid(self.next)),
            content: vec![Part::Text { text: text.to_owned() }],
            mode,
            source: Source::Human,
            overrides: Overrides { envelope, ..Overrides::default() },
            classify_mode: Default::default(),
            run_policy: RunPolicy::StartRun,
        };
        let (host, settings) = (self.host.clone(), self.model.settings.clone());
        self.decide(|view, invocation| {
            let to = SubmitTarget::Existing;
            decide::submit(Some(view), &to, &new, &host, &settings, invocation)
        });
        new.message_id
    }

    fn run(&self) -> Run {
        self.model.view.run.clone().expect("a run")
    }

    /// The agent says something, and steering messages land.
    fn agent_says(&mut self, text: &str, injected: Vec<MessageId>) {
        self.next += 1;
        let (id, at) = (MessageId(Ulid(self.next)), self.model.now);
        let entries = vec![
            Entry::Message { id, role: Role::Assistant, source: None, at },
            Entry::Text { text: text.to_owned() },
        ];
        let (run, new) = (self.run(), Checkpoint { entries, injected, ..Checkpoint::default() });
        self.decide(|view, invocation| {
            decide::checkpoint(view, run.id, run.fence, &new, invocation)
        });
    }

    fn suspend(&mut self, awaited: &[Awaited]) {
        let run = self.run();
        let suspending = Suspending { awaited: awaited.to_vec(), ..Suspending::default() };
        self.decide(|view, invocation| {
            decide::suspend(view, run.id, run.fence, &suspending, invocation)
        });
    }

    /// Ends the run, as the engine does.
    fn end(&mut self, outcome: Outcome) {
        let run = self.run();
        let (made, _) = Draft::of(self.model.view.drafts.iter().cloned()).finish();
        let spoken = Spoken::of(&made, run.replies.sent_until);
        let (ready, _) = Ready::new(About::at(self.model.now), made);
        let ended = EndedRun { outcome, spoken, ..completed(&run, ready) };
        self.decide(|view, invocation| decide::end_run(view, &ended, invocation));
    }

    /// The rows since the last call: recipient, kind and text.
    fn sent(&mut self) -> Vec<(String, Kind, String)> {
        let row = |row: Outgoing| (row.to.peer_id, row.kind, row.body.text);
        std::mem::take(&mut self.model.sent).into_iter().map(row).collect()
    }
}

fn row(to: &str, kind: Kind, text: &str) -> (String, Kind, String) {
    (to.to_owned(), kind, text.to_owned())
}

#[test]
fn the_answer_of_a_turn_goes_to_each_recipient_once() {
    let mut chat = Chat::new();
    let first = chat.say(from("mom"), None, "hello");
    let steered = chat.say(from("dad"), Some(Mode::Steer), "me too");
    chat.say(from("late"), Some(Mode::Queue), "later");
    chat.agent_says("One.", vec![steered]);
    let again = chat.say(from("mom"), Some(Mode::Steer), "and this");
    chat.agent_says("Two.", vec![again]);
    chat.end(Outcome::Completed);
    let head = chat.model.view.session.head;
    let rows = chat.model.sent.clone();
    assert!(rows.iter().all(|row| row.body.turn == head && row.label == "main"));
    assert_eq!(rows[0].body.message_ids, [first, again]);
    assert_eq!(rows[1].body.message_ids, [steered]);
    let text = "One.\n\nTwo.";
    let expected = [row("mom", Kind::Reply, text), row("dad", Kind::Reply, text)];
    assert_eq!(chat.sent(), expected);
}

#[test]
fn a_message_without_an_envelope_sends_nothing() {
    let mut chat = Chat::new();
    chat.say(None, None, "hello");
    chat.agent_says("One.", vec![]);
    chat.suspend(&[permission()]);
    let id = chat.model.view.suspensions[0].id;
    let (host, answer) =
        (chat.host.clone(), Answer { choice: Some("allow".to_owned()), ..Answer::default() });
    chat.decide(|view, invocation| decide::resume(view, id, &answer, &host, invocation));
    chat.end(Outcome::Completed);
    chat.say(None, None, "/help");
    assert_eq!(chat.sent(), []);
}

#[test]
fn a_turn_that_does_not_complete_is_marked_and_an_empty_one_is_silent() {
    for (outcome, mark) in [
        (Outcome::Interrupted, "One.\n\n[interrupted]"),
        (Outcome::Cancelled, "One.\n\n[cancelled]"),
        (Outcome::Failed, "One.\n\n[failed]"),
    ] {
        let mut chat = Chat::new();
        chat.say(from("mom"), None, "hello");
        chat.end(outcome);
        assert_eq!(chat.sent(), []);
        chat.say(from("mom"), None, "hello");
        chat.agent_says("One.", vec![]);
        chat.end(outcome);
        assert_eq!(chat.sent(), [row("mom", Kind::Reply, mark)]);
    }
}

#[test]
fn a_permission_carries_the_text_so_far_and_the_reply_does_not_repeat_it() {
    let mut chat = Chat::new();
    chat.say(from("mom"), None, "hello");
    chat.agent_says("One.", vec![]);
    chat.suspend(&[permission(), Awaited { kind: suspension::Kind::Question, ..permission() }]);
    let asked = chat.model.sent[0].body.clone();
    assert_eq!(asked.suspension_id, Some(chat.model.view.suspensions[0].id));
    assert_eq!((asked.options.len(), asked.question.as_deref()), (2, Some("May I?")));
    let expected =
        [row("mom", Kind::Permission, "One.\n\nMay I?"), row("mom", Kind::Question, "May I?")];
    assert_eq!(chat.sent(), expected);
    // Another person answers: the end of the turn goes to both.
    chat.say(from("dad"), None, "allow");
    chat.say(from("mom"), None, "reject");
    chat.agent_says("Two.", vec![]);
    chat.end(Outcome::Completed);
    let expected = [row("mom", Kind::Reply, "Two."), row("dad", Kind::Reply, "Two.")];
    assert_eq!(chat.sent(), expected);
    // Of a released suspension, nothing is left to say.
    chat.say(from("mom"), None, "hello");
    chat.agent_says("Three.", vec![]);
    chat.suspend(&[permission()]);
    chat.sent();
    chat.decide(decide::cancel);
    assert_eq!(chat.sent(), []);
}

#[test]
fn a_tool_result_of_a_client_is_not_asked_for_on_a_channel() {
    let mut chat = Chat::new();
    chat.say(from("mom"), None, "hello");
    chat.agent_says("One.", vec![]);
    chat.suspend(&[Awaited { kind: suspension::Kind::ToolResult, ..permission() }]);
    assert_eq!(chat.sent(), []);
    let id = chat.model.view.suspensions[0].id;
    let host = chat.host.clone();
    chat.decide(|view, invocation| decide::resume(view, id, &Answer::default(), &host, invocation));
    chat.agent_says("Two.", vec![]);
    chat.end(Outcome::Completed);
    assert_eq!(chat.sent(), [row("mom", Kind::Reply, "One.\n\nTwo.")]);
}

#[test]
fn a_prompt_goes_to_those_whose_message_opened_it() {
    let mut chat = Chat::new();
    chat.model.view.session.track_tasks = true;
    chat.say(from("mom"), None, "Add a parser for dates");
    let observed = vec![crate::step::Entry::Note {
        id: crate::id::NoteId(Ulid(5)),
        text: "worked".to_owned(),
    }];
    let (run, new) = (chat.run(), Checkpoint { observed, ..Checkpoint::default() });
    chat.decide(|view, invocation| decide::checkpoint(view, run.id, run.fence, &new, invocation));
    chat.end(Outcome::Completed);
    chat.sent();
    let held = chat.say(from("dad"), None, "new task: write the documentation of the server");
    assert_eq!(chat.model.view.inbox[0].intent, Some(Intent::NewTask));
    let prompt = chat.model.view.prompt.clone().expect("a prompt");
    let body = chat.model.sent[0].body.clone();
    assert_eq!((body.prompt_id, body.message_ids), (Some(prompt.id), vec![held]));
    assert_eq!(body.choices, [Choice::StartFresh, Choice::Continue]);
    assert_eq!(chat.sent(), [row("dad", Kind::Prompt, &prompt.text)]);
    // The choice is answered by ctx, the held message by the agent.
    chat.say(from("mom"), None, "B");
    let confirmed = chat.sent();
    assert_eq!((confirmed.len(), confirmed[0].0.as_str()), (1, "mom"));
    assert!(confirmed[0].2.starts_with("The open task continues"), "{confirmed:?}");
    chat.agent_says("One.", vec![]);
    chat.end(Outcome::Completed);
    assert_eq!(chat.sent(), [row("dad", Kind::Reply, "One.")]);
}

#[test]
fn commands_to_ctx_are_answered_at_once() {
    let mut chat = Chat::new();
    let asked = chat.say(from("mom"), None, "/help");
    let head = chat.model.view.session.head;
    assert_eq!(chat.model.sent[0].body.turn, head);
    assert_eq!(chat.model.sent[0].body.message_ids, [asked]);
    assert_eq!(chat.sent(), [row("mom", Kind::Reply, crate::command::HELP)]);
    // During a run, before the command has a turn.
    chat.say(from("dad"), None, "hello");
    chat.say(from("mom"), None, "/done");
    assert_eq!(chat.model.sent[0].body.turn, None);
    assert_eq!(chat.sent().len(), 1);
    chat.end(Outcome::Completed);
    assert_eq!(chat.sent(), []);
}

#[test]
fn a_recovered_run_answers_as_the_run_that_it_repeats() {
    let mut chat = Chat::new();
    chat.say(from("mom"), None, "hello");
    let (run, host) = (chat.run(), chat.host.clone());
    chat.decide(|view, invocation| decide::recover_run(view, run.id, &host, invocation));
    assert_ne!(chat.run().id, run.id);
    assert_eq!(chat.sent(), []);
    chat.agent_says("One.", vec![]);
    let run = chat.run();
    chat.decide(|view, invocation| decide::recover_run(view, run.id, &host, invocation));
    let sent = chat.sent();
    assert_eq!((sent.len(), sent[0].0.as_str()), (1, "mom"));
    assert!(sent[0].2.starts_with("One.\n\nThe process was stopped"), "{sent:?}");
    // A cancelled run that does not stop is cut off.
    chat.say(from("mom"), None, "hello");
    chat.agent_says("Two.", vec![]);
    let run = chat.run();
    chat.decide(|view, invocation| {
        decide::terminate_run(view, run.id, TerminationCause::Cancelled, invocation)
    });
    assert_eq!(chat.sent(), [row("mom", Kind::Reply, "Two.\n\n[cancelled]")]);
}
