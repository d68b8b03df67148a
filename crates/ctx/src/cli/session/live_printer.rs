//! Prints a conversation while it happens. Words come as deltas; what a turn says when it is committed is the truth, and
//! whatever was not printed by then is printed from there.

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, Write};

use ctx_engine::Words;
use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::turn::Status;

use super::super::output::{DIM, Output, printed};
use super::transcript::{error_line, plain, words_of};
use crate::problem::Problem;

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A program that wants one document at the end.
    Nobody,
    /// A pipe: the agent's words and nothing else.
    Pipe,
    /// A person.
    Terminal,
}

/// How much of what happens is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Show {
    /// What the caller does not know: it has sent the message itself.
    Answer,
    /// Everything, for somebody who only looks on.
    Everything,
}

/// Prints, and knows what was printed.
pub(in crate::cli) struct Printer {
    reader: Reader,
    show: Show,
    said: HashMap<MessageId, String>,
    asked: HashSet<MessageId>,
    thought: HashMap<MessageId, usize>,
    /// The message and tone of the line that is not finished.
    open: Option<(MessageId, bool)>,
    /// An error that is printed in its place once something follows it: the last one is what the verb itself fails with.
    error: Option<String>,
}

impl Printer {
    pub(in crate::cli) fn new(out: &Output, show: Show) -> Self {
        let reader = match (out.is_json(), std::io::stdout().is_terminal()) {
            (true, _) => Reader::Nobody,
            (false, false) => Reader::Pipe,
            (false, true) => Reader::Terminal,
        };
        Self {
            reader,
            show,
            said: HashMap::new(),
            asked: HashSet::new(),
            thought: HashMap::new(),
            open: None,
            error: None,
        }
    }

    /// What somebody has read before: it is not printed again.
    pub(super) fn knows(&mut self, message: &Message) {
        self.said.insert(message.id, words_of(message));
    }

    /// What a person, or whoever stands in for one, said; only for those who look on.
    pub(super) fn question(&mut self, message: &Message) -> Result<(), Problem> {
        if self.show == Show::Everything && self.asked.insert(message.id) {
            self.line(&format!("> {}", plain(&words_of(message))))?;
        }
        Ok(())
    }

    /// More words of the open turn.
    pub(in crate::cli) fn words(&mut self, words: &Words) -> Result<(), Problem> {
        if words.thought {
            return self.thoughts(words);
        }
        let known = self.said.get(&words.message_id).map_or(0, |said| said.chars().count());
        // Words after a gap are left for the end of the turn, which has them all.
        if words.offset > known {
            return Ok(());
        }
        let new: String = words.text.chars().skip(known - words.offset).collect();
        self.say(words.message_id, &new)
    }

    fn say(&mut self, message: MessageId, text: &str) -> Result<(), Problem> {
        if text.is_empty() {
            return Ok(());
        }
        self.flush()?;
        self.said.entry(message).or_default().push_str(text);
        self.tone(message, false)?;
        self.put(&plain(text))
    }

    fn thoughts(&mut self, words: &Words) -> Result<(), Problem> {
        let known = self.thought.entry(words.message_id).or_default();
        if words.offset > *known || self.reader != Reader::Terminal {
            return Ok(());
        }
        let new: String = words.text.chars().skip(*known - words.offset).collect();
        *known += new.chars().count();
        if new.is_empty() {
            return Ok(());
        }
        self.tone(words.message_id, true)?;
        self.put(&format!("{DIM}{}{DIM:#}", plain(&new)))
    }

    /// Another message, or thoughts after words, begin on a line of their own.
    fn tone(&mut self, message: MessageId, thought: bool) -> Result<(), Problem> {
        if self.open.is_some_and(|open| open != (message, thought)) {
            self.end_line()?;
        }
        self.open = Some((message, thought));
        Ok(())
    }

    /// A tool was called.
    pub(in crate::cli) fn tool(&mut self, name: &str) -> Result<(), Problem> {
        if self.is_person() {
            self.line(&format!("{DIM}→ {}{DIM:#}", plain(name)))
        } else {
            self.end_line()
        }
    }

    /// A tool failed.
    pub(in crate::cli) fn tool_failed(&mut self) -> Result<(), Problem> {
        if self.is_person() {
            self.line(&format!("{DIM}✗ the tool failed{DIM:#}"))
        } else {
            Ok(())
        }
    }

    /// A turn is in history: what was not printed yet is printed now.
    pub(in crate::cli) fn turn(
        &mut self,
        messages: &[Message],
        status: Status,
    ) -> Result<(), Problem> {
        for message in messages {
            match message.role {
                Role::User => self.question(message)?,
                Role::Tool => {}
                // A summary that nobody asked for is no part of the answer.
                Role::System if is_aside(messages) => self.aside()?,
                Role::System => self.line(&plain(&words_of(message)))?,
                Role::Assistant => self.rest(message)?,
            }
            for part in &message.content {
                if let (Part::Error { code, message, .. }, true) = (part, self.is_person()) {
                    let line = error_line(code, message);
                    match self.show {
                        Show::Everything => self.line(&line)?,
                        Show::Answer => self.error = Some(line),
                    }
                }
            }
        }
        match status {
            Status::Interrupted | Status::Cancelled if self.is_person() => {
                self.line(&format!("{DIM}(cut short){DIM:#}"))
            }
            _ => Ok(()),
        }
    }

    /// The context was made shorter on the way.
    fn aside(&mut self) -> Result<(), Problem> {
        if self.is_person() {
            self.line(&format!("{DIM}(earlier turns were summarised to fit the context){DIM:#}"))
        } else {
            Ok(())
        }
    }

    fn rest(&mut self, message: &Message) -> Result<(), Problem> {
        let whole = words_of(message);
        let said = self.said.get(&message.id).map_or("", String::as_str);
        let rest = whole.strip_prefix(said).unwrap_or(&whole).to_owned();
        self.say(message.id, &rest)?;
        self.end_line()
    }

    /// Whether tool calls, thoughts and errors are printed between the words.
    fn is_person(&self) -> bool {
        self.reader == Reader::Terminal
            || (self.reader == Reader::Pipe && self.show == Show::Everything)
    }

    /// A line of its own.
    pub(in crate::cli) fn line(&mut self, text: &str) -> Result<(), Problem> {
        self.end_line()?;
        if text.trim().is_empty() {
            return Ok(());
        }
        self.flush()?;
        self.put(&format!("{text}\n"))
    }

    fn flush(&mut self) -> Result<(), Problem> {
        match self.error.take() {
            Some(line) => self.put(&format!("{line}\n")),
            None => Ok(()),
        }
    }

    /// Ends the line that is open.
    pub(in crate::cli) fn end_line(&mut self) -> Result<(), Problem> {
        match self.open.take() {
            Some((message, false))
                if self.said.get(&message).is_some_and(|said| said.ends_with('\n')) =>
            {
                Ok(())
            }
            Some(_) => self.put("\n"),
            None => Ok(()),
        }
    }

    fn put(&self, text: &str) -> Result<(), Problem> {
        if self.reader == Reader::Nobody {
            return Ok(());
        }
        let mut stdout = anstream::stdout().lock();
        printed(write!(stdout, "{text}").and_then(|()| stdout.flush()))
    }
}

/// Whether a turn is a summary and nothing that anybody said.
fn is_aside(messages: &[Message]) -> bool {
    let summary =
        |message: &Message| message.content.iter().all(|part| matches!(part, Part::Summary { .. }));
    messages.iter().all(|message| message.role == Role::System && summary(message))
}
