//! pi: an extension file in its agent directory.

use std::path::PathBuf;

use serde_json::Value;

use super::hook_event::HookEvent;
use super::{Form, HookedTool, home_dir, plugin_payload, variable};

pub(super) struct Pi;

impl HookedTool for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn title(&self) -> &'static str {
        "pi"
    }

    fn file(&self) -> Option<PathBuf> {
        let dir =
            variable("PI_CODING_AGENT_DIR").or_else(|| Some(home_dir()?.join(".pi/agent")))?;
        Some(dir.join("extensions/ctx.js"))
    }

    fn form(&self) -> Form {
        Form::OwnFile(include_str!("pi_extension.js"))
    }

    fn parse(&self, event: &str, payload: &Value) -> HookEvent {
        plugin_payload::parse(event, payload)
    }
}
