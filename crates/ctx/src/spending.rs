//! `[prices]` and `[budget]` of `ctx.toml`.

use std::collections::BTreeMap;

use ctx_engine::core::budget::{Budget, Limit, Limits};
use ctx_engine::core::prices::{Price, Prices};
use serde::Deserialize;

use crate::problem::Problem;

/// Highest price of a million tokens, in dollars.
const PRICE_MAX: f64 = 1_000_000.0;

/// Prices of a model, in dollars for a million tokens.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceConfig {
    input: f64,
    /// Input that the provider had cached. Default: as `input`.
    cached: Option<f64>,
    output: f64,
}

/// Limits that warn, and limits that stop.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BudgetConfig {
    warn: LimitsConfig,
    stop: LimitsConfig,
}

/// Each limit is an amount such as `5 USD`, or `200000 tokens`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsConfig {
    session: Option<String>,
    day: Option<String>,
    providers: BTreeMap<String, String>,
}

/// The prices of the configuration, over those of the program.
pub(crate) fn prices(configured: &BTreeMap<String, PriceConfig>) -> Result<Prices, Problem> {
    let mut prices = BTreeMap::new();
    for (model, price) in configured {
        let millionths = |name: &str, dollars: f64| {
            if (0.0..=PRICE_MAX).contains(&dollars) {
                Ok((dollars * 1e6).round() as u64)
            } else {
                let why = format!("prices.\"{model}\".{name}: it must be from 0 to {PRICE_MAX}");
                Err(Problem::wrong_use("bad_config", why))
            }
        };
        prices.insert(
            model.clone(),
            Price {
                input: millionths("input", price.input)?,
                cached: millionths("cached", price.cached.unwrap_or(price.input))?,
                output: millionths("output", price.output)?,
            },
        );
    }
    Ok(Prices::new(prices))
}

pub(crate) fn budget(configured: &BudgetConfig) -> Result<Budget, Problem> {
    Ok(Budget {
        warn: limits("budget.warn", &configured.warn)?,
        stop: limits("budget.stop", &configured.stop)?,
    })
}

fn limits(key: &str, configured: &LimitsConfig) -> Result<Limits, Problem> {
    let limit = |name: &str, text: &str| -> Result<Limit, Problem> {
        text.parse().map_err(|e| Problem::wrong_use("bad_config", format!("{key}.{name}: {e}")))
    };
    let optional = |name: &str, text: &Option<String>| {
        text.as_deref().map(|text| limit(name, text)).transpose()
    };
    let providers = configured.providers.iter();
    Ok(Limits {
        session: optional("session", &configured.session)?,
        day: optional("day", &configured.day)?,
        providers: providers
            .map(|(name, text)| Ok((name.clone(), limit(&format!("providers.{name}"), text)?)))
            .collect::<Result<_, Problem>>()?,
    })
}
