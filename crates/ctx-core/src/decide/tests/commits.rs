//! What a seal stores: one commit, its type, its message, its range of steps and turns.

use super::model::{Command, CommandResult, Model, TASK, wrote};
use crate::commit::{CommitType, TurnRange};
use crate::id::{ObjectId, TurnId};
use crate::intent::Intent;
use crate::prompt::Choice;
use crate::step::Kind;
use crate::task::State;
use crate::task::StateName::{self, Aborted, AwaitingUser, Interrupted, PendingComplete, Running};
use crate::time::Span;

const OPEN: [StateName; 4] = [Running, AwaitingUser, Interrupted, PendingComplete];

type NextStep = (&'static str, StateName, Command, CommitType, String);

fn fresh_choice(model: &mut Model) -> CommandResult {
    model.message("Now add pooling", Intent::NewTask)?;
    model.choose(Choice::StartFresh)
}

fn decline(model: &mut Model) -> CommandResult {
    model.wait(Span::days(2));
    model.recover()?;
    model.choose(Choice::StartFresh)
}

#[test]
fn every_way_to_a_commit_has_its_type_and_its_message() {
    // R43, R84, R91, R95, R97-R99, R106, R110-R112, R114
    let stale = CommitType::StaleAutoCompact { idle_duration_secs: 8 * 86_400 };
    let replaced = |new_task_summary: &str| CommitType::InterruptedByNewTask {
        new_task_summary: new_task_summary.into(),
    };
    let ways: [NextStep; 13] = [
        ("confirm", PendingComplete, Model::confirm, CommitType::Normal, "Retries 3 times".into()),
        (
            "confirmation",
            PendingComplete,
            |m| m.message("Ship it", Intent::Confirmation),
            CommitType::Normal,
            "Retries 3 times".into(),
        ),
        ("seal", Running, |m| m.seal(None), CommitType::Normal, TASK.into()),
        (
            "seal -m",
            Running,
            |m| m.seal(Some("Retry, then give up")),
            CommitType::Normal,
            "Retry, then give up".into(),
        ),
        ("abort", Running, |m| m.abort(None), CommitType::Abandoned, "Abandoned by user".into()),
        (
            "abandon",
            AwaitingUser,
            |m| m.message("Never mind", Intent::Abandon),
            CommitType::Abandoned,
            "Abandoned by user".into(),
        ),
        (
            "seal of the aborted",
            Aborted,
            |m| m.seal(None),
            CommitType::Abandoned,
            "Abandoned by user".into(),
        ),
        (
            "seal -m of the aborted",
            Aborted,
            |m| m.seal(Some("No")),
            CommitType::Abandoned,
            "No".into(),
        ),
        (
            "late message",
            Running,
            |m| m.wait(Span::days(8)).message("Add pooling", Intent::NewTask),
            stale.clone(),
            format!("Auto-saved: session idle for 8 days: {TASK}"),
        ),
        (
            "clean-up",
            Running,
            |m| m.wait(Span::days(8)).cleanup(Span::days(7)),
            stale.clone(),
            format!("Auto-saved stale session (idle 8 days): {TASK}"),
        ),
        (
            "late recover",
            Running,
            |m| m.wait(Span::days(8)).recover(),
            stale,
            "Session expired".into(),
        ),
        (
            "start fresh",
            Running,
            fresh_choice,
            replaced("Now add pooling"),
            format!("Saved before starting new task: {TASK}"),
        ),
        ("declined", Running, decline, replaced(""), "User chose not to continue".into()),
    ];
    for (name, state, way, commit_type, message) in ways {
        let mut model = Model::at(Some(state));
        let task = model.task().id;
        way(&mut model).expect(name);
        assert_eq!(model.commits.len(), 1, "{name}");
        let commit = model.commit();
        assert_eq!(
            (&commit.commit_type, commit.message.as_str()),
            (&commit_type, message.as_str()),
            "{name}"
        );
        assert_eq!(
            (commit.task, commit.description.as_str(), commit.project.as_str()),
            (task, TASK, "demo"),
            "{name}"
        );
        assert_eq!(commit.created_at, model.now, "{name}");
        let ended = model.ended.last().expect("the task ended");
        assert_eq!(
            (ended.id, ended.commit, ended.ended_at),
            (task, model.commits.last().map(|c| c.id), Some(model.now)),
            "{name}"
        );
    }
}

#[test]
fn a_commit_names_all_the_steps_and_the_newest_is_the_seal() {
    // R12, R114
    let mut model = Model::at(Some(Running));
    model.observe(&[wrote("b.rs"), wrote("a.rs")]).expect("running");
    model.seal(None).expect("open");
    let commit = model.commit();
    let last = model.steps.last().expect("steps");
    assert_eq!((commit.steps.last, commit.steps.count), (last.id, last.seq));
    assert_eq!((last.seq, last.step.kind), (model.steps.len() as u64, Kind::Compact));
    assert_eq!(
        commit.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        ["a.rs", "b.rs"]
    );
}

#[test]
fn the_commit_message_is_the_last_summary_even_after_a_request_for_more() {
    // Design 11: a commit's message is the last summary
    let mut model = Model::at(Some(PendingComplete));
    model.more("And log").expect("pending");
    model.seal(None).expect("running");
    assert_eq!(model.commit().message, "Retries 3 times");
}

#[test]
fn commits_form_one_chain() {
    // R9, R114
    let mut model = Model::empty();
    for n in 0..3 {
        model.start(&format!("Task {n}")).expect("nothing is open");
        model.seal(None).expect("open");
    }
    assert_eq!(model.commits[0].commit.parents, []);
    for pair in model.commits.windows(2) {
        assert_eq!(pair[1].commit.parents, [pair[0].id]);
    }
}

#[test]
fn the_turns_of_the_task_are_in_its_commit_and_not_in_the_next() {
    // R12
    let turn = |n: u8| TurnId(ObjectId::from_bytes([n; 32]));
    let mut model = Model::at(Some(PendingComplete));
    model.view.session.head = Some(turn(9));
    model.view.session.track_tasks = true;
    (model.view.first_turn, model.view.turns_since) = (Some(turn(3)), 4);
    model.confirm().expect("pending");
    assert_eq!(model.commit().turns, Some(TurnRange { first: turn(3), last: turn(9), count: 4 }));
    model.start("The next").expect("nothing is open");
    assert_eq!(model.task().base_turn, model.view.session.head, "after the notice");
    assert_ne!(model.task().base_turn, Some(turn(9)));
}

#[test]
fn an_aborted_task_is_sealed_as_abandoned_by_every_command() {
    // R31, R112: Aborted seals as Abandoned
    let ways: [(&str, Command); 5] = [
        ("seal", |m| m.seal(None)),
        ("abort", |m| m.abort(None)),
        ("message", |m| m.message("Add pooling", Intent::NewTask)),
        ("clean-up", |m| m.wait(Span::days(8)).cleanup(Span::days(7))),
        ("recover", |m| m.wait(Span::days(8)).recover()),
    ];
    let mut wrong = Vec::new();
    for (name, way) in ways {
        let mut model = Model::at(Some(Aborted));
        way(&mut model).expect(name);
        if model.commit().commit_type != CommitType::Abandoned {
            wrong.push(format!("{name}: {:?}", model.commit().commit_type));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_commit_contains_the_last_state_of_the_task() {
    // R113
    for state in OPEN {
        let mut model = Model::at(Some(state));
        let left = model.task().state.clone();
        model.wait(Span::days(8)).cleanup(Span::days(7)).expect("stale");
        assert_eq!(model.commit().state, left);
        let mut model = Model::at(Some(state));
        model.seal(None).expect("open");
        assert_eq!(model.commit().state, State::Complete);
    }
}

#[test]
fn a_retried_seal_makes_the_same_commit() {
    // R57, R114: the decision depends on its input only, so a retry after a crash gives the same id
    let model = Model::at(Some(PendingComplete));
    let (mut once, mut again) = (model.clone(), model);
    once.confirm().expect("pending");
    again.confirm().expect("pending");
    assert_eq!(once.commits[0].id, again.commits[0].id);
    assert_eq!(once.confirm(), Err(crate::Refusal::NoTask), "and it cannot be sealed twice");
}

#[test]
fn another_sessions_commit_becomes_the_parent_and_not_the_base() {
    // R49, R114: a project has one chain of commits, and a task has one base commit
    let mut model = Model::at(Some(Running));
    let elsewhere = crate::id::CommitId(ObjectId::of(&[b"sealed in another session"]));
    model.view.project_head = Some(elsewhere);
    model.observe(&[wrote("a.rs")]).expect("running");
    assert_eq!((model.task().base, model.last_step().base), (None, None));
    model.seal(None).expect("open");
    assert_eq!(model.commit().parents, [elsewhere]);
    model.start("The next").expect("nothing is open");
    assert_eq!(model.task().base, model.commits.last().map(|record| record.id));
}
