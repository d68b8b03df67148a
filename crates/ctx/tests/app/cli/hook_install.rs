//! `ctx hook install` and `uninstall`: the settings of a tool, byte for byte.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::repo::Repo;

const TOOLS: [&str; 5] = ["claude-code", "codex", "opencode", "gemini-cli", "pi"];

/// The file of a tool in the home directory.
fn file(repo: &Repo, tool: &str) -> PathBuf {
    repo.home().join(match tool {
        "claude-code" => ".claude/settings.json",
        "codex" => ".codex/hooks.json",
        "opencode" => ".config/opencode/plugin/ctx.js",
        "gemini-cli" => ".gemini/settings.json",
        _ => ".pi/agent/extensions/ctx.js",
    })
}

fn write(repo: &Repo, tool: &str, text: &str) {
    let path = file(repo, tool);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("the directory");
    std::fs::write(path, text).expect("the settings");
}

fn read(repo: &Repo, tool: &str) -> Option<String> {
    std::fs::read_to_string(file(repo, tool)).ok()
}

/// The names of all files in the home directory.
fn names(repo: &Repo) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![repo.home()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    found
}

fn install(repo: &Repo, tool: &str) -> Value {
    repo.ok(["hook", "install", tool, "--yes"])
}

/// The hooks of a file, as the tool reads them.
fn hooks(text: &str) -> Value {
    serde_json::from_str::<Value>(text).expect("valid JSON")["hooks"].clone()
}

#[test]
fn installing_and_uninstalling_leaves_no_trace() {
    for tool in TOOLS {
        let repo = Repo::new();
        let before = names(&repo);
        let installed = install(&repo, tool);
        assert_eq!((&installed["changed"], &installed["backup"]), (&json!(true), &Value::Null));
        let text = read(&repo, tool).expect("the file was made");
        assert!(text.contains("hook") && text.contains("record") && text.contains(tool), "{text}");
        let diff = installed["diff"].as_str().expect("a diff");
        assert!(
            diff.contains("+++ ") && diff.contains(" hook record") || diff.contains("\"hook\"")
        );
        // Installing twice changes nothing.
        assert_eq!(install(&repo, tool)["changed"], false);
        assert_eq!(read(&repo, tool).as_deref(), Some(text.as_str()));
        let state = repo.ok(["hook", "list"])["hooks"].clone();
        let own = state.as_array().expect("tools").iter().find(|it| it["tool"] == tool);
        assert_eq!(own.map(|it| &it["state"]), Some(&json!("installed")), "{state}");
        assert_eq!(repo.ok(["hook", "uninstall", tool])["changed"], true);
        assert_eq!(names(&repo), before, "{tool}");
        assert_eq!(repo.ok(["hook", "uninstall", tool])["changed"], false);
    }
}

#[test]
fn settings_are_restored_byte_for_byte() {
    let texts = [
        "{}",
        "{\n}\n",
        "",
        "  \n",
        "{\n  \"model\": \"x\"\n}",
        "{\r\n\t\"model\": \"x\",\r\n\t\"list\": [1, 2]\r\n}\r\n",
        "{\"model\":\"x\",\"hooks\":{}}",
        "{\"hooks\": {\"Stop\": [], \"PostToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [\
         {\"type\": \"command\", \"command\": \"true\"}]}]}}\n",
        "// settings, of mine\n{\n    /* a, b */ \"model\": \"x\", // here\n}\n",
        "\u{feff}{\"model\": \"ünï\"}",
    ];
    let repo = Repo::new();
    for text in texts {
        for tool in ["claude-code", "gemini-cli", "codex"] {
            write(&repo, tool, text);
            let installed = install(&repo, tool);
            let backup = installed["backup"].as_str().expect("a backup");
            assert_eq!(std::fs::read_to_string(backup).expect("the backup"), text, "{tool}");
            let with_hook = read(&repo, tool).expect("the file");
            assert!(with_hook.contains(" hook record "), "{with_hook}");
            assert_eq!(install(&repo, tool)["changed"], false, "{with_hook}");
            repo.ok(["hook", "uninstall", tool]);
            assert_eq!(read(&repo, tool).as_deref(), Some(text), "{tool}");
            assert!(!std::path::Path::new(backup).exists(), "the backup is removed");
        }
    }
}

#[test]
fn hooks_and_settings_of_the_user_are_kept() {
    let repo = Repo::new();
    let own = json!({"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]});
    let before = json!({"model": "x", "hooks": {"PostToolUse": [own], "Notification": [own]}});
    write(&repo, "claude-code", &serde_json::to_string_pretty(&before).expect("JSON"));
    install(&repo, "claude-code");
    let text = read(&repo, "claude-code").expect("the file");
    let with_hook = hooks(&text);
    assert_eq!(with_hook["PostToolUse"][0], own);
    assert_eq!(with_hook["Notification"], json!([own]));
    let command = with_hook["PostToolUse"][1]["hooks"][0]["command"].as_str().expect("a command");
    let program = env!("CARGO_BIN_EXE_ctx");
    assert!(command.starts_with(program), "an absolute path: {command}");
    // The user changes the file since.
    write(
        &repo,
        "claude-code",
        &text.replace("\"model\": \"x\"", "\"model\": \"y\",\n  \"new\": 1"),
    );
    let removed = repo.ok(["hook", "uninstall", "claude-code"]);
    assert_eq!(removed["changed"], true);
    let left: Value =
        serde_json::from_str(&read(&repo, "claude-code").expect("the file")).expect("valid");
    let mut expected = before;
    (expected["model"], expected["new"]) = (json!("y"), json!(1));
    assert_eq!(left, expected);
}

#[test]
fn a_file_that_ctx_made_and_the_user_extended_is_kept() {
    let repo = Repo::new();
    install(&repo, "claude-code");
    let text = read(&repo, "claude-code").expect("the file");
    write(&repo, "claude-code", &text.replacen('{', "{\n  \"model\": \"x\",", 1));
    repo.ok(["hook", "uninstall", "claude-code"]);
    let left = read(&repo, "claude-code").expect("the file is kept");
    assert_eq!(serde_json::from_str::<Value>(&left).expect("valid"), json!({"model": "x"}));

    install(&repo, "pi");
    let text = read(&repo, "pi").expect("the file");
    write(&repo, "pi", &format!("// mine\n{text}export const more = 1;\n"));
    repo.ok(["hook", "uninstall", "pi"]);
    assert_eq!(read(&repo, "pi").as_deref(), Some("// mine\nexport const more = 1;\n"));
}

#[test]
fn invalid_settings_are_refused_and_not_changed() {
    let repo = Repo::new();
    for (tool, text) in [
        ("claude-code", "{\"model\": }"),
        ("claude-code", "[1]"),
        ("gemini-cli", "{\"hooks\": []}"),
        ("codex", "{\"hooks\": {\"Stop\": {}}}"),
        ("opencode", "export const other = 1;\n"),
    ] {
        write(&repo, tool, text);
        let before = names(&repo);
        let (exit, error) = repo.refuses(["hook", "install", tool, "--yes"]);
        let path = file(&repo, tool).to_string_lossy().into_owned();
        assert_eq!(exit, 1, "{error}");
        assert!(error["message"].as_str().is_some_and(|it| it.contains(&path)), "{error}");
        assert!(!error["hint"].is_null(), "{error}");
        assert_eq!((read(&repo, tool).as_deref(), names(&repo)), (Some(text), before));
        std::fs::remove_file(file(&repo, tool)).expect("the next case");
    }
}

#[test]
fn without_a_terminal_an_installation_needs_yes() {
    let repo = Repo::new();
    let before = names(&repo);
    let (exit, error) = repo.refuses(["hook", "install", "claude-code"]);
    assert_eq!((exit, &error["code"]), (2, &json!("needs_yes")));
    assert!(error["diff"].as_str().is_some_and(|diff| diff.contains("+  \"hooks\"")), "{error}");
    let shown = repo.ok(["hook", "install", "claude-code", "--dry-run"]);
    assert_eq!((&shown["changed"], &shown["installed"]), (&json!(false), &json!(false)));
    assert_eq!(names(&repo), before);
    let (exit, error) = repo.refuses(["hook", "install", "emacs", "--yes"]);
    assert_eq!(exit, 2);
    assert!(error["message"].as_str().is_some_and(|it| it.contains("opencode")), "{error}");
}

#[test]
fn the_variables_of_the_tools_select_the_files() {
    for (tool, variable, path) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugin/ctx.js"),
        ("opencode", "OPENCODE_CONFIG_DIR", "plugin/ctx.js"),
        ("gemini-cli", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("pi", "PI_CODING_AGENT_DIR", "extensions/ctx.js"),
    ] {
        let mut repo = Repo::new();
        let place = repo.beside("elsewhere");
        repo.set(variable, place.to_str().expect("a path"));
        let installed = install(&repo, tool);
        assert_eq!(installed["file"], json!(place.join(path)), "{tool}");
        assert!(place.join(path).exists());
        repo.ok(["hook", "uninstall", tool]);
        assert!(!place.join(path).exists());
    }
}

#[test]
fn a_link_to_settings_stays_a_link() {
    let repo = Repo::new();
    let target = repo.beside("dotfiles.json");
    std::fs::write(&target, "{\"a\": 1}\n").expect("a file");
    let link = file(&repo, "claude-code");
    std::fs::create_dir_all(link.parent().expect("a directory")).expect("the directory");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    install(&repo, "claude-code");
    assert!(std::fs::read_to_string(&target).expect("the file").contains(" hook record "));
    repo.ok(["hook", "uninstall", "claude-code"]);
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&target).expect("the file"), "{\"a\": 1}\n");
}

#[test]
fn a_hook_of_another_program_is_replaced() {
    let repo = Repo::new();
    // A tool that writes its settings anew may choose another layout.
    install(&repo, "codex");
    let text = read(&repo, "codex").expect("the file");
    let compact = serde_json::from_str::<Value>(&text).expect("JSON").to_string();
    write(&repo, "codex", &compact);
    assert_eq!(install(&repo, "codex")["changed"], false);
    assert_eq!(read(&repo, "codex"), Some(compact));
    for tool in ["claude-code", "pi"] {
        install(&repo, tool);
        let text = read(&repo, tool).expect("the file");
        write(&repo, tool, &text.replace(env!("CARGO_BIN_EXE_ctx"), "/old/ctx"));
        let listed = repo.ok(["hook", "list"])["hooks"].clone();
        let own = listed.as_array().expect("tools").iter().find(|it| it["tool"] == tool);
        assert_eq!(own.map(|it| &it["state"]), Some(&json!("outdated")), "{listed}");
        assert_eq!(install(&repo, tool)["changed"], true);
        assert_eq!(read(&repo, tool), Some(text));
    }
}
