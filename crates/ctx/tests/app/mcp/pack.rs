//! `ctx pack` and the tool `context_pack`.

use serde_json::{Value, json};

use crate::harness::mcp_client::{Mcp, StdioMcp};
use crate::harness::repo::Repo;

/// A project with a sealed task about sheds, and tasks around it.
fn project() -> (Repo, String) {
    let repo = Repo::working_on("Paint the shed green");
    repo.write("shed.rs", "fn paint() {}");
    for note in ["Decision: moss green, because the fence is moss green too", "Sanding took long"] {
        repo.ok(["stage", "note", note]);
    }
    repo.ok(["stage", "ask", "How many coats?"]);
    repo.ok(["stage", "answer", "two"]);
    repo.ok(["stage", "observe", "file-write", "shed.rs"]);
    repo.ok(["stage", "relate", "file:shed.rs", "depends_on", "module:brush"]);
    let task = repo.ok(["stage", "status"])["task"]["id"].as_str().expect("an id").to_owned();
    repo.ok(["stage", "compact", "-m", "The shed is moss green"]);
    repo.ok(["stage", "start", "Buy a brush"]);
    repo.ok(["stage", "relate", "module:brush", "contains", "item:bristle"]);
    repo.ok(["stage", "relate", "module:hammer", "contains", "item:nail"]);
    repo.ok(["stage", "abort", "--reason", "too expensive"]);
    (repo, task)
}

fn items(pack: &Value, section: &str) -> Vec<String> {
    let sections = pack["sections"].as_array().expect("sections");
    let found = sections.iter().find(|it| it["name"] == section);
    let items = found.map(|it| it["items"].as_array().expect("items").clone()).unwrap_or_default();
    items.iter().map(|item| item["text"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_pack_holds_decisions_files_relations_and_sources() {
    let (repo, task) = project();
    let pack = repo.ok(["pack", &task, "--budget", "2000"]);
    assert_eq!((&pack["task"], &pack["outcome"]), (&json!(task), &json!("normal")));
    assert_eq!(
        items(&pack, "decisions"),
        ["Decision: moss green, because the fence is moss green too"]
    );
    assert_eq!(items(&pack, "questions"), ["How many coats? — two"]);
    assert_eq!(items(&pack, "notes"), ["Sanding took long"]);
    assert_eq!(items(&pack, "files"), ["shed.rs (written)"]);
    let relations = items(&pack, "relations");
    assert_eq!(relations[0], "file:shed.rs depends_on module:brush");
    assert!(relations[1].starts_with("module:brush contains item:bristle"), "{relations:?}");
    assert_eq!(relations.len(), 2, "the hammer is not related: {relations:?}");
    assert!(items(&pack, "commits")[0].contains("(abandoned) Buy a brush"), "{pack}");
    // Every source can be shown.
    for section in pack["sections"].as_array().expect("sections") {
        for item in section["items"].as_array().expect("items") {
            let sources = item["sources"].as_array().expect("sources");
            assert!(!sources.is_empty(), "{item}");
            repo.ok(["show", sources[0]["id"].as_str().expect("an id")]);
        }
    }
    // The same store gives the same bytes, by every name of the task and over MCP.
    for name in [&task, &task[10..18], "paint the shed", "moss green"] {
        assert_eq!(repo.ok(["pack", name, "--budget", "2000"]), pack, "{name}");
    }
    let mut mcp = StdioMcp::start(&repo, &["--read-only"]);
    let over_mcp = mcp.data("context_pack", json!({"task": task, "budget": 2000}));
    assert_eq!(over_mcp, pack);
}

#[test]
fn a_pack_stays_within_its_budget() {
    let (repo, task) = project();
    repo.ok(["stage", "start", "Write a long story"]);
    for n in 0..40 {
        repo.ok(["stage", "note", &format!("Sentence {n} of the story, with a few more words")]);
    }
    let engine = ctx_engine::Engine::open(repo.location(), ctx_engine::Options::default());
    let engine = engine.expect("a store");
    for (name, budget) in
        [(task.as_str(), 100), (&task, 150), ("story", 100), ("story", 300), ("story", 700)]
    {
        let pack = repo.ok(["pack", name, "--budget", &budget.to_string()]);
        let text = pack["text"].as_str().expect("a text");
        assert!(engine.count_tokens(text) <= budget, "{budget}: {text}");
        assert_eq!(pack["tokens"], engine.count_tokens(text));
        assert!(text.contains("Left out"), "{text}");
        let counted: u64 = pack["sections"]
            .as_array()
            .expect("sections")
            .iter()
            .map(|it| it["left_out"].as_u64().expect("a number"))
            .sum();
        assert!(counted > 0, "{pack}");
    }
    let story = repo.ok(["pack", "story", "--budget", "300"]);
    assert_eq!(items(&story, "state")[0], "The agent is working on the task.");
    assert!(items(&story, "notes")[0].starts_with("Sentence 39"), "newest first");
}

#[test]
fn tasks_that_match_equally_well_are_listed() {
    let (repo, _) = project();
    repo.ok(["stage", "start", "Paint the fence green"]);
    let (exit, problem) = repo.fails(["pack", "paint", "green"]);
    assert_eq!((exit, &problem["code"]), (2, &json!("ambiguous")), "{problem}");
    let names: Vec<&str> = problem["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .filter_map(|task| task["description"].as_str())
        .collect();
    assert_eq!(names, ["Paint the fence green", "Paint the shed green"]);
    let mut mcp = StdioMcp::start(&repo, &[]);
    let listed = mcp.fails("context_pack", json!({"task": "paint green"}));
    assert!(listed.contains("shed") && listed.contains("fence"), "{listed}");
    let (exit, problem) = repo.fails(["pack", "zeppelin"]);
    assert_eq!((exit, &problem["code"]), (1, &json!("not_found")));
    assert_eq!(repo.fails(["pack", "shed", "--budget", "5"]).0, 2);
}
