//! Agents with a window of their own: ctx's limit applies to what ctx sends, and `/compact` is the
//! agent's own command.

use std::sync::Arc;

use async_trait::async_trait;
use ctx_core::compaction::{By, Trigger, Type};
use ctx_core::message::Role;
use ctx_core::session::Activity;
use ctx_core::turn::Kind;
use ctx_engine::provider::{About, Agent, Delta, End, Link, Provider, Request};
use ctx_engine::{Engine, NewMessage, Providers};
use ctx_providers::Scripted;
use serde_json::{Value, json};

use super::context_window::{model, words};
use crate::harness::{Harness, TestStore, seen, short_timeouts};

/// A provider that reports these commands and keeps its own conversation, as an agent does.
struct AsAgent {
    inner: Scripted,
    commands: Option<Vec<Value>>,
}

#[async_trait]
impl Provider for AsAgent {
    fn about(&self) -> About {
        About {
            agent: Some(Agent { commands: self.commands.clone(), ..Agent::default() }),
            ..self.inner.about()
        }
    }

    async fn run(&self, request: Request, link: Link) -> End {
        link.send(Delta::AgentSession(format!("own of {}", request.session))).await;
        if seen(&request.messages).last().is_some_and(|line| line.starts_with("user: /compact")) {
            let (tokens_before, tokens_after) = (Some(900), Some(100));
            link.send(Delta::Compacted {
                summary: "all of it".to_owned(),
                trigger: Trigger::Manual,
                tokens_before,
                tokens_after,
            })
            .await;
        }
        self.inner.run(request, link).await
    }
}

/// A model `main`, and an agent `agent` with a window of this many tokens.
fn bench(window: u64, commands: Option<Vec<Value>>) -> (Harness, Arc<AsAgent>) {
    let store = TestStore::new();
    let (main, agent) = (
        Arc::new(model(100_000)),
        Arc::new(AsAgent { inner: Scripted::new().with_context_window(window), commands }),
    );
    let mut providers = Providers::only("main", main.clone());
    providers.all.insert("agent".to_owned(), agent.clone());
    let engine = Engine::open(store.location(), ctx_engine::Options::default())
        .expect("a store")
        .with_providers(providers, short_timeouts());
    (Harness::on(store, engine, main), agent)
}

async fn say_to(bench: &Harness, provider: &str, text: &str) {
    let mut message = NewMessage::text(text);
    message.overrides.provider_id = Some(provider.to_owned());
    bench.engine.messages().submit("one", message, None).await.expect("taken");
    bench.settled("one").await;
}

async fn compactions(bench: &Harness) -> Vec<ctx_core::compaction::Compaction> {
    let turns = bench
        .engine
        .messages()
        .turns("one", ctx_engine::Order::Desc, None, 100)
        .await
        .expect("there");
    turns.into_iter().filter_map(|turn| turn.compaction).collect()
}

#[tokio::test]
async fn a_handover_fits_the_window_and_the_agent_manages_its_own_window() {
    // R168: histories that ctx sends, handovers included.
    let (bench, agent) = bench(1000, None);
    bench.chat("one").await;
    for n in 0..4 {
        say_to(&bench, "main", &words(300, &format!("m{n}"))).await;
    }
    assert!(compactions(&bench).await.is_empty(), "the model has room");
    say_to(&bench, "agent", "go on").await;
    let all = compactions(&bench).await;
    let [row] = all.as_slice() else { panic!("one compaction, not {}", all.len()) };
    assert_eq!(
        (row.trigger, row.kind),
        (Trigger::ContextLimit, Type::SlidingWindow),
        "an agent is not asked to summarise"
    );
    let request = agent.inner.requests().pop().expect("asked");
    assert_eq!(request.messages[0].role, Role::System, "the handover begins with the summary");
    assert_eq!(seen(&request.messages).last().map(String::as_str), Some("user: go on"));
    assert_eq!(request.open, request.messages.len() - 1);
    assert!(request.own.is_none(), "it has seen nothing yet");
    // From now on the agent keeps the history: ctx sends only new messages, however long it is.
    for n in 0..6 {
        say_to(&bench, "agent", &words(300, &format!("a{n}"))).await;
        let request = agent.inner.requests().pop().expect("asked");
        let own = request.own.clone().expect("its own conversation");
        assert_eq!(
            (own.unseen, request.open),
            (request.messages.len() - 1, request.messages.len() - 1)
        );
    }
    assert_eq!(compactions(&bench).await.len(), 1, "its own window is its own");
    let turns = bench
        .engine
        .messages()
        .turns("one", ctx_engine::Order::Desc, None, 100)
        .await
        .expect("there");
    assert_eq!(turns.iter().filter(|turn| turn.header.kind == Kind::Compaction).count(), 1);
    bench.verify().await;
}

#[tokio::test]
async fn compact_runs_the_agents_own_command_where_it_has_one() {
    // R177 for agents: else 409 `compact_unavailable`.
    let command = |name: &str| vec![json!({"name": name, "description": ""})];
    for (commands, by_verb, by_message) in [
        (None, false, true),
        (Some(command("init")), false, false),
        (Some(command("compact")), true, true),
    ] {
        let (bench, agent) = bench(1000, commands.clone());
        bench.chat("one").await;
        say_to(&bench, "agent", "hello").await;
        let patch = ctx_core::decide::Patch {
            provider_id: Some(Some("agent".to_owned())),
            ..Default::default()
        };
        bench.engine.sessions().update("one", patch).await.expect("preferred");
        let verb = bench.engine.contexts().compact("one", None).await.map_err(|error| error.code());
        assert_eq!(verb.is_ok(), by_verb, "{commands:?}");
        assert!(by_verb || verb == Err("compact_unavailable"));
        bench.settled("one").await;
        let message = bench
            .engine
            .messages()
            .submit("one", NewMessage::text("/compact the boat"), None)
            .await
            .map_err(|error| error.code());
        assert_eq!(message.is_ok(), by_message, "{commands:?}");
        let info = bench.settled("one").await;
        assert_eq!(info.session.state, Activity::Idle);
        let last = seen(&agent.inner.requests().pop().expect("asked").messages).pop();
        assert_eq!(
            last.as_deref() == Some("user: /compact the boat"),
            by_message,
            "it goes to the agent as it is: {last:?}"
        );
        let all = compactions(&bench).await;
        assert!(
            all.iter().all(|row| row.metadata.by == By::Agent && row.tokens_before == 900),
            "ctx makes none of its own"
        );
        assert_eq!(all.is_empty(), !by_message);
        // A compaction in the agent's window does not change the context of others.
        say_to(&bench, "main", "and you?").await;
        let told = seen(&bench.provider.requests().pop().expect("asked").messages);
        assert_eq!(told[0], "user: hello", "{told:?}");
        assert!(
            !told.iter().any(|line| line.contains("all of it") || line.contains("/compact")),
            "{told:?}"
        );
        bench.verify().await;
    }
}
