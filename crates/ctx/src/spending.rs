//! `[prices]` and `[budget]` of `ctx.toml`. Each value keeps its place in the file, so that an
//! error can name its line.

use std::collections::BTreeMap;

use ctx_engine::core::budget::{BadLimit, Budget, Limit, Limits};
use ctx_engine::core::prices::{Price, Prices};
use serde::Deserialize;
use toml::Spanned;

/// Highest price of a million tokens, in dollars.
const PRICE_MAX: f64 = 1_000_000.0;

/// Prices of a model, in dollars for a million tokens.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceConfig {
    input: Spanned<f64>,
    /// Input that the provider had cached. Default: as `input`.
    cached: Option<Spanned<f64>>,
    output: Spanned<f64>,
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
    session: Option<Spanned<String>>,
    day: Option<Spanned<String>>,
    providers: BTreeMap<String, Spanned<String>>,
}

/// A price or limit that is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrongValue {
    /// Where the value begins in the file, in bytes.
    pub(crate) at: usize,
    /// The key and the reason.
    pub(crate) why: String,
}

/// The prices of the configuration, over those of the program.
pub(crate) fn prices(configured: &BTreeMap<String, PriceConfig>) -> Result<Prices, WrongValue> {
    let mut prices = BTreeMap::new();
    for (model, price) in configured {
        let millionths = |name: &str, dollars: &Spanned<f64>| {
            if (0.0..=PRICE_MAX).contains(dollars.get_ref()) {
                Ok((dollars.get_ref() * 1e6).round() as u64)
            } else {
                let why = format!("prices.\"{model}\".{name}: it must be from 0 to {PRICE_MAX}");
                Err(WrongValue { at: dollars.span().start, why })
            }
        };
        prices.insert(
            model.clone(),
            Price {
                input: millionths("input", &price.input)?,
                cached: millionths("cached", price.cached.as_ref().unwrap_or(&price.input))?,
                output: millionths("output", &price.output)?,
            },
        );
    }
    Ok(Prices::new(prices))
}

pub(crate) fn budget(configured: &BudgetConfig) -> Result<Budget, WrongValue> {
    Ok(Budget {
        warn: limits("budget.warn", &configured.warn)?,
        stop: limits("budget.stop", &configured.stop)?,
    })
}

fn limits(key: &str, configured: &LimitsConfig) -> Result<Limits, WrongValue> {
    let limit = |name: &str, text: &Spanned<String>| -> Result<Limit, WrongValue> {
        let wrong = |why: BadLimit| WrongValue {
            at: text.span().start,
            why: format!("{key}.{name}: {why}"),
        };
        text.get_ref().parse().map_err(wrong)
    };
    let optional = |name: &str, text: &Option<Spanned<String>>| {
        text.as_ref().map(|text| limit(name, text)).transpose()
    };
    let providers = configured.providers.iter();
    Ok(Limits {
        session: optional("session", &configured.session)?,
        day: optional("day", &configured.day)?,
        providers: providers
            .map(|(name, text)| Ok((name.clone(), limit(&format!("providers.{name}"), text)?)))
            .collect::<Result<_, WrongValue>>()?,
    })
}
