//! Every command in every state: the state after it, or how it is refused.

use super::model::{Command, CommandResult, Model, TASK, wrote};
use crate::prompt::Choice;
use crate::refusal::Refusal;
use crate::task::StateName::{
    self, Aborted, AwaitingUser, Complete, Interrupted, PendingComplete, Running,
};
use crate::task::{InvalidTransition, State};
use crate::time::Span;

/// No task, and the six states, in the order of the tables' columns.
const COLUMNS: [Option<StateName>; 7] = [
    None,
    Some(Running),
    Some(AwaitingUser),
    Some(Interrupted),
    Some(PendingComplete),
    Some(Complete),
    Some(Aborted),
];

/// The effect of a command on a task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// The task is open and in this state.
    In(StateName),
    /// The task is unchanged.
    Same,
    /// The task was sealed, with a commit of this type.
    Sealed(&'static str),
    /// The table has no transition to this state.
    NoWay(StateName),
    /// No task is open.
    NoTask,
    /// Another task is open.
    TaskOpen,
    /// No question is open.
    NoPrompt,
}
use End::{In, NoPrompt, NoTask, NoWay, Same, Sealed, TaskOpen};

// Short names for the cells of the tables: `NO_RUN` is a refused transition to `RUN`.
const RUN: End = In(Running);
const AWAITING: End = In(AwaitingUser);
const PAUSED: End = In(Interrupted);
const PENDING: End = In(PendingComplete);
const COMPLETE: End = In(Complete);
const ABORTED: End = In(Aborted);
const NO_RUN: End = NoWay(Running);
const NO_AWAITING: End = NoWay(AwaitingUser);
const NO_PAUSED: End = NoWay(Interrupted);
const NO_PENDING: End = NoWay(PendingComplete);
const NO_COMPLETE: End = NoWay(Complete);
const NO_ABORTED: End = NoWay(Aborted);
const NORMAL: End = Sealed("normal");
const ABANDONED: End = Sealed("abandoned");

type Row = (&'static str, Command, [End; 7]);

fn end_of(before: &Model, after: &Model, result: CommandResult) -> End {
    match result {
        Ok(_) if before == after => Same,
        Ok(_) if after.commits.len() > before.commits.len() => {
            Sealed(after.commit().commit_type.name())
        }
        Ok(_) => In(after.state().expect("nothing else takes the task away")),
        Err(Refusal::NoTask) => NoTask,
        Err(Refusal::NoPrompt) => NoPrompt,
        Err(Refusal::TaskOpen { description }) => {
            assert_eq!(description, TASK);
            TaskOpen
        }
        Err(refusal @ (Refusal::InvalidTransition(_) | Refusal::WrongState { .. })) => {
            let InvalidTransition { from, to } =
                refusal.invalid_transition().expect("it names the way");
            assert_eq!(from, before.state(), "a refusal says where the task is");
            NoWay(to.expect("and where it was to go"))
        }
        Err(other) => panic!("no row expects {other}"),
    }
}

/// Runs every row against every column and lists each cell that is wrong.
fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (name, command, expected) in rows {
        for (state, expected) in COLUMNS.into_iter().zip(expected) {
            let before = Model::at(state);
            let mut after = before.clone();
            let result = command(&mut after);
            let refused = result.is_err();
            let end = end_of(&before, &after, result);
            assert!(
                !refused || before == after,
                "{name} was refused in {state:?} and changed something"
            );
            if end != *expected {
                wrong.push(format!("{name} in {state:?}: {end:?}, wanted {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn nothing(model: &mut Model) -> CommandResult {
    // A fresh task is neither asked about nor sealed; the decision must change nothing.
    let before = model.clone();
    let result = model.cleanup(Span::days(1));
    assert_eq!(before.view, model.view);
    *model = before;
    result
}

#[test]
fn every_command_in_every_state_is_allowed_or_refused_by_the_table() {
    // R19-R22, R24, R26-R28, R32, R34, R35, R43
    #[rustfmt::skip]
    let rows: [Row; 11] = [
        //   none    running      awaiting     interrupted  pending      complete     aborted
        ("start", |m| m.start("Another"),
            [RUN,    TaskOpen,    TaskOpen,    TaskOpen,    TaskOpen,    TaskOpen,    TaskOpen]),
        ("observe", |m| m.observe(&[wrote("a.rs")]),
            [NoTask, RUN,         AWAITING,    PAUSED,      PENDING,     COMPLETE,    ABORTED]),
        ("ask", |m| m.ask("Which?"),
            [NoTask, AWAITING,    NO_AWAITING, NO_AWAITING, NO_AWAITING, NO_AWAITING, NO_AWAITING]),
        ("answer", |m| m.answer("This"),
            [NoTask, NO_RUN,      RUN,         NO_RUN,      NO_RUN,      NO_RUN,      NO_RUN]),
        ("interrupt", |m| m.interrupt("Wait"),
            [NoTask, PAUSED,      NO_PAUSED,   PAUSED,      NO_PAUSED,   NO_PAUSED,   NO_PAUSED]),
        ("incorporate", Model::incorporate,
            [NoTask, NO_RUN,      NO_RUN,      RUN,         NO_RUN,      NO_RUN,      NO_RUN]),
        ("done", |m| m.done("All"),
            [NoTask, PENDING,     NO_PENDING,  NO_PENDING,  NO_PENDING,  NO_PENDING,  NO_PENDING]),
        ("more", |m| m.more("And"),
            [NoTask, NO_RUN,      NO_RUN,      NO_RUN,      RUN,         NO_RUN,      NO_RUN]),
        ("confirm", Model::confirm,
            [NoTask, NO_COMPLETE, NO_COMPLETE, NO_COMPLETE, NORMAL,      NO_COMPLETE, NO_COMPLETE]),
        ("choose", |m| m.choose(Choice::StartFresh), [NoPrompt; 7]),
        ("clean up", nothing, [Same; 7]),
    ];
    check(&rows);
}

#[test]
fn set_state_follows_the_table_of_transitions() {
    // R20-R29, R32, R33: a transition to the state a task is in is refused too
    #[rustfmt::skip]
    let rows: [Row; 6] = [
        //   none    running      awaiting     interrupted  pending      complete     aborted
        ("running", |m| m.set_state(&State::Running),
            [NoTask, NO_RUN,      RUN,         RUN,         RUN,         NO_RUN,      NO_RUN]),
        ("awaiting_user",
            |m| m.set_state(&State::AwaitingUser { question: "q".into(), asked_at: 0 }),
            [NoTask, AWAITING,    NO_AWAITING, NO_AWAITING, NO_AWAITING, NO_AWAITING, NO_AWAITING]),
        ("interrupted", |m| m.set_state(&State::Interrupted { user_message: "m".into() }),
            [NoTask, PAUSED,      NO_PAUSED,   NO_PAUSED,   NO_PAUSED,   NO_PAUSED,   NO_PAUSED]),
        ("pending_complete", |m| m.set_state(&State::PendingComplete { summary: "s".into() }),
            [NoTask, PENDING,     NO_PENDING,  NO_PENDING,  NO_PENDING,  NO_PENDING,  NO_PENDING]),
        ("complete", |m| m.set_state(&State::Complete),
            [NoTask, NO_COMPLETE, NO_COMPLETE, NO_COMPLETE, NORMAL,      NO_COMPLETE, NO_COMPLETE]),
        ("aborted", |m| m.set_state(&State::Aborted { reason: "r".into() }),
            [NoTask, ABORTED,     ABORTED,     ABORTED,     ABORTED,     NO_ABORTED,  NO_ABORTED]),
    ];
    check(&rows);
}

#[test]
fn every_open_state_can_be_sealed_or_aborted() {
    // R23, R25, R29, R30, R31, R33, R78, R112; design 11: compact passes through complete, an
    // aborted task is abandoned
    #[rustfmt::skip]
    let rows: [Row; 2] = [
        //   none    running      awaiting     interrupted  pending      complete     aborted
        ("seal", |m| m.seal(None),
            [NoTask, NORMAL,      NORMAL,      NORMAL,      NORMAL,      NORMAL,      ABANDONED]),
        ("abort", |m| m.abort(None),
            [NoTask, ABANDONED,   ABANDONED,   ABANDONED,   ABANDONED,   NO_ABORTED,  ABANDONED]),
    ];
    check(&rows);
}

#[test]
fn after_a_seal_another_task_can_start() {
    // R9, R30, R31, R35, R114
    for (state, end) in [
        (PendingComplete, Model::confirm as Command),
        (Running, |m| m.abort(None)),
        (Aborted, |m| m.seal(None)),
    ] {
        let mut model = Model::at(Some(state));
        end(&mut model).expect("it can be sealed from here");
        assert_eq!((model.state(), model.commits.len()), (None, 1));
        model.start("The next").expect("nothing is open");
        assert_eq!(
            model.task().base,
            model.view.project_head,
            "the next task starts from the commit of the last"
        );
        assert_eq!(model.commits.len(), 1);
    }
}

#[test]
fn a_question_has_the_time_it_was_asked_at() {
    // R18, R36: asked_at is now, whatever the caller put there
    let mut model = Model::at(Some(Running));
    model.wait(Span(1_999));
    model
        .set_state(&State::AwaitingUser { question: "Which?".into(), asked_at: 5 })
        .expect("running");
    let asked_at = model.now.unix_seconds();
    assert_eq!(model.task().state, State::AwaitingUser { question: "Which?".into(), asked_at });
}

#[test]
fn a_start_keeps_the_text_of_the_task() {
    // R19
    let mut model = Model::empty();
    let reply = model.start("Do this\nand that").expect("nothing is open");
    let task = reply.task.expect("the reply has it");
    assert_eq!(
        (task.description.as_str(), &task.state, task.steps),
        ("Do this\nand that", &State::Running, 1)
    );
    assert_eq!(
        (task.started_at, task.last_activity_at, task.ended_at),
        (model.now, model.now, None)
    );
    assert_eq!(model.last_step().kind, crate::step::Kind::SessionStart);
}
