//! Commands that a user sends as a message and that ctx itself answers: `/done`, `/abandon` and
//! `/help`. `/compact` is in [`crate::compaction`], because it needs a run. Any other text that
//! starts with a slash is delivered to the agent.

/// A command to ctx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Seals the open task as complete.
    Done {
        /// The commit message; the task's summary if none.
        message: Option<String>,
    },
    /// Seals the open task as abandoned.
    Abandon {
        /// Why the task was given up.
        reason: Option<String>,
    },
    /// Lists the commands.
    Help,
}

/// The answer to `/help`.
pub const HELP: &str = "\
/done [MESSAGE]    seal the open task as complete
/abandon [REASON]  seal the open task as abandoned
/compact [FOCUS]   shorten the context of the conversation
/help              show this list
Everything else is delivered to the agent, also its own commands.";

impl Command {
    /// Parses a message. Returns `None` if it is not a command to ctx.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = || Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
        match word {
            "/done" => Some(Self::Done { message: argument() }),
            "/abandon" => Some(Self::Abandon { reason: argument() }),
            "/help" if argument().is_none() => Some(Self::Help),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_first_word_is_a_command() {
        assert_eq!(Command::of("/done"), Some(Command::Done { message: None }));
        let message = Some("shipped in 1.2".to_owned());
        assert_eq!(Command::of(" /done  shipped in 1.2\n"), Some(Command::Done { message }));
        assert_eq!(Command::of("/abandon"), Some(Command::Abandon { reason: None }));
        let reason = Some("wrong approach".to_owned());
        assert_eq!(Command::of("/abandon wrong approach"), Some(Command::Abandon { reason }));
        assert_eq!(Command::of("/help"), Some(Command::Help));
        for other in
            ["/doneness", "/review", "done", "please /done", "/help me", "/", "", "/compact"]
        {
            assert_eq!(Command::of(other), None, "{other}");
        }
    }
}
