//! No sequence of commands breaks the invariants. Each property runs its own random sequences, so
//! that one failure does not hide another.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq};
use proptest::sample::select;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::tests::model::{CommandResult, Model, note, wrote};
use super::{Action, OnNewTask};
use crate::intent::Intent;
use crate::prompt::{Choice, Pending, Prompt};
use crate::step::{Entry, Kind};
use crate::task::{State, StateName, transition};
use crate::time::Span;

const CASES: u32 = 256;
const COMMANDS_MAX: usize = 40;

/// One command of a sequence. Texts are made from its index, so that each is unique.
#[derive(Debug, Clone)]
enum Command {
    Start,
    Observe(u8),
    Ask,
    Answer,
    Interrupt,
    Incorporate,
    Done,
    More,
    Confirm,
    Message(Intent),
    /// A message that is exactly a choice.
    Letter(&'static str),
    Choose(Choice),
    Seal(bool),
    Abort(bool),
    Recover,
    Cleanup(Span),
    SetState(StateName),
    /// Advances the clock.
    Wait(Span),
    /// Sets the clock back.
    Back(Span),
}

fn command() -> impl Strategy<Value = Command> {
    use Command as C;
    let spans = vec![
        Span(1),
        Span::minutes(7),
        Span::hours(23),
        Span::hours(25),
        Span::days(5),
        Span::days(8),
    ];
    let choices = vec![Choice::Continue, Choice::StartFresh];
    let simple = vec![
        C::Ask,
        C::Answer,
        C::Interrupt,
        C::Incorporate,
        C::Done,
        C::More,
        C::Confirm,
        C::Recover,
    ];
    proptest::prop_oneof![
        3 => proptest::strategy::Just(C::Start),
        3 => (0_u8..4).prop_map(C::Observe),
        9 => select(simple),
        8 => select(Intent::ALL.to_vec()).prop_map(C::Message),
        1 => select(vec!["A", "b", "continue", "start fresh"]).prop_map(C::Letter),
        3 => select(choices).prop_map(C::Choose),
        1 => any::<bool>().prop_map(C::Seal),
        1 => any::<bool>().prop_map(C::Abort),
        1 => select(spans.clone()).prop_map(C::Cleanup),
        2 => select(StateName::ALL.to_vec()).prop_map(C::SetState),
        5 => select(spans.clone()).prop_map(C::Wait),
        1 => select(spans).prop_map(C::Back),
    ]
}

fn story() -> impl Strategy<Value = (bool, Vec<Command>)> {
    (any::<bool>(), vec(command(), 1..=COMMANDS_MAX))
}

/// The text of the message at this index.
fn words(place: usize) -> String {
    format!("please do w{place}w")
}

fn state(name: StateName, text: String) -> State {
    match name {
        StateName::Running => State::Running,
        StateName::AwaitingUser => State::AwaitingUser { question: text, asked_at: 0 },
        StateName::Interrupted => State::Interrupted { user_message: text },
        StateName::PendingComplete => State::PendingComplete { summary: text },
        StateName::Complete => State::Complete,
        StateName::Aborted => State::Aborted { reason: text },
    }
}

fn observed(place: usize, count: u8) -> Vec<Entry> {
    let entry = |n: u8| match n % 3 {
        0 => wrote(&format!("src/{place}.rs")),
        1 => note(1_000 + place as u128, "a remark"),
        _ => Entry::Plan { text: format!("plan {place}") },
    };
    (0..count).map(entry).collect()
}

/// Executes the command; changes of the clock are not commands.
fn give(model: &mut Model, place: usize, command: &Command) -> Option<CommandResult> {
    let text = words(place);
    Some(match command {
        Command::Start => model.start(&text),
        Command::Observe(count) => model.observe(&observed(place, *count)),
        Command::Ask => model.ask(&text),
        Command::Answer => model.answer(&text),
        Command::Interrupt => model.interrupt(&text),
        Command::Incorporate => model.incorporate(),
        Command::Done => model.done(&text),
        Command::More => model.more(&text),
        Command::Confirm => model.confirm(),
        Command::Message(intent) => model.message(&text, *intent),
        Command::Letter(letter) => model.message(letter, Intent::Unclear),
        Command::Choose(choice) => model.choose(*choice),
        Command::Seal(named) => model.seal(named.then_some(text.as_str())),
        Command::Abort(reasoned) => model.abort(reasoned.then_some(text.as_str())),
        Command::Recover => model.recover(),
        Command::Cleanup(max_idle) => model.cleanup(*max_idle),
        Command::SetState(name) => model.set_state(&state(*name, text)),
        Command::Wait(span) => {
            model.wait(*span);
            return None;
        }
        Command::Back(span) => {
            model.now.0 -= i64::try_from(span.0).expect("spans of a story are days");
            return None;
        }
    })
}

/// The state before and after a command, and its result.
struct Moved<'a> {
    before: &'a Model,
    after: &'a Model,
    place: usize,
    command: &'a Command,
    result: &'a CommandResult,
}

type Verdict = Result<(), TestCaseError>;

/// Runs random sequences and checks the property after every command.
fn always<T: Default>(check: impl Fn(&mut T, Moved<'_>) -> Verdict) {
    let config =
        ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&story(), |(auto, commands)| {
        let mut model = Model::empty();
        model.settings.on_new_task = if auto { OnNewTask::Auto } else { OnNewTask::Ask };
        let mut memory = T::default();
        for (place, command) in commands.iter().enumerate() {
            let before = model.clone();
            let Some(result) = give(&mut model, place, command) else { continue };
            check(
                &mut memory,
                Moved { before: &before, after: &model, place, command, result: &result },
            )?;
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn a_refused_command_changes_nothing() {
    // R32; design 3. That deciding twice decides the same is asserted by the model at every
    // command.
    always(|(): &mut (), moved| {
        if moved.result.is_err() {
            prop_assert_eq!(moved.before, moved.after);
        }
        Ok(())
    });
}

#[test]
fn the_steps_of_a_task_are_one_unbroken_chain() {
    // R37, R38, R48, R49, R59, R108
    always(|(): &mut (), moved| {
        let model = moved.after;
        for task in model.ended.iter().chain(&model.view.task) {
            let steps: Vec<_> =
                model.steps.iter().filter(|record| record.step.task == task.id).collect();
            let mut parent = None;
            for (n, record) in steps.iter().enumerate() {
                prop_assert_eq!((record.step.parent, record.seq), (parent, n as u64 + 1));
                prop_assert_eq!((record.step.base, record.step.session), (task.base, task.session));
                parent = Some(record.id);
            }
            let newest = steps.last().expect("a task begins with a step");
            prop_assert_eq!((newest.id, newest.seq), (task.head, task.steps));
            prop_assert_eq!(
                (&newest.step.state, newest.step.timestamp),
                (&task.state, task.last_activity_at)
            );
        }
        Ok(())
    });
}

#[test]
fn every_transition_is_in_the_table() {
    // R19-R33
    always(|(): &mut (), moved| {
        let mut at: Option<StateName> = None;
        for record in &moved.after.steps {
            if record.step.kind == Kind::SessionStart {
                at = None;
            }
            for entry in &record.step.payload {
                if let Entry::Moved { from, to } = entry {
                    prop_assert_eq!(*from, at, "a move starts where the task is");
                    prop_assert_eq!(transition(*from, Some(*to)), Ok(()));
                    at = Some(*to);
                }
            }
            let now = record.step.state.name();
            if at != Some(now) {
                prop_assert_eq!(transition(at, Some(now)), Ok(()));
                prop_assert!(matches!(record.step.kind, Kind::SessionStart | Kind::State));
            }
            at = Some(now);
        }
        Ok(())
    });
}

#[test]
fn a_task_has_at_most_one_commit_and_the_commits_are_one_chain() {
    // R57, R112, R114. That at most one task is open is asserted by the model at every change.
    always(|(): &mut (), moved| {
        let model = moved.after;
        let mut parents = Vec::new();
        for record in &model.commits {
            prop_assert_eq!(&record.commit.parents, &parents);
            let sealed: Vec<_> =
                model.ended.iter().filter(|task| task.commit == Some(record.id)).collect();
            prop_assert_eq!(sealed.len(), 1);
            prop_assert_eq!(
                (sealed[0].id, sealed[0].steps),
                (record.commit.task, record.commit.steps.count)
            );
            parents = vec![record.id];
        }
        prop_assert_eq!(model.view.project_head, parents.pop());
        let sealed = model.ended.iter().filter(|task| task.commit.is_some()).count();
        prop_assert_eq!(sealed, model.commits.len());
        Ok(())
    });
}

#[test]
fn an_open_task_is_never_complete() {
    // R34: completing seals
    always(|(): &mut (), moved| {
        prop_assert!(moved.after.state() != Some(StateName::Complete));
        Ok(())
    });
}

#[test]
fn a_question_is_open_only_while_its_task_is() {
    // R93, R94, R109
    always(|asked_of: &mut Option<crate::id::TaskId>, moved| {
        let Some(prompt) = &moved.after.view.prompt else { return Ok(()) };
        let open = moved.after.view.task.as_ref().map(|task| task.id);
        if moved.before.view.prompt.as_ref() != Some(prompt) {
            *asked_of = open;
        }
        prop_assert!(open.is_some(), "a question without a task: {}", prompt.text);
        prop_assert_eq!(open, *asked_of, "a question about another task: {}", prompt.text);
        Ok(())
    });
}

fn kept(prompt: Option<&Prompt>) -> Option<&str> {
    match &prompt?.pending {
        Pending::Stale { user_message: text, .. }
        | Pending::NewTask { new_task: text }
        | Pending::Unclear { user_message: text } => Some(text),
        Pending::Resume => None,
    }
}

/// After these actions nothing of the message has to be kept.
const fn is_spent(action: Option<Action>) -> bool {
    use Action::{Abandon, Acknowledge, Answer, Ask, Complete};
    matches!(action, Some(Acknowledge | Answer | Ask | Complete | Abandon))
}

fn is_stored(model: &Model, text: &str) -> bool {
    let described =
        |entry: &Entry| matches!(entry, Entry::Task { description } if description.contains(text));
    let step = |step: &crate::step::Step| {
        step.notes().any(|note| note.contains(text)) || step.payload.iter().any(described)
    };
    model.steps.iter().any(|record| step(&record.step))
}

#[test]
fn no_message_is_ever_lost() {
    // R39, R41, R44, R93, R94, R97: it is in a note, in a description or in the open question
    always(|(): &mut (), moved| {
        let Moved { before, after, place, command, result } = moved;
        let Ok(reply) = result else { return Ok(()) };
        let waits = kept(after.view.prompt.as_ref());
        if let Command::Message(_) = command {
            let text = words(place);
            let is_kept = is_spent(reply.action) || waits == Some(&text) || is_stored(after, &text);
            prop_assert!(is_kept, "`{}` is nowhere after {:?}", text, reply.action);
        }
        let Some(text) = kept(before.view.prompt.as_ref()).filter(|text| waits != Some(*text))
        else {
            return Ok(());
        };
        let chosen =
            matches!(command, Command::Choose(_) | Command::Letter(_)) && is_spent(reply.action);
        prop_assert!(
            chosen || is_stored(after, text),
            "`{}` was kept in a question and is nowhere after {:?}",
            text,
            command
        );
        Ok(())
    });
}
