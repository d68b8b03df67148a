//! The example of the requirements, five turns long, from the first message to the next task.

use super::model::{Model, note, wrote};
use crate::commit::CommitType;
use crate::decide::Action;
use crate::intent::Intent;
use crate::prompt::Choice;
use crate::task::StateName::{AwaitingUser, PendingComplete, Running};
use crate::time::Span;

#[test]
fn five_turns_make_one_commit_and_open_the_next_task() {
    // R1-R5, R9, R12, R47, R64, R114
    let mut model = Model::empty();
    let first =
        model.message("Add retry logic to the HTTP client", Intent::NewTask).expect("turn 1");
    assert_eq!((first.action, model.state()), (Some(Action::Start), Some(Running)));
    model
        .observe(&[note(1, "The client has one call site"), wrote("src/http.rs")])
        .expect("the agent works");
    model.ask("Should I use exponential backoff or fixed intervals?").expect("the agent asks");
    assert_eq!(model.state(), Some(AwaitingUser));
    let task = model.task().id;

    let second = model.message("Exponential", Intent::Response).expect("turn 2");
    assert_eq!((second.action, model.state()), (Some(Action::Respond), Some(Running)));
    model.observe(&[wrote("src/http.rs")]).expect("the agent works");
    model.done("Added exponential backoff with 3 retries").expect("the agent is done");
    assert_eq!(model.state(), Some(PendingComplete));

    let third =
        model.message("Make it 5 retries instead of 3", Intent::Modification).expect("turn 3");
    assert_eq!((third.action, model.state()), (Some(Action::Modify), Some(Running)));
    assert_eq!(model.task().id, task, "a change is no new task");
    model.done("Added exponential backoff with 5 retries").expect("the agent is done");
    assert_eq!(model.commits.len(), 0, "nothing is sealed before the user agrees");

    let fourth = model.message("Perfect, thanks!", Intent::Confirmation).expect("turn 4");
    assert_eq!(
        (fourth.action, model.state(), model.commits.len()),
        (Some(Action::Complete), None, 1)
    );
    let commit = model.commit().clone();
    assert_eq!((commit.task, &commit.commit_type), (task, &CommitType::Normal));
    assert_eq!(commit.message, "Added exponential backoff with 5 retries");
    assert_eq!(commit.steps.count, model.steps.len() as u64);
    assert_eq!(
        model.notes(),
        [
            "The client has one call site",
            "Question for user: Should I use exponential backoff or fixed intervals?",
            "User response: Exponential",
            "User requested continuation: Make it 5 retries instead of 3",
            "User confirmed task complete",
        ]
    );

    let fifth = model.message("Now add connection pooling", Intent::NewTask).expect("turn 5");
    assert_eq!(
        (fifth.action, model.state(), model.commits.len()),
        (Some(Action::Start), Some(Running), 1)
    );
    assert_ne!(model.task().id, task);
    assert_eq!(model.task().description, "Now add connection pooling");
    assert_eq!(model.task().base, model.view.project_head);
}

#[test]
fn a_night_and_a_weekend_do_not_end_the_task() {
    // R2, R3, R6, R11, R89, R96
    let mut model = Model::at(Some(AwaitingUser));
    let task = model.task().id;
    model.wait(Span::hours(15));
    model.message("Exponential", Intent::Response).expect("the next morning");
    assert_eq!((model.task().id, model.state()), (task, Some(Running)));
    model.wait(Span::days(3));
    model.message("continue", Intent::Modification).expect("after the weekend");
    model.choose(Choice::Continue).expect("it was asked");
    assert_eq!((model.task().id, model.commits.len()), (task, 0));
}

#[test]
fn a_failed_attempt_does_not_end_the_task() {
    // R8
    let mut model = Model::at(Some(Running));
    let failed = crate::step::Entry::Command {
        argv: vec!["cargo".into(), "test".into()],
        exit: Some(101),
        output: None,
    };
    model.observe(&[failed]).expect("running");
    let task = model.task().id;
    model.message("try a different approach", Intent::Modification).expect("open");
    model.incorporate().expect("interrupted");
    assert_eq!((model.task().id, model.state(), model.commits.len()), (task, Some(Running), 0));
}
