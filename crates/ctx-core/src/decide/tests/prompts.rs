//! Questions with two choices: their text, what they keep, and the effect of each choice.

use super::model::{Command, CommandResult, Model, TASK, wrote};
use crate::commit::CommitType;
use crate::decide::{Action, Event};
use crate::intent::Intent::{
    self, Abandon, Clarification, Confirmation, Modification, NewTask, Response, Unclear,
};
use crate::prompt::{Choice, Pending};
use crate::refusal::Refusal;
use crate::task::State;
use crate::task::StateName::{self, AwaitingUser, Interrupted, PendingComplete, Running};
use crate::time::Span;

const NEW: &str = "Now add connection pooling";
const CONTINUED: &str = "User chose to continue after idle period";

/// A task in this state, asked about after two days because of this message.
fn stale(state: StateName, text: &str, intent: Intent) -> Model {
    let mut model = Model::at(Some(state));
    model.wait(Span::days(2));
    assert_eq!(model.message(text, intent).expect("it is heard").action, Some(Action::Prompt));
    model
}

/// A running task, asked about because of a new task.
fn busy() -> Model {
    let mut model = Model::at(Some(Running));
    assert_eq!(model.message(NEW, NewTask).expect("it is heard").action, Some(Action::Prompt));
    model
}

fn resumed(state: StateName) -> Model {
    let mut model = Model::at(Some(state));
    model.wait(Span::days(2));
    model.recover().expect("a task is open");
    model
}

#[test]
fn a_late_message_is_answered_with_this_question_and_kept_in_it() {
    // R90, R92, R93
    let model = stale(AwaitingUser, "Exponential", Response);
    let prompt = model.prompt();
    assert_eq!(
        prompt.text,
        format!(
            "Welcome back! You were working on: {TASK}\nA) Continue that work\nB) Save it and \
                start fresh"
        )
    );
    assert_eq!(
        prompt.pending,
        Pending::Stale { user_message: "Exponential".into(), intent: Response }
    );
    assert_eq!(
        (prompt.choices(), prompt.opened_at),
        ([Choice::Continue, Choice::StartFresh], model.now)
    );
    assert_eq!(model.state(), Some(AwaitingUser), "nothing else has happened yet");
    assert_eq!(model.events.last(), Some(&Event::PromptOpened { prompt: prompt.id }));
}

#[test]
fn a_new_task_while_one_is_open_is_answered_with_this_question_and_kept_in_it() {
    // R79, R88, R94
    let model = busy();
    let prompt = model.prompt();
    let text = format!(
        "You have unfinished work on: {TASK}\nA) Save that and start on your new request\nB) \
            Continue where we left off"
    );
    assert_eq!(prompt.text, text);
    assert_eq!(prompt.pending, Pending::NewTask { new_task: NEW.into() });
    assert_eq!(prompt.choices(), [Choice::StartFresh, Choice::Continue]);
}

#[test]
fn choosing_to_continue_handles_the_kept_message_by_the_table() {
    // R93, R96, and R73-R82 after it
    type Row = (Intent, StateName, Action, Option<StateName>, Option<&'static str>);
    let table: [Row; 12] = [
        (Response, AwaitingUser, Action::Respond, Some(Running), None),
        (Response, Running, Action::Modify, Some(Interrupted), None),
        (Modification, Running, Action::Modify, Some(Interrupted), None),
        (Modification, PendingComplete, Action::Modify, Some(Running), None),
        (Modification, Interrupted, Action::Modify, Some(Interrupted), None),
        (Confirmation, PendingComplete, Action::Complete, None, Some("normal")),
        (Confirmation, Running, Action::Acknowledge, Some(Running), None),
        (Abandon, Interrupted, Action::Abandon, None, Some("abandoned")),
        (Clarification, AwaitingUser, Action::Answer, Some(AwaitingUser), None),
        (Unclear, PendingComplete, Action::Ask, Some(PendingComplete), None),
        (NewTask, Running, Action::Continue, Some(Running), None),
        (NewTask, PendingComplete, Action::Continue, Some(PendingComplete), None),
    ];
    for (intent, state, action, after, commit) in table {
        let mut model = stale(state, "The kept words", intent);
        let reply = model.choose(Choice::Continue).expect("a question is open");
        let sealed = reply.commit.map(|record| record.commit.commit_type.name());
        assert_eq!(
            (reply.action, model.state(), sealed),
            (Some(action), after, commit),
            "{intent:?} in {state}"
        );
        assert!(model.notes().contains(&CONTINUED), "{intent:?} in {state}");
        assert_eq!(model.view.prompt, None);
    }
}

#[test]
fn a_request_that_was_set_aside_is_noted() {
    // R94, R96: B) of the new task's question, A) of the stale one
    let mut model = busy();
    assert_eq!(model.choose(Choice::Continue).expect("asked").action, Some(Action::Continue));
    assert!(model.last_note().ends_with(NEW), "{}", model.last_note());
    assert_eq!((model.state(), model.commits.len()), (Some(Running), 0));
    let mut model = stale(Running, NEW, NewTask);
    model.choose(Choice::Continue).expect("asked");
    assert!(model.last_note().ends_with(NEW), "{}", model.last_note());
}

#[test]
fn starting_fresh_seals_the_task_and_starts_one_from_the_kept_message() {
    // R97, R112
    for mut model in [busy(), stale(AwaitingUser, NEW, NewTask), stale(Running, NEW, Modification)]
    {
        let reply = model.choose(Choice::StartFresh).expect("asked");
        assert_eq!(
            (reply.action, model.state(), model.commits.len()),
            (Some(Action::Start), Some(Running), 1)
        );
        assert_eq!(model.task().description, NEW);
        assert_eq!(model.commit().message, format!("Saved before starting new task: {TASK}"));
        assert_eq!(
            model.commit().commit_type,
            CommitType::InterruptedByNewTask { new_task_summary: NEW.into() }
        );
        assert_eq!(model.view.prompt, None);
    }
}

#[test]
fn declining_to_resume_seals_the_task_and_starts_nothing() {
    // R99
    let mut model = resumed(Running);
    let reply = model.choose(Choice::StartFresh).expect("asked");
    assert_eq!((reply.action, model.state()), (Some(Action::Save), None));
    assert_eq!(model.commit().message, "User chose not to continue");
    assert_eq!(model.commit().commit_type.name(), "interrupted_by_new_task");
}

#[test]
fn agreeing_to_resume_continues_the_task() {
    // R96, R99
    for state in [Running, AwaitingUser, Interrupted, PendingComplete] {
        let mut model = resumed(state);
        let reply = model.choose(Choice::Continue).expect("asked");
        assert_eq!(
            (reply.action, model.state(), model.last_note()),
            (Some(Action::Continue), Some(state), CONTINUED)
        );
        assert_eq!(model.task().last_activity_at, model.now, "the pause is over");
    }
}

#[test]
fn a_message_that_is_only_a_choice_answers_the_question() {
    // Design 7
    let table = [
        ("A", Action::Start),
        ("2", Action::Continue),
        ("b)", Action::Continue),
        ("start fresh", Action::Start),
        ("Continue.", Action::Continue),
    ];
    for (text, action) in table {
        let mut model = busy();
        assert_eq!(model.message(text, Unclear).expect("a choice").action, Some(action), "{text}");
        assert_eq!(model.view.prompt, None);
    }
}

#[test]
fn any_other_message_waits_while_a_question_is_open() {
    // Design 7
    let mut model = busy();
    let before = model.clone();
    for intent in Intent::ALL {
        let text = model.prompt().text.clone();
        assert_eq!(
            model.message("a bit more", intent),
            Err(Refusal::PromptOpen { text }),
            "{intent:?}"
        );
        assert_eq!(model, before);
    }
}

#[test]
fn a_choice_is_made_once() {
    // R93
    let mut model = busy();
    model.choose(Choice::Continue).expect("asked");
    assert_eq!(model.choose(Choice::Continue), Err(Refusal::NoPrompt));
}

#[test]
fn an_unclear_message_gets_a_question_for_both_ways_to_choose() {
    // R82: `choose` and a message `A` have the same effect
    let by_message = stale(Running, "hmm", Unclear).message("A", Unclear).expect("asked").text;
    let by_choice = stale(Running, "hmm", Unclear).choose(Choice::Continue).expect("asked").text;
    assert_eq!(
        by_message.as_deref(),
        Some("Are you continuing the current task or starting something new?")
    );
    assert_eq!(by_choice, by_message);
}

/// The commands that end a task while a question is open.
const ENDS: [(&str, Command); 6] = [
    ("seal", |m| m.seal(None)),
    ("abort", |m| m.abort(None)),
    ("clean-up", |m| m.wait(Span::days(8)).cleanup(Span::days(7))),
    ("recover", |m| m.wait(Span::days(8)).recover()),
    ("late message", |m| m.wait(Span::days(8)).message("Something else", NewTask)),
    ("message to an aborted task", |m| {
        m.set_state(&State::Aborted { reason: "no".into() })?;
        m.message("Something else", NewTask)
    }),
];

fn confirmed(model: &mut Model) -> CommandResult {
    model.done("Retries 3 times")?;
    model.confirm()
}

#[test]
fn a_question_about_a_task_ends_with_the_task() {
    // R109: a question about a task that has ended would block the next messages
    let mut wrong = Vec::new();
    for (name, end) in ENDS.into_iter().chain([("confirm", confirmed as Command)]) {
        let mut model = busy();
        end(&mut model).expect(name);
        assert_eq!(model.commits.len(), 1, "{name}");
        if model.view.prompt.is_some() {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "a question outlives its task after: {}", wrong.join(", "));
}

#[test]
fn the_kept_message_is_noted_when_the_task_ends_under_the_question() {
    // R93, R94: the original message is kept
    let mut wrong = Vec::new();
    for (name, end) in ENDS.into_iter().chain([("confirm", confirmed as Command)]) {
        for mut model in [busy(), stale(Running, NEW, Modification)] {
            end(&mut model).expect(name);
            let kept = model.notes().iter().any(|note| note.contains(NEW));
            let waits = model
                .view
                .prompt
                .as_ref()
                .is_some_and(|prompt| format!("{:?}", prompt.pending).contains(NEW));
            if !kept && !waits {
                wrong.push(name);
            }
        }
    }
    assert!(wrong.is_empty(), "the message is lost after: {}", wrong.join(", "));
}

#[test]
fn a_stale_seal_notes_the_kept_message_inside_the_sealed_task() {
    // R91, R93
    let mut model = stale(Running, "Use a jitter", Modification);
    model.wait(Span::days(6)).message("Add pooling", NewTask).expect("late");
    let task = model.commit().task;
    let noted: Vec<&str> =
        model.steps.iter().filter(|r| r.step.task == task).flat_map(|r| r.step.notes()).collect();
    assert_eq!(noted, ["Left unanswered: Use a jitter"]);
    assert_eq!(
        model.commit().commit_type,
        CommitType::StaleAutoCompact { idle_duration_secs: 8 * 86_400 }
    );
    assert_eq!(model.task().description, "Add pooling");
}

#[test]
fn work_may_continue_while_a_question_is_open() {
    // R109: a question holds messages, not the agent
    let mut model = busy();
    model.observe(&[wrote("a.rs")]).expect("open");
    model.ask("Which?").expect("running");
    model.answer("This").expect("it waits");
    let kept = Pending::NewTask { new_task: NEW.into() };
    assert_eq!(model.prompt().pending, kept);
}

#[test]
fn a_new_task_to_an_aborted_one_is_not_asked_about() {
    // R31, R80
    let mut model = Model::at(Some(StateName::Aborted));
    model.wait(Span::days(2));
    let reply = model.message(NEW, NewTask).expect("heard");
    assert_eq!((reply.action, model.view.prompt.as_ref()), (Some(Action::Start), None));
}
