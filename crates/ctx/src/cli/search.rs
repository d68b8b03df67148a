//! `ctx search QUERY`: full-text search.

use ctx_engine::SearchRequest;
use ctx_engine::core::search::{Hit, Page};

use crate::json::object_json;
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, YELLOW, visible_text};

/// Characters of an id that a line shows.
const SHORT_ID_CHARS: usize = 12;

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
    let page = context.engine()?.records().search(&request).await?;
    context.out.print_paged(|| object_json::search_page(&page), || lines(&query, &page))
}

fn lines(query: &str, page: &Page) -> Vec<String> {
    let mut lines: Vec<String> = page.hits.iter().map(hit_lines).collect();
    if page.hits.is_empty() {
        lines.push(format!("No results for `{}`.", visible_text(query)));
    }
    for suggestion in &page.suggestions {
        lines.push(format!("Did you mean: ctx search {}", visible_text(suggestion)));
    }
    if let Some(next) = &page.next {
        lines.push(format!("{DIM}There are more: --cursor {next}{DIM:#}"));
    }
    if page.lag > 0 {
        lines.push(format!("{DIM}{} rows are not indexed yet.{DIM:#}", page.lag));
    }
    lines
}

/// Where a hit is and how to open it, and below it the text around the match.
fn hit_lines(hit: &Hit) -> String {
    let session = hit.session_title.as_deref().or(hit.session_label.as_deref());
    let session = visible_text(session.unwrap_or("deleted session"));
    let (verb, id) = match (hit.turn, hit.commit) {
        (Some(turn), _) => ("show", turn.to_string()),
        (None, Some(commit)) => ("show", commit.to_string()),
        (None, None) => ("session show", hit.session_label.clone().unwrap_or_default()),
    };
    let id: String = match verb {
        "show" => id.chars().take(SHORT_ID_CHARS).collect(),
        _ => visible_text(&id),
    };
    let outcome = hit.outcome.map(|outcome| format!(" {outcome}")).unwrap_or_default();
    let mut snippet = String::new();
    for segment in &hit.snippet {
        match segment.is_match {
            true => snippet += &format!("{YELLOW}{}{YELLOW:#}", visible_text(&segment.text)),
            false => snippet += &visible_text(&segment.text),
        }
    }
    format!(
        "{BOLD}{session}{BOLD:#} {DIM}{}{outcome} {}{DIM:#} ctx {verb} {id}\n    {snippet}",
        hit.kind.name(),
        hit.at,
    )
}
