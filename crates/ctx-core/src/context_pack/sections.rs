//! The facts about a task, by section.

use std::collections::BTreeSet;

use crate::commit::{Commit, merge_files};
use crate::id::{CommitId, StepId, TaskId, TurnId};
use crate::message::{Message, Part, Role};
use crate::relation::{Edge, Node, NodeKind};
use crate::step::Entry;
use crate::task::State;
use crate::text_limits::one_line;

use super::{Input, Item, Section, Source};

/// Longest fact, in characters.
const FACT_MAX_CHARS: usize = 600;
/// Longest sentence that counts as a decision, in characters.
const DECISION_MAX_CHARS: usize = 300;
/// Commits of the project that are listed because they share a file with the task.
const COMMITS_MAX: usize = 20;
/// Prefixes of the notes that record a question and its answer.
const QUESTION: &str = "Question for user: ";
const ANSWER: &str = "User response: ";
/// The note that records a confirmation.
const CONFIRMED: &str = "User confirmed task complete";
/// Prefix of the notes that record a tool's result.
const TOOL: &str = "Tool ";
/// Words of a sentence that states a decision.
const DECISION_WORDS: [&str; 6] = ["decision", "decisions", "decided", "decide", "agreed", "chose"];

/// A relation and the step that recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Relation {
    pub step: StepId,
    pub task: TaskId,
    pub edge: Edge,
}

/// All sections, the most important first. Empty ones are included.
pub(super) fn collect(input: &Input) -> Vec<Section> {
    let all = [
        ("state", "Open state", 8, state(input)),
        ("result", "Result", 2, result(input)),
        ("decisions", "Decisions", 8, decisions(input)),
        ("questions", "Questions and answers", 8, questions(input)),
        ("plan", "Plan", 1, plan(input)),
        ("notes", "Notes, newest first", 6, notes(input)),
        ("files", "Files", 12, files(input)),
        ("relations", "Relations, two deep", 8, relations(input)),
        ("commits", "Related commits", 4, commits(input)),
        ("conversation", "Conversation, newest first", 3, conversation(input)),
        ("commands", "Commands and tools, newest first", 4, commands(input)),
    ];
    all.into_iter()
        .map(|(name, title, first, items)| {
            let left_out = match name {
                "notes" => input.steps_left_out,
                "conversation" => input.turns_left_out,
                _ => 0,
            };
            Section { name, title, items, left_out, first }
        })
        .collect()
}

fn item(text: &str, sources: Vec<Source>) -> Item {
    let text = text.trim();
    let mut short: String = text.chars().take(FACT_MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    Item { text: short, sources }
}

/// The entries of all steps, newest first.
fn entries(input: &Input) -> impl Iterator<Item = (StepId, &Entry)> {
    let steps = input.steps.iter().rev();
    steps.flat_map(|(id, step)| step.payload.iter().rev().map(move |entry| (*id, entry)))
}

/// The notes with these prefixes, newest first.
fn all_notes(input: &Input) -> impl Iterator<Item = (StepId, &str)> {
    entries(input).filter_map(|(id, entry)| match entry {
        Entry::Note { text, .. } => Some((id, text.as_str())),
        _ => None,
    })
}

fn state(input: &Input) -> Vec<Item> {
    if input.task.ended_at.is_some() {
        return Vec::new();
    }
    let head = || vec![Source::step(input.task.head)];
    let what = match &input.task.state {
        State::Running => "The agent is working on the task.".to_owned(),
        State::AwaitingUser { question, .. } => format!("Waits for the user: {question}"),
        State::Interrupted { user_message } => {
            format!("The user interrupted with: {user_message}")
        }
        State::PendingComplete { summary } => {
            format!("Declared done, not confirmed by the user: {summary}")
        }
        State::Complete => "Confirmed by the user.".to_owned(),
        State::Aborted { reason } => format!("Aborted: {reason}"),
    };
    let mut items = vec![item(&what, head())];
    if let Some(prompt) = &input.prompt {
        items.push(item(&format!("Waits for a choice of the user: {}", prompt.text), head()));
    }
    let progress = input.task.progress.summary();
    items.push(item(&format!("Progress: {}", progress.lines().next().unwrap_or("")), head()));
    items
}

fn result(input: &Input) -> Vec<Item> {
    let Some((id, commit)) = &input.commit else { return Vec::new() };
    vec![item(&commit_text(commit), vec![Source::commit(*id)])]
}

fn commit_text(commit: &Commit) -> String {
    let (outcome, message) = (commit.commit_type.name(), &commit.message);
    if commit.message == commit.description {
        format!("({outcome}) {message}")
    } else {
        format!("({outcome}) {}: {message}", one_line(&commit.description, 120))
    }
}

fn decisions(input: &Input) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut add = |text: &str, source: Source| {
        if !items.iter().any(|known| known.text == text.trim()) {
            items.push(item(text, vec![source]));
        }
    };
    for (step, entry) in entries(input) {
        match entry {
            Entry::Relation(edge) => {
                for node in [&edge.from, &edge.to] {
                    if node.kind == NodeKind::Decision {
                        add(&node.id, Source::step(step));
                    }
                }
            }
            Entry::Note { text, .. } if !is_record(text) => {
                decided(text).for_each(|sentence| add(sentence, Source::step(step)));
            }
            _ => {}
        }
    }
    for (turn, messages) in input.turns.iter().rev() {
        for text in messages.iter().rev().flat_map(texts) {
            decided(text).for_each(|sentence| add(sentence, Source::turn(*turn)));
        }
    }
    items
}

/// The sentences of a text that state a decision.
fn decided(text: &str) -> impl Iterator<Item = &str> {
    let sentences = text.split_inclusive(['\n', '.', '!', '?']).map(str::trim);
    sentences.filter(|sentence| {
        let mut words = sentence.split(|c: char| !c.is_alphanumeric());
        sentence.chars().count() <= DECISION_MAX_CHARS
            && !sentence.ends_with('?')
            && words.any(|word| DECISION_WORDS.iter().any(|it| it.eq_ignore_ascii_case(word)))
    })
}

/// Whether ctx wrote the note itself.
fn is_record(note: &str) -> bool {
    [QUESTION, ANSWER, TOOL, CONFIRMED].iter().any(|prefix| note.starts_with(prefix))
}

/// The questions to the user with their answers, newest first. A question without an answer is in
/// the open state, or was never answered.
fn questions(input: &Input) -> Vec<Item> {
    let (mut items, mut answer) = (Vec::new(), None);
    for (step, text) in all_notes(input) {
        if let Some(response) = text.strip_prefix(ANSWER) {
            answer = Some((step, response));
        } else if let Some(question) = text.strip_prefix(QUESTION) {
            let mut sources = vec![Source::step(step)];
            let answer = answer.take().map_or("not answered", |(step, response)| {
                sources.push(Source::step(step));
                response
            });
            items.push(item(&format!("{question} — {answer}"), sources));
        }
    }
    items
}

fn plan(input: &Input) -> Vec<Item> {
    let plan = entries(input).find_map(|(step, entry)| match entry {
        Entry::Plan { text } => Some(item(text, vec![Source::step(step)])),
        _ => None,
    });
    plan.into_iter().collect()
}

fn notes(input: &Input) -> Vec<Item> {
    // A note that states a decision is in that section.
    let is_shown = |text: &str| !is_record(text) && decided(text).next().is_none();
    let notes = all_notes(input).filter(|(_, text)| is_shown(text));
    notes.map(|(step, text)| item(text, vec![Source::step(step)])).collect()
}

/// The files, written ones first, each with the step that touched it last.
fn files(input: &Input) -> Vec<Item> {
    let mut files = match &input.commit {
        Some((_, commit)) => commit.files.clone(),
        None => merge_files(input.steps.iter().map(|(_, step)| step.files())),
    };
    files.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.path.cmp(&b.path)));
    let touched = |path: &str| {
        let steps = input.steps.iter().rev();
        let step = steps.map(|(id, step)| (id, step)).find(|(_, step)| {
            step.payload.iter().any(|entry| match entry {
                Entry::FileRead { path: own, .. } | Entry::FileWrite { path: own, .. } => {
                    own == path
                }
                _ => false,
            })
        });
        step.map(|(id, _)| Source::step(*id))
            .or_else(|| input.commit.as_ref().map(|(id, _)| Source::commit(*id)))
    };
    let line = |file: &crate::commit::FileTouch| {
        let verb = if file.written { "written" } else { "read" };
        item(&format!("{} ({verb})", file.path), touched(&file.path).into_iter().collect())
    };
    files.iter().map(line).collect()
}

/// The relations of the task, then those that touch the same nodes in other tasks.
fn relations(input: &Input) -> Vec<Item> {
    let own_node = Node::new(NodeKind::Task, input.task.id);
    let recorded = |edge: &Edge| {
        // That an answer mentions its task is in the questions.
        !(edge.from.kind == NodeKind::Note && edge.to == own_node)
    };
    let (mut seen, mut items): (Vec<&Edge>, Vec<Item>) = (Vec::new(), Vec::new());
    let mut nodes: BTreeSet<&Node> = BTreeSet::from([&own_node]);
    let touches = |relation: &Relation| {
        relation.task == input.task.id
            || relation.edge.from == own_node
            || relation.edge.to == own_node
    };
    for relation in input.relations.iter().filter(|it| touches(it) && recorded(&it.edge)) {
        nodes.extend([&relation.edge.from, &relation.edge.to]);
        if !seen.contains(&&relation.edge) {
            seen.push(&relation.edge);
            items.push(relation_item(relation, 1));
        }
    }
    for relation in input.relations.iter().filter(|it| !touches(it) && recorded(&it.edge)) {
        let edge = &relation.edge;
        if (nodes.contains(&edge.from) || nodes.contains(&edge.to)) && !seen.contains(&edge) {
            seen.push(edge);
            items.push(relation_item(relation, 2));
        }
    }
    items
}

fn relation_item(relation: &Relation, depth: u8) -> Item {
    let edge = &relation.edge;
    let far = if depth == 2 { format!(" (task {})", relation.task) } else { String::new() };
    let text = format!("{} {} {}{far}", edge.from, edge.label, edge.to);
    item(&text, vec![Source::step(relation.step)])
}

/// The commits of the same session or about the same files, those that share the most files first,
/// and of the tasks that its relations lead to.
fn commits(input: &Input) -> Vec<Item> {
    let own: BTreeSet<String> = match &input.commit {
        Some((_, commit)) => commit.files.iter().map(|file| file.path.clone()).collect(),
        None => {
            input.steps.iter().flat_map(|(_, step)| step.files()).map(|file| file.path).collect()
        }
    };
    let linked: BTreeSet<String> = input
        .relations
        .iter()
        .filter(|it| it.task == input.task.id)
        .flat_map(|it| [&it.edge.from, &it.edge.to])
        .filter(|node| node.kind == NodeKind::Task)
        .map(|node| node.id.clone())
        .collect();
    let mut related: Vec<(usize, &(CommitId, Commit))> = input
        .commits
        .iter()
        .filter(|(_, commit)| commit.task != input.task.id)
        .map(|found| {
            let shared = found.1.files.iter().filter(|file| own.contains(&file.path)).count();
            let linked = usize::from(linked.contains(&found.1.task.to_string())) * 1000;
            let same = usize::from(found.1.session == input.task.session);
            (shared * 2 + linked + same, found)
        })
        .filter(|(score, _)| *score > 0)
        .collect();
    // The sort is stable, so commits of one score stay newest first.
    related.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let line = |(_, (id, commit)): (usize, &(CommitId, Commit))| {
        item(&commit_text(commit), vec![Source::commit(*id)])
    };
    related.into_iter().take(COMMITS_MAX).map(line).collect()
}

/// What the user and the agent said, a message each.
fn conversation(input: &Input) -> Vec<Item> {
    let line = |turn: TurnId, message: &Message| {
        let who = if message.role == Role::User { "User" } else { "Agent" };
        let text = texts(message).collect::<Vec<_>>().join("\n");
        (!text.trim().is_empty())
            .then(|| item(&format!("{who}: {}", text.trim()), vec![Source::turn(turn)]))
    };
    let turns = input.turns.iter().rev();
    turns
        .flat_map(|(turn, messages)| messages.iter().rev().filter_map(|it| line(*turn, it)))
        .collect()
}

/// The texts of a message of the user or the agent.
fn texts(message: &Message) -> impl Iterator<Item = &str> {
    let is_said = matches!(message.role, Role::User | Role::Assistant);
    message.content.iter().filter(move |_| is_said).filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    })
}

fn commands(input: &Input) -> Vec<Item> {
    let line = |(step, entry): (StepId, &Entry)| {
        let text = match entry {
            Entry::Command { argv, exit, .. } => {
                let exit = exit.map_or(String::new(), |code| format!(" (exit {code})"));
                format!("{}{exit}", argv.join(" "))
            }
            Entry::Note { text, .. } if text.starts_with(TOOL) => text.clone(),
            _ => return None,
        };
        Some(item(&text, vec![Source::step(step)]))
    };
    entries(input).filter_map(line).collect()
}
