//! The error about a session that does not exist: the text that was given, and sessions with a
//! similar label, title or id.

use clap::ArgMatches;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::search::{distance, errors_max};
use ctx_engine::core::short_id::{ULID_TIME_CHARS, random_half, ulid_beginning};
use ctx_engine::{Engine, Info, PAGE_MAX, SessionQuery};
use serde_json::json;

use crate::problem::Problem;

use super::Context;
use super::output::visible_line;
use super::session::transcript::session_argument;

/// Arguments that name a session.
const SESSION_ARGUMENTS: [&str; 4] = ["session_name", "one", "other", "sessions"];
/// Sessions that the hint proposes.
const PROPOSED_MAX: usize = 3;
/// Shortest text that is looked for inside of labels and titles, in characters.
const INSIDE_CHARS_MIN: usize = 3;
/// Characters of a given text and of a title in the message.
const SHOWN_MAX_CHARS: usize = 60;

/// The sessions that a command line names.
pub(super) struct GivenSessions {
    names: Vec<String>,
    /// Whether the verb works on the task of the selected session.
    is_stage: bool,
}

impl GivenSessions {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let mut given = Self { names: Vec::new(), is_stage: false };
        let mut at = Some(matches);
        while let Some(matches) = at {
            for argument in SESSION_ARGUMENTS {
                // Other verbs have no such argument, or one of another type.
                if let Ok(Some(names)) = matches.try_get_many::<String>(argument) {
                    given.names.extend(names.cloned());
                }
            }
            at = matches.subcommand().map(|(name, below)| {
                given.is_stage |= name == "stage";
                below
            });
        }
        given
    }

    /// Adds the given text and what may be meant to the error about an unknown session.
    pub(super) fn explain(mut self, context: &Context, problem: Problem) -> Problem {
        if problem.message != Refusal::NoSession.to_string() {
            return problem;
        }
        self.names.extend(context.session.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (Ok(runtime), Ok(engine)) = (runtime, context.engine()) else { return problem };
        match runtime.block_on(self.find_unknown(&engine)) {
            Some((name, infos)) => self.problem(&name, &infos, problem),
            None => problem,
        }
    }

    /// The first name that no session has, and all sessions.
    async fn find_unknown(&self, engine: &Engine) -> Option<(String, Vec<Info>)> {
        for name in &self.names {
            if engine.sessions().get(name).await.is_err_and(|error| error.code() == "no_session") {
                let infos = engine.sessions().list(&SessionQuery::newest(PAGE_MAX)).await.ok()?.0;
                return Some((name.clone(), infos));
            }
        }
        None
    }

    fn problem(&self, name: &str, infos: &[Info], problem: Problem) -> Problem {
        let shown = visible_line(name, SHOWN_MAX_CHARS);
        let similar = similar(name, infos);
        let mut hint = match (similar.as_slice(), infos.iter().any(|it| it.session.turn_count > 0))
        {
            ([], true) => "list the sessions with `ctx session list --all`".to_owned(),
            ([], false) => "nothing is recorded yet; start a conversation with `ctx run TEXT` or \
                            `ctx chat`"
                .to_owned(),
            (similar, _) => {
                let similar: Vec<String> = similar.iter().map(|info| proposal(info)).collect();
                let similar = similar.join(" or ");
                format!("did you mean {similar}? `ctx session list --all` lists all sessions")
            }
        };
        if self.is_stage {
            hint = format!("{hint}; `ctx stage start TASK` creates the session with a task");
        }
        let candidates: Vec<&str> = similar.iter().map(|it| it.session.label.as_str()).collect();
        let message = format!("session `{shown}` not found");
        problem.message(message).hint(hint).with("candidates", json!(candidates))
    }
}

/// A session as an argument, with its title.
fn proposal(info: &Info) -> String {
    let name = session_argument(info);
    match &info.session.title {
        Some(title) => format!("`{name}` ({})", visible_line(title, SHOWN_MAX_CHARS)),
        None => format!("`{name}`"),
    }
}

/// The sessions with the most similar names, best first.
fn similar<'a>(name: &str, infos: &'a [Info]) -> Vec<&'a Info> {
    let rank = |info: &'a Info| {
        let row = &info.session;
        let title = row.title.as_deref().unwrap_or_default();
        Some((difference(name, &row.label, title, &row.id.to_string())?, info))
    };
    let mut ranked: Vec<(usize, &Info)> = infos.iter().filter_map(rank).collect();
    // Sessions with the newest activity come first among equals.
    ranked.sort_by_key(|(difference, _)| *difference);
    ranked.into_iter().take(PROPOSED_MAX).map(|(_, info)| info).collect()
}

/// How much a text differs from the names of a session. `None` if it is not similar to any.
fn difference(name: &str, label: &str, title: &str, id: &str) -> Option<usize> {
    let (name, label, title) =
        (name.trim().to_lowercase(), label.to_lowercase(), title.to_lowercase());
    let is_long = name.chars().count() >= INSIDE_CHARS_MIN;
    let errors = |text: &str| distance(&name, text, errors_max(&name)).filter(|_| is_long);
    let inside = |text: &str| (is_long && text.contains(&name)).then_some(1);
    let begins = |text: &str| text.chars().take(name.chars().count()).collect::<String>();
    let of_id = || {
        let beginning = ulid_beginning(&name)?.to_lowercase();
        let id = id.to_lowercase();
        // The first half of an id is its time, which ids of one day share.
        let half = if name.len() > ULID_TIME_CHARS { id.as_str() } else { random_half(&id) };
        distance(&beginning, &begins(half), 1)
    };
    let of_title = || title.split_whitespace().filter_map(errors).min();
    let found = [
        errors(&label),
        inside(&label),
        of_id().map(|errors| errors + 1),
        inside(&title).map(|inside| inside + 1),
        of_title().map(|errors| errors + 2),
    ];
    found.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_titles_and_ids_are_similar_to_a_text() {
        let id = "01KAAAAAAAK7Q2XXXXXXXXXXXX";
        let of = |name: &str| difference(name, "milk", "Fix the parser", id);
        assert_eq!(of("mlik"), Some(1));
        assert_eq!(of("MILK "), Some(0));
        assert_eq!(of("ilk"), Some(1));
        assert_eq!(of("the parser"), Some(2));
        assert_eq!(of("praser"), Some(3));
        assert_eq!(of("k7q3"), Some(2));
        for other in ["", "m", "zzzz", "something else"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
