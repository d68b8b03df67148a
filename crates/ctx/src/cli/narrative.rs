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
use super::output::{
    BOLD, DIM, ID, more_line, state_line, visible_line, visible_text, wrapped_lines,
};
use super::session::transcript::session_argument;
use super::times::system_time;
use crate::task_record::{NoteRecord, TaskRecord};

const NOTES_MAX: usize = 10_000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show this day (UTC) [default: today]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
    /// Show at most this many tasks
    #[arg(short = 'n', long, default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
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
    let limit = usize::from(args.limit);
    let mut tasks = engine.tasks().between(from, to, PAGE_MAX).await?;
    let more = tasks.len().saturating_sub(limit) as u64;
    tasks.truncate(limit);
    let mut lines = Vec::new();
    for task in &tasks {
        let record = TaskRecord::read(&engine, task.id, from, to).await?;
        if record.span.is_none() {
            continue;
        }
        lines.push(String::new());
        lines.extend(task_story(context, &engine, task, &record).await?);
    }
    if lines.is_empty() {
        lines.push(format!("No notes on {day}."));
    } else {
        lines.insert(0, format!("{BOLD}{day}{BOLD:#}"));
    }
    if more > 0 {
        lines.push(more_line(more, "task", "show more with `--limit N`"));
    }
    context.out.print_paged(|| json!(null), || lines)
}

/// What a task recorded on the day.
async fn task_story(
    context: &Context,
    engine: &Engine,
    task: &Task,
    record: &TaskRecord,
) -> Result<Vec<String>, Problem> {
    let (out, times) = (&context.out, context.out.times(engine.now()));
    let session = match engine.sessions().get(&task.session.to_string()).await {
        Ok(info) => format!(" {DIM}in {}{DIM:#}", session_argument(&info)),
        Err(_) => String::new(),
    };
    let span = record.span.map_or_else(String::new, |(first, last)| {
        let (first, last) = (times.clock(first), times.clock(last));
        if first == last { first } else { format!("{first}–{last}") }
    });
    let mut lines = vec![
        out.fit(&format!("{BOLD}{}{BOLD:#}{session}", visible_line(&task.description, 200))),
        out.fit(&format!("  {DIM}{span}{DIM:#} {}", outcome(engine, task).await?)),
    ];
    for (at, note) in &record.notes {
        let text = match note {
            NoteRecord::Question(text) => format!("Question for user: {text}"),
            NoteRecord::Answer(text) => format!("User response: {text}"),
            NoteRecord::Request { note: text, .. } | NoteRecord::Note(text) => text.clone(),
            NoteRecord::Permission { asked, decision } => format!("{asked}: {decision}"),
        };
        let (clock, text) = (times.clock(*at), visible_text(&text));
        let mut wrapped = wrapped_lines(&text, out.width().map(|width| width.saturating_sub(8)));
        let rest = wrapped.split_off(1);
        lines.push(format!("  {DIM}{clock}{DIM:#} {}", wrapped[0]));
        lines.extend(rest.into_iter().map(|line| format!("        {line}")));
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
