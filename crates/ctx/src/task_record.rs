//! What the steps of a task recorded: files with their first and last versions, commands, notes,
//! questions, answers and changes that the user asked for; and the decisions on permissions, which
//! its turns have.

use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::TaskId;
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::step::{Entry, Step};
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::suspension::read_permission_text;
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Engine, Error, Order};

/// Steps per read.
const PAGE: usize = 500;
/// Steps of a longer task are left out.
const STEPS_MAX: usize = 50_000;
/// The beginnings of the notes that hold a question of the agent and an answer of the user.
const QUESTION: &str = "Question for user: ";
const ANSWER: &str = "User response: ";
/// The beginnings of the notes that hold a change which the user asked for.
const REQUESTS: [&str; 2] = ["User intervention: ", "User requested continuation: "];
/// Files whose earlier version is searched in other tasks.
const EARLIER_MAX: usize = 100;
/// Turns per read, and the newest turns of a task that are read.
const TURNS_PAGE: usize = 100;
const TURNS_MAX: u64 = 2_000;

/// A file that the task read or wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRecord {
    pub(crate) path: String,
    /// The first content that was read before the first write, else, after
    /// [`TaskRecord::find_earlier_versions`], the newest one of earlier tasks.
    pub(crate) before: Option<Content>,
    pub(crate) first_written_at: Option<Timestamp>,
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
    /// A change that the user asked for, and the whole note.
    Request {
        text: String,
        note: String,
    },
    Permission {
        asked: String,
        decision: String,
    },
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

    /// Completes files that the task wrote without reading them first: the version before is the
    /// newest one that an earlier task recorded.
    pub(crate) async fn find_earlier_versions(
        &mut self,
        engine: &Engine,
        task: TaskId,
    ) -> Result<(), Error> {
        let unknown = self.files.iter_mut().filter(|file| file.before.is_none());
        for file in unknown.take(EARLIER_MAX) {
            let Some(at) = file.first_written_at else { continue };
            file.before = engine.records().version_before(task, &file.path, at).await?;
        }
        Ok(())
    }

    /// Adds the decisions on permissions in the turns of a commit, in the order of time. A session
    /// that was deleted has none.
    pub(crate) async fn add_permissions(
        &mut self,
        engine: &Engine,
        commit: &Commit,
    ) -> Result<(), Error> {
        let Some(range) = commit.turns else { return Ok(()) };
        let session = commit.session.to_string();
        let (mut next, mut left) = (Some(range.last), range.count.min(TURNS_MAX));
        while let Some(from) = next.filter(|_| left > 0) {
            let limit = TURNS_PAGE.min(left as usize);
            let page = engine.messages().turns(&session, Order::Desc, Some(from), limit).await;
            let page = match page {
                Err(error) if ["no_session", "not_found"].contains(&error.code()) => break,
                page => page?,
            };
            next = page.last().and_then(|turn| turn.header.parent);
            left = left.saturating_sub(page.len() as u64);
            for turn in &page {
                let messages = turn.messages()?.unwrap_or_default();
                self.notes.extend(messages.iter().filter_map(permission));
            }
        }
        self.notes.sort_by_key(|(at, _)| *at);
        Ok(())
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
                    let file = self.file(path);
                    file.written = Some(content.clone());
                    file.first_written_at.get_or_insert(step.timestamp);
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
            self.files.push(FileRecord {
                path: path.to_owned(),
                before: None,
                first_written_at: None,
                written: None,
            });
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
    } else if let Some(request) = REQUESTS.iter().find_map(|start| text.strip_prefix(start)) {
        NoteRecord::Request { text: request.to_owned(), note: text.to_owned() }
    } else {
        NoteRecord::Note(text.to_owned())
    }
}

/// The decision on a permission, if the message records one.
fn permission(message: &Message) -> Option<(Timestamp, NoteRecord)> {
    let [Part::Text { text }] = message.content.as_slice() else { return None };
    let (asked, decision) = read_permission_text(text).filter(|_| message.role == Role::System)?;
    let (asked, decision) = (asked.to_owned(), decision.to_owned());
    Some((message.created_at, NoteRecord::Permission { asked, decision }))
}
