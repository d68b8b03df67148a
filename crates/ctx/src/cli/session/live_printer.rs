//! Prints a conversation while it runs. Text arrives as deltas, which may be incomplete. The stored
//! turn is complete; when it arrives, everything that was not printed yet is printed.

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, Write};

use ctx_engine::TextDelta;
use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::turn::Status;

use super::super::output::{DIM, Output, check_written, visible_text};
use super::transcript::{error_line, message_text};
use super::word_wrapper::WordWrapper;
use crate::problem::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Print nothing: `--json` prints one document at the end.
    Json,
    /// Print only the agent's text.
    Pipe,
    Terminal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Detail {
    /// Omit user messages: this command has sent them.
    AnswerOnly,
    Everything,
}

pub(in crate::cli) struct LivePrinter {
    target: Target,
    detail: Detail,
    out: Output,
    wrapper: WordWrapper,
    /// Text already printed, by message.
    printed_text: HashMap<MessageId, String>,
    printed_questions: HashSet<MessageId>,
    /// Number of thought characters already printed, by message.
    printed_thoughts: HashMap<MessageId, usize>,
    /// The message of the unfinished line, and whether it is a thought.
    open_line: Option<(MessageId, bool)>,
    /// An error that is printed only if something follows it. The last error becomes the error of
    /// the command.
    pending_error: Option<String>,
}

impl LivePrinter {
    pub(in crate::cli) fn new(out: &Output, detail: Detail) -> Self {
        let target = match (out.is_json(), std::io::stdout().is_terminal()) {
            (true, _) => Target::Json,
            (false, false) => Target::Pipe,
            (false, true) => Target::Terminal,
        };
        Self {
            target,
            detail,
            out: out.clone(),
            wrapper: WordWrapper::default(),
            printed_text: HashMap::new(),
            printed_questions: HashSet::new(),
            printed_thoughts: HashMap::new(),
            open_line: None,
            pending_error: None,
        }
    }

    /// Records the text of a message as printed, so that it is not printed again.
    pub(super) fn mark_printed(&mut self, message: &Message) {
        self.printed_text.insert(message.id, message_text(message));
    }

    /// Prints a user message, only with [`Detail::Everything`].
    pub(super) fn print_question(&mut self, message: &Message) -> Result<(), Problem> {
        if self.detail == Detail::Everything && self.printed_questions.insert(message.id) {
            self.print_line(&format!("> {}", visible_text(&message_text(message))))?;
        }
        Ok(())
    }

    pub(in crate::cli) fn print_delta(&mut self, words: &TextDelta) -> Result<(), Problem> {
        if words.thought {
            return self.print_thought_delta(words);
        }
        let known = self.printed_text.get(&words.message_id).map_or(0, |text| text.chars().count());
        // After a gap, wait for the stored turn, which has the complete text.
        if words.offset > known {
            return Ok(());
        }
        let new: String = words.text.chars().skip(known - words.offset).collect();
        self.print_text(words.message_id, &new)
    }

    fn print_text(&mut self, message: MessageId, text: &str) -> Result<(), Problem> {
        if text.is_empty() {
            return Ok(());
        }
        self.print_pending_error()?;
        self.printed_text.entry(message).or_default().push_str(text);
        self.open_line(message, false)?;
        let shown = self.wrapped(&visible_text(text));
        self.write(&shown)
    }

    fn print_thought_delta(&mut self, words: &TextDelta) -> Result<(), Problem> {
        let known = self.printed_thoughts.entry(words.message_id).or_default();
        if words.offset > *known || self.target != Target::Terminal {
            return Ok(());
        }
        let new: String = words.text.chars().skip(*known - words.offset).collect();
        *known += new.chars().count();
        if new.is_empty() {
            return Ok(());
        }
        self.open_line(words.message_id, true)?;
        let shown = self.wrapped(&visible_text(&new));
        self.write(&format!("{DIM}{shown}{DIM:#}"))
    }

    /// The text with line breaks between words on a terminal; elsewhere as it is.
    fn wrapped(&mut self, text: &str) -> String {
        match self.width() {
            Some(width) => self.wrapper.push(text, width),
            None => text.to_owned(),
        }
    }

    /// Columns of the terminal, which may have changed.
    fn width(&self) -> Option<usize> {
        (self.target == Target::Terminal).then(|| self.out.width()).flatten()
    }

    /// Prints the word whose end has not arrived yet.
    pub(in crate::cli) fn print_held_word(&mut self) -> Result<(), Problem> {
        let Some(width) = self.width() else { return Ok(()) };
        let held = self.wrapper.take_held(width);
        match self.open_line {
            _ if held.is_empty() => Ok(()),
            Some((_, true)) => self.write(&format!("{DIM}{held}{DIM:#}")),
            _ => self.write(&held),
        }
    }

    /// Ends the current line if it belongs to another message or to the other kind of text.
    fn open_line(&mut self, message: MessageId, thought: bool) -> Result<(), Problem> {
        if self.open_line.is_some_and(|open| open != (message, thought)) {
            self.end_line()?;
        }
        self.open_line = Some((message, thought));
        Ok(())
    }

    pub(in crate::cli) fn print_tool_call(&mut self, name: &str) -> Result<(), Problem> {
        if self.prints_details() {
            self.print_line(&format!("{DIM}→ {}{DIM:#}", visible_text(name)))
        } else {
            self.end_line()
        }
    }

    pub(in crate::cli) fn print_tool_failure(&mut self) -> Result<(), Problem> {
        if self.prints_details() {
            self.print_line(&format!("{DIM}✗ the tool failed{DIM:#}"))
        } else {
            Ok(())
        }
    }

    /// Prints what is missing of a stored turn.
    pub(in crate::cli) fn print_turn(
        &mut self,
        messages: &[Message],
        status: Status,
    ) -> Result<(), Problem> {
        for message in messages {
            match message.role {
                Role::User => self.print_question(message)?,
                Role::Tool => {}
                // The summary of an automatic compaction is not part of the answer.
                Role::System if is_compaction(messages) => self.print_compaction_notice()?,
                Role::System => self.print_line(&visible_text(&message_text(message)))?,
                Role::Assistant => self.print_rest(message)?,
            }
            for part in &message.content {
                if let (Part::Error { code, message, .. }, true) = (part, self.prints_details()) {
                    let line = error_line(code, message);
                    match self.detail {
                        Detail::Everything => self.print_line(&line)?,
                        Detail::AnswerOnly => self.pending_error = Some(line),
                    }
                }
            }
        }
        match status {
            Status::Interrupted | Status::Cancelled if self.prints_details() => {
                self.print_line(&format!("{DIM}(incomplete){DIM:#}"))
            }
            _ => Ok(()),
        }
    }

    fn print_compaction_notice(&mut self) -> Result<(), Problem> {
        if self.prints_details() {
            self.print_line(&format!(
                "{DIM}(earlier turns were summarized to fit the context){DIM:#}"
            ))
        } else {
            Ok(())
        }
    }

    /// Prints the text of the message that no delta contained.
    fn print_rest(&mut self, message: &Message) -> Result<(), Problem> {
        let text = message_text(message);
        let printed = self.printed_text.get(&message.id).map_or("", String::as_str);
        let rest = text.strip_prefix(printed).unwrap_or(&text).to_owned();
        self.print_text(message.id, &rest)?;
        self.end_line()
    }

    /// Whether tool calls, notices and errors are printed between the text.
    fn prints_details(&self) -> bool {
        self.target == Target::Terminal
            || (self.target == Target::Pipe && self.detail == Detail::Everything)
    }

    /// Prints the text on a line of its own.
    pub(in crate::cli) fn print_line(&mut self, text: &str) -> Result<(), Problem> {
        self.end_line()?;
        if text.trim().is_empty() {
            return Ok(());
        }
        self.print_pending_error()?;
        self.write(&format!("{text}\n"))
    }

    fn print_pending_error(&mut self) -> Result<(), Problem> {
        match self.pending_error.take() {
            Some(line) => self.write(&format!("{line}\n")),
            None => Ok(()),
        }
    }

    pub(in crate::cli) fn end_line(&mut self) -> Result<(), Problem> {
        self.print_held_word()?;
        self.wrapper = WordWrapper::default();
        match self.open_line.take() {
            Some((message, false))
                if self.printed_text.get(&message).is_some_and(|text| text.ends_with('\n')) =>
            {
                Ok(())
            }
            Some(_) => self.write("\n"),
            None => Ok(()),
        }
    }

    fn write(&self, text: &str) -> Result<(), Problem> {
        if self.target == Target::Json {
            return Ok(());
        }
        let mut stdout = anstream::stdout().lock();
        check_written(write!(stdout, "{text}").and_then(|()| stdout.flush()))
    }
}

/// Whether the turn consists only of the summary of a compaction.
fn is_compaction(messages: &[Message]) -> bool {
    let summary =
        |message: &Message| message.content.iter().all(|part| matches!(part, Part::Summary { .. }));
    messages.iter().all(|message| message.role == Role::System && summary(message))
}
