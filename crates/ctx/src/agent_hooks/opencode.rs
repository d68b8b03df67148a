//! OpenCode: a plugin file in its configuration directory.

use std::path::PathBuf;

use serde_json::Value;

use super::hook_event::HookEvent;
use super::{Form, HookedTool, home_dir, plugin_payload, variable};

pub(super) struct OpenCode;

impl HookedTool for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn title(&self) -> &'static str {
        "OpenCode"
    }

    fn file(&self) -> Option<PathBuf> {
        let dir = variable("OPENCODE_CONFIG_DIR").or_else(|| {
            let base = variable("XDG_CONFIG_HOME").or_else(|| Some(home_dir()?.join(".config")));
            Some(base?.join("opencode"))
        })?;
        Some(dir.join("plugin/ctx.js"))
    }

    fn form(&self) -> Form {
        Form::OwnFile(include_str!("opencode_plugin.js"))
    }

    fn parse(&self, event: &str, payload: &Value) -> HookEvent {
        plugin_payload::parse(event, payload)
    }
}
