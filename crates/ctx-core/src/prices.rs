//! Prices of models: those of the user over a table in the program.
//!
//! The table holds list prices of [`TABLE_DATE`]. A model that is in neither has no price; its cost
//! is unknown.

use std::collections::BTreeMap;

use crate::usage::{Dollars, Unbilled};

/// The date of the prices in the program.
pub const TABLE_DATE: &str = "2025-11-01";

/// Prices in millionths of a dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Price {
    pub input: u64,
    /// Input that the provider had cached.
    pub cached: u64,
    pub output: u64,
}

impl Price {
    const fn cents(input: u64, cached_tenths: u64, output: u64) -> Self {
        Self { input: input * 10_000, cached: cached_tenths * 1000, output: output * 10_000 }
    }

    /// The cost of tokens, rounded down to a billionth of a dollar.
    pub fn of(&self, tokens: &Unbilled) -> Dollars {
        let cost = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let millionths = cost(tokens.fresh, self.input)
            + cost(tokens.cached, self.cached)
            + cost(tokens.output, self.output);
        Dollars(u64::try_from(millionths / 1000).unwrap_or(u64::MAX))
    }
}

/// List prices: input and output in cents, cached input in tenths of a cent, for a million tokens.
const TABLE: [(&str, Price); 22] = [
    ("gpt-5", Price::cents(125, 125, 1000)),
    ("gpt-5-codex", Price::cents(125, 125, 1000)),
    ("gpt-5-mini", Price::cents(25, 25, 200)),
    ("gpt-5-nano", Price::cents(5, 5, 40)),
    ("gpt-4.1", Price::cents(200, 500, 800)),
    ("gpt-4.1-mini", Price::cents(40, 100, 160)),
    ("gpt-4.1-nano", Price::cents(10, 25, 40)),
    ("gpt-4o", Price::cents(250, 1250, 1000)),
    ("gpt-4o-mini", Price::cents(15, 75, 60)),
    ("o3", Price::cents(200, 500, 800)),
    ("o4-mini", Price::cents(110, 275, 440)),
    ("claude-opus-4", Price::cents(1500, 1500, 7500)),
    ("claude-opus-4-0", Price::cents(1500, 1500, 7500)),
    ("claude-opus-4-1", Price::cents(1500, 1500, 7500)),
    ("claude-sonnet-4", Price::cents(300, 300, 1500)),
    ("claude-sonnet-4-0", Price::cents(300, 300, 1500)),
    ("claude-sonnet-4-5", Price::cents(300, 300, 1500)),
    ("claude-haiku-4-5", Price::cents(100, 100, 500)),
    ("claude-3-7-sonnet", Price::cents(300, 300, 1500)),
    ("claude-3-5-sonnet", Price::cents(300, 300, 1500)),
    ("claude-3-5-haiku", Price::cents(80, 80, 400)),
    ("claude-3-haiku", Price::cents(25, 30, 125)),
];

/// The prices of all models that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices {
    configured: BTreeMap<String, Price>,
}

impl Prices {
    /// Prices of the user, by model, over those of the program.
    pub const fn new(configured: BTreeMap<String, Price>) -> Self {
        Self { configured }
    }

    /// The price of a model. Its name is looked up as it is, then without a vendor before a slash,
    /// then without a date at its end.
    pub fn of(&self, model: &str) -> Option<Price> {
        let name = model.rsplit('/').next().unwrap_or(model);
        let find = |name: &str| {
            let listed = || TABLE.iter().find(|(known, _)| *known == name).map(|(_, price)| *price);
            self.configured.get(name).copied().or_else(listed)
        };
        find(model).or_else(|| find(name)).or_else(|| find(without_date(name)?))
    }
}

/// A name without `-20250514`, `-2025-08-07` or `-latest` at its end.
fn without_date(name: &str) -> Option<&str> {
    let is_date = |end: &str| {
        let digits = end.bytes().filter(u8::is_ascii_digit).count();
        digits == 8 && end.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    name.strip_suffix("-latest").or_else(|| {
        ["-2025-08-07".len(), "-20250514".len()].into_iter().find_map(|length| {
            let at = name.len().checked_sub(length)?;
            let (stem, end) = (name.get(..at)?, name.get(at..)?);
            end.strip_prefix('-').filter(|end| is_date(end)).map(|_| stem)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_found_by_the_name_of_a_model() {
        let own = Price { input: 1, cached: 2, output: 3 };
        let prices = Prices::new(BTreeMap::from([
            ("local".to_owned(), own),
            ("gpt-5".to_owned(), own),
            ("vendor/special".to_owned(), own),
        ]));
        let sonnet = Some(Price { input: 3_000_000, cached: 300_000, output: 15_000_000 });
        let table = [
            ("local", Some(own)),
            ("gpt-5", Some(own)),
            ("openai/gpt-5-2025-08-07", Some(own)),
            ("vendor/special", Some(own)),
            ("special", None),
            ("claude-sonnet-4-5", sonnet),
            ("claude-sonnet-4-20250514", sonnet),
            ("anthropic/claude-3-7-sonnet-latest", sonnet),
            ("gpt-5-pro", None),
            ("claude-sonnet-9", None),
            ("", None),
        ];
        for (model, price) in table {
            assert_eq!(prices.of(model), price, "{model}");
        }
    }

    #[test]
    fn a_cost_is_exact_to_a_billionth_of_a_dollar() {
        let price = Prices::default().of("gpt-4o-mini").expect("a price");
        assert_eq!(price, Price { input: 150_000, cached: 75_000, output: 600_000 });
        let cost = |fresh, cached, output| price.of(&Unbilled { turns: 1, fresh, cached, output });
        assert_eq!(cost(1, 0, 0), Dollars(150));
        assert_eq!(cost(0, 1, 0), Dollars(75));
        assert_eq!(cost(1_000_000, 1_000_000, 1_000_000), Dollars(825_000_000));
        assert_eq!(cost(u64::MAX, u64::MAX, u64::MAX), Dollars(u64::MAX), "no overflow");
    }

    #[test]
    fn cached_input_never_costs_more_than_fresh_input() {
        for (model, price) in TABLE {
            assert!(price.cached <= price.input && price.input < price.output, "{model}");
        }
    }
}
