//! Workers: when a worker is finished, and how its manager receives its report.

use ulid::Ulid;

use super::model::{Model, completed, worker};
use crate::decide::{
    self, Accepted, Change, Checkpoint, ClassifyMode, EndedRun, ProviderCatalog, RunHost,
    RunPolicy, Submit, SubmitTarget, Suspending, WorkerReport,
};
use crate::id::{MessageId, NodeId, ObjectId, SuspensionId, TurnId};
use crate::inbox::Overrides;
use crate::message::{Part, Source};
use crate::session::{Activity, Delivery, Origin, Parent};
use crate::suspension::{Answer, Awaited, AwaitedCall, CallResult, Kind, Suspension};
use crate::task::StateName;
use crate::turn::{About, Ready};
use crate::worker::{End, WorkerState};

fn run_host() -> RunHost {
    let catalog = ProviderCatalog {
        default: "main".to_owned(),
        providers: [("main".to_owned(), decide::ProviderCapabilities::default())].into(),
        personas: Vec::new(),
    };
    RunHost { node: NodeId(Ulid(3)), catalog }
}

/// A session that another one started; with `parent` false, one that a person started.
fn manager(is_worker: bool) -> Model {
    let mut model = Model::empty();
    model.view.session.track_tasks = true;
    if is_worker {
        model.view.session.origin = Origin::Subagent;
        let session = "boss".to_owned();
        model.view.session.parent = Some(Parent { session, turn: None, tool_call: None });
    }
    model
}

fn order(model: &mut Model, text: &str, from_worker: Option<&str>) {
    let submit = Submit {
        message_id: MessageId(Ulid(model.now.0 as u128 + 5)),
        content: vec![Part::Text { text: text.to_owned() }],
        mode: None,
        source: Source::Agent,
        overrides: Overrides {
            from_worker: from_worker.map(str::to_owned),
            ..Overrides::default()
        },
        classify_mode: ClassifyMode::Immediate,
        run_policy: RunPolicy::StartRun,
    };
    let (settings, invocation) = (model.settings.clone(), model.invocation());
    let (to, host) = (SubmitTarget::Existing, run_host());
    let decision = decide::submit(Some(&model.view), &to, &submit, &host, &settings, &invocation);
    model.apply(decision.expect("accepted"));
}

/// Ends the open run with these last words.
fn end(model: &mut Model, text: &str) {
    let run = model.view.run.clone().expect("a run");
    let (ready, _) = Ready::new(About::at(model.now), Vec::new());
    let ended = EndedRun { last_text: Some(text.to_owned()), ..completed(&run, ready) };
    let decision = decide::end_run(&model.view, &ended, &model.invocation()).expect("ended");
    model.apply(decision);
}

fn turn(n: u8) -> TurnId {
    TurnId(ObjectId::of(&[&[n]]))
}

/// A worker that has ended its run with the turn `n` and was not reported.
fn ended(n: u8) -> WorkerState {
    WorkerState { unreported: true, head: Some(turn(n)), ..worker(u128::from(n), Activity::Idle) }
}

fn report(n: u8, end: End) -> WorkerReport {
    let WorkerState { id, label, .. } = ended(n);
    WorkerReport { worker: id, label, head: turn(n), end, text: format!("report {n}") }
}

fn collect(model: &mut Model, reports: &[WorkerReport]) -> Option<Accepted> {
    let (settings, invocation) = (model.settings.clone(), model.invocation());
    let (message, host) = (MessageId(Ulid(99)), run_host());
    let decision =
        decide::collect_reports(&model.view, reports, message, &host, &settings, &invocation)
            .expect("decided");
    let reply = decision.reply.clone();
    model.apply(decision);
    reply
}

#[test]
fn a_worker_is_finished_when_its_own_workers_are() {
    // R190
    let asking = WorkerState { awaits_answer: true, ..worker(1, Activity::Idle) };
    let messages = WorkerState { has_messages: true, ..worker(1, Activity::Idle) };
    let (done, asks) = ("I am done.", "I am done.\n\nShall I paint it?");
    use StateName::{AwaitingUser, Running};
    for (workers, text, state) in [
        (vec![], done, None),
        (vec![], asks, Some(AwaitingUser)),
        (vec![worker(1, Activity::Running)], done, Some(Running)),
        (vec![worker(1, Activity::Running)], asks, Some(Running)),
        (vec![worker(1, Activity::Suspended)], done, Some(Running)),
        (vec![messages], done, Some(Running)),
        (vec![ended(1)], done, Some(Running)),
        (vec![asking.clone()], done, Some(Running)),
        (vec![asking], asks, Some(AwaitingUser)),
    ] {
        for finish in [false, true] {
            let mut model = manager(true);
            order(&mut model, "build the hull", None);
            if finish {
                model.done("all done").expect("pending");
            }
            model.view.workers = workers.clone();
            end(&mut model, text);
            let found = model.view.task.as_ref().map(|task| task.state.name());
            // `finish_task` has the last word over a text that asks.
            let expected = match state {
                Some(AwaitingUser) if finish => (!workers.is_empty()).then_some(Running),
                state => state,
            };
            assert_eq!(found, expected, "{workers:?} {text} {finish}");
            assert_eq!(model.commits.len(), usize::from(expected.is_none()));
            assert!(model.view.session.unreported, "the end is reported, now or later");
        }
    }
}

#[test]
fn a_message_of_a_worker_is_no_order() {
    // R189: a worker that is a manager has orders from above and reports from below.
    for state in [None, Some(StateName::Running), Some(StateName::AwaitingUser)] {
        let mut model = manager(true);
        if state.is_some() {
            order(&mut model, "build the hull", None);
            end_state(&mut model, state);
        }
        let before = model.view.task.clone();
        order(&mut model, "sand the deck", Some("worker:below"));
        assert_eq!(model.view.session.state, Activity::Running);
        assert_eq!(model.view.task, before, "{state:?}");
        end(&mut model, "Noted.");
        assert_eq!(model.commits.len(), usize::from(state == Some(StateName::Running)));
    }
    let mut model = manager(true);
    order(&mut model, "sand the deck", None);
    assert_eq!(model.task().description, "sand the deck", "an order is a task");
}

/// Ends the open run so that the task is in this state.
fn end_state(model: &mut Model, state: Option<StateName>) {
    if state == Some(StateName::AwaitingUser) {
        end(model, "Oak or pine?");
    } else {
        model.view.workers = vec![worker(1, Activity::Running)];
        end(model, "I wait.");
        model.view.workers.clear();
    }
}

#[test]
fn reports_are_collected_into_one_message_of_an_idle_manager() {
    // R190
    for is_worker in [false, true] {
        let mut model = manager(is_worker);
        model.view.workers = vec![ended(1), ended(2)];
        let reports = [report(1, End::Completed), report(2, End::Failed)];
        let accepted = collect(&mut model, &reports).expect("sent");
        let items = accepted.opened_run.expect("a run").items;
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].text(), "report 1\n\n---\n\nreport 2");
        assert_eq!(items[0].source, Source::Agent);
        assert!(model.view.workers.iter().all(|worker| !worker.unreported));
        assert_eq!(model.view.task, None, "a report is no task");
        end(&mut model, "All done.");
        assert_eq!((model.view.task.clone(), model.commits.len()), (None, 0));
        assert!(collect(&mut model, &reports).is_none(), "once");
    }
}

#[test]
fn reports_wait_for_a_busy_manager_and_results_for_the_last_worker() {
    let running = worker(3, Activity::Running);
    let moved = WorkerState { head: Some(turn(9)), ..ended(1) };
    for (is_worker, end, workers, sent) in [
        (true, End::Completed, vec![ended(1)], true),
        (true, End::Completed, vec![ended(1), running.clone()], false),
        (true, End::Idle, vec![ended(1), ended(2)], false),
        (true, End::Asks, vec![ended(1), running.clone()], true),
        (true, End::Failed, vec![ended(1), running.clone()], true),
        (false, End::Completed, vec![ended(1), running], true),
        (false, End::Completed, vec![moved], false),
        (false, End::Completed, vec![], false),
    ] {
        let mut model = manager(is_worker);
        model.view.workers = workers.clone();
        let accepted = collect(&mut model, &[report(1, end)]);
        assert_eq!(accepted.is_some(), sent, "{is_worker} {end:?} {workers:?}");
    }
    let mut model = manager(true);
    order(&mut model, "build the hull", None);
    model.view.workers = vec![ended(1)];
    assert!(collect(&mut model, &[report(1, End::Asks)]).is_none(), "the manager runs");
    assert!(model.view.workers[0].unreported);
}

#[test]
fn reports_that_wait_in_the_inbox_open_no_task() {
    let mut model = manager(true);
    model.view.session.delivery = Delivery::Hold;
    model.view.workers = vec![ended(1)];
    let accepted = collect(&mut model, &[report(1, End::Completed)]).expect("sent");
    assert!(accepted.opened_run.is_none());
    model.view.session.delivery = Delivery::Open;
    let (settings, invocation) = (model.settings.clone(), model.invocation());
    let none = std::collections::HashMap::new();
    let decision = decide::deliver(&model.view, &none, &run_host(), &settings, &invocation);
    model.apply(decision.expect("delivered"));
    assert_eq!((model.view.session.state, &model.view.task), (Activity::Running, &None));
}

#[test]
fn a_result_that_the_manager_has_received_by_a_tool_is_not_reported_again() {
    let mut model = manager(true);
    order(&mut model, "build the hull", None);
    model.view.workers = vec![ended(1)];
    let run = model.view.run.clone().expect("a run");
    let new = Checkpoint { reported: vec![(ended(1).id, turn(1))], ..Checkpoint::default() };
    let decision = decide::checkpoint(&model.view, run.id, run.fence, &new, &model.invocation())
        .expect("stored");
    let mark = Change::MarkReported { worker: ended(1).id, head: turn(1) };
    assert!(decision.changes.contains(&mark));
    model.apply(decision);
    assert!(!model.view.workers[0].is_working());
}

#[test]
fn results_of_client_tools_are_work_with_the_name_of_the_tool() {
    // R83: a task with recorded work is not dropped.
    let mut model = manager(true);
    order(&mut model, "write the file", None);
    assert!(!model.task().has_meaningful_work());
    let run = model.view.run.clone().expect("a run");
    let call = |id: &str| AwaitedCall {
        id: id.to_owned(),
        name: format!("write_{id}"),
        params: serde_json::Value::Null,
    };
    let awaited = Awaited {
        kind: Kind::ToolResult,
        tool_calls: vec![call("a"), call("b")],
        options: Vec::new(),
        question: None,
        provider_state: None,
    };
    let suspending = Suspending { awaited: vec![awaited], ..Suspending::default() };
    let decision =
        decide::suspend(&model.view, run.id, run.fence, &suspending, &model.invocation());
    model.apply(decision.expect("suspended"));
    let result = |id: &str, content: &str, is_error| CallResult {
        tool_call_id: id.to_owned(),
        content: content.to_owned(),
        is_error,
    };
    let Suspension { id, .. } = model.view.suspensions[0].clone();
    let id: SuspensionId = id;
    let results = vec![result("a", "", false), result("b", "no\0 space", true)];
    let answer = Answer { results, ..Answer::default() };
    let decision = decide::resume(&model.view, id, &answer, &run_host(), &model.invocation());
    model.apply(decision.expect("resumed"));
    let task = model.task();
    assert_eq!(task.progress.recent, ["Tool write_a: ok", "Tool write_b: failed: no  space"]);
    assert!(task.has_meaningful_work());
}

#[test]
fn an_answer_before_a_question_is_work_and_a_bare_question_is_not() {
    for (text, works) in [
        ("Oak or pine?", false),
        ("The hull has three cracks: bow, keel and stern.\n\nShall I mend them?", true),
    ] {
        let mut model = manager(true);
        order(&mut model, "look at the hull", None);
        end(&mut model, text);
        let task = model.task();
        assert_eq!(
            (task.state.name(), task.has_meaningful_work()),
            (StateName::AwaitingUser, works)
        );
    }
    for (text, works) in [("I have asked.", false), (&"Three cracks. ".repeat(20), true)] {
        let mut model = manager(true);
        order(&mut model, "look at the hull", None);
        model.ask("Oak or pine?").expect("asked");
        end(&mut model, text);
        assert_eq!(model.task().has_meaningful_work(), works, "{text}");
    }
}

#[test]
fn a_summary_alone_is_work_and_a_dropped_task_leaves_an_event() {
    let mut model = Model::at(Some(StateName::PendingComplete));
    assert_eq!(model.task().progress.work(), 0);
    assert!(model.task().has_meaningful_work(), "an answer in a conversation is work");

    model = Model::at(Some(StateName::Running));
    let task = model.task().id;
    model.settings.on_new_task = decide::OnNewTask::Auto;
    model.message("Write the release notes", crate::intent::Intent::NewTask).expect("replaced");
    assert!(model.commits.is_empty());
    let dropped = decide::Event::TaskUpdated { task, state: StateName::Aborted };
    assert!(model.events.contains(&dropped), "{:?}", model.events);
}
