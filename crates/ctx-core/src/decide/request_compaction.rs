//! Whether a compaction can be asked for: of what answers in the session, and of the session itself
//! (R177).

use crate::compaction::FOCUS_MAX_CHARS;
use crate::refusal::Refusal;
use crate::session::Session;
use crate::text_limits::BadText;

/// What is known of the provider that would shorten its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactSupport {
    /// ctx sends the history and can summarise it, or the agent has a command for it.
    Yes,
    /// The agent has no such command.
    No,
    /// The agent was not started yet, so its commands are not known.
    Unknown,
}

impl CompactSupport {
    /// Support of a provider; `commands` are the slash commands of an agent that was started.
    pub fn of<'a>(
        is_agent: bool,
        can_compact: bool,
        commands: Option<impl IntoIterator<Item = &'a str>>,
    ) -> Self {
        if !is_agent || can_compact {
            return Self::Yes;
        }
        match commands.map(|names| names.into_iter().any(|name| name == "compact")) {
            None => Self::Unknown,
            Some(true) => Self::Yes,
            Some(false) => Self::No,
        }
    }
}

/// A compaction that a user asks for through the API. Its support must be known.
///
/// Fails if the focus is too long, the provider cannot compact, or there is nothing to summarise.
pub fn request_compaction(
    session: &Session,
    has_open_run: bool,
    inbox_is_empty: bool,
    support: CompactSupport,
    focus: Option<&str>,
) -> Result<(), Refusal> {
    let chars = focus.map_or(0, |focus| focus.chars().count());
    if chars > FOCUS_MAX_CHARS {
        let why = BadText::TooMany { chars, max: FOCUS_MAX_CHARS };
        return Err(Refusal::BadText { what: "focus", why });
    }
    if support != CompactSupport::Yes {
        return Err(Refusal::CompactUnavailable);
    }
    if session.head.is_none() && !has_open_run && inbox_is_empty {
        return Err(Refusal::NothingToCompact);
    }
    Ok(())
}

/// A `/compact` that comes as a message. An agent that was not started yet is given it.
///
/// Fails if the agent is known to have no such command.
pub fn check_compact_command(support: CompactSupport) -> Result<(), Refusal> {
    match support {
        CompactSupport::No => Err(Refusal::CompactUnavailable),
        CompactSupport::Yes | CompactSupport::Unknown => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::session;
    use crate::id::{ObjectId, TurnId};

    #[test]
    fn an_agent_compacts_only_by_a_command_of_its_own() {
        for (is_agent, can_compact, commands, expected) in [
            (false, false, None, CompactSupport::Yes),
            (true, true, None, CompactSupport::Yes),
            (true, false, None, CompactSupport::Unknown),
            (true, false, Some(vec!["help", "compact"]), CompactSupport::Yes),
            (true, false, Some(vec!["help"]), CompactSupport::No),
            (true, false, Some(vec![]), CompactSupport::No),
        ] {
            let found = CompactSupport::of(is_agent, can_compact, commands.clone());
            assert_eq!(found, expected, "{is_agent} {can_compact} {commands:?}");
        }
    }

    #[test]
    fn a_request_needs_support_and_something_to_summarise() {
        use CompactSupport::{No, Unknown, Yes};
        let empty = session();
        let used = Session { head: Some(TurnId(ObjectId::from_bytes([1; 32]))), ..session() };
        let long = "x".repeat(FOCUS_MAX_CHARS + 1);
        let why = BadText::TooMany { chars: FOCUS_MAX_CHARS + 1, max: FOCUS_MAX_CHARS };
        let too_long = Refusal::BadText { what: "focus", why };
        for (session, run, inbox_is_empty, support, focus, expected) in [
            (&used, false, true, Yes, None, Ok(())),
            (&empty, true, true, Yes, None, Ok(())),
            (&empty, false, false, Yes, None, Ok(())),
            (&empty, false, true, Yes, None, Err(Refusal::NothingToCompact)),
            (&used, false, true, No, None, Err(Refusal::CompactUnavailable)),
            (&used, false, true, Unknown, None, Err(Refusal::CompactUnavailable)),
            (&used, false, true, Yes, Some(&long[1..]), Ok(())),
            (&used, false, true, Yes, Some(&long[..]), Err(too_long)),
        ] {
            let found = request_compaction(session, run, inbox_is_empty, support, focus);
            assert_eq!(found, expected, "{run} {inbox_is_empty} {support:?}");
        }
    }

    #[test]
    fn an_agent_that_was_not_started_is_given_the_command() {
        assert_eq!(check_compact_command(CompactSupport::Unknown), Ok(()));
        assert_eq!(check_compact_command(CompactSupport::Yes), Ok(()));
        let refused = check_compact_command(CompactSupport::No);
        assert_eq!(refused, Err(Refusal::CompactUnavailable));
    }
}
