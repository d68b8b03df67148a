//! Usage: sums of the stored turns, through forks, rewinds and deletions. `verify`, which most
//! tests of this suite call, compares the sums with every stored turn.

use std::collections::BTreeMap;

use ctx_core::decide;
use ctx_core::id::TurnId;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::turn::{About, Ready, Usage};
use ctx_core::usage::{By, Tally};
use ctx_core::usage_query::UsageQuery;
use ctx_store::{UsageKey, UsageRow};

use crate::Backend;
use crate::harness::{SessionWriter, at, fork_at, message, verify};

const DAY_MS: i64 = 86_400_000;

/// Appends a turn that used tokens.
async fn use_tokens(writer: &SessionWriter, model: &str, input: Option<u64>, ms: i64) -> TurnId {
    let usage = input.map(|input| Usage {
        input_tokens: Some(input),
        output_tokens: Some(1),
        scope: "turn".to_owned(),
        ..Usage::default()
    });
    let about = About {
        provider_id: Some(format!("of {model}")),
        model: Some(model.to_owned()),
        usage,
        started_at: at(ms),
        ended_at: at(ms + 7),
        ..About::at(at(ms))
    };
    let (ready, body) = Ready::new(about, vec![message("hello", ms)]);
    let added = writer
        .decide(ms, vec![body], move |view, _| decide::append_turn(view, view.session.head, &ready))
        .await;
    added.expect("appended").reply
}

fn total(rows: &[UsageRow]) -> Tally {
    let mut total = Tally::default();
    rows.iter().for_each(|row| total += row.tally);
    total
}

pub(crate) async fn usage_is_the_sum_of_all_turns_by_every_key(backend: &impl Backend) {
    let store = backend.open().await;
    let (a, b) =
        (SessionWriter::create(&store, "a", 0).await, SessionWriter::create(&store, "b", 0).await);
    use_tokens(&a, "small", Some(10), 1).await;
    use_tokens(&a, "large", Some(200), 20).await;
    use_tokens(&b, "small", Some(3000), DAY_MS + 5).await;
    use_tokens(&b, "small", None, DAY_MS + 30).await;
    let mut inputs: BTreeMap<&str, Vec<(String, u64)>> = BTreeMap::new();
    for by in By::ALL.into_iter().filter(|by| *by != By::Tool) {
        let rows = store.usage(UsageQuery::by(by)).await.expect("usage");
        let all = total(&rows);
        assert_eq!((all.turns, all.answered, all.messages, all.duration_ms), (4, 4, 4, 28));
        assert_eq!((all.input.value(), all.input.turns), (Some(3210), 3), "{by:?}");
        assert_eq!((all.cached.value(), all.cost.value()), (None, None), "never 0");
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for row in &rows {
            let key = match &row.key {
                UsageKey::Day(day) => day.to_string(),
                UsageKey::Session { label, .. } => label.clone(),
                UsageKey::Model(key) | UsageKey::Provider(key) | UsageKey::Project(key) => {
                    key.clone().expect("a key")
                }
                other => panic!("no such key: {other:?}"),
            };
            *sums.entry(key).or_default() += row.tally.input.sum;
        }
        inputs.insert(by.name(), sums.into_iter().collect());
    }
    let pairs = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs.iter().map(|(key, sum)| ((*key).to_owned(), *sum)).collect()
    };
    let project = a.session().await.project;
    assert_eq!(inputs["day"].iter().map(|(_, sum)| *sum).collect::<Vec<_>>(), [210, 3000]);
    assert_eq!(inputs["model"], pairs(&[("large", 200), ("small", 3010)]));
    assert_eq!(inputs["provider"], pairs(&[("of large", 200), ("of small", 3010)]));
    assert_eq!(inputs["session"], pairs(&[("a", 210), ("b", 3000)]));
    assert_eq!(inputs["project"], pairs(&[(&project, 3210)]));

    let days: Vec<i64> = store
        .usage(UsageQuery::by(By::Day))
        .await
        .expect("usage")
        .iter()
        .map(|row| if let UsageKey::Day(day) = row.key { day } else { panic!("a day") })
        .collect();
    let last = *days.iter().max().expect("a day");
    let since = |day| UsageQuery { since: Some(day), ..UsageQuery::by(By::Model) };
    assert_eq!(total(&store.usage(since(last)).await.expect("usage")).input.sum, 3000);
    assert_eq!(store.usage(since(last + 1)).await.expect("usage"), []);
    let scopes = store.usage_of_scopes(a.id().await, last).await.expect("usage");
    assert_eq!((total(&scopes.day).input.sum, total(&scopes.session).input.sum), (3000, 210));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn names_and_numbers_of_any_size_are_counted(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    // Longer than a key of an index may be, and not compressible.
    let long: String = (0..9000_u32).map(|n| char::from(b'!' + (n * n % 89) as u8)).collect();
    for (n, model) in [long.as_str(), "a\0b", ""].into_iter().enumerate() {
        for _ in 0..3 {
            use_tokens(&writer, model, Some(u64::MAX >> 1), 1 + n as i64).await;
        }
    }
    let all = total(&store.usage(UsageQuery::by(By::Model)).await.expect("usage"));
    assert_eq!((all.turns, all.input.turns, all.output.value()), (9, 9, Some(9)));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_turn_counts_once_and_is_forgotten_with_its_session(backend: &impl Backend) {
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let first = use_tokens(&main, "m", Some(1), 1).await;
    let second = use_tokens(&main, "m", Some(20), 2).await;
    main.rewind(first, 3).await.expect("rewound");
    let fork = SessionWriter::create_as(&store, fork_at(second, 2, "fork", 4)).await;
    use_tokens(&fork, "m", Some(300), 5).await;
    use_tokens(&main, "m", Some(4000), 6).await;
    let sum =
        async || total(&store.usage(UsageQuery::by(By::Session)).await.expect("usage")).input.sum;
    assert_eq!(sum().await, 4321, "shared turns and those of other branches count once");
    assert_eq!(verify(&store).await.findings, []);

    main.delete(7).await.expect("deleted");
    store.purge_all(at(1000)).await;
    let rows = store.usage(UsageQuery::by(By::Session)).await.expect("usage");
    assert_eq!(total(&rows).input.sum, 321, "the fork keeps the turns that it shares");
    let shared = rows.iter().find(|row| row.key == UsageKey::DeletedSession).expect("a row");
    assert_eq!(shared.tally.input.sum, 21);
    fork.delete(8).await.expect("deleted");
    store.purge_all(at(1000)).await;
    assert_eq!(store.usage(UsageQuery::by(By::Session)).await.expect("usage"), []);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn calls_of_tools_are_counted_and_forgotten(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let call = |id: &str, name: &str, status: ToolStatus| Part::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        params: serde_json::Value::Null,
        status,
    };
    let content = vec![
        call("1", "bash", ToolStatus::Completed),
        call("2", "bash", ToolStatus::Failed),
        call("3", "a\0b", ToolStatus::Completed),
    ];
    let called = Message { role: Role::Assistant, source: None, content, ..message("", 1) };
    let (ready, body) = Ready::new(About::at(at(1)), vec![called]);
    let added = writer
        .decide(1, vec![body], move |view, _| decide::append_turn(view, view.session.head, &ready))
        .await;
    added.expect("appended");
    let rows = store.usage(UsageQuery::by(By::Tool)).await.expect("usage");
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| (row.key.clone(), row.tally.turns, row.tally.tool_calls, row.failed_calls))
        .collect();
    found.sort();
    let tool = |name: &str| UsageKey::Tool(name.to_owned());
    assert_eq!(found, [(tool("ab"), 1, 1, Some(0)), (tool("bash"), 1, 2, Some(1))]);
    let of_tool = UsageQuery { tool: Some("bash".to_owned()), ..UsageQuery::by(By::Session) };
    let sessions = store.usage(of_tool).await.expect("usage");
    assert_eq!((sessions.len(), sessions[0].tally.tool_calls), (1, 2));
    assert_eq!(verify(&store).await.findings, []);
    writer.delete(2).await.expect("deleted");
    store.purge_all(at(1000)).await;
    assert_eq!(store.usage(UsageQuery::by(By::Tool)).await.expect("usage"), []);
    assert_eq!(verify(&store).await.findings, []);
}
