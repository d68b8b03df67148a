//! `ctx blame FILE[:LINE]`: which conversation wrote each line of a file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ctx_engine::LineOrigin;
use ctx_engine::core::blame::FILE_MAX_BYTES;
use ctx_engine::core::id::SessionId;
use ctx_engine::core::short_id::random_half;
use serde_json::{Value, json};

use crate::data_dir;
use crate::problem::Problem;

use super::Context;
use super::output::{CYAN, DIM, YELLOW, plural, visible_text};

/// Characters of a session's label that are shown.
const LABEL_MAX_CHARS: usize = 24;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show the lines of this file, or one line of it
    #[arg(value_name = "FILE[:LINE]")]
    file: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let (given, line) = split_line(&args.file)?;
    let path = given.canonicalize().map_err(|error| unreadable(&given, &error))?;
    let text = read(&given)?;
    let all: Vec<&str> = text.lines().collect();
    if let Some(line) = line.filter(|line| *line == 0 || *line > all.len()) {
        let message = format!(
            "line {line} not found: {} has {}",
            visible_text(&given.display().to_string()),
            plural(all.len(), "line")
        );
        return Err(Problem::failed("not_found", message).hint("omit the line to see all lines"));
    }
    let engine = context.engine()?;
    let root = data_dir::project_root(&context.data);
    let blame = engine.records().blame(&path, &root, &text).await?;
    let origins = blame.lines.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    let rows: Vec<BlamedLine<'_>> = (1..)
        .zip(all)
        .zip(origins)
        .map(|((number, text), origin)| BlamedLine { number, text, origin })
        .filter(|row| line.is_none_or(|line| row.number == line))
        .collect();
    let file = recorded_name(&root, &path);
    if rows.iter().all(|row| row.origin.is_none()) && !context.out.is_json() {
        eprintln!("nothing is recorded about {}", visible_text(&file));
    }
    let documents: Vec<Value> = rows.iter().map(BlamedLine::document).collect();
    context.out.print_paged(|| json!({"file": file, "lines": documents}), || lines(&rows))
}

struct BlamedLine<'a> {
    number: usize,
    text: &'a str,
    origin: Option<&'a LineOrigin>,
}

/// A file name that ends with `:NUMBER` names a line, unless there is such a file.
fn split_line(given: &str) -> Result<(PathBuf, Option<usize>), Problem> {
    let whole = PathBuf::from(given);
    let Some((file, line)) = given.rsplit_once(':').filter(|_| !whole.exists()) else {
        return Ok((whole, None));
    };
    if line.is_empty() || !line.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok((whole, None));
    }
    let line = line.parse().map_err(|_| {
        Problem::wrong_use("wrong_use", format!("invalid line `{line}`: the number is too large"))
    })?;
    Ok((PathBuf::from(file), Some(line)))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let code = if missing { "not_found" } else { "unreadable" };
    Problem::failed(code, format!("failed to read {}: {error}", path.display()))
        .hint("name a file of the working tree, or FILE:LINE")
}

fn read(path: &Path) -> Result<String, Problem> {
    let about = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if about.is_dir() {
        let message = format!("cannot blame {}: it is a directory", path.display());
        return Err(Problem::failed("unreadable", message).hint("name a file"));
    }
    if about.len() > FILE_MAX_BYTES as u64 {
        let message = format!(
            "{} is too large: it has {} bytes, the limit is {FILE_MAX_BYTES}",
            path.display(),
            about.len()
        );
        return Err(Problem::failed("too_large", message));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    if bytes.contains(&0) {
        let message = format!("cannot blame {}: it is not a text file", path.display());
        return Err(Problem::failed("not_text", message));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn recorded_name(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

impl BlamedLine<'_> {
    fn document(&self) -> Value {
        let mut document = json!({"line": self.number, "text": self.text});
        let origin = self.origin;
        let fields = json!({
            "session": origin.map(|origin| origin.session.to_string()),
            "session_label": origin.and_then(|origin| origin.session_label.clone()),
            "turn": origin.and_then(|origin| origin.turn).map(|turn| turn.to_string()),
            "task": origin.and_then(|origin| origin.task).map(|task| task.to_string()),
            "commit": origin.and_then(|origin| origin.commit).map(|commit| commit.to_string()),
            "at": origin.map(|origin| origin.at.to_string()),
            "provider_id": origin.and_then(|origin| origin.provider_id.clone()),
            "model": origin.and_then(|origin| origin.model.clone()),
        });
        if let (Value::Object(document), Value::Object(fields)) = (&mut document, fields) {
            document.extend(fields);
        }
        document
    }
}

/// The newest record of a line: its commit, else its turn, else its task.
fn short_name(origin: &LineOrigin) -> String {
    if let Some(commit) = origin.commit {
        return commit.0.short();
    }
    match (origin.turn, origin.task) {
        (Some(turn), _) => turn.0.short(),
        (None, Some(task)) => random_half(&task.to_string()).chars().take(12).collect(),
        (None, None) => String::new(),
    }
}

fn lines(rows: &[BlamedLine<'_>]) -> Vec<String> {
    let mut labels: HashMap<SessionId, String> = HashMap::new();
    for origin in rows.iter().filter_map(|row| row.origin) {
        labels.entry(origin.session).or_insert_with(|| {
            let label = origin.session_label.clone();
            let label = label.unwrap_or_else(|| "(deleted)".to_owned());
            let label = visible_text(&label).replace(['\n', '\t'], " ");
            label.chars().take(LABEL_MAX_CHARS).collect()
        });
    }
    let width = labels.values().map(|label| label.chars().count()).max().unwrap_or(1);
    let digits = rows.last().map_or(1, |row| row.number.to_string().len());
    let line = |row: &BlamedLine<'_>| {
        let text = visible_text(row.text);
        let Some(origin) = row.origin else {
            let nothing = format!("{:<12} {:<width$} {:<16}", "", "not recorded", "");
            return format!("{DIM}{nothing} {:>digits$}{DIM:#}  {text}", row.number);
        };
        let (at, label) = (origin.at.to_string(), &labels[&origin.session]);
        format!(
            "{YELLOW}{:<12}{YELLOW:#} {CYAN}{label:<width$}{CYAN:#} {DIM}{:<16} \
             {:>digits$}{DIM:#}  {text}",
            short_name(origin),
            &at[..16.min(at.len())],
            row.number
        )
    };
    rows.iter().map(line).collect()
}
