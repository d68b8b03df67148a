//! `ctx search QUERY`: full-text search.

use std::collections::HashMap;

use ctx_engine::core::id::{ObjectId, SessionId};
use ctx_engine::core::message::{Role, Source};
use ctx_engine::core::search::{Hit, Page};
use ctx_engine::{Engine, SearchRequest};

use crate::json::{object_json, variant_name};
use crate::markdown::{Span, cut, print_line, text_width, wrap_words};
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, ID, YELLOW, plural, visible_line, visible_text};
use super::times::Times;

/// Characters of a title or of the name of an author.
const NAME_MAX_CHARS: usize = 200;
/// Columns before the text of a hit.
const INDENT: &str = "    ";
/// Fewest columns of a title.
const TITLE_MIN: usize = 12;
/// The match inside of the text of a hit.
const MATCH: anstyle::Style = YELLOW.bold();

/// Results after a page that are counted.
const COUNTED_MAX: usize = 1000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Find what contains all these words; also "phrases", prefix*, -not, /regular expressions/
    /// and filters such as role:user, tool:NAME, file:PATH, session:LABEL, project:NAME,
    /// outcome:abandoned, since:7d (docs/search.md)
    #[arg(required = true, value_name = "QUERY")]
    words: Vec<String>,
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue after an earlier page, at its `next_cursor`
    #[arg(long)]
    cursor: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let query = args.words.join(" ");
    let limit = usize::from(args.limit);
    let request =
        SearchRequest { cursor: args.cursor.clone(), ..SearchRequest::new(&query, limit) };
    let Some(engine) = context.engine_if_recorded()? else {
        return context.print_nothing_recorded(|| object_json::search_page(&Page::default()));
    };
    let page = engine.records().search(&request).await?;
    if context.out.is_json() {
        return context.out.print(|| object_json::search_page(&page), String::new);
    }
    let names = Names::read(&engine, &page.hits).await?;
    let times = context.out.times(engine.now());
    let width = context.out.width();
    let mut lines = Vec::new();
    for (n, hit) in page.hits.iter().enumerate() {
        lines.extend(names.heading(n, hit, &times, width));
        lines.extend(snippet_lines(hit, width));
    }
    let more = count_more(&engine, &request, &page).await?;
    lines.extend(closing_lines(&query, &page, more));
    context.out.print_paged(|| serde_json::Value::Null, || lines)
}

/// How many results follow a page, as far as they are counted; none for the last page.
async fn count_more(
    engine: &Engine,
    request: &SearchRequest,
    page: &Page,
) -> Result<Option<String>, Problem> {
    let Some(next) = &page.next else { return Ok(None) };
    let rest = SearchRequest { cursor: Some(next.clone()), limit: COUNTED_MAX, ..request.clone() };
    let rest = engine.records().search(&rest).await?;
    let noun = if rest.hits.len() == 1 { "result" } else { "results" };
    let at_least = if rest.next.is_some() { "at least " } else { "" };
    Ok(Some(format!("{at_least}{} more {noun}", rest.hits.len())))
}

fn closing_lines(query: &str, page: &Page, more: Option<String>) -> Vec<String> {
    let mut lines = Vec::new();
    if page.hits.is_empty() {
        lines.push(format!("No results for `{}`.", visible_text(query)));
    }
    for suggestion in &page.suggestions {
        lines.push(format!("Did you mean: ctx search {}", visible_text(suggestion)));
    }
    if let Some(more) = more {
        lines.push(format!("{DIM}{more}; show more with `--limit N`{DIM:#}"));
    }
    if page.lag > 0 {
        lines.push(format!("{DIM}{} not indexed yet{DIM:#}", plural(page.lag, "row")));
    }
    lines
}

/// Short ids and authors of the hits of a page.
struct Names {
    sessions: HashMap<SessionId, String>,
    objects: HashMap<ObjectId, String>,
    /// The author of each hit; empty if the match is in the record of a task.
    authors: Vec<String>,
}

impl Names {
    async fn read(engine: &Engine, hits: &[Hit]) -> Result<Self, Problem> {
        let mut ids: Vec<SessionId> = hits.iter().filter_map(|hit| hit.session).collect();
        ids.sort_unstable();
        ids.dedup();
        let short = engine.ids().short_sessions(&ids).await?;
        let sessions = ids.into_iter().zip(short).collect();
        let ids: Vec<ObjectId> = hits.iter().filter_map(opened).collect();
        let short = engine.ids().short_objects(ids.clone()).await?;
        let objects = ids.into_iter().zip(short).collect();
        let mut authors = Vec::with_capacity(hits.len());
        for hit in hits {
            authors.push(author(engine, hit).await);
        }
        Ok(Self { sessions, objects, authors })
    }

    /// The session, who wrote the text, when, and the command that opens it. A long title is cut,
    /// and in a narrow output the command has a line of its own.
    fn heading(&self, n: usize, hit: &Hit, times: &Times, width: Option<usize>) -> Vec<String> {
        let id = hit.session.and_then(|id| self.sessions.get(&id)).map_or("", String::as_str);
        let title = match (&hit.session_title, &hit.session_label) {
            (Some(name), _) | (None, Some(name)) => visible_line(name, NAME_MAX_CHARS),
            (None, None) => "deleted session".to_owned(),
        };
        let author = self.authors.get(n).map_or("", String::as_str);
        let outcome = hit.outcome.map(|outcome| format!("task {outcome}")).unwrap_or_default();
        let when = times.relative(hit.at);
        let parts = [author, &outcome, &when];
        let about: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let about = about.join(" · ");
        let short = opened(hit).and_then(|id| self.objects.get(&id));
        let command = match short {
            Some(short) => format!("ctx show {short}"),
            None => format!("ctx session show {id}"),
        };
        let width = width.unwrap_or(usize::MAX);
        let first = text_width(id) + text_width(&about) + 3;
        let whole = first + text_width(&command) + 2;
        let is_one_line = whole + TITLE_MIN.min(text_width(&title)) <= width;
        let used = if is_one_line { whole } else { first };
        let title = cut(&title, width.saturating_sub(used).max(TITLE_MIN));
        let gap = if id.is_empty() { "" } else { " " };
        let heading = format!("{ID}{id}{ID:#}{gap}{BOLD}{title}{BOLD:#}  {DIM}{about}{DIM:#}");
        match is_one_line {
            true => vec![format!("{heading}  {command}")],
            false => vec![heading, format!("{INDENT}{command}")],
        }
    }
}

/// The object that shows a hit: its turn or its commit.
fn opened(hit: &Hit) -> Option<ObjectId> {
    hit.turn.map(|turn| turn.0).or(hit.commit.map(|commit| commit.0))
}

/// Who wrote the message that matches: the user, a program in place of the user, or an agent. A
/// turn that cannot be read does not prevent the search.
async fn author(engine: &Engine, hit: &Hit) -> String {
    let (Some(role), Some(turn)) = (hit.role, hit.turn) else { return String::new() };
    match role {
        Role::User => {
            let messages = engine.messages().turn_messages(turn).await.ok().flatten();
            let messages = messages.unwrap_or_default();
            let found = messages.iter().find(|message| Some(message.id) == hit.message);
            match found.and_then(|message| message.source) {
                None | Some(Source::Human) => "You".to_owned(),
                Some(source) => variant_name(&source),
            }
        }
        Role::Assistant | Role::Tool => {
            let stored = engine.messages().turn(turn).await.ok();
            let agent = stored.and_then(|turn| turn.header.provider_id);
            let agent = agent.filter(|name| !name.is_empty());
            let agent = agent.map_or_else(|| "agent".to_owned(), |name| visible_line(&name, 40));
            if role == Role::Tool { format!("tool of {agent}") } else { agent }
        }
        Role::System => "ctx".to_owned(),
    }
}

/// The text around the match, wrapped at words.
fn snippet_lines(hit: &Hit, width: Option<usize>) -> Vec<String> {
    let span = |segment: &ctx_engine::core::search::Segment| {
        let style = if segment.is_match { MATCH } else { anstyle::Style::new() };
        Span::new(visible_text(&segment.text).replace(['\t', '\n'], " "), style)
    };
    let spans: Vec<Span> = hit.snippet.iter().map(span).collect();
    let lines = match width {
        Some(width) => wrap_words(&spans, width.saturating_sub(INDENT.len()).max(1)),
        None => vec![spans],
    };
    lines.iter().map(|line| format!("{INDENT}{}", print_line(line))).collect()
}
