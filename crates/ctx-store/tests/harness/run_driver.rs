//! Messages, runs and suspensions of a session, each through the rule that the engine uses for it.

use std::collections::{BTreeMap, HashMap};

use ctx_core::compaction::{By, Compaction, Metadata, Trigger, Type};
use ctx_core::decide::{
    self, Accepted, Batch, Checkpoint, ClassifyMode, Compacted, Decision, Delivered, Drafts,
    EndedRun, Invocation, Needs, NewCompaction, OfferedRun, OpenedRun, ProviderCapabilities,
    ProviderCatalog, RunEnd, RunHost, RunPolicy, SessionView, Settings, Submit, SubmitTarget,
    Suspending, TerminationCause,
};
use ctx_core::draft;
use ctx_core::id::{MessageId, NodeId, RunId, SuspensionId, TurnId};
use ctx_core::inbox::{Mode, Overrides};
use ctx_core::message::{Message, Part, Role, Source};
use ctx_core::object::Named;
use ctx_core::outbox::Spoken;
use ctx_core::run::{Cancel, Outcome, Run};
use ctx_core::session::Session;
use ctx_core::suspension::{Answer, Awaited, AwaitedCall, CallResult, Kind, Offer};
use ctx_core::turn::{self, About, Ready};
use ctx_store::{Error, Executed, Once, Written};
use serde_json::json;
use ulid::Ulid;

use super::{EVERYTHING, SessionWriter, at, done, message, with_ancestor};

/// The provider that answers unless a message names another; it can be steered and takes tools.
pub(crate) const PROVIDER: &str = "demo";
/// A provider that can do neither.
pub(crate) const PLAIN_PROVIDER: &str = "plain";
/// The node that runs sessions unless a test names another.
pub(crate) const NODE: NodeId = NodeId(Ulid(77));

/// What the engine knows when it opens a run.
pub(crate) fn run_host(node: NodeId) -> RunHost {
    let able = ProviderCapabilities { can_steer: true, supports_tools: true, repeatable: false };
    let providers = BTreeMap::from([
        (PROVIDER.to_owned(), able),
        (PLAIN_PROVIDER.to_owned(), ProviderCapabilities::default()),
    ]);
    let personas = vec!["atlas".to_owned()];
    RunHost { node, catalog: ProviderCatalog { default: PROVIDER.to_owned(), providers, personas } }
}

/// A person's message in the default mode.
pub(crate) fn submission(text: &str) -> Submit {
    Submit {
        message_id: MessageId(Ulid::new()),
        content: vec![Part::Text { text: text.to_owned() }],
        mode: None,
        source: Source::Human,
        overrides: Overrides::default(),
        classify_mode: ClassifyMode::Immediate,
        run_policy: RunPolicy::StartRun,
    }
}

/// A person's message in a mode.
pub(crate) fn submission_in(mode: Mode, text: &str) -> Submit {
    Submit { mode: Some(mode), ..submission(text) }
}

/// The entries of an assistant's message of one text part.
pub(crate) fn assistant_text(text: &str, ms: i64) -> Vec<draft::Entry> {
    let id = MessageId(Ulid::new());
    vec![
        draft::Entry::Message { id, role: Role::Assistant, source: None, at: at(ms) },
        draft::Entry::Text { text: text.to_owned() },
    ]
}

/// A wait for the results of client tools.
pub(crate) fn awaited_calls(ids: &[&str]) -> Awaited {
    let call = |id: &&str| AwaitedCall {
        id: (*id).to_owned(),
        name: "lookup".to_owned(),
        params: json!({"of": id}),
    };
    Awaited {
        kind: Kind::ToolResult,
        tool_calls: ids.iter().map(call).collect(),
        options: Vec::new(),
        question: None,
        provider_state: Some(json!({"resume": [1, null, "x"]})),
    }
}

/// A wait for a person's choice between `yes` and `no`.
pub(crate) fn awaited_choice(kind: Kind, question: &str) -> Awaited {
    let offer = |id: &str| Offer {
        id: id.to_owned(),
        label: id.to_uppercase(),
        kind: Some(format!("allow_{id}")),
    };
    Awaited {
        kind,
        tool_calls: Vec::new(),
        options: vec![offer("yes"), offer("no")],
        question: Some(question.to_owned()),
        provider_state: None,
    }
}

/// The results of tool calls.
pub(crate) fn results(results: &[(&str, &str)]) -> Answer {
    let result = |(id, content): &(&str, &str)| CallResult {
        tool_call_id: (*id).to_owned(),
        content: (*content).to_owned(),
        is_error: false,
    };
    Answer { results: results.iter().map(result).collect(), ..Answer::default() }
}

pub(crate) fn choice(id: &str) -> Answer {
    Answer { choice: Some(id.to_owned()), ..Answer::default() }
}

/// The row of a compaction with a value in every column.
pub(crate) fn compaction(through: Option<TurnId>, kept: Option<TurnId>, by: By) -> Compaction {
    Compaction {
        summary: "so far".to_owned(),
        summarized_through: through,
        first_kept: kept,
        turns_summarized: 3,
        kind: Type::SlidingWindow,
        model: Some("m".to_owned()),
        provider: Some("p".to_owned()),
        tokens_before: 900,
        tokens_after: 300,
        summary_tokens: 100,
        summarization_input_tokens: Some(800),
        summarization_output_tokens: None,
        duration_ms: 12,
        trigger: Trigger::Manual,
        metadata: Metadata { by, focus: Some("the boat".to_owned()), ..Metadata::default() },
    }
}

/// A summary turn without a parent, and its body.
pub(crate) fn summary_turn(ms: i64) -> (Ready, Named) {
    let about = About { kind: turn::Kind::Compaction, ..About::at(at(ms)) };
    Ready::new(about, vec![message("so far", ms)])
}

/// A run that ended normally with one answer, and the body of its turn.
pub(crate) fn ended(opened: &OpenedRun, answer: &str, ms: i64) -> (EndedRun, Named) {
    let id = MessageId(Ulid::new());
    let content = vec![Part::Text { text: answer.to_owned() }];
    let answer_message =
        Message { id, role: Role::Assistant, source: None, content, created_at: at(ms) };
    let about = About {
        provider_id: Some(opened.run.provider_id.clone()),
        model: opened.run.model.clone(),
        started_at: opened.run.turn_started_at,
        ..About::at(at(ms))
    };
    let messages = opened.items.iter().map(decide::item_message).chain([answer_message]).collect();
    let (ready, body) = Ready::new(about, messages);
    let ended = EndedRun {
        run: opened.run.id,
        fence: opened.run.fence,
        ready,
        outcome: Outcome::Completed,
        code: None,
        messages: vec![id],
        last_text: Some(answer.to_owned()),
        events: Vec::new(),
        injected: Vec::new(),
        observed: Vec::new(),
        agent: None,
        spoken: Spoken { text: answer.to_owned(), ..Spoken::default() },
        compaction: None,
        keeps_agent: false,
    };
    (ended, body)
}

impl SessionWriter {
    /// Submits a message to a session that exists.
    pub(crate) async fn submit(&self, submit: Submit, ms: i64) -> Result<Written<Accepted>, Error> {
        self.submit_with(SubmitTarget::Existing, submit, &Settings::default(), Vec::new(), ms).await
    }

    pub(crate) async fn submit_with(
        &self,
        to: SubmitTarget,
        submit: Submit,
        settings: &Settings,
        objects: Vec<Named>,
        ms: i64,
    ) -> Result<Written<Accepted>, Error> {
        self.submit_once(to, submit, settings, objects, None, ms).await.map(done)
    }

    /// Submits a message with an idempotency key.
    pub(crate) async fn submit_once(
        &self,
        to: SubmitTarget,
        submit: Submit,
        settings: &Settings,
        objects: Vec<Named>,
        once: Option<Once<Accepted>>,
        ms: i64,
    ) -> Result<Executed<Accepted>, Error> {
        let settings = settings.clone();
        let rule = move |view: Option<&SessionView>, invocation: &Invocation| {
            decide::submit(view, &to, &submit, &run_host(NODE), &settings, invocation)
        };
        self.write_once(Needs::MESSAGE, ms, objects, once, rule).await
    }

    /// Submits a message that the rules accept.
    pub(crate) async fn send(&self, submit: Submit, ms: i64) -> Accepted {
        self.submit(submit, ms).await.expect("the message is accepted").reply
    }

    /// Opens a run with a message to an idle session.
    pub(crate) async fn open_run(&self, text: &str, ms: i64) -> Box<OpenedRun> {
        self.send(submission(text), ms).await.opened_run.expect("an opened run")
    }

    pub(crate) async fn deliver(&self, ms: i64) -> Result<Written<Delivered>, Error> {
        self.deliver_on(NODE, ms).await
    }

    /// Delivers the next message, which opens a run.
    pub(crate) async fn deliver_run(&self, ms: i64) -> Box<OpenedRun> {
        match self.deliver(ms).await.expect("a decision").reply {
            Delivered::Run(opened) => opened,
            other => panic!("no run was opened: {other:?}"),
        }
    }

    /// Delivers the next message on a node.
    pub(crate) async fn deliver_on(
        &self,
        node: NodeId,
        ms: i64,
    ) -> Result<Written<Delivered>, Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::deliver(
                view,
                &HashMap::new(),
                &run_host(node),
                &Settings::default(),
                invocation,
            )
        };
        self.decide(ms, Vec::new(), rule).await
    }

    pub(crate) async fn checkpoint(
        &self,
        run: &Run,
        new: Checkpoint,
        objects: Vec<Named>,
        ms: i64,
    ) -> Result<Written<Option<Cancel>>, Error> {
        let (id, fence) = (run.id, run.fence);
        self.decide(ms, objects, move |view, invocation| {
            decide::checkpoint(view, id, fence, &new, invocation)
        })
        .await
    }

    pub(crate) async fn suspend(
        &self,
        run: &Run,
        entries: Vec<draft::Entry>,
        awaited: Vec<Awaited>,
        ms: i64,
    ) -> Result<Written<Option<Cancel>>, Error> {
        let (id, fence) = (run.id, run.fence);
        let suspending = Suspending { entries, awaited, keeps_agent: false };
        self.decide(ms, Vec::new(), move |view, invocation| {
            decide::suspend(view, id, fence, &suspending, invocation)
        })
        .await
    }

    pub(crate) async fn resume(
        &self,
        suspension: SuspensionId,
        answer: Answer,
        ms: i64,
    ) -> Result<Written<Option<Box<OpenedRun>>>, Error> {
        let needs = Needs { suspension: Some(suspension), drafts: Drafts::Always, ..EVERYTHING };
        let rule = move |view: Option<&SessionView>, invocation: &Invocation| {
            let view = view.ok_or(ctx_core::refusal::Refusal::NoSession)?;
            decide::resume(view, suspension, &answer, &run_host(NODE), invocation)
        };
        self.write_with(needs, ms, Vec::new(), rule).await
    }

    pub(crate) async fn adopt(&self, offered: OfferedRun, node: NodeId) -> Option<Box<OpenedRun>> {
        let rule = move |view: Option<&SessionView>, invocation: &Invocation| {
            let view = view.ok_or(ctx_core::refusal::Refusal::NoSession)?;
            decide::adopt_run(view, &offered, node, invocation)
        };
        self.write_with(Needs::ADOPT, 12, Vec::new(), rule).await.expect("decided").reply
    }

    /// Ends a run with an outcome of the caller.
    pub(crate) async fn end_run_as(
        &self,
        ended: EndedRun,
        body: Named,
        ms: i64,
    ) -> Result<Written<RunEnd>, Error> {
        self.decide(ms, vec![body], move |view, invocation| {
            decide::end_run(view, &ended, invocation)
        })
        .await
    }

    /// Ends a run normally; the turn that it made.
    pub(crate) async fn end_run(&self, opened: &OpenedRun, answer: &str, ms: i64) -> TurnId {
        let (ended, body) = ended(opened, answer, ms);
        self.end_run_as(ended, body, ms).await.expect("the run is open");
        self.head().await
    }

    /// A whole exchange: a message, a run and its answer.
    pub(crate) async fn exchange(&self, text: &str, answer: &str, ms: i64) -> TurnId {
        let opened = self.open_run(text, ms).await;
        self.end_run(&opened, answer, ms).await
    }

    pub(crate) async fn cancel(&self, ms: i64) -> Written<()> {
        self.decide(ms, Vec::new(), decide::cancel).await.expect("cancelling is never refused")
    }

    pub(crate) async fn cut_off(
        &self,
        run: RunId,
        cut: TerminationCause,
        ms: i64,
    ) -> Result<Written<()>, Error> {
        self.decide(ms, Vec::new(), move |view, invocation| {
            decide::terminate_run(view, run, cut, invocation)
        })
        .await
    }

    /// Adds a summary under the head during a run.
    pub(crate) async fn compact(
        &self,
        opened: &OpenedRun,
        head: Option<TurnId>,
        row: Compaction,
        ms: i64,
    ) -> Result<Written<Compacted>, Error> {
        let (ready, body) = summary_turn(ms);
        let (run, fence) = (opened.run.id, opened.run.fence);
        let new = NewCompaction { run, fence, head, ready, compaction: row };
        self.decide(ms, vec![body], move |view, invocation| {
            decide::add_compaction(view, &new, invocation)
        })
        .await
    }

    pub(crate) async fn pin(
        &self,
        turn: TurnId,
        tokens: u64,
        ms: i64,
    ) -> Result<Written<()>, Error> {
        const WINDOW: u64 = 100_000;
        self.decide_on(with_ancestor(turn), ms, Vec::new(), move |view, invocation| {
            decide::pin(view, turn, tokens, WINDOW, invocation)
        })
        .await
    }

    pub(crate) async fn unpin(&self, turn: TurnId, ms: i64) -> Result<Written<()>, Error> {
        self.decide(ms, Vec::new(), move |view, invocation| decide::unpin(view, turn, invocation))
            .await
    }

    pub(crate) async fn rewind(&self, turn: TurnId, ms: i64) -> Result<Written<()>, Error> {
        let rule = move |view: &_, invocation: &_| decide::rewind(view, turn, invocation);
        self.decide_on(with_ancestor(turn), ms, Vec::new(), rule).await
    }

    pub(crate) async fn archive(&self, ms: i64) -> Result<Written<()>, Error> {
        self.decide(ms, Vec::new(), decide::archive).await
    }

    pub(crate) async fn delete(&self, ms: i64) -> Result<Written<()>, Error> {
        self.decide(ms, Vec::new(), |view, _| decide::delete_session(view)).await
    }

    /// Changes the session's row past the rules that guard it.
    pub(crate) async fn put_session(&self, change: impl FnOnce(&mut Session), ms: i64) {
        let mut session = self.session().await;
        change(&mut session);
        let changes = vec![decide::Change::PutSession(Box::new(session))];
        self.write_changes(changes, Vec::new(), ms).await.expect("a row");
    }

    /// Writes changes without a rule.
    pub(crate) async fn write_changes(
        &self,
        changes: Vec<decide::Change>,
        objects: Vec<Named>,
        ms: i64,
    ) -> Result<Written<()>, Error> {
        let batch = Batch { changes, ..Batch::default() };
        self.decide(ms, objects, move |_, _| Ok(Decision::new(batch.clone(), ()))).await
    }
}
