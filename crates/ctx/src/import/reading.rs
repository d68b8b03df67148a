//! What is read from one session of another tool: its conversations, the facts about it, and the
//! records that could not be used.

use std::collections::BTreeMap;
use std::path::Path;

use ctx_engine::ImportedTurn;
use ctx_engine::core::text_limits::one_line;
use ctx_engine::core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::assembler::Assembler;
use super::json_record;
use super::lines::{Line, Lines};

/// Bad records that are reported one by one; further ones are counted.
const PROBLEMS_MAX: usize = 100;

/// Characters of the first message that are kept for lists and titles.
const PROMPT_MAX_CHARS: usize = 200;

/// What is known about a session besides its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// The id that the tool gave it.
    pub(crate) id: String,
    pub(crate) title: Option<String>,
    pub(crate) working_dir: Option<String>,
    pub(crate) git_branch: Option<String>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) updated_at: Option<Timestamp>,
    /// The first message of the user, for lists.
    pub(crate) first_prompt: Option<String>,
    pub(crate) archived: bool,
}

/// A record that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Line number, from 1; 0 if the problem concerns the whole source.
    pub(crate) line: u64,
    pub(crate) why: String,
}

/// A conversation inside a source: the main one, or one of a worker.
pub(super) struct Conversation {
    pub(super) facts: Facts,
    pub(super) turns: Assembler,
    /// The tool call of the main conversation that started it.
    pub(super) tool_call: Option<String>,
}

/// A finished turn of one conversation of a source.
pub(super) struct ReadTurn {
    /// `None` for the main conversation, else the id of the worker.
    pub(super) worker: Option<String>,
    pub(super) facts: Facts,
    pub(super) tool_call: Option<String>,
    pub(super) turn: ImportedTurn,
}

/// Receives the records of a session.
pub(super) struct Reading<'a> {
    pub(super) tool: &'static str,
    pub(super) main: Conversation,
    workers: BTreeMap<String, Conversation>,
    problems: Vec<Problem>,
    problem_count: u64,
    emit: &'a mut (dyn FnMut(ReadTurn) -> std::io::Result<()> + 'a),
}

/// What is left when a source was read.
pub(super) struct ReadEnd {
    pub(super) facts: Facts,
    pub(super) problems: Vec<Problem>,
    pub(super) problem_count: u64,
    pub(super) duplicates: u64,
    pub(super) orphans: u64,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        tool: &'static str,
        id: &str,
        emit: &'a mut (dyn FnMut(ReadTurn) -> std::io::Result<()> + 'a),
    ) -> Self {
        let main = Conversation {
            facts: Facts { id: id.to_owned(), ..Facts::default() },
            turns: Assembler::new(tool, id),
            tool_call: None,
        };
        Self { tool, main, workers: BTreeMap::new(), problems: Vec::new(), problem_count: 0, emit }
    }

    /// The conversation of a worker.
    pub(super) fn worker(&mut self, id: &str) -> &mut Conversation {
        let (tool, main) = (self.tool, &self.main.facts);
        self.workers.entry(id.to_owned()).or_insert_with(|| {
            let key = format!("{}/{id}", main.id);
            Conversation {
                turns: Assembler::new(tool, &key),
                facts: Facts { id: key, title: None, first_prompt: None, ..main.clone() },
                tool_call: None,
            }
        })
    }

    /// Reports a record that could not be used.
    pub(super) fn problem(&mut self, line: u64, why: impl Into<String>) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { line, why: why.into() });
        }
    }

    /// Reads a file of JSON lines and calls `add` with each record, its text and its line number.
    /// A line that is not a record is reported.
    ///
    /// # Errors
    /// If the file cannot be read, or the import was stopped.
    pub(super) fn each_record(
        &mut self,
        path: &Path,
        add: impl FnMut(&mut Self, &Value, &str, u64),
    ) -> std::io::Result<()> {
        self.each_record_without(path, &[], add)
    }

    /// As [`Reading::each_record`]; the fields with these names are left out of the records.
    ///
    /// # Errors
    /// As of [`Reading::each_record`].
    pub(super) fn each_record_without(
        &mut self,
        path: &Path,
        skipped: &[&str],
        mut add: impl FnMut(&mut Self, &Value, &str, u64),
    ) -> std::io::Result<()> {
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next_line()? {
            match line {
                Line::Bad { number, why } => self.problem(number, why),
                Line::Text { number, text } => match json_record::parse(text, skipped) {
                    Ok(record) => add(self, &record, text, number),
                    Err(error) => self.problem(number, format!("not valid JSON: {error}")),
                },
            }
            self.pass_on()?;
        }
        Ok(())
    }

    /// Passes finished turns on. Called after each record.
    pub(super) fn pass_on(&mut self) -> std::io::Result<()> {
        let turns = self.main.turns.take();
        emit(self.emit, None, &self.main, turns)?;
        for (id, worker) in &mut self.workers {
            let turns = worker.turns.take();
            emit(self.emit, Some(id), worker, turns)?;
        }
        Ok(())
    }

    /// Ends all conversations.
    pub(super) fn finish(mut self) -> std::io::Result<ReadEnd> {
        let turns = self.main.turns.finish();
        emit(self.emit, None, &self.main, turns)?;
        for (id, worker) in &mut self.workers {
            let turns = worker.turns.finish();
            emit(self.emit, Some(id), worker, turns)?;
        }
        Ok(ReadEnd {
            duplicates: self.main.turns.duplicates,
            orphans: self.main.turns.orphans,
            facts: self.main.facts,
            problems: self.problems,
            problem_count: self.problem_count,
        })
    }
}

fn emit(
    emit: &mut (dyn FnMut(ReadTurn) -> std::io::Result<()> + '_),
    worker: Option<&String>,
    conversation: &Conversation,
    turns: Vec<ImportedTurn>,
) -> std::io::Result<()> {
    for turn in turns {
        emit(ReadTurn {
            worker: worker.cloned(),
            facts: conversation.facts.clone(),
            tool_call: conversation.tool_call.clone(),
            turn,
        })?;
    }
    Ok(())
}

impl Facts {
    /// Takes the working directory, the branch and the times of a record.
    pub(super) fn note(&mut self, dir: Option<&str>, branch: Option<&str>, at: Option<Timestamp>) {
        if self.working_dir.is_none() {
            self.working_dir = dir.map(str::to_owned);
        }
        if let Some(branch) = branch {
            self.git_branch = Some(branch.to_owned());
        }
        if self.created_at.is_none() {
            self.created_at = at;
        }
        self.updated_at = at.or(self.updated_at);
    }

    /// Notes a message of the user.
    pub(super) fn note_prompt(&mut self, text: &str) {
        if self.first_prompt.is_none() && !text.trim().is_empty() {
            self.first_prompt = Some(one_line(text, PROMPT_MAX_CHARS));
        }
    }
}
