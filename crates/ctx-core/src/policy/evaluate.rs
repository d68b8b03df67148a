//! The decision about a message, and its explanation.

use crate::identity::{Envelope, Principal, PrincipalType};
use crate::time::Timestamp;

use super::matcher::Subject;
use super::{
    Access, Denial, Effect, Explanation, Policies, Rule, RuleResult, ToolRights, matcher::Test,
};

impl Policies {
    /// Decides whether a message is admitted, to which session, and with which rights.
    ///
    /// `verified` is true if the link of the sender to an entity is verified. The default of the
    /// queue mode and of task tracking is the caller's.
    pub fn evaluate(
        &self,
        sender: &Principal,
        envelope: &Envelope,
        text: &str,
        verified: bool,
        now: Timestamp,
    ) -> Result<Access, Denial> {
        self.decide(&Subject { sender, envelope, text, verified, now })
    }

    /// The same decision, and for each policy whether it matches and why.
    pub fn explain(
        &self,
        sender: &Principal,
        envelope: &Envelope,
        text: &str,
        verified: bool,
        now: Timestamp,
    ) -> Explanation {
        let subject = Subject { sender, envelope, text, verified, now };
        let result = self.decide(&subject);
        let rules = self.rules.iter().map(|rule| rule.explain(&subject, &result)).collect();
        Explanation { rules, result }
    }

    fn decide(&self, subject: &Subject<'_>) -> Result<Access, Denial> {
        let mut matching: Vec<&Rule> = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.failing(subject).is_none()) {
            if rule.effect == Effect::Deny {
                return Err(Denial::Denied { policy: rule.name.clone() });
            }
            matching.push(rule);
        }
        if matching.is_empty() {
            return Err(Denial::NoMatch);
        }
        let found = matching.iter().find_map(|rule| Some((*rule, rule.key.as_ref()?)));
        let Some((rule, key)) = found else {
            let policies = matching.iter().map(|rule| rule.name.clone()).collect();
            return Err(Denial::NoSession { policies });
        };
        let policy = rule.name.clone();
        let label = match key.expand(subject.sender, subject.envelope) {
            Ok(label) => label,
            Err(variable) => {
                return Err(Denial::MissingVariable { policy, variable: variable.to_owned() });
            }
        };
        let mut tools = ToolRights::default();
        for rule in &matching {
            tools.unite(&rule.tools);
        }
        Ok(Access {
            policy,
            label,
            has_entity_key: key.has_entity(),
            persona: matching.iter().find_map(|rule| rule.persona.clone()),
            queue_mode: matching.iter().find_map(|rule| rule.queue_mode),
            track_tasks: matching.iter().find_map(|rule| rule.track_tasks),
            tools,
            approve: subject.sender.kind == PrincipalType::Owner
                || matching.iter().any(|rule| rule.approve),
        })
    }
}

impl Rule {
    /// The first test that does not hold. `None` if the policy matches.
    fn failing(&self, subject: &Subject<'_>) -> Option<&Test> {
        self.tests.iter().find(|test| !test.holds(subject))
    }

    fn explain(&self, subject: &Subject<'_>, result: &Result<Access, Denial>) -> RuleResult {
        let failing = self.failing(subject);
        RuleResult {
            policy: self.name.clone(),
            priority: self.priority,
            effect: self.effect,
            matched: failing.is_none(),
            reason: failing
                .map_or_else(|| self.contribution(result), |test| test.mismatch(subject)),
        }
    }

    /// The part of a matching policy in the decision.
    fn contribution(&self, result: &Result<Access, Denial>) -> String {
        let why = match self.tests.as_slice() {
            [] => "matches every message".to_owned(),
            tests => format!(
                "matches: {}",
                tests.iter().map(Test::to_string).collect::<Vec<_>>().join("; ")
            ),
        };
        let part = match (self.effect, result) {
            (Effect::Deny, _) => "; denies the message",
            (_, Ok(access)) if access.policy == self.name => "; gives the session",
            (_, Ok(_)) if self.key.is_none() => "; has no session key",
            (_, Ok(_)) => "; another policy gives the session",
            (_, Err(Denial::MissingVariable { policy, .. })) if *policy == self.name => {
                "; its session key has no value"
            }
            (_, Err(Denial::NoSession { .. })) => "; has no session key",
            (_, Err(_)) => "",
        };
        format!("{why}{part}")
    }
}
