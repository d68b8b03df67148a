//! What the steps of a task recorded: files with their first and last versions, commands, notes,
//! questions and answers.

use ctx_engine::core::id::TaskId;
use ctx_engine::core::step::{Entry, Step};
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Engine, Error};

/// Steps per read.
const PAGE: usize = 500;
/// Steps of a longer task are left out.
const STEPS_MAX: usize = 50_000;
/// The beginnings of the notes that hold a question of the agent and an answer of the user.
const QUESTION: &str = "Question for user: ";
const ANSWER: &str = "User response: ";

/// A file that the task read or wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRecord {
    pub(crate) path: String,
    /// The first content that was read before the first write.
    pub(crate) before: Option<Content>,
    /// The last write; `None` inside: the file was deleted.
    pub(crate) written: Option<Option<Content>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandRecord {
    pub(crate) line: String,
    pub(crate) exit: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoteRecord {
    Question(String),
    Answer(String),
    Note(String),
}

#[derive(Debug, Default)]
pub(crate) struct TaskRecord {
    /// In the order of the first access.
    pub(crate) files: Vec<FileRecord>,
    pub(crate) commands: Vec<CommandRecord>,
    pub(crate) notes: Vec<(Timestamp, NoteRecord)>,
    /// Time of the first and the last step that was read.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
}

impl TaskRecord {
    /// Reads the steps of a task that were stored from `from` until before `to`.
    pub(crate) async fn read(
        engine: &Engine,
        task: TaskId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Self, Error> {
        let mut record = Self::default();
        let (mut after, mut count) = (0, 0);
        while count < STEPS_MAX {
            let steps = engine.tasks().steps(task, after, PAGE).await?;
            let Some(last) = steps.last() else { break };
            after = last.seq;
            count += steps.len();
            let is_inside = |step: &Step| step.timestamp >= from && step.timestamp < to;
            for step in steps.iter().map(|stored| &stored.step).filter(|step| is_inside(step)) {
                record.add(step);
            }
        }
        Ok(record)
    }

    fn add(&mut self, step: &Step) {
        let first = self.span.map_or(step.timestamp, |(first, _)| first);
        self.span = Some((first, step.timestamp));
        for entry in &step.payload {
            match entry {
                Entry::FileRead { path, content } => {
                    let file = self.file(path);
                    if file.before.is_none() && file.written.is_none() {
                        file.before = Some(content.clone());
                    }
                }
                Entry::FileWrite { path, content } => {
                    self.file(path).written = Some(content.clone());
                }
                Entry::Command { argv, exit, .. } => {
                    self.commands.push(CommandRecord { line: argv.join(" "), exit: *exit });
                }
                Entry::Note { text, .. } => self.notes.push((step.timestamp, note(text))),
                _ => {}
            }
        }
    }

    fn file(&mut self, path: &str) -> &mut FileRecord {
        let known = self.files.iter().position(|file| file.path == path);
        let at = known.unwrap_or_else(|| {
            self.files.push(FileRecord { path: path.to_owned(), before: None, written: None });
            self.files.len() - 1
        });
        &mut self.files[at]
    }
}

fn note(text: &str) -> NoteRecord {
    if let Some(question) = text.strip_prefix(QUESTION) {
        NoteRecord::Question(question.to_owned())
    } else if let Some(answer) = text.strip_prefix(ANSWER) {
        NoteRecord::Answer(answer.to_owned())
    } else {
        NoteRecord::Note(text.to_owned())
    }
}
