//! The cost that a provider reports, as the text of [`Usage::cost`](ctx_core::turn::Usage::cost):
//! an amount and a currency, for example `0.000612 USD`.
//!
//! ctx computes no prices. A cost that is not reported stays absent.

use std::fmt;

use serde_json::Value;

/// Decimal places of an amount. Amounts are binary floating point; further digits are noise.
const DECIMALS: usize = 8;
const US_DOLLAR: &str = "USD";

/// An amount in a currency.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cost {
    amount: f64,
    currency: String,
}

impl Cost {
    /// An amount that the provider documents to be in US dollars; `None` if it is not a number.
    pub(crate) fn in_dollars(amount: &Value) -> Option<Self> {
        Self::new(amount, US_DOLLAR)
    }

    /// The `cost` object of ACP: `{"amount": 0.1, "currency": "USD"}`.
    pub(crate) fn from_acp(cost: &Value) -> Option<Self> {
        Self::new(cost.get("amount")?, cost.get("currency")?.as_str()?)
    }

    fn new(amount: &Value, currency: &str) -> Option<Self> {
        let amount = amount.as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0)?;
        Some(Self { amount, currency: currency.to_owned() })
    }

    /// The sum of two costs; `None` if the currencies differ.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        let amount = self.amount + other.amount;
        (self.currency == other.currency).then(|| Self { amount, currency: self.currency.clone() })
    }

    /// The part of a running total that was added since `earlier`. `None` if the currencies differ
    /// or the total was reset.
    pub(crate) fn since(&self, earlier: &Self) -> Option<Self> {
        let amount = self.amount - earlier.amount;
        (self.currency == earlier.currency && amount >= 0.0)
            .then(|| Self { amount, currency: self.currency.clone() })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:.DECIMALS$}", self.amount);
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{digits} {}", self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn acp(amount: f64, currency: &str) -> Cost {
        Cost::from_acp(&json!({"amount": amount, "currency": currency})).expect("a cost")
    }

    #[test]
    fn amounts_are_printed_without_floating_point_noise() {
        let table = [
            (0.00020399999999999997, "0.000204 USD"),
            (0.0, "0 USD"),
            (1.0, "1 USD"),
            (12.5, "12.5 USD"),
            (100.0, "100 USD"),
        ];
        for (amount, text) in table {
            assert_eq!(acp(amount, "USD").to_string(), text);
        }
    }

    #[test]
    fn difference_needs_the_same_currency_and_a_total_that_grew() {
        let total = acp(0.0008159999999999999, "USD");
        let earlier = acp(0.00020399999999999997, "USD");
        assert_eq!(total.since(&earlier).expect("a difference").to_string(), "0.000612 USD");
        assert_eq!(earlier.since(&total), None);
        assert_eq!(total.since(&acp(0.0, "EUR")), None);
        assert_eq!(total.plus(&acp(0.0, "EUR")), None);
    }

    #[test]
    fn missing_or_invalid_amount_is_no_cost() {
        for cost in [json!(null), json!({"amount": null, "currency": "USD"}), json!({"amount": 1})]
        {
            assert_eq!(Cost::from_acp(&cost), None, "{cost}");
        }
        assert_eq!(Cost::in_dollars(&json!(null)), None);
        assert_eq!(Cost::in_dollars(&json!(-1)), None);
    }
}
