//! Refusals: a refused rule changes nothing, alone and beside other writes.

use ctx_core::decide::{
    self, Batch, Change, Decided, Decision, HeadBefore, Invocation, SessionView,
};
use ctx_core::id::TurnId;
use ctx_core::prompt::Choice;
use ctx_core::refusal::Refusal;
use ctx_core::session::Status;
use ctx_core::task::State;
use ctx_store::Error;
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{
    NODE, SessionWriter, Snapshot, StoreHandle, note, run_host, submission, turn, verify,
    with_ancestor,
};

/// The head before the first turn.
const FIRST: HeadBefore = HeadBefore { parent: None, turns: 1 };

type Rule = Box<dyn Fn(&SessionView, &Invocation) -> Decided<()> + Send>;

/// A rule whose reply is dropped, so that rules of different replies fit one table.
fn rule<R>(rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static) -> Rule {
    Box::new(move |view, invocation| {
        let (batch, _) = rule(view, invocation)?.into_parts();
        Ok(Decision::new(batch, ()))
    })
}

/// Rules that refuse a session with an open task and two turns, each with its code.
fn refused_rules(first: TurnId, elsewhere: TurnId) -> Vec<(&'static str, Rule)> {
    vec![
        ("task_open", rule(|view, invocation| decide::start(view, "another", invocation))),
        ("invalid_transition", rule(decide::confirm)),
        ("invalid_transition", rule(|view, invocation| decide::answer(view, "yes", invocation))),
        ("invalid_transition", rule(|view, invocation| decide::more(view, "more", invocation))),
        ("bad_text", rule(|view, invocation| decide::ask(view, " ", invocation))),
        ("bad_text", rule(|view, invocation| decide::done(view, "a\0b", invocation))),
        (
            "no_prompt",
            rule(|view, invocation| {
                decide::choose(view, Choice::Continue, &decide::Settings::default(), invocation)
            }),
        ),
        (
            "not_observable",
            rule(|view, invocation| {
                let entry = ctx_core::step::Entry::Task { description: "no".to_owned() };
                decide::observe(view, &[note("before"), entry], invocation)
            }),
        ),
        ("nothing_to_reopen", rule(|view, invocation| decide::reopen(view, None, invocation))),
        ("not_pinned", rule(move |view, invocation| decide::unpin(view, first, invocation))),
        (
            "too_much_pinned",
            rule(move |view, invocation| decide::pin(view, first, 1000, 10, invocation)),
        ),
        (
            "not_an_ancestor",
            rule(move |view, invocation| decide::pin(view, elsewhere, 1, 100_000, invocation)),
        ),
        (
            "not_an_ancestor",
            rule(move |view, invocation| decide::rewind(view, elsewhere, invocation)),
        ),
        (
            "stale_writer",
            rule(move |view, _| decide::append_turn(view, Some(first), &turn("late", 9).0)),
        ),
        (
            "stale_writer",
            rule(move |view, invocation| {
                decide::retry(view, first, FIRST, &[], &run_host(NODE), invocation)
            }),
        ),
        (
            "nothing_to_retry",
            rule(|view, invocation| {
                let head = view.session.head.expect("a head");
                decide::retry(view, head, FIRST, &[], &run_host(NODE), invocation)
            }),
        ),
        (
            "no_suspension",
            rule(|view, invocation| {
                let unknown = ctx_core::id::SuspensionId(ulid::Ulid(1));
                decide::resume(
                    view,
                    unknown,
                    &crate::harness::choice("x"),
                    &run_host(NODE),
                    invocation,
                )
            }),
        ),
        (
            "no_item",
            rule(|view, invocation| {
                decide::edit_item(view, ctx_core::id::MessageId(ulid::Ulid(1)), "x", invocation)
            }),
        ),
        (
            "unknown_provider",
            rule(|view, invocation| {
                let provider_id = Some(Some("unknown".to_owned()));
                let patch = decide::Patch { provider_id, ..decide::Patch::default() };
                decide::update_session(view, &patch, &run_host(NODE).catalog, invocation)
            }),
        ),
    ]
}

async fn with_work(store: &StoreHandle) -> (SessionWriter, TurnId, TurnId) {
    let elsewhere = SessionWriter::create(store, "elsewhere", 0).await.say("elsewhere", 1).await;
    let writer = SessionWriter::create(store, "main", 0).await;
    let first = writer.say("first", 1).await;
    writer.say("second", 2).await;
    writer.start("a task", 3).await;
    writer.observe(vec![note("worked")], vec![], 4).await.expect("observed");
    (writer, first, elsewhere)
}

pub(crate) async fn every_refused_rule_leaves_the_store_as_it_was(backend: &impl Backend) {
    // R152
    let store = backend.open().await;
    let (writer, first, elsewhere) = with_work(&store).await;
    let before = Snapshot::of(&store).await;
    for (code, rule) in refused_rules(first, elsewhere) {
        let refused = writer.decide_on(with_ancestor(first), 9, vec![], rule).await;
        match refused {
            Err(Error::Refused(refusal)) => assert_eq!(refusal.code(), code),
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(Snapshot::of(&store).await, before, "{code}");
    }
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_session_with_a_damaged_history_refuses_messages(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.put_session(|session| session.status = Status::Error, 1).await;
    let before = Snapshot::of(&store).await;
    for refused in [
        writer.submit(submission("hello"), 2).await.map(drop),
        writer.archive(2).await.map(drop),
        writer.decide(2, vec![], decide::unarchive).await.map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Refused(Refusal::SessionDamaged))), "{refused:?}");
    }
    assert_eq!(Snapshot::of(&store).await, before);
    assert_eq!(store.hidden().await.expect("hidden").error, 1);
}

pub(crate) async fn concurrent_writes_of_which_some_are_refused_keep_the_others(
    backend: &impl Backend,
) {
    let (one, two) = (backend.open().await, backend.open().await);
    let (writer, first, elsewhere) = with_work(&one).await;
    let task = writer.view().await.task.expect("open").id;
    let mut writes = JoinSet::new();
    for n in 0..96_usize {
        let writer = writer.through(if n % 2 == 0 { &one } else { &two });
        writes.spawn(async move {
            let rules = refused_rules(first, elsewhere);
            let count = rules.len();
            if n % 3 == 0 {
                let (_, rule) = rules.into_iter().nth(n / 3 % count).expect("a rule");
                let refused = writer.decide_on(with_ancestor(first), 9, vec![], rule).await;
                assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
            } else {
                writer.note(&format!("note {n}"), 9).await;
            }
        });
    }
    while let Some(joined) = writes.join_next().await {
        joined.expect("no panic");
    }
    let chain = writer.chain(task).await;
    assert_eq!(chain.len(), 2 + 64, "every note, and nothing of the refused rules");
    assert_eq!(writer.session().await.turn_count, 2);
    assert_eq!(verify(&one).await.findings, []);
}

pub(crate) async fn a_failing_change_undoes_the_changes_before_it(backend: &impl Backend) {
    // A rule refuses before anything is written. A change that refers to a turn that is not stored
    // fails after the rule decided; the changes before it must not be stored with it.
    let store = backend.open().await;
    let (writer, _, elsewhere) = with_work(&store).await;
    let unknown = TurnId(ctx_core::id::ObjectId::of(&[b"unknown"]));
    let half = |text: String| {
        move |view: &SessionView, invocation: &Invocation| {
            let (batch, task) = decide::ask(view, &text, invocation)?.into_parts();
            let mut changes = batch.changes.clone();
            changes.push(Change::Pin { turn: unknown, tokens: 1 });
            Ok(Decision::new(Batch { changes, ..batch }, task))
        }
    };
    let before = Snapshot::of(&store).await;
    let failed = writer.decide(9, vec![], half("alone?".to_owned())).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "turn", .. })), "{failed:?}");
    assert_eq!(Snapshot::of(&store).await, before);

    let mut writes = JoinSet::new();
    for n in 0..32 {
        let (writer, half) = (writer.clone(), half(format!("question {n}")));
        writes.spawn(async move {
            match n % 8 {
                0 => {
                    let failed = writer.decide(9, vec![], half).await;
                    assert!(matches!(failed, Err(Error::NotFound { .. })), "{failed:?}");
                }
                4 => {
                    let refused = writer.pin(elsewhere, 1, 9).await;
                    assert!(
                        matches!(refused, Err(Error::Refused(Refusal::NotAnAncestor { .. }))),
                        "{refused:?}"
                    );
                }
                _ => writer.note(&format!("note {n}"), 9).await,
            }
        });
    }
    while let Some(joined) = writes.join_next().await {
        joined.expect("no panic");
    }
    let view = writer.view().await;
    let task = view.task.expect("open");
    assert_eq!((task.state, view.pins), (State::Running, vec![]), "no question and no pin");
    assert_eq!(writer.chain(task.id).await.len(), 2 + 24);
    assert_eq!(verify(&store).await.findings, []);
}
