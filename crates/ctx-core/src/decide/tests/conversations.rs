//! Commands in any order keep a conversation consistent: one run at a time, one chain of turns,
//! every message in exactly one place.

use std::collections::{BTreeSet, HashMap};

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use ulid::Ulid;

use super::conversation_commands::{Command, command};
use super::model::{Model, completed, wrote};
use crate::compaction::{self, Compaction, Trigger};
use crate::decide::{
    self, Checkpoint, ClassifyMode, Decided, EndedRun, Invocation, Patch, ProviderCapabilities,
    ProviderCatalog, RunHost, RunPolicy, SessionView, Submit, SubmitTarget, Suspending,
    TerminationCause, item_message,
};
use crate::draft::{Draft, Entry};
use crate::id::{MessageId, NodeId, RunId};
use crate::inbox::{ItemState, Mode, OverflowPolicy, Overrides};
use crate::message::{Part, Role, Source};
use crate::run::{Outcome, Run};
use crate::session::{Activity, Delivery, Status};
use crate::suspension::{Answer, Awaited, Kind, Offer};
use crate::turn::{About, Ready};

const CASES: u32 = 384;
const COMMANDS_MAX: usize = 60;

fn run_host(can_steer: bool) -> RunHost {
    let capabilities = ProviderCapabilities { can_steer, supports_tools: true, repeatable: true };
    let catalog = ProviderCatalog {
        default: "main".to_owned(),
        providers: [("main".to_owned(), capabilities)].into(),
        personas: Vec::new(),
    };
    RunHost { node: NodeId(Ulid(3)), catalog }
}

fn awaited(kind: Kind) -> Awaited {
    let offer = Offer { id: "allow".to_owned(), label: "Allow".to_owned(), kind: None };
    let options = if kind == Kind::Permission { vec![offer] } else { Vec::new() };
    Awaited { kind, tool_calls: Vec::new(), options, question: None, provider_state: None }
}

fn compaction() -> Compaction {
    Compaction {
        summary: "so far".to_owned(),
        summarized_through: None,
        first_kept: None,
        turns_summarized: 1,
        kind: compaction::Type::Summary,
        model: None,
        provider: None,
        tokens_before: 10,
        tokens_after: 5,
        summary_tokens: 2,
        summarization_input_tokens: None,
        summarization_output_tokens: None,
        duration_ms: 1,
        trigger: Trigger::ContextLimit,
        metadata: compaction::Metadata::default(),
    }
}

/// A conversation and every message that was sent to it.
struct Story {
    model: Model,
    run_host: RunHost,
    accepted: BTreeSet<MessageId>,
    withdrawn: BTreeSet<MessageId>,
    /// The run before the open one.
    late: Option<Run>,
    moved: bool,
}

impl Story {
    fn new(tracked: bool, can_steer: bool, at_cap: OverflowPolicy) -> Self {
        let mut model = Model::empty();
        model.view.session.track_tasks = tracked;
        model.settings.inbox.cap = 3;
        model.settings.inbox.at_cap = at_cap;
        let (accepted, withdrawn) = (BTreeSet::new(), BTreeSet::new());
        Self { model, run_host: run_host(can_steer), accepted, withdrawn, late: None, moved: false }
    }

    fn view(&self) -> &SessionView {
        &self.model.view
    }

    fn open_run(&self) -> Option<Run> {
        self.view().run.clone().filter(|run| run.ended_at.is_none())
    }

    /// Decides twice with the same result, and applies the decision if it changes anything.
    fn run<R>(&mut self, rule: impl Fn(&SessionView, &Invocation) -> Decided<R>) -> bool
    where
        R: std::fmt::Debug + PartialEq,
    {
        let invocation = self.model.invocation();
        let decided = rule(self.view(), &invocation);
        assert_eq!(
            decided,
            rule(self.view(), &invocation),
            "the same view and time must give the same decision"
        );
        let Ok(decision) = decided else { return false };
        if decision.changes.is_empty() {
            assert!(
                decision.events.is_empty() || decision.objects.is_empty(),
                "nothing changes, so nothing is stored"
            );
        } else {
            self.model.apply(decision);
        }
        true
    }

    fn nth(&self, n: usize) -> Option<MessageId> {
        self.view().inbox.get(n).map(|item| item.message_id)
    }

    fn give(&mut self, place: usize, command: &Command) {
        let settings = self.model.settings.clone();
        let run_host = self.run_host.clone();
        match command {
            Command::Submit { mode, source, text, later } => {
                self.submit(place, *mode, *source, text, *later);
            }
            Command::Deliver => {
                self.run(|view, invocation| {
                    decide::deliver(view, &HashMap::new(), &run_host, &settings, invocation)
                });
            }
            Command::Checkpoint { inject, observe } => self.checkpoint(place, *inject, *observe),
            Command::Compact { late } => self.add_compaction(*late),
            Command::EndRun(outcome) => {
                if let Some(run) = self.open_run() {
                    assert!(self.end(&run, *outcome), "who runs a session can end its run");
                    self.late = Some(run);
                }
            }
            Command::LateEnd => {
                if let Some(run) = self
                    .late
                    .clone()
                    .filter(|late| self.open_run().is_none_or(|open| open.id != late.id))
                {
                    assert!(!self.end(&run, Outcome::Completed), "a run ends once");
                }
            }
            Command::Suspend(kinds) => self.suspend(kinds),
            Command::Resume(n) => self.resume(*n),
            Command::Cancel => assert!(self.run(decide::cancel)),
            Command::CutOff(cut) => {
                let run = self.open_run();
                let id = run.as_ref().map_or(RunId(Ulid(1)), |run| run.id);
                let ended = match cut {
                    TerminationCause::ProcessLost => self.run(|view, invocation| {
                        decide::recover_run(view, id, &run_host, invocation)
                    }),
                    TerminationCause::Cancelled => self
                        .run(|view, invocation| decide::terminate_run(view, id, *cut, invocation)),
                };
                assert_eq!(ended, run.is_some());
                self.late = run.or(self.late.take());
            }
            Command::Edit(n) => {
                let Some(id) = self.nth(*n) else { return };
                self.run(|view, invocation| {
                    decide::edit_item(view, id, "something else", invocation)
                });
            }
            Command::Move(n, to) => {
                let Some(id) = self.nth(*n) else { return };
                self.moved |=
                    self.run(|view, invocation| decide::move_item(view, id, *to, invocation));
            }
            Command::Withdraw(n) => {
                let Some(id) = self.nth(*n) else { return };
                if self.run(|view, invocation| decide::withdraw_item(view, id, invocation)) {
                    self.withdrawn.insert(id);
                }
            }
            Command::Delivery(delivery) => {
                let patch = Patch { delivery: Some(*delivery), ..Patch::default() };
                assert!(self.run(|view, invocation| decide::update_session(
                    view,
                    &patch,
                    &run_host.catalog,
                    invocation
                )));
            }
            Command::Choose(choice) => {
                self.run(|view, invocation| {
                    decide::answer_session_prompt(view, *choice, &run_host, &settings, invocation)
                });
            }
            Command::Archive => {
                self.run(decide::archive);
            }
            Command::Wait(span) => {
                self.model.wait(*span);
            }
        }
    }

    fn submit(
        &mut self,
        place: usize,
        mode: Option<Mode>,
        source: Source,
        text: &str,
        later: bool,
    ) {
        let (settings, run_host) = (self.model.settings.clone(), self.run_host.clone());
        let message_id = MessageId(Ulid(1_000 + place as u128));
        let content = vec![Part::Text { text: text.to_owned() }];
        let classify_mode = if later { ClassifyMode::Deferred } else { ClassifyMode::Immediate };
        let submit = Submit {
            message_id,
            content,
            mode,
            source,
            overrides: Overrides::default(),
            classify_mode,
            run_policy: RunPolicy::StartRun,
        };
        let delivers =
            self.view().session.delivery == Delivery::Open && self.view().prompt.is_none();
        let before = self.view().session.state;
        if self.run(|view, invocation| {
            decide::submit(
                Some(view),
                &SubmitTarget::Existing,
                &submit,
                &run_host,
                &settings,
                invocation,
            )
        }) {
            self.accepted.insert(message_id);
            if mode == Some(Mode::Interrupt)
                && before != Activity::Suspended
                && delivers
                && !self.moved
            {
                self.goes_first(message_id);
            }
        }
    }

    /// Only messages that interrupt as well, or are steering already, are before an interrupting
    /// one.
    fn goes_first(&self, id: MessageId) {
        let waiting = self.view().inbox.iter().filter(|item| item.state == ItemState::Waiting);
        let before: Vec<_> = waiting.take_while(|item| item.message_id != id).collect();
        let patient = |mode| matches!(mode, Mode::Queue | Mode::Followup | Mode::Collect);
        if self
            .view()
            .inbox
            .iter()
            .any(|item| item.message_id == id && item.state == ItemState::Waiting)
        {
            assert!(
                before.iter().all(|item| item.position < 0 && !patient(item.mode)),
                "{before:?} before an interrupt"
            );
        }
    }

    fn checkpoint(&mut self, place: usize, inject: bool, observe: bool) {
        let Some(run) = self.open_run() else { return };
        let begin = |id, role, source| Entry::Message { id, role, source, at: self.model.now };
        let mut new = Checkpoint::default();
        let steering = self.view().inbox.iter().find(|item| item.state == ItemState::Steering);
        if let Some(item) = steering.filter(|_| inject) {
            new.entries.extend([
                begin(item.message_id, Role::User, Some(item.source)),
                Entry::Text { text: item.text() },
            ]);
            new.injected.push(item.message_id);
        }
        let own = MessageId(Ulid(1_000_000 + place as u128));
        new.entries
            .extend([begin(own, Role::Assistant, None), Entry::Text { text: "words".to_owned() }]);
        if observe {
            new.observed.push(wrote("src/lib.rs"));
        }
        assert!(
            self.run(|view, invocation| decide::checkpoint(
                view, run.id, run.fence, &new, invocation
            )),
            "it holds the fence"
        );
    }

    /// R175: a compaction is a turn under the head, and only the run with the fence adds it.
    fn add_compaction(&mut self, late: bool) {
        let (open, before) = (self.open_run(), self.view().session.clone());
        let Some(run) = (if late { self.late.clone() } else { open.clone() }) else { return };
        let about = About { kind: crate::turn::Kind::Compaction, ..About::at(self.model.now) };
        let (ready, body) = Ready::new(about, Vec::new());
        let new = decide::NewCompaction {
            run: run.id,
            fence: run.fence,
            head: before.head,
            ready,
            compaction: compaction(),
        };
        let invocation = self.model.invocation();
        let mut decided = decide::add_compaction(self.view(), &new, &invocation);
        if let Ok(decision) = &mut decided {
            decision.objects.push(body);
        }
        let holds = open.is_some_and(|open| open.id == run.id);
        assert_eq!(self.run(|_, _| decided.clone()), holds, "only who runs it");
        assert_eq!(self.view().session.turn_count, before.turn_count + u64::from(holds));
        assert_eq!(self.view().session.state, before.state, "the run goes on");
    }

    fn end(&mut self, run: &Run, outcome: Outcome) -> bool {
        let taken = self.view().inbox.iter().filter(|item| item.state == ItemState::Taken);
        let (made, _) = Draft::of(self.view().drafts.iter().cloned()).finish();
        let (ready, _) =
            Ready::new(About::at(self.model.now), taken.map(item_message).chain(made).collect());
        let ended =
            EndedRun { outcome, last_text: Some("Done.".to_owned()), ..completed(run, ready) };
        self.run(|view, invocation| decide::end_run(view, &ended, invocation))
    }

    fn suspend(&mut self, kinds: &[Kind]) {
        let Some(run) = self.open_run() else { return };
        let awaited = kinds.iter().map(|kind| awaited(*kind)).collect();
        let suspending = Suspending { awaited, ..Suspending::default() };
        assert!(self.run(|view, invocation| decide::suspend(
            view,
            run.id,
            run.fence,
            &suspending,
            invocation
        )));
        if self.open_run().is_none() {
            self.late = Some(run);
        }
    }

    fn resume(&mut self, n: usize) {
        let Some(suspension) = self.view().suspensions.get(n).cloned() else { return };
        let choice = (suspension.awaited.kind != Kind::ToolResult).then(|| "allow".to_owned());
        let answer = Answer { choice, ..Answer::default() };
        let run_host = self.run_host.clone();
        assert!(self.run(|view, invocation| decide::resume(
            view,
            suspension.id,
            &answer,
            &run_host,
            invocation
        )));
        assert!(
            !self.run(|view, invocation| decide::resume(
                view,
                suspension.id,
                &answer,
                &run_host,
                invocation
            )),
            "once"
        );
    }

    /// Checks the invariants, after every command.
    fn check(&self) {
        let view = self.view();
        let state = view.session.state;
        assert_eq!(
            state == Activity::Running,
            self.open_run().is_some(),
            "running means that a run is open"
        );
        assert_eq!(
            state == Activity::Suspended,
            !view.suspensions.is_empty(),
            "suspended means that something is awaited"
        );
        assert_eq!(
            view.session.owner.is_some(),
            state == Activity::Running,
            "only what runs has an owner"
        );
        if state == Activity::Idle {
            assert!(view.drafts.is_empty(), "an idle session has no open turn");
            let going = view
                .inbox
                .iter()
                .filter(|item| matches!(item.state, ItemState::Taken | ItemState::Steering));
            assert_eq!(going.count(), 0, "nothing is on its way in an idle session");
        }
        assert!(
            self.open_run().is_none_or(|run| run.fence == view.session.fence),
            "the open run holds the fence"
        );
        let mut parent = None;
        for (id, header) in &self.model.turns {
            assert_eq!(header.parent, parent, "the turns are one chain");
            parent = Some(*id);
        }
        assert_eq!(
            (view.session.head, view.session.turn_count),
            (parent, self.model.turns.len() as u64)
        );
        self.check_messages();
    }

    fn check_messages(&self) {
        let view = self.view();
        let in_draft = view.drafts.iter().filter_map(|entry| match entry {
            Entry::Message { id, .. } => Some(*id),
            _ => None,
        });
        let in_turns = self
            .model
            .turns
            .iter()
            .flat_map(|(_, header)| header.messages.iter().map(|head| head.id));
        let inbox = view.inbox.iter().chain(&self.model.dropped).map(|item| item.message_id);
        let mut places: HashMap<MessageId, usize> = HashMap::new();
        for id in in_draft.chain(in_turns).chain(inbox).chain(self.withdrawn.iter().copied()) {
            *places.entry(id).or_default() += 1;
        }
        for id in &self.accepted {
            assert_eq!(places.get(id), Some(&1), "message {id} is in exactly one place");
        }
        assert!(places.values().all(|count| *count == 1), "nothing is anywhere twice");
    }
}

#[test]
fn no_order_of_commands_breaks_a_conversation() {
    // R144, R145, R165, R217-R224, R238-R240
    let config = ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..ProptestConfig::default()
    };
    let caps = vec![
        OverflowPolicy::Reject,
        OverflowPolicy::Old,
        OverflowPolicy::New,
        OverflowPolicy::Summarize,
    ];
    let story = (any::<bool>(), any::<bool>(), select(caps), vec(command(), 1..=COMMANDS_MAX));
    let result = TestRunner::new(config).run(&story, |(tracked, can_steer, at_cap, commands)| {
        let mut story = Story::new(tracked, can_steer, at_cap);
        for (place, command) in commands.iter().enumerate() {
            let fence = story.view().session.fence;
            story.give(place, command);
            story.check();
            assert!(story.view().session.fence >= fence, "a fence never falls");
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn a_damaged_session_runs_nothing_and_stays_marked() {
    // R195: only a repair clears it.
    let mut story = Story::new(false, false, OverflowPolicy::Reject);
    story.submit(1, None, Source::Human, "hello", false);
    let run = story.open_run().expect("a run");
    story.suspend(&[Kind::Event]);
    story.model.view.session.status = Status::Error;
    let (run_host, suspension) = (story.run_host.clone(), story.view().suspensions[0].id);
    let answer = Answer { choice: Some("it came".to_owned()), ..Answer::default() };
    assert!(
        !story.run(|view, invocation| decide::resume(
            view, suspension, &answer, &run_host, invocation
        ))
    );
    assert!(story.run(decide::cancel), "what it waits for can be released");
    let head = story.view().session.head.expect("a turn");
    let before = decide::HeadBefore { parent: None, turns: 1 };
    let items = [said_again(&story)];
    assert!(
        !story.run(|view, invocation| decide::retry(
            view, head, before, &items, &run_host, invocation
        ))
    );
    story.model.view.session.state = Activity::Running;
    story.model.view.run = Some(run.clone());
    assert!(story.run(|view, invocation| decide::terminate_run(
        view,
        run.id,
        TerminationCause::ProcessLost,
        invocation
    )));
    assert_eq!(
        (story.view().session.status, story.view().session.state),
        (Status::Error, Activity::Idle)
    );
}

fn said_again(story: &Story) -> crate::inbox::Item {
    crate::inbox::Item {
        message_id: MessageId(Ulid(2_000)),
        position: 1,
        mode: Mode::Queue,
        source: Source::Human,
        content: vec![Part::Text { text: "hello".to_owned() }],
        intent: None,
        overrides: Overrides::default(),
        state: ItemState::Taken,
        enqueued_at: story.model.now,
    }
}
