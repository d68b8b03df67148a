//! `ctx.toml`: an error names the key, the file and the line; nothing is guessed.

use serde_json::json;

use crate::harness::repo::Repo;

/// Asserts that any verb refuses a broken configuration and changes nothing.
#[track_caller]
fn refused(repo: &Repo, named: &[&str]) {
    for verb in [
        vec!["stage", "status"],
        vec!["stage", "note", "x"],
        vec!["log"],
        vec!["stage", "message", "stop"],
    ] {
        let (exit, error) = repo.fails(&verb);
        assert_eq!((exit, &error["code"]), (2, &json!("bad_config")), "{verb:?}: {error}");
        for part in named {
            assert!(
                error["message"].as_str().is_some_and(|text| text.contains(part)),
                "{part} is not in {error}"
            );
        }
    }
}

#[test]
fn a_wrong_duration_names_its_key() {
    let repo = Repo::working_on("Add retry logic");
    let before = repo.everything();
    for key in ["task_ask", "task_seal"] {
        for wrong in ["5 fortnights", "", "24", "-1h", "1.5h", "99999999999999999999d"] {
            repo.configure(format!("[clocks]\n{key} = \"{wrong}\"\n"));
            refused(&repo, &[&format!("clocks.{key}"), wrong]);
        }
    }
    repo.configure("");
    assert_eq!(repo.everything(), before);
}

#[test]
fn a_wrong_variable_names_its_key() {
    let repo = Repo::working_on("Add retry logic").with("CTX_CLOCKS_TASK_ASK", "soon");
    refused(&repo, &["task_ask", "soon"]);
    let repo = Repo::working_on("Add retry logic").with("CTX_DEFAULTS_ON_NEW_TASK", "perhaps");
    refused(&repo, &["on_new_task", "perhaps", "ask", "auto"]);
}

#[test]
fn a_broken_file_names_itself_and_the_line() {
    let repo = Repo::working_on("Add retry logic");
    let before = repo.everything();
    for (text, line) in [
        ("x =", "line 1"),
        ("\n\n[clocks", "line 3"),
        ("[clocks]\ntask_ask = 5\n", "line 2"),
        ("[clocks]\ntask_seal = \"1h\"\ntask_seal = \"2h\"\n", "line 3"),
        ("# fine\n[defaults]\non_new_task = [\n", "ctx.toml"),
    ] {
        repo.configure(text);
        refused(&repo, &["ctx.toml", line]);
    }
    repo.configure(b"# caf\xe9\n");
    refused(&repo, &["ctx.toml"]);
    repo.configure("");
    assert_eq!(repo.everything(), before);
}

#[test]
fn an_unknown_key_names_itself_and_the_known_ones() {
    let repo = Repo::working_on("Add retry logic");
    repo.configure("[clocks]\ntask_aks = \"1h\"\n");
    refused(&repo, &["ctx.toml", "line 2", "task_aks", "task_ask"]);
    repo.configure("[clocs]\n");
    refused(&repo, &["ctx.toml", "clocs", "clocks"]);
}

#[test]
fn a_wrong_value_names_its_key() {
    let repo = Repo::working_on("Add retry logic");
    repo.configure("[defaults]\non_new_task = \"perhaps\"\n");
    refused(&repo, &["on_new_task", "perhaps"]);
}

#[test]
fn another_file_can_be_named_and_must_then_exist() {
    let repo = Repo::working_on("Add retry logic");
    let file = repo.write("mine.toml", "[clocks]\ntask_ask = \"0ms\"\n");
    let named = file.to_str().expect("a path");
    let asked =
        (0..1000).any(|_| repo.ok(["--config", named, "stage", "status"])["stale"] == "should_ask");
    assert!(asked, "the clock of the other file");
    assert_eq!(repo.ok(["stage", "status"])["stale"], "fresh", "only where it is named");
    let (exit, error) = repo.refuses(["--config", "nothing.toml", "stage", "status"]);
    assert_eq!((exit, &error["code"]), (2, &json!("bad_config")));
    assert!(error["message"].as_str().is_some_and(|text| text.contains("nothing.toml")), "{error}");
}

#[test]
fn the_configuration_of_the_design_is_accepted() {
    // Design, section 9: every key of its example is accepted, whether or not this verb needs it.
    let repo = Repo::working_on("Add retry logic");
    repo.configure(
        r#"
[server]
listen = "127.0.0.1:7420"

[providers.local]
kind = "openai"
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_KEY"
model = "some-model"
context_window = 32768

[providers.opencode]
kind = "acp"
command = ["opencode", "acp"]

[personas.atlas]
system_prompt = "You are Atlas."

[mcp]
http = true

[defaults]
provider = "local"
on_new_task = "ask"

[clocks]
process_idle = "5m"
task_ask = "24h"
task_seal = "7d"
session_archive = "30d"
"#,
    );
    assert_eq!(repo.state(), "running");
}

#[test]
fn a_program_can_classify_messages_and_the_rules_are_the_fallback() {
    // R61, R62: any other output means unclear; if the classifier fails, the rules decide.
    let repo = Repo::working_on("Add retry logic");
    repo.ok(["stage", "done", "Retries"]);
    let judged = |script: &str| -> String {
        repo.configure(format!(
            "[classifier]\ncommand = [\"sh\", \"-c\", {script:?}]\ntimeout = \"20s\"\n"
        ));
        repo.ok(["stage", "message", "What does that mean?"])["intent"]
            .as_str()
            .expect("an intent")
            .to_owned()
    };
    assert_eq!(judged("exit 1"), "clarification", "the rules");
    assert_eq!(judged("echo Z"), "unclear");
    assert_eq!(judged("cat > prompt.txt; echo B"), "modification");
    let prompt = std::fs::read_to_string(repo.dir().join("prompt.txt"))
        .expect("the prompt that the program was given");
    for part in ["Add retry logic", "pending_complete", "What does that mean?"] {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
}

#[test]
fn the_summary_provider_must_be_configured() {
    // R171
    let repo = Repo::new();
    repo.configure("[compaction]\nprovider = \"nobody\"\n");
    let wrong = repo.fails(["session", "compact", "x"]);
    assert!(
        wrong.1["message"].as_str().is_some_and(|message| message.contains("compaction.provider")),
        "{wrong:?}"
    );
    repo.configure("[compaction]\nprovider = \"demo\"\nmodel = \"small\"\n");
    repo.ok(["session", "new", "--label", "talk"]);
    repo.ok(["session", "send", "talk", "hello"]);
    repo.ok(["session", "send", "talk", "again"]);
    repo.ok(["session", "compact", "talk"]);
    assert_eq!(repo.sql().rows("SELECT provider, model FROM compactions"), [["demo", "small"]]);
}
