//! Timers and webhooks of the configuration: `[[schedule]]` and `[hooks.NAME]` in `ctx.toml`.
//!
//! What depends on the file alone is checked when it is parsed. Providers, personas, directories
//! and secrets are checked when a server starts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ctx_engine::core::inbox::Mode;
use ctx_engine::core::schedule::{
    BadCron, EVERY_MAX, EVERY_MIN, NAME_MAX_BYTES, Rule, is_valid_name, system_label,
};
use ctx_engine::core::session::{is_session_id, is_valid_label};
use ctx_engine::core::text_limits::{TASK_TEXT_MAX_BYTES, check};
use ctx_engine::core::time::Span;
use ctx_engine::{NewSession, Providers, Schedule};
use ring::hmac;
use serde::Deserialize;

use crate::config::Config;
use crate::problem::Problem;

/// Most schedules of a configuration: each is checked several times per second.
const SCHEDULES_MAX: usize = 1000;

/// `[[schedule]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleTable {
    name: String,
    cron: Option<String>,
    every: Option<Span>,
    text: String,
    session: Option<String>,
    provider: Option<String>,
    persona: Option<String>,
    working_dir: Option<String>,
}

/// A schedule whose own fields are valid.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "ScheduleTable")]
pub(crate) struct ScheduleConfig(Schedule);

impl TryFrom<ScheduleTable> for ScheduleConfig {
    type Error = String;

    fn try_from(table: ScheduleTable) -> Result<Self, String> {
        let name = table.name;
        check_name("schedule", &name)?;
        let wrong = |why: String| format!("schedule `{name}`: {why}");
        let rule = rule(table.cron.as_deref(), table.every).map_err(wrong)?;
        check_text(&table.text).map_err(wrong)?;
        let session = NewSession {
            label: Some(label(&name, table.session).map_err(wrong)?),
            provider_id: table.provider,
            persona: table.persona,
            working_dir: table.working_dir,
            ..NewSession::default()
        };
        Ok(Self(Schedule { name, rule, text: table.text, session }))
    }
}

fn rule(cron: Option<&str>, every: Option<Span>) -> Result<Rule, String> {
    match (cron, every) {
        (Some(cron), None) => cron.parse().map(Rule::Cron).map_err(|e: BadCron| e.to_string()),
        (None, Some(every)) if (EVERY_MIN..=EVERY_MAX).contains(&every) => Ok(Rule::Every(every)),
        (None, Some(every)) => {
            Err(format!("every: invalid interval `{every}`: use {EVERY_MIN} to {EVERY_MAX}"))
        }
        (Some(_), Some(_)) => Err("it has both `cron` and `every`: use only one".to_owned()),
        (None, None) => Err("it has neither `cron` nor `every`".to_owned()),
    }
}

/// `[hooks.NAME]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookConfig {
    /// Name of the environment variable that holds the secret. The secret is never stored.
    secret_env: String,
    session: Option<String>,
    text: Option<String>,
    provider: Option<String>,
    persona: Option<String>,
    working_dir: Option<String>,
    queue_mode: Option<Mode>,
}

impl HookConfig {
    fn check(&self, name: &str) -> Result<(), String> {
        check_name("hook", name)?;
        let wrong = |why: String| format!("hook `{name}`: {why}");
        if self.secret_env.trim().is_empty() {
            return Err(wrong("`secret_env` is empty".to_owned()));
        }
        self.text.as_deref().map_or(Ok(()), check_text).map_err(wrong)?;
        label(name, self.session.clone()).map(drop).map_err(wrong)
    }
}

/// A hook of a running server.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    secret: Secret,
    pub(crate) session: NewSession,
    pub(crate) text: Option<String>,
    pub(crate) mode: Mode,
}

impl Hook {
    pub(crate) fn accepts_secret(&self, sent: &str) -> bool {
        hmac::verify(&self.secret.key, sent.as_bytes(), self.secret.tag.as_ref()).is_ok()
    }

    /// Checks a signature of the form `sha256=HEX`.
    pub(crate) fn accepts_signature(&self, sent: &str, body: &[u8]) -> bool {
        let tag = sent.strip_prefix("sha256=").and_then(from_hex);
        tag.is_some_and(|tag| hmac::verify(&self.secret.key, body, &tag).is_ok())
    }
}

/// The secret of a hook. All comparisons take the same time for all values.
#[derive(Clone)]
struct Secret {
    key: hmac::Key,
    /// HMAC of the secret under its own key: a sent secret is compared through it.
    tag: hmac::Tag,
}

impl Secret {
    fn new(secret: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let tag = hmac::sign(&key, secret);
        Self { key, tag }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if is_valid_name(name) {
        return Ok(());
    }
    let name: String = name.chars().take(NAME_MAX_BYTES).collect();
    Err(format!(
        "{what} `{name}`: invalid name: use 1 to {NAME_MAX_BYTES} of the characters a-z, 0-9 and -"
    ))
}

fn check_text(text: &str) -> Result<(), String> {
    check(text, TASK_TEXT_MAX_BYTES).map(drop).map_err(|why| format!("text: {why}"))
}

fn label(name: &str, session: Option<String>) -> Result<String, String> {
    let label = session.unwrap_or_else(|| system_label(name));
    if is_valid_label(&label) && !is_session_id(&label) {
        Ok(label)
    } else {
        let label: String = label.chars().take(80).collect();
        Err(format!("session: invalid label `{label}`"))
    }
}

impl Config {
    /// Checks what the parser cannot see: names of hooks, and names that are used twice.
    pub(crate) fn check_sources(&self) -> Result<(), String> {
        let count = self.schedule.len();
        if count > SCHEDULES_MAX {
            return Err(format!("{count} schedules exceed the limit of {SCHEDULES_MAX}"));
        }
        let mut names = BTreeSet::new();
        for ScheduleConfig(schedule) in &self.schedule {
            if !names.insert(&schedule.name) {
                return Err(format!("schedule `{}`: the name is used twice", schedule.name));
            }
        }
        self.hooks.iter().try_for_each(|(name, hook)| hook.check(name))
    }

    pub(crate) fn schedules(&self) -> Vec<Schedule> {
        self.schedule.iter().map(|ScheduleConfig(schedule)| schedule.clone()).collect()
    }

    /// The hooks with their secrets, for a server.
    pub(crate) fn hooks(&self) -> Result<BTreeMap<String, Hook>, Problem> {
        self.hooks.iter().map(|(name, hook)| Ok((name.clone(), self.hook(name, hook)?))).collect()
    }

    fn hook(&self, name: &str, config: &HookConfig) -> Result<Hook, Problem> {
        let wrong = |why: String| self.wrong_source(&format!("hook `{name}`: {why}"));
        let variable = &config.secret_env;
        let secret =
            std::env::var_os(variable).filter(|secret| !secret.is_empty()).ok_or_else(|| {
                wrong(format!("the environment variable {variable} with its secret is not set"))
            })?;
        let session = NewSession {
            label: Some(label(name, config.session.clone()).map_err(wrong)?),
            provider_id: config.provider.clone(),
            persona: config.persona.clone(),
            working_dir: config.working_dir.clone(),
            ..NewSession::default()
        };
        Ok(Hook {
            secret: Secret::new(secret.as_encoded_bytes()),
            session,
            text: config.text.clone(),
            mode: config.queue_mode.unwrap_or(Mode::Followup),
        })
    }

    /// Checks the providers, personas and directories of all schedules and hooks.
    pub(crate) fn check_source_sessions(
        &self,
        hooks: &BTreeMap<String, Hook>,
        providers: &Providers,
    ) -> Result<(), Problem> {
        let schedules = self.schedule.iter().map(|ScheduleConfig(schedule)| {
            (format!("schedule `{}`", schedule.name), &schedule.session)
        });
        let hooks = hooks.iter().map(|(name, hook)| (format!("hook `{name}`"), &hook.session));
        for (what, session) in schedules.chain(hooks) {
            check_session(session, providers)
                .map_err(|why| self.wrong_source(&format!("{what}: {why}")))?;
        }
        Ok(())
    }

    fn wrong_source(&self, why: &str) -> Problem {
        Problem::wrong_use("bad_config", format!("{}: {why}", self.path.display()))
    }
}

fn check_session(session: &NewSession, providers: &Providers) -> Result<(), String> {
    if let Some(name) = &session.provider_id
        && !providers.all.contains_key(name)
    {
        let known: Vec<&str> = providers.all.keys().map(String::as_str).collect();
        let known = known.join(", ");
        return Err(format!("unknown provider `{name}`: the providers are {known}"));
    }
    if let Some(name) = &session.persona
        && !providers.personas.contains_key(name)
    {
        return Err(format!("unknown persona `{name}`: add it under [personas]"));
    }
    if let Some(dir) = &session.working_dir
        && !(Path::new(dir).is_absolute() && Path::new(dir).is_dir())
    {
        return Err(format!("working_dir: `{dir}` is not an absolute path of a directory"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(secret: &str) -> Hook {
        let (session, mode) = (NewSession::default(), Mode::Followup);
        Hook { secret: Secret::new(secret.as_bytes()), session, text: None, mode }
    }

    #[test]
    fn only_the_secret_itself_is_accepted() {
        let hook = hook("It's a Secret to Everybody");
        assert!(hook.accepts_secret("It's a Secret to Everybody"));
        for wrong in ["", "It's a Secret to Everybod", "it's a secret to everybody", "x"] {
            assert!(!hook.accepts_secret(wrong), "{wrong}");
        }
        assert!(!format!("{hook:?}").contains("Everybody"));
    }

    #[test]
    fn a_signature_is_the_hmac_of_the_body() {
        // The example in the documentation of GitHub's webhooks.
        let hook = hook("It's a Secret to Everybody");
        let right = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let accepts = |sent: &str| hook.accepts_signature(sent, b"Hello, World!");
        assert!(accepts(&format!("sha256={right}")));
        assert!(accepts(&format!("sha256={}", right.to_uppercase())));
        let wrong = [
            right.to_owned(),
            format!("sha1={right}"),
            format!("sha256={}", &right[..62]),
            format!("sha256={right}00"),
            format!("sha256=0{}", &right[1..]),
            format!("sha256={}", "ü".repeat(32)),
            format!("sha256=+{}", &right[1..]),
            "sha256=".to_owned(),
        ];
        for wrong in wrong {
            assert!(!accepts(&wrong), "{wrong}");
        }
        assert!(!hook.accepts_signature(&format!("sha256={right}"), b"Hello, World"));
    }
}
