//! The harness of all tests of the engine: a store of its own, an engine on it, a scripted
//! provider, and a manual clock where time matters.
//!
//! The store is a directory, or a PostgreSQL database with `CTX_TEST_STORE=postgres`.
//! A test never sleeps to give something time: it waits for a condition with [`until`].

#[path = "../../../ctx-store/tests/harness/test_database.rs"]
#[allow(dead_code, reason = "the harness of the program uses the rest of it")]
mod test_database;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ctx_core::decide::Settings;
use ctx_core::inbox::{Overrides, Tool};
use ctx_core::message::{Message, Part, Role};
use ctx_core::suspension::CallResult;
use ctx_core::time::{Span, Timestamp};
use ctx_core::turn::Status;
use ctx_engine::provider::ProviderFeatures;
use ctx_engine::{
    Engine, EngineTimeouts, Indexing, Info, ListedMessage, Location, ManualClock, NewMessage,
    NewSession, Options, Order, Providers, Recorder, Submitted,
};
use ctx_providers::Scripted;
use tempfile::TempDir;
use test_database::TestDatabase;

pub(crate) use test_database::on_postgres;

/// Longer than anything takes that works, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Where the manual clock starts.
pub(crate) const NOON: Timestamp = Timestamp(1_763_200_000_000);

/// A new store, and a directory for the files of a test.
pub(crate) struct TestStore {
    dir: TempDir,
    database: Option<TestDatabase>,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let store = Self { dir, database: TestDatabase::chosen() };
        Engine::init(store.location(), "demo").expect("a store");
        store
    }

    pub(crate) fn location(&self) -> Location {
        match &self.database {
            Some(database) => Location::from(&database.url()),
            None => Location::from(self.dir.path()),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Number of processes that are registered.
    pub(crate) fn nodes(&self) -> usize {
        match &self.database {
            Some(database) => database.sql("SELECT count(*) FROM nodes").parse().expect("a count"),
            None => std::fs::read_dir(self.dir().join("nodes")).expect("a directory").count(),
        }
    }

    /// Lets the leases of all processes that own sessions end now. Only a database on a server has
    /// them: in a directory the lock of a process ends with the process.
    pub(crate) fn end_leases(&self) {
        if let Some(database) = &self.database {
            database
                .sql("UPDATE nodes SET expires_at = 0 WHERE id IN (SELECT owner FROM sessions)");
        }
    }
}

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) provider: Arc<Scripted>,
    /// Used by the engine after [`Harness::at_noon`] and [`Harness::with_clock`].
    pub(crate) clock: Arc<ManualClock>,
    /// The last field, so that the engine is dropped before its store is deleted.
    pub(crate) store: TestStore,
}

pub(crate) fn short_timeouts() -> EngineTimeouts {
    EngineTimeouts {
        checkpoint: Duration::from_millis(20),
        retry: Duration::from_millis(1),
        stop: Duration::from_millis(300),
        cancel: Duration::from_millis(500),
        outbox_poll: Duration::from_millis(20),
        ..EngineTimeouts::default()
    }
}

/// An engine on a store, as another process would open it.
pub(crate) fn open(store: &TestStore, provider: &Arc<Scripted>, settings: Settings) -> Engine {
    let options = Options { indexing: Indexing::OnDemand, ..Options::default() };
    let mut providers = Providers::only("main", provider.clone());
    providers.all.insert("other".to_owned(), provider.clone());
    providers.personas.insert(
        "atlas".to_owned(),
        ctx_engine::Persona { system_prompt: "You are Atlas.".to_owned() },
    );
    Engine::open(store.location(), options)
        .expect("a store")
        .with_settings(settings)
        .with_providers(providers, short_timeouts())
}

impl Harness {
    pub(crate) fn new(provider: Scripted) -> Self {
        Self::with(provider, Settings::default())
    }

    /// A provider that can be steered and takes tools.
    pub(crate) fn able() -> Self {
        Self::new(Scripted::new().can(ProviderFeatures {
            steer: true,
            tools: true,
            ..ProviderFeatures::default()
        }))
    }

    pub(crate) fn with(provider: Scripted, settings: Settings) -> Self {
        let store = TestStore::new();
        let provider = Arc::new(provider);
        let engine = open(&store, &provider, settings);
        Self::on(store, engine, provider)
    }

    /// An engine that a test has opened itself.
    pub(crate) fn on(store: TestStore, engine: Engine, provider: Arc<Scripted>) -> Self {
        Self { engine, provider, clock: Arc::new(ManualClock::at(NOON)), store }
    }

    /// An engine whose manual clock starts at [`NOON`].
    pub(crate) fn at_noon() -> Self {
        let new = Self::new(Scripted::new());
        let clock = new.clock.clone();
        new.with_clock(&clock)
    }

    pub(crate) fn with_settings(self, settings: Settings) -> Self {
        let engine = self.engine.clone().with_settings(settings);
        Self { engine, ..self }
    }

    pub(crate) fn with_clock(self, clock: &Arc<ManualClock>) -> Self {
        let engine = self.engine.clone().with_clock(clock.clone());
        Self { engine, clock: clock.clone(), ..self }
    }

    /// The engine of a new process, on the same store and with the same manual clock.
    pub(crate) fn engine(&self) -> Engine {
        self.another().with_clock(self.clock.clone())
    }

    /// The recorder of a new process for the session `main`.
    pub(crate) async fn recorder(&self) -> Recorder {
        self.engine().tasks().recorder("main").await.expect("a recorder")
    }

    /// Another process on the same store.
    pub(crate) fn another(&self) -> Engine {
        open(&self.store, &self.provider, self.engine.settings().clone())
    }

    /// Another process, for which the leases of all others have run out.
    pub(crate) fn after_all_leases(&self) -> Engine {
        self.store.end_leases();
        let ahead = Arc::new(ManualClock::at(self.engine.now()));
        ahead.advance(Span::hours(1));
        self.another().with_clock(ahead)
    }

    pub(crate) async fn chat(&self, label: &str) -> Info {
        self.make(NewSession { label: Some(label.to_owned()), ..NewSession::default() }).await
    }

    /// A session that tracks tasks.
    pub(crate) async fn tracked(&self, label: &str) -> Info {
        self.make(NewSession {
            label: Some(label.to_owned()),
            track_tasks: Some(true),
            ..NewSession::default()
        })
        .await
    }

    pub(crate) async fn make(&self, new: NewSession) -> Info {
        let (id, _) = self.engine.sessions().create(new, None, None).await.expect("made");
        self.engine.sessions().get(&id.to_string()).await.expect("there")
    }

    pub(crate) async fn send(&self, session: &str, text: &str) -> Submitted {
        self.engine.messages().submit(session, NewMessage::text(text), None).await.expect("taken")
    }

    pub(crate) async fn send_as(&self, session: &str, text: &str, mode: &str) -> Submitted {
        let mode = Some(mode.parse().expect("a mode"));
        self.engine
            .messages()
            .submit(session, NewMessage { mode, ..NewMessage::text(text) }, None)
            .await
            .expect("taken")
    }

    /// Sends a message and waits until the session has settled.
    pub(crate) async fn say(&self, session: &str, text: &str) -> Info {
        self.send(session, text).await;
        self.settled(session).await
    }

    pub(crate) async fn settled(&self, session: &str) -> Info {
        let info =
            self.engine.sessions().wait_until_settled(session, PATIENCE).await.expect("there");
        assert_ne!(
            info.session.state,
            ctx_core::session::Activity::Running,
            "still running after {PATIENCE:?}"
        );
        info
    }

    pub(crate) async fn told(&self, session: &str) -> Vec<ListedMessage> {
        self.engine.messages().page(session, Order::Asc, None, 1000).await.expect("there").messages
    }

    /// Role and text of all messages.
    pub(crate) async fn transcript(&self, session: &str) -> Vec<String> {
        self.told(session).await.into_iter().map(|told| line(&told.message)).collect()
    }

    /// How each turn ended, oldest first.
    pub(crate) async fn endings(&self, session: &str) -> Vec<Status> {
        let mut turns = self
            .engine
            .messages()
            .turns(session, ctx_engine::Order::Desc, None, 1000)
            .await
            .expect("there");
        turns.reverse();
        turns.into_iter().map(|turn| turn.header.status).collect()
    }

    /// The user messages of each turn.
    pub(crate) async fn turns(&self, session: &str) -> Vec<Vec<String>> {
        let mut turns: Vec<(Option<ctx_core::id::TurnId>, Vec<String>)> = Vec::new();
        for told in
            self.told(session).await.into_iter().filter(|told| told.message.role == Role::User)
        {
            let words = line(&told.message).trim_start_matches("user: ").to_owned();
            match turns.last_mut() {
                Some((turn, said)) if *turn == told.turn => said.push(words),
                _ => turns.push((told.turn, vec![words])),
            }
        }
        turns.into_iter().map(|(_, said)| said).collect()
    }

    /// The texts of the inbox, in order.
    pub(crate) async fn waiting(&self, session: &str) -> Vec<String> {
        self.engine
            .sessions()
            .get(session)
            .await
            .expect("there")
            .inbox
            .iter()
            .map(ctx_core::inbox::Item::text)
            .collect()
    }

    pub(crate) async fn verify(&self) {
        let report = self.engine.maintenance().verify(false, &|_, _| {}).await.expect("looked at");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

pub(crate) fn line(message: &Message) -> String {
    let who = match message.role {
        Role::User => "user",
        Role::Assistant => "agent",
        Role::System => "ctx",
        Role::Tool => "tool",
    };
    let parts: Vec<String> = message
        .content
        .iter()
        .map(|part| match part {
            Part::Text { text } | Part::Summary { text } => text.clone(),
            Part::Thought { text, .. } => format!("({text})"),
            Part::ToolCall { name, status, .. } => format!("[{name} {status:?}]"),
            Part::ToolResult { content, .. } => format!("[= {}]", content.text().unwrap_or("blob")),
            Part::Error { code, .. } => format!("!{code}"),
            Part::Plan { .. } => "[plan]".to_owned(),
            Part::Image { .. } => "[image]".to_owned(),
            Part::Record { kind, .. } => format!("[{kind}]"),
        })
        .collect();
    format!("{who}: {}", parts.join(" "))
}

/// The messages of a request as the model gets them.
pub(crate) fn seen(messages: &[Message]) -> Vec<String> {
    messages.iter().map(line).collect()
}

/// A tool of the client.
pub(crate) fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object"}),
    }
}

/// A message that offers a client tool.
pub(crate) fn with_tool(text: &str, name: &str) -> NewMessage {
    NewMessage {
        overrides: Overrides { tools: vec![tool(name)], ..Overrides::default() },
        ..NewMessage::text(text)
    }
}

/// The result of a client's tool.
pub(crate) fn result(id: &str, content: &str) -> CallResult {
    CallResult { tool_call_id: id.to_owned(), content: content.to_owned(), is_error: false }
}

/// Waits for a condition; fails after [`PATIENCE`].
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"));
}
