//! Imported sessions: complete, under a label of their own, with the tasks that can be added.

use ulid::Ulid;

use super::model::{Model, START, TASK, session};
use crate::bundle::{TaskEnd, TaskImport};
use crate::commit::Commit;
use crate::decide::{
    self, Change, ClassifyMode, CommitRecord, Event, Import, ProviderCatalog, RunHost, RunPolicy,
    SessionToImport, SessionView, Submit, SubmitTarget,
};
use crate::id::{CommitId, MessageId, NodeId, ObjectId, SessionId, TurnId};
use crate::inbox::Overrides;
use crate::message::{Part, Source};
use crate::refusal::Refusal;
use crate::session::{Activity, New, Origin};
use crate::turn::{About, Ready, Record};

fn turns(count: usize) -> Vec<Record> {
    let mut turns: Vec<Record> = Vec::new();
    for _ in 0..count {
        let (ready, _) = Ready::new(About::at(START), Vec::new());
        turns.push(ready.with_parent(turns.last().map(|turn| turn.id)));
    }
    turns
}

fn adopt(expected: Option<TurnId>, turns: Vec<Record>) -> SessionToImport {
    let new = New::idle(SessionId(Ulid(8)), "main".into(), "demo".into(), Origin::Import, START);
    SessionToImport {
        new,
        options: [("mode".to_owned(), "careful".to_owned())].into(),
        expected,
        turns,
    }
}

#[test]
fn a_session_is_imported_with_all_its_turns_or_not_at_all() {
    let adopt = adopt(None, turns(3));
    let decision = decide::import_session(None, &adopt).expect("the label is free");
    let [Change::CreateSession(_), Change::PutSession(put), Change::ImportTurns(adopted)] =
        decision.changes.as_slice()
    else {
        panic!("{:?}", decision.changes)
    };
    assert_eq!((&put.options, adopted), (&adopt.options, &adopt.turns));
    assert_eq!(
        decision.events,
        [Event::SessionCreated, Event::TurnCommitted { turn: Some(adopt.turns[2].id) }]
    );
    let greedy = SessionToImport {
        options: (0..65).map(|n| (n.to_string(), "x".to_owned())).collect(),
        ..adopt.clone()
    };
    assert!(matches!(decide::import_session(None, &greedy), Err(Refusal::TooMany { .. })));
    assert_eq!(
        decide::import_session(Some(&SessionView::bare(session())), &adopt),
        Err(Refusal::StaleWriter)
    );
}

#[test]
fn a_session_is_extended_only_from_its_expected_head() {
    let all = turns(3);
    let at = |head: Option<TurnId>, state: Activity| {
        let mut view = SessionView::bare(session());
        (view.session.head, view.session.state) = (head, state);
        view
    };
    let (head, rest) = (Some(all[0].id), adopt(Some(all[0].id), all[1..].to_vec()));
    let decision =
        decide::extend_session(&at(head, Activity::Idle), &rest).expect("it stands there");
    assert_eq!(decision.changes, [Change::ImportTurns(all[1..].to_vec())]);
    assert_eq!(
        decide::extend_session(&at(Some(all[1].id), Activity::Idle), &rest),
        Err(Refusal::StaleWriter)
    );
    for state in [Activity::Running, Activity::Suspended] {
        assert!(matches!(
            decide::extend_session(&at(head, state), &rest),
            Err(Refusal::Busy { .. })
        ));
    }
}

/// A task as it was sealed in another store.
fn sealed() -> (TaskImport, CommitRecord) {
    let mut there = Model::empty();
    there.start(TASK).expect("no task is open");
    there.seal(Some("done")).expect("a task is open");
    let (task, commit) = (
        there.ended.last().expect("it ended").clone(),
        there.commits.last().expect("a commit").clone(),
    );
    let end = TaskEnd::of(&task);
    let import = Import { bundle: end.task.clone(), steps: there.steps };
    (TaskImport { end, import, commit: Some(commit.clone()) }, commit)
}

#[test]
fn a_commit_is_imported_only_if_its_parent_is_the_newest_here() {
    let (task, commit) = sealed();
    let view = SessionView::bare(session());
    let taken = |view: &SessionView| {
        let decision = decide::import_task(view, &task).expect("never refused");
        let commits = decision
            .changes
            .iter()
            .filter(|change| matches!(change, Change::AppendCommit(_)))
            .count();
        (commits, decision.reply.map(|task| (task.ended_at.is_some(), task.commit)))
    };
    assert_eq!(taken(&view), (1, Some((true, Some(commit.id)))));
    let elsewhere =
        SessionView { project_head: Some(CommitId(ObjectId::of(&[b"another"]))), ..view };
    assert_eq!(taken(&elsewhere), (0, Some((true, None))), "the line of commits here is not bent");
}

#[test]
fn a_moved_commit_follows_the_newest_one_of_the_project_here() {
    let (task, commit) = sealed();
    let newest = CommitId(ObjectId::of(&[b"another"]));
    let mut view = SessionView { project_head: Some(newest), ..SessionView::bare(session()) };
    view.session.project = "another project".to_owned();
    let decision = decide::move_task(&view, &task).expect("never refused");
    let stored = decision.changes.iter().find_map(|change| match change {
        Change::AppendCommit(record) => Some(record),
        _ => None,
    });
    let stored = stored.expect("the commit");
    let expected = Commit {
        parents: vec![newest],
        project: "another project".to_owned(),
        session: view.session.id,
        ..commit.commit
    };
    assert_eq!(stored.commit, expected);
    assert_eq!((stored.id.0, &stored.object), (stored.object.id(), &expected.encode()));
    assert_eq!(decision.reply.and_then(|task| task.commit), Some(stored.id));
}

#[test]
fn an_imported_task_never_replaces_an_open_one() {
    let (task, _) = sealed();
    let mut busy = Model::empty();
    busy.start("something else").expect("no task is open");
    let decision = decide::import_task(&busy.view, &task).expect("never refused");
    assert_eq!((decision.changes.len(), decision.reply), (0, None));
}

#[test]
fn a_task_that_is_open_here_and_ended_there_ends_here() {
    let (task, commit) = sealed();
    let mut here = Model::empty();
    here.start(TASK).expect("no task is open");
    let first = task.import.steps.first().expect("a step").clone();
    let mut open = here.task().clone();
    (open.id, open.head, open.steps) = (task.end.task.task, first.id, 1);
    let view = SessionView { task: Some(open.clone()), known_task: Some(open), ..here.view };
    let decision = decide::import_task(&view, &task).expect("never refused");
    let steps =
        decision.changes.iter().filter(|change| matches!(change, Change::AppendStep(_))).count();
    assert_eq!(steps, task.import.steps.len() - 1, "only those that are new");
    assert_eq!(decision.reply.and_then(|task| task.commit), Some(commit.id));
}

#[test]
fn a_message_that_creates_its_session_is_not_delivered_to_another() {
    let submit = Submit {
        message_id: MessageId(Ulid(1)),
        content: vec![Part::Text { text: "hello".into() }],
        mode: None,
        source: Source::Human,
        overrides: Overrides::default(),
        classify_mode: ClassifyMode::Immediate,
        run_policy: RunPolicy::QueueOnly,
    };
    let run_host = RunHost { catalog: ProviderCatalog::default(), node: NodeId(Ulid(1)) };
    let new =
        Box::new(New::idle(SessionId(Ulid(8)), "main".into(), "demo".into(), Origin::Api, START));
    let (found, model) = (SessionView::bare(session()), Model::empty());
    let send = |view: Option<&SessionView>, to: &SubmitTarget| {
        decide::submit(view, to, &submit, &run_host, &model.settings, &model.invocation())
    };
    assert_eq!(
        send(Some(&found), &SubmitTarget::New(new.clone())),
        Err(Refusal::LabelInUse { label: "main".into() })
    );
    assert_eq!(send(None, &SubmitTarget::Existing), Err(Refusal::NoSession));
    let made = |decided: decide::Decided<decide::Accepted>| {
        decided
            .expect("taken")
            .changes
            .iter()
            .any(|change| matches!(change, Change::CreateSession(_)))
    };
    assert!(
        made(send(None, &SubmitTarget::New(new.clone())))
            && made(send(None, &SubmitTarget::GetOrCreate(new.clone())))
    );
    assert!(
        !made(send(Some(&found), &SubmitTarget::GetOrCreate(new)))
            && !made(send(Some(&found), &SubmitTarget::Existing))
    );
}
