//! Runs: opened by a message, checkpointed, ended once, and closed to writers with an old fence.

use ctx_core::agent_session::AgentSession;
use ctx_core::decide::{
    self, Checkpoint, Drafts, EndedRun, Event, HeadBefore, Needs, OpenedRun, Submit,
    TerminationCause,
};
use ctx_core::draft;
use ctx_core::id::{MessageId, RunId, TurnId};
use ctx_core::inbox::{Item, ItemState, Mode, Overrides, Tool};
use ctx_core::message::{Part, Role, ToolStatus};
use ctx_core::refusal::Refusal;
use ctx_core::run::{Cancel, Outcome, Phase};
use ctx_core::session::{Activity, Status};
use ctx_core::stored_content::BLOB_MIN_BYTES;
use ctx_core::turn::{self, Usage};
use ctx_store::Error;
use serde_json::json;
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    EVERYTHING, NODE, PROVIDER, SessionWriter, Snapshot, assistant_text, at, awaited_calls,
    compaction, ended, submission, submission_in, text_of, verify,
};

fn is_stale<T: std::fmt::Debug>(refused: Result<T, Error>) {
    assert!(matches!(refused, Err(Error::Refused(Refusal::StaleWriter))), "{refused:?}");
}

/// One entry of every kind; the tool's answer is large enough to become a blob.
fn every_entry(ms: i64) -> Vec<draft::Entry> {
    let (id, params) = ("call \u{1F600}".to_owned(), json!({"nested": [1, 2.5, null, "ü"]}));
    let begin =
        |role| draft::Entry::Message { id: MessageId(Ulid::new()), role, source: None, at: at(ms) };
    let usage = Usage {
        input_tokens: Some(1),
        output_tokens: None,
        cached_tokens: Some(u64::from(u32::MAX)),
        cost: Some("0.0001".to_owned()),
        scope: "turn".to_owned(),
        ..Usage::default()
    };
    vec![
        begin(Role::Assistant),
        draft::Entry::Text { text: "first ".to_owned() },
        draft::Entry::Text { text: String::new() },
        draft::Entry::Thought { text: "hm".to_owned(), raw: Some(json!({"signature": "s"})) },
        draft::Entry::ToolCall { id: id.clone(), name: "grep".to_owned(), params: json!(null) },
        draft::Entry::ToolInput { id: id.clone(), name: "grep".to_owned(), params },
        draft::Entry::ToolStatus { id: id.clone(), status: ToolStatus::Running },
        begin(Role::Tool),
        draft::Entry::ToolResult { id, content: "x".repeat(BLOB_MIN_BYTES), is_error: true },
        draft::Entry::Plan { entries: json!([{"content": "one"}]) },
        draft::Entry::Error {
            code: "overloaded".to_owned(),
            message: "later".to_owned(),
            provider_id: None,
        },
        draft::Entry::Usage { usage },
    ]
}

pub(crate) async fn a_run_reads_back_as_the_rule_opened_it(backend: &impl Backend) {
    // R218, R236, R241
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let tool = Tool {
        name: "look_up".to_owned(),
        description: "Finds something".to_owned(),
        parameters: json!({"type": "object"}),
    };
    let overrides = Overrides {
        provider_id: Some(PROVIDER.to_owned()),
        model: Some("large".to_owned()),
        tools: vec![tool],
        ..Overrides::default()
    };
    let submit = Submit { overrides: overrides.clone(), ..submission("hello") };
    let decision = writer.submit(submit, 1).await.expect("accepted");
    let opened = decision.reply.opened_run.expect("a run");
    let view = writer.view().await;
    assert_eq!(view.run.as_ref(), Some(&opened.run));
    assert_eq!((&opened.run.tools, &opened.run.model), (&overrides.tools, &overrides.model));
    assert_eq!(
        (view.session.state, view.session.owner, view.session.fence, view.session.title.as_deref()),
        (Activity::Running, Some(NODE), opened.run.fence, Some("hello"))
    );
    assert_eq!(view.inbox.iter().map(|item| item.state).collect::<Vec<_>>(), [ItemState::Taken]);
    assert_eq!(view.inbox[0].overrides, overrides);
    let found = store.run(opened.run.id).await.expect("a read");
    assert_eq!(found, Some((opened.run.clone(), view.session.id)));
    assert_eq!(store.run(RunId(Ulid::new())).await.expect("a read"), None);

    let turn = writer.end_run(&opened, "hello yourself", 5).await;
    let view = writer.view().await;
    assert_eq!((view.run, view.session.state, view.session.owner), (None, Activity::Idle, None));
    assert_eq!((view.session.head, view.session.turn_count, view.inbox.len()), (Some(turn), 1, 0));
    let (run, _) = store.run(opened.run.id).await.expect("a read").expect("a run");
    assert_eq!((run.outcome, run.ended_at), (Some(Outcome::Completed), Some(at(5))));
    let turns = store.turns(turn, 1).await.expect("turns");
    let messages = turns[0].messages().expect("readable").expect("not purged");
    assert_eq!(
        messages.iter().map(|message| message.role).collect::<Vec<_>>(),
        [Role::User, Role::Assistant]
    );
    assert_eq!(turns[0].header.model.as_deref(), Some("large"));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn drafts_read_back_in_the_order_of_their_checkpoints(backend: &impl Backend) {
    // R233
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    assert_eq!(writer.view().await.drafts, []);
    let mut all = Vec::new();
    for (ms, entries) in [(2, every_entry(2)), (3, vec![]), (4, assistant_text("second", 4))] {
        let phase = (ms == 2).then_some(Phase::Streaming);
        let new = Checkpoint { entries: entries.clone(), phase, ..Checkpoint::default() };
        writer.checkpoint(&opened.run, new, vec![], ms).await.expect("a checkpoint");
        all.extend(entries);
    }
    let other = writer.through(&backend.open().await);
    assert_eq!(other.view().await.drafts, all);
    assert_eq!(other.view().await.run.expect("open").phase, Phase::Streaming);
    for (drafts, shown) in [(Drafts::No, 0), (Drafts::IfSuspended, 0), (Drafts::Always, all.len())]
    {
        let needs = Needs { drafts, ..EVERYTHING };
        let view = store.view(&writer.target, needs).await.expect("a view").expect("a session");
        assert_eq!(view.drafts.len(), shown, "{drafts:?}");
    }
    let view = store.view(&writer.target, Needs::TEXT).await.expect("a view").expect("a session");
    assert_eq!(view.run.map(|run| run.id), Some(opened.run.id));
    assert!(view.drafts.is_empty() && view.inbox.is_empty(), "only the run");
    let waiting = writer.suspend(&opened.run, vec![], vec![awaited_calls(&["c"])], 5).await;
    waiting.expect("suspended");
    let needs = Needs { drafts: Drafts::IfSuspended, ..EVERYTHING };
    let view = store.view(&writer.target, needs).await.expect("a view").expect("a session");
    assert_eq!(view.drafts, all);
    writer.cancel(6).await;
    assert_eq!(writer.view().await.drafts, []);
    let turns = store.turns(writer.head().await, 1).await.expect("turns");
    let said = turns[0].messages().expect("readable").expect("not purged");
    assert_eq!(said.len(), 4, "the message, and three of the draft");
    assert_eq!(store.counts().await.blobs, 1, "the large answer of the tool");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_writer_with_an_old_fence_fails_and_changes_nothing(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let new = Checkpoint { entries: assistant_text("half", 2), ..Checkpoint::default() };
    writer.checkpoint(&opened.run, new, vec![], 2).await.expect("a checkpoint");
    writer.cut_off(opened.run.id, TerminationCause::ProcessLost, 3).await.expect("cut off");
    for newer in [false, true] {
        let other = backend.open().await;
        if newer {
            writer.open_run("again", 4).await;
        }
        let before = Snapshot::of(&store).await;
        let late = writer.through(&other);
        let new = Checkpoint { entries: assistant_text("late", 5), ..Checkpoint::default() };
        is_stale(late.checkpoint(&opened.run, new, vec![], 5).await);
        is_stale(late.suspend(&opened.run, vec![], vec![awaited_calls(&["c"])], 5).await);
        let (end, body) = ended(&opened, "late", 5);
        is_stale(late.end_run_as(end, body, 5).await);
        let row = compaction(None, None, ctx_core::compaction::By::Ctx);
        is_stale(late.compact(&opened, opened.head, row, 5).await);
        is_stale(late.cut_off(opened.run.id, TerminationCause::ProcessLost, 5).await);
        assert_eq!(Snapshot::of(&store).await, before, "a newer run is open: {newer}");
    }
}

pub(crate) async fn of_twenty_ends_of_one_run_one_succeeds(backend: &impl Backend) {
    let (one, two) = (backend.open().await, backend.open().await);
    let writer = SessionWriter::create(&one, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let mut ends = JoinSet::new();
    for n in 0..20 {
        let writer = writer.through(if n % 2 == 0 { &one } else { &two });
        let (end, body) = ended(&opened, &format!("answer {n}"), 2);
        ends.spawn(async move { writer.end_run_as(end, body, 2).await });
    }
    let (done, late): (Vec<_>, Vec<_>) = ends.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((done.len(), late.len()), (1, 19));
    late.into_iter().for_each(is_stale);
    assert_eq!((one.counts().await.turns, writer.session().await.turn_count), (1, 1));
    assert_eq!(verify(&two).await.findings, []);
}

pub(crate) async fn a_run_that_is_cut_off_leaves_its_drafts_as_a_turn(backend: &impl Backend) {
    // R197, R238
    let store = backend.open().await;
    let cases = [
        (TerminationCause::ProcessLost, false, turn::Status::Interrupted, Status::Suspended),
        (TerminationCause::Cancelled, false, turn::Status::Cancelled, Status::Active),
        (TerminationCause::ProcessLost, true, turn::Status::Cancelled, Status::Suspended),
    ];
    for (n, (cut, cancelled, turn_status, status)) in cases.into_iter().enumerate() {
        let writer = SessionWriter::create(&store, &format!("session {n}"), 0).await;
        let opened = writer.open_run("hello", 1).await;
        let new = Checkpoint { entries: assistant_text("half", 2), ..Checkpoint::default() };
        writer.checkpoint(&opened.run, new, vec![], 2).await.expect("a checkpoint");
        if cancelled {
            writer.cancel(3).await;
            assert_eq!(writer.view().await.run.expect("open").cancel, Some(Cancel::User));
        }
        writer.cut_off(opened.run.id, cut, 4).await.expect("cut off");
        let session = writer.session().await;
        assert_eq!((session.status, session.state, session.owner), (status, Activity::Idle, None));
        assert!(session.fence > opened.run.fence);
        let turns = store.turns(writer.head().await, 1).await.expect("turns");
        assert_eq!(turns[0].header.status, turn_status, "{cut:?}");
        let said = turns[0].messages().expect("readable").expect("not purged");
        assert_eq!(said[1].content, [Part::Text { text: "half".to_owned() }]);
    }
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_message_interrupts_a_run_of_another_handle(backend: &impl Backend) {
    // R154
    let (runs, sends) = (backend.open().await, backend.open().await);
    let writer = SessionWriter::create(&runs, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let sender = writer.through(&sends);
    sender.send(submission_in(Mode::Queue, "later"), 2).await;
    sender.send(submission_in(Mode::Interrupt, "stop that"), 3).await;
    let told = writer.checkpoint(&opened.run, Checkpoint::default(), vec![], 4).await;
    assert_eq!(told.expect("a checkpoint").reply, Some(Cancel::Message));
    let (end, body) = ended(&opened, "half", 5);
    let interrupted = EndedRun { outcome: Outcome::Interrupted, ..end };
    writer.end_run_as(interrupted, body, 5).await.expect("ended");
    let next = sender.deliver_run(6).await;
    assert_eq!(next.items.iter().map(Item::text).collect::<Vec<_>>(), ["stop that"]);
    assert_eq!(writer.view().await.inbox.len(), 2, "the backlog is kept");
}

fn agent(id: &str, synced_turn: Option<TurnId>, clean: bool) -> AgentSession {
    AgentSession {
        provider_id: PROVIDER.to_owned(),
        host: "here".to_owned(),
        working_dir: Some("/w".to_owned()),
        id: id.to_owned(),
        synced_turn,
        clean,
    }
}

pub(crate) async fn an_agent_session_follows_the_turns_it_has_seen(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let id = writer.id().await;
    let found = async |host: &str| store.agent_session(id, PROVIDER, host).await.expect("a read");
    assert_eq!(found("here").await, None);
    let opened = writer.open_run("hello", 1).await;
    let dirty = agent("agent 1", None, false);
    let new = Checkpoint { agent: Some(dirty.clone()), ..Checkpoint::default() };
    writer.checkpoint(&opened.run, new, vec![], 2).await.expect("a checkpoint");
    assert_eq!(found("here").await, Some(dirty.clone()));
    let (end, body) = ended(&opened, "answer", 3);
    let end = EndedRun { agent: Some(dirty), ..end };
    writer.end_run_as(end, body, 3).await.expect("ended");
    let clean = agent("agent 1", Some(writer.head().await), true);
    assert_eq!(found("here").await, Some(clean.clone()));
    assert_eq!(found("there").await, None);
    let other = store.agent_session(id, "another", "here").await.expect("a read");
    assert_eq!(other, None);

    // Two sessions never share an agent's conversation.
    let second = SessionWriter::create(&store, "second", 4).await;
    let opened = second.open_run("hello", 5).await;
    let before = Snapshot::of(&store).await;
    let taken = Checkpoint {
        agent: Some(agent("agent 1", None, false)),
        entries: assistant_text("half", 6),
        ..Checkpoint::default()
    };
    let refused = second.checkpoint(&opened.run, taken, vec![], 6).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(Snapshot::of(&store).await, before);
    assert_eq!(found("here").await, Some(clean));
}

pub(crate) async fn a_run_compacts_its_context_under_the_head_it_saw(backend: &impl Backend) {
    // R150, R174, R175
    use ctx_core::compaction::By;
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let first = writer.exchange("one", "answer", 1).await;
    let second = writer.exchange("two", "answer", 2).await;
    let opened = writer.open_run("three", 3).await;
    for phase in [Phase::Streaming, Phase::Compacting] {
        let new = Checkpoint { phase: Some(phase), ..Checkpoint::default() };
        writer.checkpoint(&opened.run, new, vec![], 4).await.expect("a checkpoint");
    }
    let row = compaction(Some(first), Some(second), By::Ctx);
    is_stale(writer.compact(&opened, Some(first), row.clone(), 5).await);
    let added = writer.compact(&opened, Some(second), row.clone(), 6).await.expect("compacted");
    let summary = added.reply.turn;
    assert_eq!(writer.view().await.run.expect("open").phase, Phase::Streaming);
    let turns = store.turns(summary, 9).await.expect("turns");
    assert_eq!(turns.iter().map(|turn| turn.id).collect::<Vec<_>>(), [summary, second, first]);
    assert_eq!((&turns[0].compaction, turns[0].header.kind), (&Some(row), turn::Kind::Compaction));
    let last = writer.end_run(&opened, "answer", 7).await;
    let context = store.context(writer.id().await, last, usize::MAX).await.expect("a context");
    let ids: Vec<TurnId> = context.turns.iter().map(|turn| turn.id).collect();
    assert_eq!(ids, [last, summary, second]);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_retry_runs_the_last_message_under_its_parent(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let first = writer.exchange("one", "answer", 1).await;
    let opened = writer.open_run("two", 2).await;
    let items = opened.items.clone();
    let second = writer.end_run(&opened, "a bad answer", 3).await;
    let retried = writer
        .decide(4, vec![], move |view, invocation| {
            let run_host = crate::harness::run_host(NODE);
            decide::retry(
                view,
                second,
                HeadBefore { parent: Some(first), turns: 1 },
                &items,
                &run_host,
                invocation,
            )
        })
        .await
        .expect("retried");
    let opened: Box<OpenedRun> = retried.reply;
    assert_eq!((opened.head, writer.session().await.head), (Some(first), Some(first)));
    let better = writer.end_run(&opened, "a better answer", 5).await;
    let tree = store.tree(writer.id().await, 9).await.expect("a tree");
    assert_eq!(
        tree.iter().map(|turn| (turn.id, turn.parent)).collect::<Vec<_>>(),
        [(first, None), (second, Some(first)), (better, Some(first))]
    );
    let moves = store.head_moves(writer.id().await, None, 9).await.expect("moves");
    assert_eq!(
        moves.iter().map(|moved| moved.turn).collect::<Vec<_>>(),
        [Some(better), Some(first), Some(second), Some(first)]
    );
}

pub(crate) async fn events_of_a_run_reach_the_feed_in_order(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let run_id = opened.run.id;
    let started =
        Event::ToolCallStarted { run_id, tool_call_id: "c".to_owned(), name: "grep".to_owned() };
    let plan = Event::PlanUpdated { run_id };
    let new = Checkpoint { events: vec![started, plan], ..Checkpoint::default() };
    writer.checkpoint(&opened.run, new, vec![], 2).await.expect("a checkpoint");
    let turn = writer.end_run(&opened, "answer", 3).await;
    let feed = store.feed(writer.id().await, 0, 100).await.expect("a feed");
    let types: Vec<&str> = feed.iter().map(|told| told.event.name()).collect();
    let expected = [
        "session.created",
        "run.started",
        "tool_call.started",
        "plan.updated",
        "message.completed",
        "turn.committed",
        "run.completed",
    ];
    assert_eq!(types, expected);
    assert_eq!(feed[1].event.json()["run_id"], run_id.to_string());
    assert_eq!(feed[5].event.json()["turn"], turn.to_string());
    let seqs: Vec<u64> = feed.iter().map(|told| told.seq).collect();
    assert_eq!(seqs, (1..=expected.len() as u64).collect::<Vec<_>>());
}

pub(crate) async fn a_failed_run_leaves_its_error_in_the_turn(backend: &impl Backend) {
    // R222, R228
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let (end, body) = ended(&opened, "an error", 2);
    let failed = EndedRun { outcome: Outcome::Failed, code: Some("overloaded".to_owned()), ..end };
    writer.end_run_as(failed, body, 2).await.expect("ended");
    let (run, _) = store.run(opened.run.id).await.expect("a read").expect("a run");
    assert_eq!(run.outcome, Some(Outcome::Failed));
    let feed = store.feed(writer.id().await, 0, 100).await.expect("a feed");
    assert_eq!(feed.last().expect("an event").event.json()["code"], "overloaded");
    writer.exchange("again", "answer", 3).await;
    assert_eq!(writer.session().await.turn_count, 2);
}

pub(crate) async fn work_that_a_run_observes_is_stored_with_its_blobs(backend: &impl Backend) {
    let store = backend.open().await;
    let mut new = crate::harness::new_session("main", 0);
    new.working_dir = Some("/w".to_owned());
    let writer = SessionWriter::create_as(&store, new).await;
    let opened = writer.open_run("add a parser for the config", 1).await;
    let task = writer.view().await.task.expect("a task");
    let (entry, objects) = crate::harness::file("parser.rs", text_of(1, 9000));
    let new = Checkpoint { observed: vec![entry], ..Checkpoint::default() };
    writer.checkpoint(&opened.run, new, objects, 2).await.expect("a checkpoint");
    writer.end_run(&opened, "The parser is done.", 3).await;
    let chain = writer.chain(task.id).await;
    assert_eq!(chain.len(), 3, "the start, the file and the end of the work");
    assert_eq!(store.counts().await.blobs, 1);
    let files = store.files_written(writer.id().await, at(0), 9).await.expect("files");
    assert_eq!(files, ["parser.rs"]);
    let state = writer.view().await.task.expect("open").state;
    assert_eq!(state.name().name(), "pending_complete");
}
