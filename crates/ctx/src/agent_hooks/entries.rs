//! Entries of ctx in the hook settings of tools that run commands: `hooks.EVENT[].hooks[].command`.
//!
//! All other bytes of the file stay as they are. An entry belongs to ctx if its command runs
//! `ctx hook record TOOL`.

use serde_json::{Value as Json, json};

use super::json_text::{Node, Value, insert_child, parse, remove_child};

const HOOKS: &str = "hooks";

/// The hook of one event.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventHook {
    pub(super) event: &'static str,
    /// Which tools or occasions; `None` if the tool has no matcher for this event.
    pub(super) matcher: Option<&'static str>,
    /// In the unit of the tool.
    pub(super) timeout: u64,
}

/// How a tool writes its entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryStyle {
    pub(super) tool: &'static str,
    pub(super) events: &'static [EventHook],
    /// Whether an entry has a name.
    pub(super) named: bool,
}

impl EntryStyle {
    /// The text with the entries of ctx, which run `program`. `None` stands for a missing file.
    pub(super) fn add(&self, text: Option<&str>, program: &str) -> Result<String, String> {
        let mut text = match text {
            Some(text) if !text.trim().is_empty() => text.to_owned(),
            _ => "{}\n".to_owned(),
        };
        for hook in self.events {
            text = self.add_event(&text, hook, program)?;
        }
        Ok(text)
    }

    fn add_event(&self, text: &str, hook: &EventHook, program: &str) -> Result<String, String> {
        let root = parse(text)?;
        if !matches!(root.value, Value::Object(_)) {
            return Err("the settings are not a JSON object".to_owned());
        }
        let entry = self.entry(hook, program);
        let Some(hooks) = root.member(HOOKS) else {
            let member = member(HOOKS, &json!({ hook.event: [entry] }));
            return Ok(insert_child(text, &root, &member));
        };
        if !matches!(hooks.node.value, Value::Object(_)) {
            return Err("`hooks` is not a JSON object".to_owned());
        }
        let Some(event) = hooks.node.member(hook.event) else {
            return Ok(insert_child(text, &hooks.node, &member(hook.event, &json!([entry]))));
        };
        match &event.node.value {
            Value::Array(entries) if entries.iter().any(|entry| self.is_own(entry)) => {
                Ok(text.to_owned())
            }
            Value::Array(_) => Ok(insert_child(text, &event.node, &pretty(&entry))),
            _ => Err(format!("`hooks.{}` is not a JSON array", hook.event)),
        }
    }

    fn entry(&self, hook: &EventHook, program: &str) -> Json {
        let command = self.command(hook.event, program);
        let mut run = json!({"type": "command", "command": command, "timeout": hook.timeout});
        if self.named {
            run["name"] = json!("ctx");
        }
        let mut entry = json!({"hooks": [run]});
        if let Some(matcher) = hook.matcher {
            entry["matcher"] = json!(matcher);
        }
        entry
    }

    /// The command of an event. A missing program must not look like a failed hook.
    fn command(&self, event: &str, program: &str) -> String {
        let program = shell_word(program);
        format!("{program} hook record {} {event} 2>/dev/null || true", self.tool)
    }

    /// The text without the entries of ctx. Containers that become empty are removed, except those
    /// that `before` has.
    pub(super) fn remove(&self, text: &str, before: Option<&str>) -> Result<String, String> {
        let before = before.and_then(|text| parse(text).ok());
        let kept = |event: Option<&str>| {
            let hooks = before.as_ref().and_then(|root| root.member(HOOKS));
            hooks.is_some_and(|hooks| event.is_none_or(|event| hooks.node.member(event).is_some()))
        };
        let mut text = text.to_owned();
        while let Some(shorter) = self.remove_one(&text, &kept)? {
            text = shorter;
        }
        Ok(text)
    }

    fn remove_one(
        &self,
        text: &str,
        kept: &impl Fn(Option<&str>) -> bool,
    ) -> Result<Option<String>, String> {
        let root = parse(text)?;
        let Some(hooks) = root.member(HOOKS) else { return Ok(None) };
        let Value::Object(events) = &hooks.node.value else { return Ok(None) };
        for event in events {
            let entries = event.node.elements();
            let Some(own) = entries.iter().find(|entry| self.is_own(entry)) else { continue };
            let (last, only) = (entries.len() == 1, events.len() == 1);
            return Ok(Some(match (last && !kept(Some(&event.key)), only && !kept(None)) {
                (true, true) => remove_child(text, &root, &hooks.span),
                (true, false) => remove_child(text, &hooks.node, &event.span),
                (false, _) => remove_child(text, &event.node, &own.span),
            }));
        }
        Ok(None)
    }

    fn is_own(&self, entry: &Node) -> bool {
        let needle = format!(" hook record {}", self.tool);
        entry.any_text(&|text| text.contains(&needle))
    }

    /// The events that have an entry of ctx.
    pub(super) fn installed(&self, text: &str) -> Result<Vec<&'static str>, String> {
        let root = parse(text)?;
        let hooks = root.member(HOOKS);
        let has = |event: &str| {
            let event = hooks.and_then(|hooks| hooks.node.member(event));
            event.is_some_and(|event| event.node.elements().iter().any(|it| self.is_own(it)))
        };
        Ok(self.events.iter().map(|hook| hook.event).filter(|event| has(event)).collect())
    }

    /// The keys and values of the entries of ctx, with their events, in any order.
    pub(super) fn own_entries(&self, text: &str) -> Vec<Vec<String>> {
        let Ok(root) = parse(text) else { return Vec::new() };
        let hooks = root.member(HOOKS).map(|hooks| &hooks.node.value);
        let Some(Value::Object(events)) = hooks else { return Vec::new() };
        let mut found = Vec::new();
        for event in events {
            for entry in event.node.elements().iter().filter(|entry| self.is_own(entry)) {
                let mut parts = vec![event.key.clone()];
                entry.collect_parts(text, &mut parts);
                parts.sort_unstable();
                found.push(parts);
            }
        }
        found.sort_unstable();
        found
    }

    /// Whether the settings are an empty object.
    pub(super) fn is_blank(text: &str) -> bool {
        parse(text).is_ok_and(|root| root.is_empty() && text.trim() == "{}")
    }
}

fn member(key: &str, value: &Json) -> String {
    format!("{}: {}", json!(key), pretty(value))
}

fn pretty(value: &Json) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A word of a POSIX shell.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
