//! Idle times: their limits to the millisecond, the text for a returning user, and the clean-up.

use super::model::{Model, START, TASK, wrote};
use crate::commit::CommitType;
use crate::decide::Action;
use crate::intent::Intent;
use crate::prompt::{Choice, Pending};
use crate::refusal::Refusal;
use crate::stale::Config;
use crate::task::State;
use crate::task::StateName::{self, AwaitingUser, Interrupted, PendingComplete, Running};
use crate::time::{Span, Timestamp};

const DAY: u64 = 86_400_000;
const OPEN: [StateName; 4] = [Running, AwaitingUser, Interrupted, PendingComplete];

#[test]
fn the_default_idle_limits_are_a_day_and_a_week_and_have_these_texts() {
    // R85, R86, R87
    let config = Config::default();
    assert_eq!((config.ask_after, config.seal_after), (Span::hours(24), Span::days(7)));
    assert_eq!(config.message_template, "Auto-saved: session idle for {duration}");
    let read: Config =
        serde_json::from_str(&serde_json::to_string(&config).expect("json")).expect("config");
    assert_eq!(read, config);
}

#[test]
fn a_message_is_asked_about_one_millisecond_after_a_day_and_sealed_one_after_a_week() {
    // R88-R91
    let table = [
        (0, Action::Modify, 0),
        (DAY, Action::Modify, 0),
        (DAY + 1, Action::Prompt, 0),
        (7 * DAY, Action::Prompt, 0),
        (7 * DAY + 1, Action::Start, 1),
    ];
    for (idle, action, commits) in table {
        let mut model = Model::at(Some(Running));
        let reply = model
            .wait(Span(idle))
            .message("Also add logging", Intent::Modification)
            .expect("heard");
        assert_eq!((reply.action, model.commits.len()), (Some(action), commits), "{idle} ms");
    }
}

#[test]
fn idle_limits_and_texts_are_configurable() {
    // R87, R95
    let mut model = Model::at(Some(Running));
    model.settings.stale = Config {
        ask_after: Span(1000),
        seal_after: Span(90_000),
        message_template: "Kept after {duration}, {duration}".into(),
    };
    model.wait(Span(1001)).message("Add pooling", Intent::NewTask).expect("heard");
    assert!(matches!(model.prompt().pending, Pending::Stale { .. }));
    model.wait(Span(89_000)).message("Add pooling", Intent::NewTask).expect("heard");
    assert_eq!(model.commit().message, format!("Kept after 90 seconds, 90 seconds: {TASK}"));
    assert_eq!(model.commit().commit_type, CommitType::StaleAutoCompact { idle_duration_secs: 90 });
}

#[test]
fn idle_time_counts_from_the_last_step_and_not_from_a_question() {
    // R108: an open question is no activity of the task
    let mut model = Model::at(Some(Running));
    model.wait(Span::days(6)).message("Add pooling", Intent::Modification).expect("asked");
    assert_eq!(model.task().last_activity_at, START);
    model.wait(Span(DAY + 1)).message("Add pooling", Intent::NewTask).expect("sealed");
    assert_eq!(
        model.commit().commit_type,
        CommitType::StaleAutoCompact { idle_duration_secs: 7 * 86_400 }
    );
    let mut model = Model::at(Some(Running));
    for _ in 0..10 {
        model.wait(Span::hours(23)).observe(&[wrote("a.rs")]).expect("open");
    }
    assert_eq!(
        model.message("More", Intent::Modification).expect("fresh").action,
        Some(Action::Modify)
    );
}

#[test]
fn a_clock_that_was_set_back_counts_as_no_idle_time() {
    // R108, R109
    let mut model = Model::at(Some(Running));
    model.now = Timestamp(START.0 - 30 * 86_400_000);
    assert_eq!(
        model.message("More", Intent::Modification).expect("fresh").action,
        Some(Action::Modify)
    );
}

#[test]
fn a_returning_user_reads_the_state_of_the_task() {
    // R100-R104
    let texts = [
        (
            AwaitingUser,
            "Welcome back! I was asking: Fixed or exponential?\n\nContinuing from where we left \
                off. I had asked:\nFixed or exponential?"
                .to_owned(),
        ),
        (
            PendingComplete,
            format!(
                "Welcome back! I had finished: {TASK}\n\nRetries 3 times\nDoes \
            this look good?"
            ),
        ),
        (
            Interrupted,
            "Welcome back! You had said:\n5 times, please\n\nI hadn't finished \
            processing that. Should I continue?"
                .to_owned(),
        ),
        (
            Running,
            format!(
                "Welcome back! I was working on: {TASK}\n\nThe task was interrupted. Progress so \
                    far:\nnothing recorded yet\nShould I continue?"
            ),
        ),
    ];
    for (state, text) in texts {
        let mut model = Model::at(Some(state));
        let before = model.view.clone();
        let reply = model.wait(Span(DAY)).recover().expect("open");
        assert_eq!(reply.text, Some(text), "{state}");
        assert_eq!(model.view, before, "looking is no activity");
    }
}

#[test]
fn a_returning_user_reads_the_recorded_progress() {
    // R103, R104
    let mut model = Model::at(Some(Running));
    model.observe(&[wrote("src/http.rs")]).expect("running");
    let text = model.recover().expect("open").text.expect("a text");
    assert!(
        text.contains("Progress so far:\n1 file written\n- wrote src/http.rs\nShould I continue?"),
        "{text}"
    );
}

#[test]
fn a_user_who_returns_after_a_day_gets_this_question() {
    // R99
    for state in OPEN {
        let mut model = Model::at(Some(state));
        let reply = model.wait(Span(DAY + 1)).recover().expect("open");
        let text = format!(
            "You have an unfinished task from 2025-11-15T21:44:05.000Z: '{TASK}'\nA) Continue that \
                work\nB) Save it and start fresh"
        );
        assert_eq!(reply.text.as_deref(), Some(text.as_str()));
        assert_eq!((&model.prompt().pending, &model.prompt().text), (&Pending::Resume, &text));
        let again = model.recover().expect("open");
        assert_eq!(
            (again.text.as_deref(), again.prompt),
            (Some(text.as_str()), reply.prompt),
            "the same question, asked again"
        );
    }
}

#[test]
fn an_open_question_is_repeated_for_a_returning_user() {
    // R93: the kept message stays
    let mut model = Model::at(Some(Running));
    model.message("Now add pooling", Intent::NewTask).expect("asked");
    let before = model.view.clone();
    assert_eq!(
        model.wait(Span::days(2)).recover().expect("open").text.as_deref(),
        Some(model.prompt().text.clone().as_str())
    );
    assert_eq!(model.view, before);
}

#[test]
fn after_a_week_the_task_is_sealed_and_no_text_is_shown() {
    // R98, R105
    for state in OPEN {
        let mut model = Model::at(Some(state));
        let reply = model.wait(Span(7 * DAY + 1)).recover().expect("open");
        assert_eq!((reply.text, model.state(), model.commits.len()), (None, None, 1));
        assert_eq!(model.commit().message, "Session expired");
        assert_eq!(
            model.commit().commit_type,
            CommitType::StaleAutoCompact { idle_duration_secs: 7 * 86_400 }
        );
    }
    assert_eq!(Model::empty().recover(), Err(Refusal::NoTask));
}

#[test]
fn the_clean_up_seals_only_tasks_beyond_the_idle_limit() {
    // R106, R107, R109
    for (idle, sealed) in [(0, false), (3_600_000, false), (3_600_001, true)] {
        let mut model = Model::at(Some(Running));
        let before = model.view.clone();
        let reply = model.wait(Span(idle)).cleanup(Span::hours(1)).expect("never refused");
        assert_eq!(reply.commit.is_some(), sealed, "{idle} ms");
        assert_eq!(model.view == before, !sealed);
        if sealed {
            assert_eq!(
                model.commit().message,
                format!("Auto-saved stale session (idle 60 minutes): {TASK}")
            );
            assert_eq!(model.commit().description, TASK, "what the report names");
            model.start("The next").expect("stale work blocks nothing");
        }
    }
    let mut empty = Model::empty();
    assert_eq!(empty.cleanup(Span(0)).expect("never refused").commit, None);
}

#[test]
fn an_aborted_task_is_not_offered_to_be_continued() {
    // R31, R32: an aborted task can only be sealed
    let mut model = Model::at(Some(Running));
    model.set_state(&State::Aborted { reason: "no".into() }).expect("running");
    model.wait(Span::days(2)).recover().expect("open");
    if model.view.prompt.is_some() {
        let result = model.choose(Choice::Continue);
        assert!(result.is_err(), "a task that cannot run again was continued: {:?}", model.state());
    }
}
