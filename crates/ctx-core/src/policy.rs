//! Policies: which sender reaches which session, with which rights (R118, R125–R128).
//!
//! A policy matches messages by their sender, their envelope and conditions. Any matching deny
//! wins, and a message that no policy matches is denied. The session comes from the matching policy
//! with the highest priority that has a session key; policies of equal priority are taken in the
//! order of the file.
//!
//! | file | owns |
//! |---|---|
//! | `parse`, `document` | the file format, its limits and its errors |
//! | `matcher` | whether a policy matches a message, and why not |
//! | `pattern` | texts with `*` |
//! | `template` | session keys with variables |
//! | `evaluate` | the decision and its explanation |

mod document;
mod evaluate;
mod matcher;
mod parse;
mod pattern;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::inbox::Mode;

/// Maximum size of a policy file.
pub const FILE_MAX_BYTES: usize = 1_000_000;
/// Maximum number of policies in a file.
pub const POLICIES_MAX: usize = 1000;
/// Maximum length of the template of a session key.
pub const TEMPLATE_MAX_CHARS: usize = 512;
/// Priority of a policy without an explicit priority.
pub const PRIORITY_DEFAULT: u8 = 50;
/// The highest priority. The lowest is 0.
pub const PRIORITY_MAX: u8 = 100;

/// The policies of a file, parsed and checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policies {
    /// In the order of evaluation: highest priority first, then the order of the file.
    rules: Vec<Rule>,
}

/// One policy.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
    name: String,
    priority: u8,
    effect: Effect,
    /// A message matches if all of them hold.
    tests: Vec<matcher::Test>,
    tools: ToolRights,
    approve: bool,
    key: Option<template::Template>,
    persona: Option<String>,
    queue_mode: Option<Mode>,
    track_tasks: Option<bool>,
}

impl Policies {
    /// Number of policies.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no policies, so that every message is denied.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The names of the policies in the order of evaluation.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.name.as_str())
    }

    /// Name, priority and effect of each policy in the order of evaluation.
    pub fn summaries(&self) -> impl Iterator<Item = (&str, u8, Effect)> {
        self.rules.iter().map(|rule| (rule.name.as_str(), rule.priority, rule.effect))
    }

    /// The personas that policies set, each once, with the first policy that sets it.
    pub fn personas(&self) -> Vec<(&str, &str)> {
        let mut seen = BTreeSet::new();
        let all = self.rules.iter().filter_map(|rule| Some((rule.persona.as_deref()?, rule)));
        all.filter(|(persona, _)| seen.insert(*persona))
            .map(|(persona, rule)| (persona, rule.name.as_str()))
            .collect()
    }
}

/// What a matching policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Effect {
    #[default]
    Allow,
    Deny,
}

/// What an admitted message may do, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Access {
    /// The policy that gives the session.
    pub policy: String,
    /// The label of the session.
    pub label: String,
    /// Whether the key of the session contains the entity, so that it is the same on all channels.
    pub has_entity_key: bool,
    /// From the matching policy with the highest priority that sets it, as are the next two.
    pub persona: Option<String>,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub queue_mode: Option<Mode>,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub track_tasks: Option<bool>,
    /// The tools of all matching policies.
    pub tools: ToolRights,
    /// Whether the sender may answer permission requests.
    pub approve: bool,
}

/// The tools that an agent may call. The default permits all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolRights {
    /// Only these are permitted. `None` permits all. Names may contain `*`.
    #[serde(default)]
    pub allow: Option<BTreeSet<String>>,
    /// These are refused, also if `allow` has them. Names may contain `*`.
    #[serde(default)]
    pub deny: BTreeSet<String>,
}

impl ToolRights {
    /// Whether a tool may be called. Agents prepend the name of the tool server and `__`; a pattern
    /// matches the name with or without that prefix.
    pub fn permits(&self, tool: &str) -> bool {
        let plain = tool.rsplit_once("__").map_or(tool, |(_, plain)| plain);
        let named = |set: &BTreeSet<String>| {
            set.contains(plain)
                || set
                    .iter()
                    .any(|text| pattern::matches(text, plain) || pattern::matches(text, tool))
        };
        !named(&self.deny) && self.allow.as_ref().is_none_or(named)
    }

    /// Whether every tool is permitted.
    pub fn permits_all(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Adds the allowed and denied tools of another policy.
    fn unite(&mut self, other: &Self) {
        if let Some(allow) = &other.allow {
            self.allow.get_or_insert_default().extend(allow.iter().cloned());
        }
        self.deny.extend(other.deny.iter().cloned());
    }
}

/// Why a message is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named after what they hold")]
pub enum Denial {
    /// A matching policy denies it.
    #[error("policy `{policy}` denies the message")]
    Denied { policy: String },
    /// No policy matches it.
    #[error("no policy matches the message")]
    NoMatch,
    /// Policies match it, and none of them has a session key.
    #[error("no matching policy has a session key: {}", Quoted(policies))]
    NoSession { policies: Vec<String> },
    /// The session key has a variable that has no value for this message.
    #[error("the session key of policy `{policy}` has no value for `{{{variable}}}`")]
    MissingVariable { policy: String, variable: String },
}

impl Denial {
    /// The stable error code of the API.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Denied { .. } | Self::NoMatch => "access_denied",
            Self::NoSession { .. } => "no_session_key",
            Self::MissingVariable { .. } => "missing_variable",
        }
    }
}

/// Names in quotes, separated by commas.
struct Quoted<'a>(&'a [String]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            write!(f, "{}`{name}`", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The decision about a message and the part that each policy has in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// In the order of evaluation.
    pub rules: Vec<RuleResult>,
    /// The decision, in JSON `{"access": …}` or `{"denial": …}`.
    #[serde(serialize_with = "serialize_result")]
    pub result: Result<Access, Denial>,
}

/// One policy in an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct RuleResult {
    pub policy: String,
    pub priority: u8,
    pub effect: Effect,
    pub matched: bool,
    /// The first condition that does not hold, or what the matching policy contributes.
    pub reason: String,
}

fn serialize_result<S: Serializer>(
    result: &Result<Access, Denial>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match result {
        Ok(access) => to.collect_map([("access", access)]),
        Err(denial) => to.collect_map([("denial", denial)]),
    }
}

/// Why a policy file is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct PolicyError {
    /// Line in the file, from 1.
    pub line: Option<usize>,
    pub policy: Option<String>,
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("policies.yaml")?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if let Some(policy) = &self.policy {
            write!(f, ", policy `{policy}`")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for PolicyError {}
