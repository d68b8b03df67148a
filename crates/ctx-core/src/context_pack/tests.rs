//! Cases of the context pack.

use super::*;
use crate::commit::{CommitType, FileTouch, StepRange};
use crate::id::{MessageId, NoteId, ObjectId};
use crate::message::{Part, Role};
use crate::relation::{Confidence, Edge, Evidence, Label, Tool};
use crate::step::{Entry, Kind};
use crate::stored_content::Content;
use crate::task::{Progress, State};
use crate::time::Timestamp;
use ulid::Ulid;

/// A word or a mark is a token.
fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn object(n: u8) -> ObjectId {
    ObjectId::from_bytes([n; 32])
}

fn step(n: u8, entry: Entry) -> (StepId, Step) {
    let step = Step {
        parent: None,
        base: None,
        session: SessionId(Ulid(1)),
        task: TaskId(Ulid(7)),
        kind: Kind::Note,
        payload: vec![entry],
        state: State::Running,
        timestamp: Timestamp(i64::from(n)),
    };
    (StepId(object(n)), step)
}

fn note(n: u8, text: &str) -> (StepId, Step) {
    step(n, Entry::Note { id: NoteId(Ulid(u128::from(n))), text: text.to_owned() })
}

fn edge(from: &str, to: &str) -> Edge {
    Edge {
        from: from.parse().expect("a node"),
        to: to.parse().expect("a node"),
        label: Label::DependsOn,
        weight: None,
        evidence: Evidence::from_tool(Tool::Human, Confidence::High),
    }
}

fn relation(n: u8, task: u128, from: &str, to: &str) -> Relation {
    Relation { step: StepId(object(n)), task: TaskId(Ulid(task)), edge: edge(from, to) }
}

fn commit(n: u8, message: &str, kind: CommitType, files: &[&str]) -> (CommitId, Commit) {
    let file = |path: &&str| FileTouch { path: (*path).to_owned(), written: true, blob: None };
    let commit = Commit {
        parents: Vec::new(),
        project: "demo".to_owned(),
        session: SessionId(Ulid(9)),
        task: TaskId(Ulid(u128::from(n))),
        description: message.to_owned(),
        message: message.to_owned(),
        commit_type: kind,
        state: State::Complete,
        steps: StepRange { last: StepId(object(n)), count: 1 },
        turns: None,
        files: files.iter().map(file).collect(),
        started_at: Timestamp(0),
        created_at: Timestamp(1),
    };
    (CommitId(object(n)), commit)
}

fn input() -> Input {
    let task = Task {
        id: TaskId(Ulid(7)),
        session: SessionId(Ulid(1)),
        description: "Add retries to the client".to_owned(),
        state: State::AwaitingUser { question: "Which backoff?".to_owned(), asked_at: 1 },
        progress: Progress::default(),
        steps: 6,
        head: StepId(object(6)),
        base: None,
        base_turn: None,
        started_at: Timestamp(0),
        last_activity_at: Timestamp(60_000),
        ended_at: None,
        commit: None,
    };
    let message = |role, text: &str| Message {
        id: MessageId(Ulid(1)),
        role,
        source: None,
        content: vec![Part::Text { text: text.to_owned() }],
        created_at: Timestamp(1),
    };
    let wrote = Entry::FileWrite {
        path: "src/client.rs".to_owned(),
        content: Some(Content::Text("fn retry() {}".to_owned())),
    };
    let ran = Entry::Command {
        argv: vec!["cargo".to_owned(), "test".to_owned()],
        exit: Some(1),
        output: None,
    };
    Input {
        task,
        session: None,
        prompt: None,
        commit: None,
        steps: vec![
            step(1, Entry::Plan { text: "First the client, then the tests".to_owned() }),
            note(2, "Question for user: How many attempts?"),
            note(3, "User response: five"),
            note(4, "Decision: jitter is added to every pause"),
            step(5, wrote),
            step(6, ran),
        ],
        steps_left_out: 0,
        turns: vec![(
            TurnId(object(20)),
            vec![
                message(Role::User, "Add retries"),
                message(Role::Assistant, "I start. We decided against a queue. Is that right?"),
            ],
        )],
        turns_left_out: 0,
        relations: vec![
            relation(30, 7, "file:src/client.rs", "module:net"),
            relation(31, 8, "module:net", "crate:hyper"),
            relation(32, 8, "file:other.rs", "module:unrelated"),
        ],
        commits: vec![
            commit(40, "Rewrote the client", CommitType::Normal, &["src/client.rs"]),
            commit(41, "Tried a queue", CommitType::Abandoned, &["src/client.rs", "queue.rs"]),
            commit(42, "Fixed a typo", CommitType::Normal, &["README.md"]),
        ],
    }
}

fn section<'a>(pack: &'a Pack, name: &str) -> Vec<&'a str> {
    let section = pack.sections.iter().find(|section| section.name == name);
    section.map(|it| it.items.iter().map(|item| item.text.as_str()).collect()).unwrap_or_default()
}

#[test]
fn a_pack_holds_what_a_new_agent_should_know_with_sources() {
    let pack = pack(&input(), 10_000, &count);
    assert_eq!(section(&pack, "state")[0], "Waits for the user: Which backoff?");
    assert_eq!(
        section(&pack, "decisions"),
        ["Decision: jitter is added to every pause", "We decided against a queue."]
    );
    assert_eq!(section(&pack, "questions"), ["How many attempts? — five"]);
    assert_eq!(section(&pack, "plan"), ["First the client, then the tests"]);
    assert_eq!(section(&pack, "files"), ["src/client.rs (written)"]);
    assert_eq!(
        section(&pack, "relations"),
        [
            "file:src/client.rs depends_on module:net",
            "module:net depends_on crate:hyper (task 00000000000000000000000008)",
        ]
    );
    assert_eq!(
        section(&pack, "commits"),
        ["(normal) Rewrote the client", "(abandoned) Tried a queue"]
    );
    assert_eq!(section(&pack, "commands"), ["cargo test (exit 1)"]);
    assert!(pack.text.contains(&format!("[step {}]", &object(4).to_string()[..12])), "{pack:?}");
    assert!(pack.text.ends_with("Nothing was left out.\n"), "{}", pack.text);
    assert_eq!((pack.tokens, pack.outcome), (count(&pack.text), "open"));
}

#[test]
fn a_pack_stays_within_its_budget_and_says_what_was_left_out() {
    let mut input = input();
    for n in 50..150 {
        input.steps.push(note(n, &format!("note {n} with a few more words in it")));
    }
    let full = pack(&input, 10_000, &count);
    for budget in [BUDGET_MIN, 150, 300, 600] {
        let small = pack(&input, budget, &count);
        assert!(small.tokens <= budget, "{} of {budget}", small.tokens);
        assert_eq!(small.tokens, count(&small.text));
        assert!(small.text.contains("Left out"), "{}", small.text);
        let items = |pack: &Pack| {
            pack.sections.iter().map(|it| it.items.len() as u64 + it.left_out).sum::<u64>()
        };
        assert_eq!(items(&small), items(&full), "nothing is dropped silently");
    }
    // A long section does not displace the ones after it.
    let small = pack(&input, 300, &count);
    assert!(!section(&small, "files").is_empty(), "{}", small.text);
    assert_eq!(pack(&input, 300, &count), small, "the pack is deterministic");
}

#[test]
fn a_sealed_task_shows_its_outcome_and_no_open_state() {
    let mut input = input();
    input.task.ended_at = Some(Timestamp(90_000));
    input.commit = Some(commit(7, "Gave up", CommitType::Abandoned, &["src/client.rs"]));
    let pack = pack(&input, 10_000, &count);
    assert_eq!(pack.outcome, "abandoned");
    assert!(section(&pack, "state").is_empty());
    assert_eq!(section(&pack, "result"), ["(abandoned) Gave up"]);
}

#[test]
fn the_best_task_is_found_by_words_and_ties_are_reported() {
    let task = |n: u128, description: &str, message: Option<&str>, mentioned| Match {
        task: Task { id: TaskId(Ulid(n)), description: description.to_owned(), ..input().task },
        message: message.map(str::to_owned),
        mentioned,
    };
    let all = || {
        vec![
            task(1, "Add retries to the client", None, false),
            task(2, "Add retries to the server", Some("Retries with jitter"), false),
            task(3, "Write documentation", None, true),
            task(4, "Add retries", None, false),
        ]
    };
    for (words, expected) in [
        ("client retries", vec![1]),
        ("add RETRIES", vec![4]),
        ("retries jitter", vec![2]),
        ("retries", vec![1, 2, 4]),
        ("zebra", vec![3]),
        ("the", vec![1, 2]),
    ] {
        let found = best_matches(words, all());
        let found: Vec<u128> = found.iter().map(|found| found.task.id.0.0).collect();
        assert_eq!(found, expected, "{words}");
    }
    assert!(best_matches("zebra", vec![task(1, "Add retries", None, false)]).is_empty());
}
