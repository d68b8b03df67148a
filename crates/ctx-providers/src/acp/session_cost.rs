//! The cost of a prompt, derived from the running total that an agent reports for its session.

use serde_json::Value;

use crate::usage_cost::Cost;

/// The running total of one conversation.
#[derive(Debug, Default)]
pub(super) struct SessionCost {
    total: Option<Cost>,
    before_prompt: Before,
    /// Whether the conversation is new and was not prompted yet, so that its total is zero.
    is_unused: bool,
    /// Whether the agent reported a total since the prompt started.
    is_reported: bool,
}

/// The total when the prompt started.
#[derive(Debug, Default)]
enum Before {
    /// The agent has not reported it, for example after it loaded an older conversation.
    #[default]
    Unknown,
    Zero,
    Total(Cost),
}

impl SessionCost {
    /// The total of a conversation that was just created.
    pub(super) fn of_new_conversation() -> Self {
        Self { is_unused: true, ..Self::default() }
    }

    pub(super) fn start_prompt(&mut self) {
        self.before_prompt = match self.total.clone() {
            Some(total) => Before::Total(total),
            None if self.is_unused => Before::Zero,
            None => Before::Unknown,
        };
        self.is_unused = false;
        self.is_reported = false;
    }

    /// Reads a `usage_update`. Updates without a cost do not change the total.
    pub(super) fn update(&mut self, update: &Value) {
        if let Some(total) = update.get("cost").and_then(Cost::from_acp) {
            self.total = Some(total);
            self.is_reported = true;
        }
    }

    /// The cost since the prompt started; `None` if it cannot be derived.
    pub(super) fn of_prompt(&self) -> Option<Cost> {
        let total = self.total.as_ref().filter(|_| self.is_reported)?;
        match &self.before_prompt {
            Before::Unknown => None,
            Before::Zero => Some(total.clone()),
            Before::Total(before) => total.since(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn total(amount: f64) -> Value {
        json!({"sessionUpdate": "usage_update", "used": 19, "size": 200_000,
            "cost": {"amount": amount, "currency": "USD"}})
    }

    fn of_prompt(cost: &SessionCost) -> Option<String> {
        cost.of_prompt().map(|cost| cost.to_string())
    }

    #[test]
    fn each_prompt_costs_what_was_added_to_the_total() {
        let mut cost = SessionCost::of_new_conversation();
        cost.start_prompt();
        cost.update(&json!({"sessionUpdate": "usage_update", "used": 12, "size": 200_000}));
        assert_eq!(of_prompt(&cost), None, "no cost was reported yet");
        cost.update(&total(0.00020399999999999997));
        assert_eq!(of_prompt(&cost).as_deref(), Some("0.000204 USD"));
        cost.start_prompt();
        assert_eq!(of_prompt(&cost), None, "the total of the first prompt is not repeated");
        cost.update(&total(0.0008159999999999999));
        assert_eq!(of_prompt(&cost).as_deref(), Some("0.000612 USD"));
    }

    #[test]
    fn first_total_of_a_loaded_conversation_belongs_to_no_prompt() {
        let mut cost = SessionCost::default();
        cost.start_prompt();
        cost.update(&total(2.0));
        assert_eq!(of_prompt(&cost), None, "the total includes earlier prompts");
        cost.start_prompt();
        cost.update(&total(2.5));
        assert_eq!(of_prompt(&cost).as_deref(), Some("0.5 USD"));

        let mut reported_while_loading = SessionCost::default();
        reported_while_loading.update(&total(2.0));
        reported_while_loading.start_prompt();
        reported_while_loading.update(&total(2.25));
        assert_eq!(of_prompt(&reported_while_loading).as_deref(), Some("0.25 USD"));
    }

    #[test]
    fn total_that_was_not_reported_in_the_first_prompt_is_unknown_in_the_second() {
        let mut cost = SessionCost::of_new_conversation();
        cost.start_prompt();
        cost.start_prompt();
        cost.update(&total(1.0));
        assert_eq!(of_prompt(&cost), None);
    }
}
