//! Builds what delivers to the channels of the configuration.

use std::collections::BTreeMap;

use ctx_providers::{WebhookConfig, Webhooks};

use crate::config::Config;
use crate::problem::Problem;

/// The webhooks of all configured channels.
pub(crate) fn courier(config: &Config) -> Result<Webhooks, Problem> {
    let mut webhooks = BTreeMap::new();
    for (name, channel) in &config.channels {
        let webhook = WebhookConfig {
            url: channel.url.clone(),
            secret: secret(&channel.secret_env),
            timeout: config.delivery_timeout(name)?,
            allow_http: channel.allow_http,
        };
        webhooks.insert(name.clone(), webhook);
    }
    Webhooks::new(webhooks).map_err(|why| Problem::wrong_use("bad_config", why))
}

/// Refuses a channel without its secret: its receiver would reject every message.
pub(crate) fn check_secrets(config: &Config) -> Result<(), Problem> {
    match config.channels.iter().find(|(_, channel)| secret(&channel.secret_env).is_none()) {
        None => Ok(()),
        Some((name, channel)) => Err(Problem::wrong_use(
            "bad_config",
            format!(
                "channels.{name}.secret_env: the environment variable `{}` is not set",
                channel.secret_env
            ),
        )
        .hint("set it to a long random text that the receiver knows as well")),
    }
}

/// A secret from the environment. An empty one counts as not set.
fn secret(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|secret| !secret.trim().is_empty())
}
