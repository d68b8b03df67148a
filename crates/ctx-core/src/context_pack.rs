//! The context pack of a task: what a new agent should know about it, within a token budget.
//!
//! The pack depends only on what is stored, so the same store gives the same bytes. Every item
//! names the objects that it was taken from. The most important section comes first. If the budget
//! does not suffice for everything, each section first gets a small number of items, and the rest
//! is filled in the order of the sections.

mod sections;
mod task_match;
#[cfg(test)]
mod tests;

pub use sections::Relation;
pub use task_match::{Match, best_matches};

use serde::Serialize;

use crate::commit::Commit;
use crate::id::{CommitId, SessionId, StepId, TaskId, TurnId};
use crate::message::Message;
use crate::prompt::Prompt;
use crate::session::Session;
use crate::step::Step;
use crate::task::Task;
use crate::text_limits::one_line;

/// Smallest budget, in tokens. The heading and the list of omissions fit in it.
pub const BUDGET_MIN: u64 = 100;
/// Largest budget, in tokens.
pub const BUDGET_MAX: u64 = 200_000;
/// The budget if the caller gives none, in tokens.
pub const BUDGET_DEFAULT: u64 = 4000;
/// Below this budget, the sections that were left out are only counted.
const SMALL_BUDGET: u64 = 250;
/// Longest description in the heading, in characters. It is halved until the heading fits.
const HEADING_MAX_CHARS: usize = 400;

/// Everything that a pack is made of.
#[derive(Debug, Clone)]
pub struct Input {
    /// The task.
    pub task: Task,
    /// Its session. `None` if the session was deleted.
    pub session: Option<Session>,
    /// The open question with two choices of the session, if the task is open.
    pub prompt: Option<Prompt>,
    /// The commit that the task was sealed into.
    pub commit: Option<(CommitId, Commit)>,
    /// The steps of the task, oldest first.
    pub steps: Vec<(StepId, Step)>,
    /// Number of earlier steps that were not read.
    pub steps_left_out: u64,
    /// The turns of the task, oldest first.
    pub turns: Vec<(TurnId, Vec<Message>)>,
    /// Number of earlier turns that were not read.
    pub turns_left_out: u64,
    /// Relations that tasks of the store recorded, newest first.
    pub relations: Vec<Relation>,
    /// Commits of the project, newest first.
    pub commits: Vec<(CommitId, Commit)>,
}

/// An object that an item was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// `task`, `session`, `step`, `turn` or `commit`.
    pub kind: &'static str,
    /// The complete id.
    pub id: String,
}

impl Source {
    fn step(id: StepId) -> Self {
        Self { kind: "step", id: id.to_string() }
    }

    fn turn(id: TurnId) -> Self {
        Self { kind: "turn", id: id.to_string() }
    }

    fn commit(id: CommitId) -> Self {
        Self { kind: "commit", id: id.to_string() }
    }

    /// The source as the text shows it: a hash is abbreviated to twelve digits.
    fn short(&self) -> String {
        let id = if self.id.len() == 64 { &self.id[..12] } else { &self.id };
        format!("{} {id}", self.kind)
    }
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Item {
    pub text: String,
    pub sources: Vec<Source>,
}

impl Item {
    /// The line of the item in the text of the pack.
    fn line(&self) -> String {
        let sources: Vec<String> = self.sources.iter().map(Source::short).collect();
        let text = self.text.replace('\n', "\n  ");
        if sources.is_empty() {
            return format!("- {text}\n");
        }
        format!("- {text} [{}]\n", sources.join(", "))
    }
}

/// Facts of one kind, the most important first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The name in JSON, such as `decisions`.
    pub name: &'static str,
    /// The heading in the text.
    #[serde(skip)]
    pub title: &'static str,
    /// The facts that fit.
    pub items: Vec<Item>,
    /// Number of facts that did not fit.
    pub left_out: u64,
    /// Number of items that the section gets before the next sections get any.
    #[serde(skip)]
    first: usize,
}

/// The pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct Pack {
    pub task: TaskId,
    pub session: SessionId,
    pub description: String,
    /// The outcome: the name of the commit type, or `open`, or `dropped` if the task ended without
    /// a commit.
    pub outcome: &'static str,
    pub budget: u64,
    /// Tokens of `text`.
    pub tokens: u64,
    /// Sections that have a fact, the most important first.
    pub sections: Vec<Section>,
    /// The pack as text.
    pub text: String,
}

/// How a task ended: the name of its commit type, `open`, or `dropped` without a commit.
pub fn outcome(task: &Task, commit: Option<&Commit>) -> &'static str {
    match (commit, task.ended_at) {
        (Some(commit), _) => commit.commit_type.name(),
        (None, None) => "open",
        (None, Some(_)) => "dropped",
    }
}

/// Assembles the pack. `count` returns the tokens of a text. The text has at most `budget` tokens,
/// if the budget is at least [`BUDGET_MIN`].
pub fn pack(input: &Input, budget: u64, count: &dyn Fn(&str) -> u64) -> Pack {
    let all = sections::collect(input);
    let mut taken: Vec<usize> = vec![0; all.len()];
    let mut heading = heading(input, HEADING_MAX_CHARS);
    let mut chars = HEADING_MAX_CHARS;
    while count(&render(&heading, &all, &taken, budget)) > budget && chars > 1 {
        chars /= 2;
        heading = self::heading(input, chars);
    }
    let mut used = count(&render(&heading, &all, &taken, budget));
    let rounds: [fn(&Section) -> usize; 2] =
        [|it| it.first.min(it.items.len()), |it| it.items.len()];
    for limit in rounds {
        for (at, section) in all.iter().enumerate() {
            while taken[at] < limit(section) {
                let title = if taken[at] == 0 { count(&title_line(section)) } else { 0 };
                let next = count(&section.items[taken[at]].line()) + title;
                if used + next > budget {
                    break;
                }
                used += next;
                taken[at] += 1;
            }
        }
    }
    // The tokens of a text are not exactly the sum of those of its lines.
    let mut text = render(&heading, &all, &taken, budget);
    while count(&text) > budget {
        let Some(last) = taken.iter().rposition(|taken| *taken > 0) else { break };
        taken[last] -= 1;
        text = render(&heading, &all, &taken, budget);
    }
    finish(input, budget, count(&text), all, &taken, text)
}

fn finish(
    input: &Input,
    budget: u64,
    tokens: u64,
    mut sections: Vec<Section>,
    taken: &[usize],
    text: String,
) -> Pack {
    for (section, taken) in sections.iter_mut().zip(taken) {
        section.left_out += (section.items.len() - taken) as u64;
        section.items.truncate(*taken);
    }
    sections.retain(|section| !section.items.is_empty() || section.left_out > 0);
    Pack {
        task: input.task.id,
        session: input.task.session,
        description: input.task.description.clone(),
        outcome: outcome(&input.task, input.commit.as_ref().map(|(_, commit)| commit)),
        budget,
        tokens,
        sections,
        text,
    }
}

fn heading(input: &Input, max_chars: usize) -> String {
    let task = &input.task;
    let name = input.session.as_ref().map_or_else(
        || format!("{} (deleted)", task.session),
        |session| one_line(&session.label, max_chars.min(80)),
    );
    let outcome = outcome(task, input.commit.as_ref().map(|(_, commit)| commit));
    let state = match outcome {
        "open" => format!("open, {}", task.state.name()),
        ended => ended.to_owned(),
    };
    format!(
        "# {}\nTask {}, session {name}: {state}; {} to {}.\n",
        one_line(&task.description, max_chars),
        task.id,
        minute(&task.started_at.to_string()),
        minute(&task.ended_at.unwrap_or(task.last_activity_at).to_string()),
    )
}

/// A time without its seconds.
fn minute(time: &str) -> String {
    time.get(..16).map_or_else(|| time.to_owned(), |minute| format!("{minute}Z"))
}

fn title_line(section: &Section) -> String {
    format!("## {}\n", section.title)
}

fn render(heading: &str, all: &[Section], taken: &[usize], budget: u64) -> String {
    let mut text = heading.to_owned();
    let mut left_out = Vec::new();
    for (section, taken) in all.iter().zip(taken) {
        if *taken > 0 {
            text.push_str(&title_line(section));
            section.items[..*taken].iter().for_each(|item| text.push_str(&item.line()));
        }
        let missing = (section.items.len() - taken) as u64 + section.left_out;
        if missing > 0 {
            left_out.push(format!("{} {missing}", section.name));
        }
    }
    match left_out.as_slice() {
        [] => text.push_str("Nothing was left out.\n"),
        left_out if budget < SMALL_BUDGET => {
            let sections = left_out.len();
            text.push_str(&format!(
                "Left out: facts of {sections} sections; use a larger budget.\n"
            ));
        }
        left_out => {
            let left_out = left_out.join(", ");
            text.push_str(&format!("Left out within {budget} tokens: {left_out}. "));
            text.push_str("A larger budget shows more; `ctx show ID` shows a source.\n");
        }
    }
    text
}
