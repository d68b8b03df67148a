//! A commit as `ctx show` prints it: the task, its outcome, the questions and answers, the changes
//! that the user asked for, the decisions on permissions, the commands and the changed files.

use ctx_engine::Engine;
use ctx_engine::core::commit::{Commit, CommitType};
use ctx_engine::core::id::CommitId;
use ctx_engine::core::time::{Span, Timestamp};

use crate::problem::Problem;

use super::log::{type_style, type_word};
use super::output::{BOLD, DIM, GREEN, ID, RED, YELLOW, plural, visible_line, visible_text};
use super::times::{Times, duration};
use super::{Context, file_diff};
use crate::task_record::{CommandRecord, FileRecord, NoteRecord, TaskRecord};

const LINE_MAX_CHARS: usize = 500;

/// The lines of a commit.
pub(super) async fn lines(
    context: &Context,
    engine: &Engine,
    id: CommitId,
    commit: &Commit,
) -> Result<Vec<String>, Problem> {
    let times = context.out.times(engine.now());
    let (from, to) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
    let mut record = TaskRecord::read(engine, commit.task, from, to).await?;
    record.find_earlier_versions(engine, commit.task).await?;
    record.add_permissions(engine, commit).await?;
    let mut lines = heading(engine, id, commit, &times).await?;
    lines.extend(note_lines(&record));
    lines.extend(command_section(&record.commands));
    lines.extend(file_section(&record.files));
    for file in record.files.iter().filter(|file| file.written.is_some()) {
        lines.push(String::new());
        lines.extend(file_diff::lines(engine, file).await?);
    }
    Ok(lines)
}

async fn heading(
    engine: &Engine,
    id: CommitId,
    commit: &Commit,
    times: &Times,
) -> Result<Vec<String>, Problem> {
    let short = engine.ids().short_objects(vec![id.0]).await?.remove(0);
    let rest = id.to_string()[short.len()..].to_owned();
    let session = match engine.sessions().get(&commit.session.to_string()).await {
        Ok(info) => visible_line(&info.session.label, 80),
        Err(error) if error.code() == "no_session" => format!("{} (deleted)", commit.session),
        Err(error) => return Err(error.into()),
    };
    let (word, style) = (type_word(&commit.commit_type), type_style(&commit.commit_type));
    let why = match &commit.commit_type {
        CommitType::StaleAutoCompact { idle_duration_secs } => {
            format!(" (idle for {})", duration(Span(idle_duration_secs * 1000)))
        }
        CommitType::InterruptedByNewTask { new_task_summary } => {
            format!(" (by: {})", visible_line(new_task_summary, 80))
        }
        CommitType::Normal | CommitType::Abandoned => String::new(),
    };
    let took = duration(commit.created_at.since(commit.started_at));
    let mut lines = vec![
        format!("commit {ID}{short}{ID:#}{DIM}{rest}{DIM:#}"),
        format!("Task:     {BOLD}{}{BOLD:#}", visible_line(&commit.description, LINE_MAX_CHARS)),
        format!("Outcome:  {style}{word}{style:#}{why}"),
        format!("Session:  {session}"),
        format!("Sealed:   {}", times.minute(commit.created_at)),
        format!(
            "Duration: {took} · {}{}",
            plural(commit.steps.count, "step"),
            commit
                .turns
                .map_or_else(String::new, |turns| format!(" · {}", plural(turns.count, "turn")))
        ),
        String::new(),
    ];
    lines.extend(visible_text(&commit.message).lines().map(|line| format!("    {line}")));
    Ok(lines)
}

/// Questions, permissions, answers and changes that the user asked for, in order.
pub(super) fn note_lines(record: &TaskRecord) -> Vec<String> {
    let mut lines = Vec::new();
    for (_, note) in &record.notes {
        match note {
            NoteRecord::Question(text) => {
                lines.push(String::new());
                lines.push(format!("{YELLOW}?{YELLOW:#} {}", visible_text(text)));
            }
            NoteRecord::Answer(text) => {
                lines.push(format!("{GREEN}→{GREEN:#} {}", visible_text(text)));
            }
            NoteRecord::Request { text, .. } => {
                lines.push(String::new());
                lines.push(format!("{GREEN}»{GREEN:#} {}", visible_text(text)));
            }
            NoteRecord::Permission { asked, decision } => {
                lines.push(String::new());
                lines.push(format!("{YELLOW}?{YELLOW:#} permission: {}", visible_text(asked)));
                lines.push(format!("{GREEN}→{GREEN:#} {}", visible_text(decision)));
            }
            NoteRecord::Note(_) => {}
        }
    }
    lines
}

/// Commands with their exit codes.
pub(super) fn command_lines(commands: &[CommandRecord]) -> Vec<String> {
    let line = |command: &CommandRecord| {
        let exit = match command.exit {
            Some(0) => format!("{GREEN}exit 0{GREEN:#}"),
            Some(code) => format!("{RED}exit {code}{RED:#}"),
            None => format!("{DIM}exit unknown{DIM:#}"),
        };
        format!("$ {}  {exit}", visible_line(&command.line, LINE_MAX_CHARS))
    };
    commands.iter().map(line).collect()
}

fn command_section(commands: &[CommandRecord]) -> Vec<String> {
    let mut lines = command_lines(commands);
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// How a file was accessed, and its path.
pub(super) fn file_line(file: &FileRecord) -> String {
    let path = visible_text(&file.path).replace(['\n', '\t'], " ");
    match &file.written {
        Some(Some(_)) => format!("{GREEN}wrote{GREEN:#}   {path}"),
        Some(None) => format!("{RED}deleted{RED:#} {path}"),
        None => format!("{DIM}read{DIM:#}    {path}"),
    }
}

fn file_section(files: &[FileRecord]) -> Vec<String> {
    let mut lines: Vec<String> = files.iter().map(file_line).collect();
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}
