//! A server and the adapter of a channel, killed while messages and replies are under way: every
//! accepted line is in the conversation once, and every reply is printed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::adapter::{
    Adapter, AdapterCommand, Printed, configure_channels, fixed_port, serve,
};
use crate::harness::client::Client;
use crate::harness::model_server::{ModelServer, Request, completion};
use crate::harness::seed::{Random, prefix, report};
use crate::harness::server::{Home, Server, home};
use crate::harness::{random_delay, verify};

/// Rounds of kills; `CTX_ADAPTER_ROUNDS` sets another number.
const ROUNDS: usize = 20;
/// Rounds after which everything has to arrive.
const ROUNDS_BETWEEN_CHECKS: usize = 10;
/// Longer than a line takes from the input to its printed reply.
const KILL_WITHIN: Duration = Duration::from_millis(120);
/// Time until the model answers.
const MODEL_DELAYS: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(60)];
/// Longer than the pauses of a delivery that failed several times.
const ARRIVAL: Duration = Duration::from_secs(120);
const LABEL: &str = "dm:line:mom";

fn echo(request: &Request) -> String {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.last().and_then(|last| last["content"].as_str()).unwrap_or_default();
    completion(&format!("echo: {last}"))
}

/// The person, the adapter and the server.
struct Conversation {
    home: Home,
    command: AdapterCommand,
    server: Option<Server>,
    adapter: Option<Adapter>,
    /// What the person said, in order.
    said: Vec<String>,
    /// What is known to be in the journal. The person says everything else again.
    accepted: HashSet<String>,
}

impl Conversation {
    fn begin(model: &ModelServer) -> Self {
        let (home, ctx_port, port) = (home(), fixed_port(), fixed_port());
        configure_channels(home.path(), &model.config(""), &[("line", port)]);
        let command = AdapterCommand {
            channel: "line",
            ctx_port,
            port,
            home: home.path().to_owned(),
            options: ["--sender", "mom", "--json"].map(str::to_owned).into(),
            printed: Printed::default(),
        };
        let (server, adapter) = (Some(serve(&home, ctx_port)), Some(command.start()));
        Self { home, command, server, adapter, said: Vec::new(), accepted: HashSet::new() }
    }

    fn say(&mut self) {
        let text = format!("line {}", self.said.len());
        self.adapter.as_mut().expect("it runs").say(&text);
        self.said.push(text);
    }

    fn kill_server(&mut self) {
        self.server.take().expect("it runs").kill();
    }

    /// Kills the adapter. The journal holds what it accepted.
    fn kill_adapter(&mut self) {
        self.adapter.take().expect("it runs").kill();
        self.read_journal();
    }

    fn read_journal(&mut self) {
        let journal = std::fs::read_to_string(self.command.journal()).expect("a journal");
        let entries = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let texts =
            entries.filter_map(|entry| entry["message"]["text"].as_str().map(str::to_owned));
        self.accepted.extend(texts);
    }

    /// Starts what does not run, and says again what the adapter did not accept.
    fn restart(&mut self, random: &mut Random) -> usize {
        let mut kills = 0;
        if self.server.is_none() {
            self.server = Some(serve(&self.home, self.command.ctx_port));
        }
        if self.adapter.is_none() {
            // It is sometimes killed while it reads and shortens its journal, too.
            if random.below(4) == 0 {
                let starting = self.command.spawn();
                random_delay(random, Duration::ZERO, 2 * KILL_WITHIN);
                starting.kill();
                self.read_journal();
                kills += 1;
            }
            let mut adapter = self.command.start();
            for text in self.said.iter().filter(|text| !self.accepted.contains(*text)) {
                adapter.say(text);
            }
            self.adapter = Some(adapter);
        }
        kills
    }

    fn client(&self) -> Client {
        self.server.as_ref().expect("it runs").client()
    }

    /// The printed deliveries, by id, and how many lines repeat another one.
    fn printed(&self) -> (BTreeMap<String, Value>, usize) {
        let lines = self.command.printed.lock().expect("no panic").clone();
        let mut by_id: BTreeMap<String, Value> = BTreeMap::new();
        let mut repeated = 0;
        for line in lines {
            let delivery: Value = serde_json::from_str(&line)
                .unwrap_or_else(|e| panic!("{}a line is JSON: {e}: {line}", prefix()));
            let id = delivery["id"].as_str().expect("an id").to_owned();
            if let Some(first) = by_id.insert(id, delivery.clone()) {
                assert_eq!(first, delivery, "{}a repeated delivery is the same", prefix());
                repeated += 1;
            }
        }
        (by_id, repeated)
    }

    /// The messages of the person in the conversation: id and text, in order.
    fn stored(&self) -> Option<Vec<(String, String)>> {
        let client = self.client();
        let found = client.get(&format!("/api/sessions/{}", LABEL.replace(':', "%3A")));
        if found.status != 200 {
            return None;
        }
        let (messages, inbox) = client.everything(found.body["id"].as_str().expect("an id"));
        let of_person =
            messages.iter().filter(|message| message["role"] == "user").map(|message| {
                let text = message["content"][0]["text"].as_str().expect("a text");
                (message["id"].as_str().expect("an id").to_owned(), text.to_owned())
            });
        inbox.is_empty().then(|| of_person.collect())
    }

    /// Waits until everything that was said is stored and answered.
    fn wait_until_answered(&self, here: &str) {
        let deadline = Instant::now() + ARRIVAL;
        loop {
            let stored = self.stored().unwrap_or_default();
            assert!(
                stored.len() <= self.said.len(),
                "{}{here}: stored twice: {stored:?}",
                prefix()
            );
            let (printed, _) = self.printed();
            let answers = |id: &str| {
                let has = |delivery: &&Value| {
                    let ids = delivery["message_ids"].as_array().expect("ids");
                    ids.iter().any(|answered| answered == id)
                };
                printed.values().filter(has).count()
            };
            let open: Vec<&String> =
                stored.iter().filter(|(id, _)| answers(id) == 0).map(|(_, text)| text).collect();
            if stored.len() == self.said.len() && open.is_empty() {
                let texts: Vec<&String> = stored.iter().map(|(_, text)| text).collect();
                assert_eq!(texts, Vec::from_iter(&self.said), "{}{here}: once, in order", prefix());
                assert!(stored.iter().all(|(id, _)| answers(id) == 1), "{}{here}", prefix());
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{}{here}: {} lines of {} are stored; no reply to {open:?}; outbox: {}",
                prefix(),
                stored.len(),
                self.said.len(),
                self.client().read("/api/outbox?status=pending"),
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn messages_and_replies_survive_kills_of_server_and_adapter() {
    let rounds = std::env::var("CTX_ADAPTER_ROUNDS")
        .map_or(ROUNDS, |text| text.parse().expect("CTX_ADAPTER_ROUNDS is a number"));
    let model = ModelServer::responding(|number, request| {
        // Some runs are still open when the server is killed.
        std::thread::sleep(MODEL_DELAYS[number % MODEL_DELAYS.len()]);
        echo(request)
    });
    let mut random = Random::new(1_507);
    let mut talk = Conversation::begin(&model);
    let mut kills: HashMap<&str, usize> = HashMap::new();
    for round in 1..=rounds {
        for _ in 0..=random.below(3) {
            talk.say();
        }
        random_delay(&mut random, Duration::ZERO, KILL_WITHIN);
        let victims = random.below(4);
        if victims != 1 {
            talk.kill_server();
            *kills.entry("server").or_default() += 1;
        }
        if victims == 2 {
            // The adapter goes on without a server for a moment.
            random_delay(&mut random, Duration::ZERO, KILL_WITHIN);
        }
        if victims != 0 {
            talk.kill_adapter();
            *kills.entry("adapter").or_default() += 1;
        }
        *kills.entry("adapter").or_default() += talk.restart(&mut random);
        if round % ROUNDS_BETWEEN_CHECKS == 0 || round == rounds {
            talk.wait_until_answered(&format!("after round {round}"));
        }
    }
    let (printed, repeated) = talk.printed();
    let mut attempts = 0;
    let mut cursor = String::new();
    let mut ids = HashSet::new();
    loop {
        let page = talk.client().read(&format!("/api/outbox?limit=1000{cursor}"));
        for row in page["deliveries"].as_array().expect("rows") {
            assert_ne!(row["status"], "dead", "{}{row}", prefix());
            attempts += row["attempts"].as_u64().expect("a number");
            ids.insert(row["id"].as_str().expect("an id").to_owned());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(ids, printed.keys().cloned().collect(), "{}every delivery is printed", prefix());
    let cut = printed.values().filter(|one| !one["text"].to_string().contains("echo")).count();
    talk.kill_adapter();
    talk.kill_server();
    verify(talk.home.path(), "after the kills");
    let more = format!(
        "of a server ({}) and an adapter ({}) in {rounds} rounds: {} lines, {} replies ({cut} \
         tell of a crash), {attempts} attempts, {repeated} printed twice",
        kills["server"],
        kills["adapter"],
        talk.said.len(),
        printed.len()
    );
    report("", kills.values().sum(), &more);
}
