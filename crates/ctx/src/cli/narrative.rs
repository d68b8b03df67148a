//! `ctx narrative`: what happened on a day, by task.

use ctx_engine::core::task::Task;
use ctx_engine::core::time::{Span, Timestamp};
use ctx_engine::{Engine, PAGE_MAX};
use serde_json::json;

use crate::json::object_json;
use crate::problem::Problem;

use super::Context;
use super::commit_text::{command_lines, file_line};
use super::log::{type_style, type_word};
use super::output::{BOLD, DIM, ID, state_line, visible_line, visible_text};
use super::times::{Times, system_time};
use crate::task_record::{NoteRecord, TaskRecord};

const NOTES_MAX: usize = 10_000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show this day (UTC) [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine_if_recorded()?;
    let now = engine.as_ref().map_or_else(system_time, Engine::now);
    let day = args.day.clone().unwrap_or_else(|| now.day());
    let from = Timestamp::start_of_day(&day).ok_or_else(|| {
        Problem::wrong_use("bad_day", format!("invalid day `{day}`: use the format YYYY-MM-DD"))
    })?;
    let Some(engine) = engine else {
        return context.print_nothing_recorded(|| json!({"day": day, "notes": []}));
    };
    let to = Timestamp(from.0.saturating_add_unsigned(Span::days(1).0));
    if context.out.is_json() {
        let notes = engine.records().narrative(from, to, NOTES_MAX).await?;
        let notes: Vec<_> = notes.iter().map(object_json::narrative_note).collect();
        return context.out.print(|| json!({"day": day, "notes": notes}), String::new);
    }
    let tasks = engine.tasks().between(from, to, PAGE_MAX).await?;
    let times = context.out.times(engine.now());
    let mut lines = Vec::new();
    for task in &tasks {
        let record = TaskRecord::read(&engine, task.id, from, to).await?;
        if record.span.is_none() {
            continue;
        }
        lines.push(String::new());
        lines.extend(task_story(&engine, task, &record, &times).await?);
    }
    if lines.is_empty() {
        lines.push(format!("No notes on {day}."));
    } else {
        lines.insert(0, format!("{BOLD}{day}{BOLD:#}"));
    }
    if tasks.len() == PAGE_MAX {
        lines.push(format!("{DIM}Only the first {PAGE_MAX} tasks are shown.{DIM:#}"));
    }
    context.out.print_paged(|| json!(null), || lines)
}

/// What a task recorded on the day.
async fn task_story(
    engine: &Engine,
    task: &Task,
    record: &TaskRecord,
    times: &Times,
) -> Result<Vec<String>, Problem> {
    let session = match engine.sessions().get(&task.session.to_string()).await {
        Ok(info) => format!(" {DIM}in {}{DIM:#}", visible_line(&info.session.label, 60)),
        Err(_) => String::new(),
    };
    let span = record.span.map_or_else(String::new, |(first, last)| {
        let (first, last) = (times.clock(first), times.clock(last));
        if first == last { first } else { format!("{first}–{last}") }
    });
    let mut lines = vec![
        format!("{BOLD}{}{BOLD:#}{session}", visible_line(&task.description, 200)),
        format!("  {DIM}{span}{DIM:#} {}", outcome(engine, task).await?),
    ];
    for (at, note) in &record.notes {
        let text = match note {
            NoteRecord::Question(text) => format!("Question for user: {text}"),
            NoteRecord::Answer(text) => format!("User response: {text}"),
            NoteRecord::Request { note: text, .. } | NoteRecord::Note(text) => text.clone(),
            NoteRecord::Permission { asked, decision } => format!("{asked}: {decision}"),
        };
        let text = visible_text(&text).replace('\n', "\n        ");
        lines.push(format!("  {DIM}{}{DIM:#} {text}", times.clock(*at)));
    }
    lines.extend(record.files.iter().map(|file| format!("  {}", file_line(file))));
    lines.extend(command_lines(&record.commands).into_iter().map(|line| format!("  {line}")));
    Ok(lines)
}

/// The state of an open task, or the commit of a sealed one.
async fn outcome(engine: &Engine, task: &Task) -> Result<String, Problem> {
    let Some(commit) = task.commit else { return Ok(state_line(&task.state)) };
    let short = engine.ids().short_objects(vec![commit.0]).await?.remove(0);
    let object = engine.records().object(commit.0).await?;
    let sealed: Option<ctx_engine::core::commit::Commit> =
        object.and_then(|object| object.decode().ok());
    let (word, style) = sealed.as_ref().map_or(("sealed", DIM), |sealed| {
        (type_word(&sealed.commit_type), type_style(&sealed.commit_type))
    });
    let result = sealed.map_or_else(String::new, |sealed| visible_line(&sealed.message, 200));
    Ok(format!("{style}{word}{style:#} {ID}{short}{ID:#} {result}"))
}
