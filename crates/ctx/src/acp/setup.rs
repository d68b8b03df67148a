//! Configuration of editors: the text to paste, and the file that it belongs to.

use serde_json::json;

/// An editor that speaks ACP.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EditorKind {
    Zed,
    Jetbrains,
    Neovim,
}

/// The configuration of an editor.
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// The file that the configuration belongs to.
    pub(crate) file: &'static str,
    pub(crate) config: String,
}

/// The configuration that starts a command.
pub(crate) fn setup(editor: EditorKind, command: &str, args: &[String]) -> Setup {
    let pretty = |config: serde_json::Value| {
        serde_json::to_string_pretty(&config).unwrap_or_else(|_| config.to_string())
    };
    match editor {
        EditorKind::Zed => Setup {
            name: "zed",
            file: "~/.config/zed/settings.json",
            config: pretty(json!({
                "agent_servers": {
                    "ctx": {"type": "custom", "command": command, "args": args, "env": {}},
                },
            })),
        },
        EditorKind::Jetbrains => Setup {
            name: "jetbrains",
            file: "~/.jetbrains/acp.json",
            config: pretty(json!({
                "agent_servers": {"ctx": {"command": command, "args": args, "env": {}}},
            })),
        },
        EditorKind::Neovim => Setup {
            name: "neovim",
            file: "init.lua, with the plugin codecompanion.nvim",
            config: neovim(command, args),
        },
    }
}

fn neovim(command: &str, args: &[String]) -> String {
    let words = std::iter::once(command).chain(args.iter().map(String::as_str));
    let words: Vec<String> = words.map(lua_string).collect();
    format!(
        "require(\"codecompanion\").setup({{\n  adapters = {{\n    acp = {{\n      \
         ctx = function()\n        \
         return require(\"codecompanion.adapters\").extend(\"opencode\", {{\n          \
         name = \"ctx\",\n          formatted_name = \"ctx\",\n          \
         commands = {{ default = {{ {} }} }},\n        }})\n      end,\n    }},\n  }},\n  \
         interactions = {{ chat = {{ adapter = \"ctx\" }} }},\n}})",
        words.join(", ")
    )
}

fn lua_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
