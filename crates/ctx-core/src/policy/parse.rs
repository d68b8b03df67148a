//! The file format of policies.
//!
//! A file has one or several YAML documents. Each is a mapping with the key `policies`, a list of
//! policies, or one policy. Unknown fields, fields without a value and unknown names are errors: a
//! condition that is dropped silently would admit messages that it should keep out.

use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Options, Spanned, UserMessageFormatter};

use crate::id::EntityId;
use crate::identity::{PeerKind, PrincipalType};

use super::document::{Document, Sketch, Texts};
use super::matcher::{Field, Hours, Test};
use super::template::{Template, peer_kind_name, type_name};
use super::{
    Effect, FILE_MAX_BYTES, POLICIES_MAX, PRIORITY_DEFAULT, PRIORITY_MAX, Policies, PolicyError,
    Rule, ToolRights,
};

/// Maximum length of a policy's name and of a persona's.
const NAME_MAX_CHARS: usize = 255;
/// Maximum number of YAML nodes. Anchors that multiply nodes reach it quickly.
const NODES_MAX: usize = 100_000;
/// Maximum number of aliases in a file.
const ALIASES_MAX: usize = 1000;
/// Maximum depth of nested collections.
const DEPTH_MAX: usize = 16;
/// Maximum length of a message of the YAML parser.
const MESSAGE_MAX_CHARS: usize = 400;

const TYPES: [PrincipalType; 6] = [
    PrincipalType::Owner,
    PrincipalType::Known,
    PrincipalType::Unknown,
    PrincipalType::System,
    PrincipalType::Webhook,
    PrincipalType::Agent,
];
const PEER_KINDS: [PeerKind; 3] = [PeerKind::Dm, PeerKind::Group, PeerKind::Channel];

/// A policy as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolicy {
    name: Spanned<String>,
    #[serde(default, deserialize_with = "present")]
    priority: Option<Spanned<String>>,
    #[serde(default, rename = "match", deserialize_with = "filled")]
    conditions: RawMatch,
    #[serde(default, deserialize_with = "filled")]
    effect: Effect,
    #[serde(default, deserialize_with = "filled")]
    permissions: RawPermissions,
    #[serde(default, deserialize_with = "filled")]
    session: RawSession,
    #[serde(default, deserialize_with = "filled")]
    modifiers: RawModifiers,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawMatch {
    #[serde(deserialize_with = "filled")]
    principal: RawPrincipal,
    #[serde(deserialize_with = "filled")]
    delivery: RawDelivery,
    #[serde(deserialize_with = "filled")]
    conditions: RawConditions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawPrincipal {
    #[serde(rename = "type", deserialize_with = "present")]
    kind: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    entity_id: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    name: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    relationship: Option<Spanned<Texts>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawDelivery {
    #[serde(deserialize_with = "present")]
    channel: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    account_id: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    sender_id: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    peer_id: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    peer_kind: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    thread: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawConditions {
    #[serde(deserialize_with = "present")]
    verified: Option<bool>,
    #[serde(deserialize_with = "present")]
    text_starts_with: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    utc_hours: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawPermissions {
    #[serde(deserialize_with = "filled")]
    tools: RawTools,
    #[serde(deserialize_with = "present")]
    approve: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawTools {
    #[serde(deserialize_with = "present")]
    allow: Option<Spanned<Texts>>,
    #[serde(deserialize_with = "present")]
    deny: Option<Spanned<Texts>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSession {
    #[serde(deserialize_with = "present")]
    key: Option<Spanned<String>>,
    #[serde(deserialize_with = "present")]
    persona: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawModifiers {
    #[serde(deserialize_with = "present")]
    queue_mode: Option<Spanned<String>>,
    #[serde(deserialize_with = "present")]
    track_tasks: Option<bool>,
}

/// A field that is written must have a value.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    filled(from).map(Some)
}

fn filled<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from)?.ok_or_else(|| D::Error::custom("a field has no value"))
}

impl Policies {
    /// Parses and checks a policy file. An empty file has no policies.
    pub fn parse(yaml: &str) -> Result<Self, PolicyError> {
        if yaml.len() > FILE_MAX_BYTES {
            let message = format!("the file has more than {FILE_MAX_BYTES} bytes");
            return Err(PolicyError { line: None, policy: None, message });
        }
        let documents: Vec<Document<RawPolicy>> =
            serde_saphyr::from_multiple_with_options(yaml, options())
                .map_err(|error| describe(yaml, &error))?;
        let policies: Vec<_> = documents.into_iter().flat_map(|document| document.0).collect();
        if policies.len() > POLICIES_MAX {
            let line = line(policies[POLICIES_MAX].referenced);
            let message = format!("the file has more than {POLICIES_MAX} policies");
            return Err(PolicyError { line, policy: None, message });
        }
        let mut names = BTreeSet::new();
        let mut rules = Vec::with_capacity(policies.len());
        for policy in policies {
            let name = policy.value.name.value.clone();
            let at = policy.value.name.referenced;
            let fault = |fault: Fault| PolicyError {
                line: line(fault.at).or_else(|| line(at)),
                policy: (!name.trim().is_empty()).then(|| shown(&name)),
                message: fault.message,
            };
            let rule = rule(yaml, policy.value).map_err(fault)?;
            if !names.insert(rule.name.clone()) {
                return Err(fault(Fault::new(at, "another policy has the same name")));
            }
            rules.push(rule);
        }
        // The sort is stable: policies of equal priority stay in the order of the file.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        Ok(Self { rules })
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
            max_events: 4 * NODES_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_recorded_anchor_events: NODES_MAX,
            max_depth: DEPTH_MAX,
            max_documents: POLICIES_MAX + 1,
            max_total_scalar_bytes: FILE_MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES_MAX,
        },
        strict_booleans: true,
        with_snippet: false,
    }
}

/// An error of the YAML parser, with the policy that its line is in.
fn describe(yaml: &str, error: &serde_saphyr::Error) -> PolicyError {
    let line = error.location().and_then(line);
    let text = error.without_snippet().render_with_formatter(&UserMessageFormatter);
    let message = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // The line is a field of its own.
    let place =
        error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    let message = place.map_or(message.clone(), |place| message.replace(&place, ""));
    let message = message.chars().take(MESSAGE_MAX_CHARS).collect();
    PolicyError { line, policy: line.and_then(|line| policy_at(yaml, line)), message }
}

/// The name of the policy that a line is in. The names are read from the file again, without the
/// rest of its contents.
fn policy_at(yaml: &str, at: usize) -> Option<String> {
    let documents: Vec<Document<Sketch>> =
        serde_saphyr::from_multiple_with_options(yaml, options()).ok()?;
    let policies = documents.iter().flat_map(|document| &document.0);
    let before = policies.take_while(|policy| line(policy.referenced).is_some_and(|n| n <= at));
    before.last()?.value.name.as_deref().map(shown)
}

fn line(at: Location) -> Option<usize> {
    usize::try_from(at.line()).ok().filter(|line| *line > 0)
}

/// A name in a message.
fn shown(name: &str) -> String {
    crate::text_limits::one_line(name, NAME_MAX_CHARS)
}

/// What is wrong with a policy, and where.
struct Fault {
    at: Location,
    message: String,
}

impl Fault {
    fn new(at: Location, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

fn rule(yaml: &str, raw: RawPolicy) -> Result<Rule, Fault> {
    let RawPolicy { name, priority, conditions, effect, permissions, session, modifiers } = raw;
    check_name("name", &name)?;
    let priority = match priority {
        None => PRIORITY_DEFAULT,
        Some(priority) => {
            let value = priority.value.parse().ok().filter(|value| *value <= PRIORITY_MAX);
            value.ok_or_else(|| {
                let shown = shown(&priority.value);
                let message =
                    format!("priority `{shown}` is not a number from 0 to {PRIORITY_MAX}");
                Fault::new(priority.referenced, message)
            })?
        }
    };
    if let Some(persona) = &session.persona {
        check_name("session.persona", persona)?;
    }
    let key = session.key.map(|key| {
        Template::parse(&key.value).map_err(|message| Fault::new(key.referenced, message))
    });
    let queue_mode = modifiers.queue_mode.map(|mode| {
        mode.value.parse().map_err(|message: String| Fault::new(mode.referenced, message))
    });
    Ok(Rule {
        name: name.value,
        priority,
        effect,
        tests: tests(yaml, conditions)?,
        tools: tools(yaml, permissions.tools)?,
        approve: permissions.approve.unwrap_or(false),
        key: key.transpose()?,
        persona: session.persona.map(|persona| persona.value),
        queue_mode: queue_mode.transpose()?,
        track_tasks: modifiers.track_tasks,
    })
}

fn check_name(field: &str, name: &Spanned<String>) -> Result<(), Fault> {
    let text = name.value.as_str();
    let fault = |why: &str| Err(Fault::new(name.referenced, format!("{field} {why}")));
    if text.trim().is_empty() {
        return fault("is empty");
    }
    if text.trim() != text || text.chars().any(char::is_control) {
        return fault("has control characters, or white space at an end");
    }
    if text.chars().count() > NAME_MAX_CHARS {
        return fault(&format!("has more than {NAME_MAX_CHARS} characters"));
    }
    Ok(())
}

fn tests(yaml: &str, raw: RawMatch) -> Result<Vec<Test>, Fault> {
    let RawMatch { principal, delivery, conditions } = raw;
    let mut tests = Vec::new();
    if let Some(kinds) = principal.kind {
        let parse = |name: &str| TYPES.into_iter().find(|kind| type_name(*kind) == name);
        let names = TYPES.map(type_name).join(", ");
        tests.push(Test::PrincipalType(named(yaml, "principal.type", &kinds, parse, &names)?));
    }
    if let Some(kinds) = delivery.peer_kind {
        let parse = |name: &str| PEER_KINDS.into_iter().find(|kind| peer_kind_name(*kind) == name);
        let names = PEER_KINDS.map(peer_kind_name).join(", ");
        tests.push(Test::PeerKind(named(yaml, "delivery.peer_kind", &kinds, parse, &names)?));
    }
    tests.extend(delivery.thread.map(Test::Thread));
    tests.extend(conditions.verified.map(Test::Verified));
    for (field, raw) in [
        (Field::Channel, delivery.channel),
        (Field::AccountId, delivery.account_id),
        (Field::SenderId, delivery.sender_id),
        (Field::PeerId, delivery.peer_id),
        (Field::EntityId, principal.entity_id),
        (Field::Name, principal.name),
        (Field::Relationship, principal.relationship),
    ] {
        let Some(raw) = raw else { continue };
        let mut patterns = texts(yaml, field.name(), &raw)?;
        if field == Field::EntityId {
            patterns = patterns
                .iter()
                .map(|pattern| entity_pattern(pattern, raw.referenced))
                .collect::<Result<_, _>>()?;
        }
        tests.push(Test::Text(field, patterns));
    }
    if let Some(raw) = conditions.text_starts_with {
        tests.push(Test::TextStartsWith(texts(yaml, "conditions.text_starts_with", &raw)?));
    }
    if let Some(hours) = conditions.utc_hours {
        let parsed = Hours::parse(&hours.value).ok_or_else(|| {
            let message = format!(
                "conditions.utc_hours `{}` is not a part of the day: write for example \
                 \"09:00-17:30\"",
                shown(&hours.value)
            );
            Fault::new(hours.referenced, message)
        })?;
        tests.push(Test::UtcHours(parsed));
    }
    Ok(tests)
}

/// The id of an entity in the form in which it is printed, or a pattern.
fn entity_pattern(text: &str, at: Location) -> Result<String, Fault> {
    if text.contains('*') {
        return Ok(text.to_owned());
    }
    let id: Result<EntityId, _> = text.parse();
    id.map(|id| id.to_string())
        .map_err(|error| Fault::new(at, format!("principal.entity_id: {error}")))
}

fn tools(yaml: &str, raw: RawTools) -> Result<ToolRights, Fault> {
    // An empty list of allowed tools permits no tool. An empty list of denied tools is harmless.
    let list = |field: &str, raw: Spanned<Texts>| match &raw.value {
        Texts::Many(list) if list.is_empty() => Ok(BTreeSet::new()),
        _ => texts(yaml, field, &raw).map(BTreeSet::from_iter),
    };
    let allow = raw.allow.map(|raw| list("permissions.tools.allow", raw)).transpose()?;
    let deny = raw.deny.map(|raw| list("permissions.tools.deny", raw)).transpose()?;
    Ok(ToolRights { allow, deny: deny.unwrap_or_default() })
}

/// The values of a field that has a fixed set of names.
fn named<T>(
    yaml: &str,
    field: &str,
    raw: &Spanned<Texts>,
    parse: impl Fn(&str) -> Option<T>,
    names: &str,
) -> Result<Vec<T>, Fault> {
    let value = |text: &String| {
        parse(text).ok_or_else(|| {
            let message = format!("{field} `{}` is unknown: use one of {names}", shown(text));
            Fault::new(raw.referenced, message)
        })
    };
    texts(yaml, field, raw)?.iter().map(value).collect()
}

/// The values of a field that is one text or a list of texts.
fn texts(yaml: &str, field: &str, raw: &Spanned<Texts>) -> Result<Vec<String>, Fault> {
    let list = match &raw.value {
        Texts::One(text) => vec![text.clone()],
        Texts::Many(list) => list.clone(),
        Texts::Untyped => vec![source(yaml, raw.defined).ok_or_else(|| {
            Fault::new(raw.referenced, format!("{field} must be a text: put it in quotes"))
        })?],
    };
    if list.is_empty() || list.iter().any(String::is_empty) {
        return Err(Fault::new(raw.referenced, format!("{field} has an empty value")));
    }
    Ok(list)
}

/// A scalar as it is written.
fn source(yaml: &str, at: Location) -> Option<String> {
    let start = usize::try_from(at.span().byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(at.span().byte_len()?).ok()?)?;
    Some(yaml.get(start..end)?.trim().to_owned())
}
