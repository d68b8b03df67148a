//! The budget of a run: no request starts above a limit, and a turn that reaches one is marked.

use ctx_core::budget::EXCEEDED;
use ctx_core::id::MessageId;
use ctx_core::message::{Message, Part, Role};
use ctx_core::turn::Usage;

use super::Runner;
use crate::provider::{Failure, FailureClass};

impl Runner<'_> {
    /// Why the next request may not start; `None` if it may. What the open turn has used so far
    /// counts too. If the sums cannot be read, the request fails, because a limit may be reached.
    pub(crate) async fn budget_failure(&mut self) -> Option<Failure> {
        let provider = self.opened_run.run.provider_id.clone();
        let before = match self.engine.used(self.session, &provider).await {
            Ok(used) => used?,
            Err(error) => {
                let why = format!("the budget could not be checked: {error}");
                return Some(Failure::new(error.code(), FailureClass::Permanent, why));
            }
        };
        self.used_before = Some(before);
        let used = match &self.draft.usage {
            Some(usage) => before.with(self.bill(usage)),
            None => before,
        };
        let reached = self.engine.spending().budget.refusal(&provider, &used)?;
        let why = format!(
            "{reached}. No request was sent. Raise the limit under [budget.stop] in ctx.toml, or \
             {}",
            reached.remedy()
        );
        Some(Failure::new(EXCEEDED, FailureClass::Permanent, why))
    }

    /// The notice of a turn that has reached a limit which only warns.
    pub(crate) fn budget_notice(&self, usage: Option<&Usage>) -> Option<Message> {
        let before = self.used_before?;
        let after = before.with(self.bill(usage?));
        let provider = &self.opened_run.run.provider_id;
        let reached = self.engine.spending().budget.warnings(provider, &before, &after);
        let text = reached.iter().map(|one| format!("Budget: {one}.")).collect::<Vec<_>>();
        (!text.is_empty()).then(|| Message {
            id: MessageId(self.engine.new_id()),
            role: Role::System,
            source: None,
            content: vec![Part::Text { text: text.join("\n") }],
            created_at: self.engine.now(),
        })
    }

    fn bill(&self, usage: &Usage) -> ctx_core::usage::Bill {
        self.engine.bill_of_open_turn(usage, self.model().as_deref())
    }
}
