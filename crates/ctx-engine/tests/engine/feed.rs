//! Followers of the feed: every stored event once and in order, all text without gap or overlap,
//! however often they reconnect.

use std::collections::BTreeMap;
use std::time::Duration;

use ctx_core::message::{Part, Role};
use ctx_core::run::Phase;
use ctx_core::session::Activity;
use ctx_core::suspension::Answer;
use ctx_engine::{Engine, FeedItem, Follow, Order};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Action, Gate, Script};
use serde_json::json;

use crate::harness::{Harness, PATIENCE, result, until, with_tool};

/// A client that assembles the text of the events and fails on a gap or an overlap.
#[derive(Default)]
struct Client {
    last: u64,
    names: Vec<String>,
    texts: BTreeMap<String, String>,
    order: Vec<String>,
}

impl Client {
    fn take(&mut self, item: &FeedItem) {
        match item {
            FeedItem::Event(event) => {
                assert_eq!(event.seq, self.last + 1, "no event twice, none left out");
                self.last = event.seq;
                self.names.push(event.event.name().to_owned());
            }
            FeedItem::Delta(words) => {
                let id = format!("{}{}", words.name(), words.message_id);
                if !self.order.contains(&id) {
                    self.order.push(id.clone());
                }
                let text = self.texts.entry(id).or_default();
                if words.draft {
                    assert_eq!(words.offset, 0, "a draft is all there is");
                    assert!(
                        words.text.starts_with(text.as_str()),
                        "`{}` does not go on from `{text}`",
                        words.text
                    );
                    text.clone_from(&words.text);
                } else {
                    assert_eq!(
                        words.offset,
                        text.chars().count(),
                        "no gap and no overlap: `{}` after `{text}`",
                        words.text
                    );
                    text.push_str(&words.text);
                }
            }
        }
    }

    /// The texts of all messages, in the order of their first event.
    fn text(&self) -> String {
        self.order.iter().map(|id| self.texts[id].as_str()).collect()
    }

    /// Reads events until a condition holds.
    async fn read(&mut self, follow: &mut Follow, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            let next = tokio::time::timeout(PATIENCE, follow.next()).await;
            let item = next.unwrap_or_else(|_| {
                panic!("nothing more came after {:?} and `{}`", self.names, self.text())
            });
            self.take(&item.expect("the store works").expect("the session is there"));
        }
    }
}

async fn seq(engine: &Engine, session: &str) -> u64 {
    engine.sessions().get(session).await.expect("there").session.seq
}

#[tokio::test]
async fn from_zero_everything_is_replayed_in_order() {
    // R247
    let bench = Harness::able();
    bench.chat("one").await;
    bench.say("one", "a").await;
    bench.say("one", "b").await;
    let newest = seq(&bench.engine, "one").await;
    let mut client = Client::default();
    let mut follow = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    client.read(&mut follow, |client| client.last == newest).await;
    assert_eq!(client.names[0], "session.created");
    let turns = client.names.iter().filter(|name| *name == "turn.committed").count();
    assert_eq!(turns, 2);
    let place = |wanted: &str| {
        client.names.iter().position(|name| name == wanted).unwrap_or_else(|| panic!("no {wanted}"))
    };
    assert!(
        place("run.started") < place("turn.committed")
            && place("turn.committed") <= place("run.completed")
    );
    let mut later = bench.engine.events().follow("one", Some(newest - 1)).await.expect("a feed");
    let mut rest = Client { last: newest - 1, ..Client::default() };
    rest.read(&mut later, |client| client.last == newest).await;
    assert_eq!(rest.names.len(), 1);
}

#[tokio::test]
async fn a_long_history_is_replayed_completely() {
    // R247: more events than one read returns.
    let bench = Harness::able();
    let mut script = Script::new();
    for n in 0..400 {
        let id = format!("c{n}");
        script = script.call(&id, "look", json!({})).and(Action::Result {
            id,
            content: "x".to_owned(),
            is_error: false,
        });
    }
    bench.provider.push(script.say("done"));
    bench.chat("one").await;
    bench.say("one", "a").await;
    let newest = seq(&bench.engine, "one").await;
    assert!(newest > 800);
    let mut client = Client::default();
    let mut follow = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    client.read(&mut follow, |client| client.last == newest).await;
}

#[tokio::test]
async fn a_follower_that_connects_during_a_run_gets_the_draft_and_then_the_rest() {
    // R247
    let (gate, end) = (Gate::new(), Gate::new());
    let bench = Harness::able();
    bench.provider.push(Script::new().say("héllo").gate(&gate).say(", wörld").say("!").gate(&end));
    bench.chat("one").await;
    let mut early = bench.engine.events().follow("one", None).await.expect("a feed");
    let mut first = Client { last: seq(&bench.engine, "one").await, ..Client::default() };
    bench.send("one", "m").await;
    gate.reached().await;
    first.read(&mut early, |client| client.text() == "héllo").await;
    let mut late = bench.engine.events().follow("one", None).await.expect("a feed");
    let mut second = Client { last: seq(&bench.engine, "one").await, ..Client::default() };
    let words = tokio::time::timeout(PATIENCE, late.next())
        .await
        .expect("at once")
        .expect("works")
        .expect("there");
    assert!(
        matches!(&words, FeedItem::Delta(words) if words.draft && words.offset == 0
            && words.text == "héllo"),
        "{words:?}"
    );
    second.take(&words);
    gate.open();
    first.read(&mut early, |client| client.text() == "héllo, wörld!").await;
    second.read(&mut late, |client| client.text() == "héllo, wörld!").await;
    end.open();
    first
        .read(&mut early, |client| client.names.last().is_some_and(|name| name == "run.completed"))
        .await;
    second
        .read(&mut late, |client| client.names.last().is_some_and(|name| name == "run.completed"))
        .await;
}

#[tokio::test]
async fn thoughts_and_text_have_separate_offsets() {
    let gate = Gate::new();
    let bench = Harness::able();
    let think = |text: &str| Action::Think { text: text.to_owned(), raw: None };
    bench.provider.push(
        Script::new().and(think("hm ")).say("so ").and(think("yes")).say("it is").gate(&gate),
    );
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    let mut client = Client { last: seq(&bench.engine, "one").await, ..Client::default() };
    let mut follow = bench.engine.events().follow("one", Some(client.last)).await.expect("a feed");
    client.read(&mut follow, |client| client.text().len() >= 14).await;
    assert_eq!(
        client.texts.values().map(String::as_str).collect::<Vec<_>>(),
        ["so it is", "hm yes"]
    );
    gate.open();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_reconnects_during_a_run_lose_and_repeat_nothing() {
    // R247
    let end = Gate::new();
    let mut script = Script::new();
    let mut whole = String::new();
    for n in 0..300 {
        let word = format!("w{n} ");
        whole.push_str(&word);
        script = script.say(&word);
        // Words that arrive together are sent together.
        if n % 3 == 0 {
            script =
                script.and(Action::Pause(Duration::from_millis(3))).and(Action::Plan(json!([n])));
        }
    }
    let bench = Harness::able();
    bench.provider.push(script.gate(&end));
    bench.chat("one").await;
    let mut client = Client::default();
    bench.send("one", "m").await;
    for n in 0..50 {
        let mut follow =
            bench.engine.events().follow("one", Some(client.last)).await.expect("a feed");
        // Each connection starts with the draft.
        let (before, heard) = (client.names.len(), std::cell::Cell::new(0));
        client
            .read(&mut follow, |client| {
                heard.set(heard.get() + 1);
                client.names.len() > before || heard.get() > n % 7 + 1 || client.text() == whole
            })
            .await;
    }
    let mut follow = bench.engine.events().follow("one", Some(client.last)).await.expect("a feed");
    client.read(&mut follow, |client| client.text() == whole).await;
    end.open();
    client
        .read(&mut follow, |client| client.names.last().is_some_and(|name| name == "run.completed"))
        .await;
    assert_eq!(client.last, seq(&bench.engine, "one").await);
}

#[tokio::test]
async fn a_slow_follower_still_gets_every_event() {
    let end = Gate::new();
    let mut script = Script::new();
    for n in 0..3000 {
        script = script.say("x");
        if n % 100 == 0 {
            script = script.and(Action::Plan(json!([n])));
        }
    }
    let bench = Harness::able();
    bench.provider.push(script.gate(&end));
    bench.chat("one").await;
    let mut client = Client::default();
    let mut follow = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    bench.send("one", "m").await;
    end.reached().await;
    client.read(&mut follow, |client| client.text().len() == 3000).await;
    end.open();
    client
        .read(&mut follow, |client| client.names.last().is_some_and(|name| name == "run.completed"))
        .await;
}

#[tokio::test]
async fn another_process_follows_a_run_from_the_store() {
    // R247: two texts in one message, with a call between them.
    let (gate, end) = (Gate::new(), Gate::new());
    let bench = Harness::able();
    let call = json!({});
    bench.provider.push(
        Script::new()
            .say("hello")
            .call("c1", "look", call)
            .say(", wide")
            .gate(&gate)
            .say(" world")
            .gate(&end),
    );
    bench.chat("one").await;
    bench.send("one", "m").await;
    gate.reached().await;
    let other = bench.another();
    let mut client = Client::default();
    let mut follow = other.events().follow("one", Some(0)).await.expect("a feed");
    client.read(&mut follow, |client| client.text().len() >= "hello, wide".len()).await;
    assert_eq!(client.text(), "hello, wide");
    gate.open();
    client.read(&mut follow, |client| client.text().len() >= "hello, wide world".len()).await;
    assert_eq!(client.text(), "hello, wide world");
    end.open();
    client
        .read(&mut follow, |client| client.names.last().is_some_and(|name| name == "run.completed"))
        .await;
}

#[tokio::test]
async fn a_follower_of_a_resumed_turn_gets_its_text_so_far() {
    let end = Gate::new();
    let bench = Harness::able();
    bench.provider.push(Script::new().say("let me").call("c1", "look", json!({})).say(" see that"));
    bench.provider.push(Script::new().say("; seen").gate(&end));
    bench.chat("one").await;
    bench.engine.messages().submit("one", with_tool("m", "look"), None).await.expect("taken");
    let info = bench.settled("one").await;
    assert_eq!(info.session.state, Activity::Suspended);
    let answer = Answer { results: vec![result("c1", "r")], ..Answer::default() };
    bench.engine.runs().resume("one", info.suspensions[0].id, answer).await.expect("resumed");
    end.reached().await;
    let mut client = Client { last: seq(&bench.engine, "one").await, ..Client::default() };
    let mut follow = bench.engine.events().follow("one", Some(client.last)).await.expect("a feed");
    client.read(&mut follow, |client| client.text().ends_with("seen")).await;
    assert_eq!(client.text(), "let me see that; seen");
    end.open();
}

#[tokio::test]
async fn following_ends_when_the_session_is_deleted() {
    // R244
    let bench = Harness::able();
    bench.chat("one").await;
    let mut follow = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    bench.engine.sessions().delete("one").await.expect("deleted");
    let ended = async { while follow.next().await.expect("works").is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("it ends");
    assert_eq!(
        bench.engine.events().follow("one", None).await.map(drop).expect_err("gone").code(),
        "no_session"
    );
}

#[tokio::test]
async fn one_follower_sees_the_events_of_all_sessions_and_of_other_processes() {
    let bench = Harness::new(Scripted::new());
    let mut all = bench.engine.events().follow_all(Some(0)).await.expect("a feed");
    let other = bench.another();
    bench.chat("one").await;
    bench.chat("two").await;
    bench.say("one", "a").await;
    other.messages().submit("two", ctx_engine::NewMessage::text("b"), None).await.expect("taken");
    other.sessions().wait_until_settled("two", PATIENCE).await.expect("there");
    let mut last = BTreeMap::new();
    let mut done = 0;
    while done < 2 {
        let event =
            tokio::time::timeout(PATIENCE, all.next()).await.expect("it comes").expect("works");
        let before = last.insert(event.session, event.seq).unwrap_or(0);
        assert_eq!(event.seq, before + 1, "in order in each session");
        done += usize::from(event.event.name() == "run.completed");
    }
    assert_eq!(last.len(), 2);
}

#[tokio::test]
async fn a_follower_that_left_is_removed() {
    let bench = Harness::able();
    bench.chat("one").await;
    let (first, second) = (
        bench.engine.events().follow("one", None).await.expect("a feed"),
        bench.engine.events().follow("one", Some(0)).await.expect("a feed"),
    );
    assert_eq!(bench.engine.background().open_channels(), 1);
    drop(first);
    assert_eq!(bench.engine.background().open_channels(), 1);
    drop(second);
    assert_eq!(bench.engine.background().open_channels(), 0);
    let gate = Gate::new();
    bench.provider.push(Script::new().say("x").gate(&gate));
    let follow = bench.engine.events().follow("one", None).await.expect("a feed");
    bench.send("one", "m").await;
    gate.reached().await;
    drop(follow);
    gate.open();
    bench.settled("one").await;
    until("all channels are closed", async || bench.engine.background().open_channels() == 0).await;
    assert_eq!(bench.told("one").await[1].message.role, Role::Assistant);
}

#[tokio::test]
async fn text_is_stored_before_a_follower_gets_it() {
    // R233, R247
    let (pause, end) = (Gate::new(), Gate::new());
    let bench = Harness::able();
    bench.provider.push(Script::new().say("first ").gate(&pause).say("second").gate(&end));
    bench.chat("one").await;
    let (mut client, mut follow) =
        (Client::default(), bench.engine.events().follow("one", Some(0)).await.expect("a feed"));
    bench.send("one", "m").await;
    // Another process sees what was shown.
    let other = bench.another();
    for (gate, shown) in [(&pause, "first "), (&end, "first second")] {
        client.read(&mut follow, |client| client.text() == shown).await;
        assert_eq!(client.names.last().map(String::as_str), Some("run.phase"));
        let page = other.messages().page("one", Order::Asc, None, 10).await.expect("there");
        let texts = page.messages.iter().flat_map(|told| &told.message.content);
        let stored: Vec<&Part> = texts.collect();
        assert_eq!(stored[1], &Part::Text { text: shown.to_owned() });
        let run = other.sessions().get("one").await.expect("there").run.expect("a run");
        assert_eq!(run.phase, Phase::Streaming, "from the first delta on");
        gate.open();
    }
    client.read(&mut follow, |client| client.names.ends_with(&["run.completed".to_owned()])).await;
}

#[tokio::test]
async fn the_text_of_a_complete_answer_comes_before_its_turn() {
    let bench = Harness::able();
    bench.provider.push(Script::new().say("all ").say("at once"));
    bench.chat("one").await;
    let mut follow = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    bench.send("one", "m").await;
    let mut texts = String::new();
    loop {
        let item = tokio::time::timeout(PATIENCE, follow.next()).await.expect("in time");
        match item.expect("the store works").expect("the session is there") {
            FeedItem::Delta(delta) => texts.push_str(&delta.text),
            FeedItem::Event(event) if event.event.name() == "turn.committed" => break,
            FeedItem::Event(_) => {}
        }
    }
    assert_eq!(texts, "all at once");
}

#[tokio::test]
async fn a_follower_that_lags_reads_the_rest_from_the_store() {
    let (bench, end) = (Harness::able(), Gate::new());
    let mut script = Script::new();
    for n in 0..700 {
        script = script.say(&format!("w{n} ")).and(Action::Plan(json!([n])));
    }
    bench.provider.push(script.gate(&end).say("done"));
    bench.chat("one").await;
    let mut client = Client::default();
    let mut follow = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    bench.send("one", "m").await;
    // The follower reads only after more items were sent than its channel holds.
    end.reached().await;
    client.read(&mut follow, |client| client.text().ends_with("w699 ")).await;
    end.open();
    client.read(&mut follow, |client| client.names.ends_with(&["run.completed".to_owned()])).await;
    assert!(client.last > 700, "{}", client.last);
    assert!(client.text().ends_with("w699 done"), "{}", client.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_of_many_runs_comes_complete_and_before_its_turn() {
    // Enough runs for a pause between the checkpoints of each, and a process that looks for events
    // of other processes.
    const RUNS: usize = 40;
    let bench = Harness::able();
    bench.engine.background().start().await.expect("started");
    let whole: String = (0..30).map(|n| format!("w{n} ")).collect();
    let mut clients = Vec::new();
    for run in 0..RUNS {
        let mut script = Script::new();
        for n in 0..30 {
            script = script.say(&format!("w{n} ")).and(Action::Pause(Duration::from_millis(2)));
        }
        bench.provider.push(script);
        let label = format!("s{run}");
        bench.chat(&label).await;
        let follow = bench.engine.events().follow(&label, Some(0)).await.expect("a feed");
        clients.push((label, follow));
    }
    for (label, _) in &clients {
        bench.send(label, "m").await;
    }
    for (_, mut follow) in clients {
        let mut client = Client::default();
        client.read(&mut follow, |client| client.names.iter().any(|n| n == "turn.committed")).await;
        assert_eq!(client.text(), whole);
    }
    bench.engine.background().shutdown().await;
}
