//! Checks what clients were told against what is stored, session by session.
//!
//! The text of each message is unique, and its answer quotes it, so both are found in the history.

use std::collections::{BTreeMap, BTreeSet};

/// What a client knows about one message that it sent.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) client: usize,
    pub(super) session: String,
    /// Consecutive in a client's messages to a session. The next one is sent after this call ended.
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted {
        message_id: String,
    },
    /// A response of the class 4xx.
    Refused(String),
    /// The client gave up without a response.
    Unknown,
}

/// What is stored of one session after everything has settled.
#[derive(Debug, Clone, Default)]
pub(super) struct Stored {
    pub(super) label: String,
    pub(super) head: Option<i64>,
    pub(super) turn_count: usize,
    pub(super) last_event: u64,
    /// The turns in the table, in any order.
    pub(super) turns: Vec<TurnRow>,
    /// The history as a client reads it, oldest first.
    pub(super) history: Vec<Turn>,
    /// The fences of all runs.
    pub(super) fences: Vec<i64>,
    /// Runs that have not ended.
    pub(super) open_runs: usize,
    /// The numbers of all events, in the order in which they are replayed.
    pub(super) events: Vec<u64>,
    /// The numbers of the events that a client followed over several nodes.
    pub(super) followed: Option<Vec<u64>>,
}

#[derive(Debug, Clone)]
pub(super) struct TurnRow {
    pub(super) row: i64,
    pub(super) parent: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    /// Ids and texts of the user's messages.
    pub(super) messages: Vec<(String, String)>,
    pub(super) answer: String,
    pub(super) is_completed: bool,
}

/// The answer to a message.
pub(super) fn answer_to(text: &str) -> String {
    format!("<< {text} >>")
}

/// Everything that is wrong with a session.
pub(super) fn check(stored: &Stored, calls: &[Call]) -> Vec<String> {
    let mut found = Vec::new();
    check_chain(stored, &mut found);
    check_messages(stored, calls, &mut found);
    check_order(stored, calls, &mut found);
    check_answers(stored, &mut found);
    check_runs(stored, &mut found);
    check_events(stored, &mut found);
    found.into_iter().map(|what| format!("{}: {what}", stored.label)).collect()
}

/// One chain: all turns of the session are on the path from its head to the root.
fn check_chain(stored: &Stored, found: &mut Vec<String>) {
    let parents: BTreeMap<i64, Option<i64>> =
        stored.turns.iter().map(|turn| (turn.row, turn.parent)).collect();
    let (mut at, mut path) = (stored.head, BTreeSet::new());
    while let Some(row) = at {
        if !path.insert(row) {
            found.push(format!("turn {row} is its own ancestor"));
            return;
        }
        at = match parents.get(&row) {
            Some(parent) => *parent,
            None => {
                found.push(format!("turn {row} is missing"));
                return;
            }
        };
    }
    let beside: Vec<&i64> = parents.keys().filter(|row| !path.contains(row)).collect();
    if !beside.is_empty() {
        found.push(format!("turns beside the chain: {beside:?}"));
    }
    if path.len() != stored.turn_count || stored.history.len() != stored.turn_count {
        let (chain, history) = (path.len(), stored.history.len());
        let count = stored.turn_count;
        found.push(format!("turn_count is {count}, chain {chain}, history {history}"));
    }
}

/// Every accepted message once, a refused one never, and any other at most once.
fn check_messages(stored: &Stored, calls: &[Call], found: &mut Vec<String>) {
    let mut times: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, text) in stored.history.iter().flat_map(|turn| &turn.messages) {
        times.entry(text).or_default().push(id);
    }
    for call in calls {
        let ids = times.remove(call.text.as_str()).unwrap_or_default();
        let text = &call.text;
        match (&call.outcome, ids.as_slice()) {
            (Outcome::Accepted { message_id }, [id]) if id == message_id => {}
            (Outcome::Unknown, [] | [_]) | (Outcome::Refused(_), []) => {}
            (Outcome::Accepted { .. }, []) => found.push(format!("lost: {text}")),
            (outcome, ids) => {
                found.push(format!("{} times: {text}, {outcome:?}, {ids:?}", ids.len()));
            }
        }
    }
    if !times.is_empty() {
        found.push(format!("nobody sent {:?}", times.keys()));
    }
}

/// The accepted messages of one client are in the order in which it sent them.
fn check_order(stored: &Stored, calls: &[Call], found: &mut Vec<String>) {
    let texts = stored.history.iter().flat_map(|turn| &turn.messages).map(|(_, text)| text);
    let places: BTreeMap<&String, usize> = texts.enumerate().map(|(at, text)| (text, at)).collect();
    let mut last: BTreeMap<usize, (u64, usize)> = BTreeMap::new();
    let mut accepted: Vec<&Call> =
        calls.iter().filter(|call| matches!(call.outcome, Outcome::Accepted { .. })).collect();
    accepted.sort_by_key(|call| (call.client, call.number));
    for call in accepted {
        let Some(place) = places.get(&call.text) else { continue };
        let before = last.insert(call.client, (call.number, *place));
        if let Some((number, at)) = before.filter(|(_, at)| at > place) {
            let text = &call.text;
            found.push(format!("{text} is at {place}, number {number} before it at {at}"));
        }
    }
}

/// Every message is answered once, in its own turn, or its turn is not completed.
fn check_answers(stored: &Stored, found: &mut Vec<String>) {
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for turn in &stored.history {
        for (_, text) in &turn.messages {
            let here = turn.answer.matches(&answer_to(text)).count();
            *answers.entry(text).or_default() += here;
            if turn.is_completed && here != 1 {
                found.push(format!("{here} answers in the turn of {text}: {}", turn.answer));
            }
        }
        let quoted = turn.answer.matches("<<").count();
        if quoted > turn.messages.len() {
            found.push(format!("{quoted} answers for {:?}: {}", turn.messages, turn.answer));
        }
    }
    let twice = answers.iter().filter(|(_, times)| **times > 1);
    found.extend(twice.map(|(text, times)| format!("answered {times} times: {text}")));
}

/// No two runs under one fence, and none is open.
fn check_runs(stored: &Stored, found: &mut Vec<String>) {
    let mut fences = stored.fences.clone();
    fences.sort_unstable();
    let twice: Vec<i64> =
        fences.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    if !twice.is_empty() {
        found.push(format!("two runs under one fence: {twice:?}"));
    }
    if stored.open_runs > 0 {
        found.push(format!("{} runs are open", stored.open_runs));
    }
}

/// The events are numbered from 1 without gaps, and a follower saw each of them once, in order.
fn check_events(stored: &Stored, found: &mut Vec<String>) {
    let mut compare = |what: &str, seen: &[u64]| {
        let wrong = (1..=stored.last_event)
            .zip(seen.iter().copied().map(Some).chain(std::iter::repeat(None)))
            .find(|(expected, seen)| Some(*expected) != *seen);
        if let Some((expected, seen)) = wrong {
            found.push(format!("{what}: {seen:?} where {expected} is expected"));
        } else if seen.len() as u64 != stored.last_event {
            found.push(format!("{what}: {} of {}", seen.len(), stored.last_event));
        }
    };
    compare("events", &stored.events);
    if let Some(followed) = &stored.followed {
        compare("followed events", followed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session with three messages of one client, all accepted and answered.
    fn sound() -> (Stored, Vec<Call>) {
        let text = |n: u64| format!("c0 one {n}");
        let turn = |n: u64| Turn {
            messages: vec![(format!("id{n}"), text(n))],
            answer: answer_to(&text(n)),
            is_completed: true,
        };
        let call = |n: u64| Call {
            client: 0,
            session: "one".to_owned(),
            number: n,
            text: text(n),
            outcome: Outcome::Accepted { message_id: format!("id{n}") },
        };
        let stored = Stored {
            label: "one".to_owned(),
            head: Some(30),
            turn_count: 3,
            last_event: 4,
            turns: vec![
                TurnRow { row: 30, parent: Some(20) },
                TurnRow { row: 10, parent: None },
                TurnRow { row: 20, parent: Some(10) },
            ],
            history: (1..=3).map(turn).collect(),
            fences: vec![1, 2, 3],
            open_runs: 0,
            events: vec![1, 2, 3, 4],
            followed: Some(vec![1, 2, 3, 4]),
        };
        (stored, (1..=3).map(call).collect())
    }

    /// Checks a history after a change; all findings as one text.
    fn after(change: impl FnOnce(&mut Stored, &mut Vec<Call>)) -> String {
        let (mut stored, mut calls) = sound();
        change(&mut stored, &mut calls);
        check(&stored, &calls).join("\n")
    }

    #[test]
    fn a_sound_history_has_no_findings() {
        assert_eq!(after(|_, _| {}), "");
        let unknown = after(|stored, calls| {
            calls[2].outcome = Outcome::Unknown;
            stored.history[1].is_completed = false;
            stored.history[1].answer = "<< c0 o".to_owned();
        });
        assert_eq!(unknown, "", "a cut-off turn, and a message without a response");
    }

    #[test]
    fn a_lost_message_is_found() {
        let lost = after(|stored, _| {
            stored.history.pop();
            stored.turns.remove(0);
            (stored.head, stored.turn_count) = (Some(20), 2);
        });
        assert_eq!(lost, "one: lost: c0 one 3");
    }

    #[test]
    fn a_doubled_message_is_found() {
        let again = |stored: &mut Stored, _: &mut Vec<Call>| {
            stored.history.push(stored.history[0].clone());
            stored.turns.push(TurnRow { row: 40, parent: Some(30) });
            (stored.head, stored.turn_count) = (Some(40), 4);
        };
        let doubled = after(again);
        assert!(doubled.contains("2 times: c0 one 1"), "{doubled}");
        assert!(doubled.contains("answered 2 times: c0 one 1"), "{doubled}");
        let unknown = after(|stored, calls| {
            again(stored, calls);
            calls[0].outcome = Outcome::Unknown;
        });
        assert!(unknown.contains("2 times: c0 one 1, Unknown"), "{unknown}");
        let refused =
            after(|_, calls| calls[0].outcome = Outcome::Refused("inbox_full".to_owned()));
        assert!(refused.contains("1 times: c0 one 1, Refused"), "{refused}");
        let other = after(|stored, _| stored.history[0].messages[0].0 = "id9".to_owned());
        assert!(other.contains("1 times: c0 one 1"), "another id: {other}");
        let foreign = after(|_, calls| drop(calls.remove(0)));
        assert!(foreign.contains("nobody sent [\"c0 one 1\"]"), "{foreign}");
    }

    #[test]
    fn a_fork_of_the_chain_is_found() {
        let fork = after(|stored, _| stored.turns[0].parent = Some(10));
        assert!(fork.contains("turns beside the chain: [20]"), "{fork}");
        let gap = after(|stored, _| stored.turns.truncate(1));
        assert!(gap.contains("turn 20 is missing"), "{gap}");
        let circle = after(|stored, _| stored.turns[1].parent = Some(30));
        assert!(circle.contains("its own ancestor"), "{circle}");
        let count = after(|stored, _| stored.turn_count = 4);
        assert!(count.contains("turn_count is 4, chain 3, history 3"), "{count}");
    }

    #[test]
    fn reversed_order_is_found() {
        let reversed = after(|stored, _| stored.history.swap(1, 2));
        assert_eq!(reversed, "one: c0 one 3 is at 1, number 2 before it at 2");
    }

    #[test]
    fn a_wrong_answer_is_found() {
        let silent = after(|stored, _| stored.history[0].answer.clear());
        assert!(silent.contains("0 answers in the turn of c0 one 1"), "{silent}");
        let twice = after(|stored, _| {
            stored.history[0].answer = answer_to("c0 one 1").repeat(2);
            stored.history[0].is_completed = false;
        });
        assert!(twice.contains("answered 2 times: c0 one 1"), "{twice}");
        let foreign = after(|stored, _| stored.history[0].answer = answer_to("c0 one 2"));
        assert!(foreign.contains("0 answers in the turn of c0 one 1"), "{foreign}");
    }

    #[test]
    fn equal_fences_and_open_runs_are_found() {
        assert!(after(|stored, _| stored.fences[2] = 1).contains("one fence: [1]"));
        assert!(after(|stored, _| stored.open_runs = 1).contains("1 runs are open"));
    }

    #[test]
    fn gaps_and_repetitions_of_events_are_found() {
        for events in [vec![1, 2, 4], vec![1, 2, 2, 3, 4], vec![1, 3, 2, 4], vec![1, 2, 3], vec![]]
        {
            let found = after(|stored, _| stored.events = events.clone());
            assert!(found.contains("events: "), "{events:?}: {found}");
            let found = after(|stored, _| stored.followed = Some(events.clone()));
            assert!(found.contains("followed events: "), "{events:?}: {found}");
        }
    }
}
