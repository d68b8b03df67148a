//! Reports of agents that run outside ctx: prompts, work and ends.

use crate::commit::CommitType;
use crate::decide::{OutsideReport, StepRecord, report_outside_work};
use crate::step::Entry;
use crate::task::StateName;
use crate::time::Span;

use super::model::{Model, note, wrote};

impl Model {
    fn report(&mut self, report: &OutsideReport) {
        let invocation = self.invocation();
        let decision = report_outside_work(&self.view, report, &self.settings, &invocation);
        self.apply(decision.expect("no report is refused"));
    }

    fn prompted(&mut self, text: &str) {
        self.report(&OutsideReport::Prompt { text: text.to_owned() });
    }

    fn worked(&mut self, entry: Entry) {
        self.report(&OutsideReport::Work { entries: vec![entry], task: "Some work".to_owned() });
    }

    fn answered(&mut self, text: &str, prompt: &str) {
        let (text, prompt) = (Some(text.to_owned()), Some(prompt.to_owned()));
        self.report(&OutsideReport::TurnEnd { text, prompt });
    }

    fn description(&self) -> Option<&str> {
        self.view.task.as_ref().map(|task| task.description.as_str())
    }

    fn recorded_text(&self) -> String {
        let text =
            |record: &StepRecord| format!("{:?} {:?}\n", record.step.payload, record.step.state);
        self.steps.iter().map(text).collect()
    }
}

#[test]
fn a_prompt_opens_a_task_and_later_prompts_belong_to_it() {
    // R4, R5, R7, R75, R80
    let mut model = Model::at(None);
    model.prompted("Add retry logic to the HTTP client");
    assert_eq!(model.description(), Some("Add retry logic to the HTTP client"));
    model.worked(wrote("client.rs"));
    model.prompted("also add logging");
    assert_eq!(model.state(), Some(StateName::Running), "the agent has the prompt already");
    model.prompted("What does that mean?");
    assert_eq!(model.state(), Some(StateName::Running));
    let text = model.recorded_text();
    assert!(text.contains("User intervention: also add logging"), "{text}");
    assert!(text.contains("User prompt: What does that mean?"), "{text}");
    assert!(model.commits.is_empty() && model.ended.is_empty());
}

#[test]
fn every_prompt_but_a_confirmation_opens_a_task() {
    for (prompt, opens) in [
        ("What does this project do?", true),
        ("Fix the tests", true),
        ("hm", true),
        ("thanks!", false),
        ("never mind", false),
    ] {
        let mut model = Model::at(None);
        model.prompted(prompt);
        assert_eq!(model.description().is_some(), opens, "{prompt}");
    }
}

#[test]
fn another_task_seals_the_open_one_without_a_question() {
    // R79, R83: the agent does not wait for a choice.
    let mut model = Model::at(Some(StateName::Running));
    model.worked(wrote("client.rs"));
    model.prompted("New task: write the release notes");
    assert_eq!(model.description(), Some("New task: write the release notes"));
    assert!(model.view.prompt.is_none());
    assert!(matches!(model.commits[0].commit.commit_type, CommitType::InterruptedByNewTask { .. }));
}

#[test]
fn a_pause_opens_no_question_and_a_long_one_seals() {
    // R90, R91
    let mut model = Model::at(Some(StateName::Running));
    model.worked(wrote("client.rs"));
    model.wait(Span::days(2));
    model.prompted("also add logging");
    assert!(model.view.prompt.is_none() && model.commits.is_empty());
    model.wait(Span::days(8));
    model.prompted("also add metrics");
    assert!(matches!(model.commits[0].commit.commit_type, CommitType::StaleAutoCompact { .. }));
    assert_eq!(model.description(), Some("also add metrics"));
}

#[test]
fn the_final_text_moves_the_task_unless_it_answers_a_question() {
    // R20, R21, R76
    for (answer, prompt, state) in [
        ("Which file do you mean?", "Add retries", StateName::AwaitingUser),
        ("Done. All tests pass.", "Add retries", StateName::PendingComplete),
        ("I looked at the code.", "Add retries", StateName::Running),
        ("Done. All tests pass.", "What does that mean?", StateName::Running),
    ] {
        let mut model = Model::at(Some(StateName::Running));
        model.answered(answer, prompt);
        assert_eq!(model.state(), Some(state), "{answer}");
        assert!(model.recorded_text().contains(answer), "{answer}");
    }
    let mut model = Model::at(Some(StateName::PendingComplete));
    model.prompted("Perfect, thanks!");
    assert_eq!(model.commits[0].commit.commit_type, CommitType::Normal);
    model.answered("You are welcome.", "Perfect, thanks!");
    assert_eq!(model.state(), None, "an answer opens no task");
}

#[test]
fn work_without_a_task_opens_one_only_if_it_has_effects() {
    let mut model = Model::at(None);
    model.worked(note(1, "Tool grep: ok"));
    assert_eq!(model.state(), None);
    model.worked(wrote("client.rs"));
    assert_eq!(model.description(), Some("Some work"));
    let mut model = Model::at(Some(StateName::PendingComplete));
    model.worked(note(1, "Tool grep: ok"));
    assert_eq!(model.state(), Some(StateName::PendingComplete));
    model.worked(wrote("client.rs"));
    assert_eq!(model.state(), Some(StateName::Running));
}

#[test]
fn the_end_of_a_conversation_leaves_the_task_open() {
    // R3, R11
    let mut model = Model::at(Some(StateName::Running));
    model.report(&OutsideReport::Closed { note: "Claude Code ended".to_owned() });
    assert_eq!(model.state(), Some(StateName::Running));
    assert!(model.recorded_text().contains("Claude Code ended"));
}
