//! What an agent is told: the new message, and before it whatever it cannot know.

use ctx_core::id::MessageId;
use ctx_core::message::{Message, Part, Role};
use ctx_core::retell;
use ctx_engine::provider::Request;

/// How an agent comes to know what was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Footing {
    /// Its conversation is new: it is told everything.
    Fresh,
    /// It goes on with one that has seen everything up to this message.
    Knows(usize),
    /// It goes on with one in which the open turn itself was cut off.
    CutOffNow,
}

/// The newest message of the user that an agent's own conversation is said to have seen. A process that was told
/// another one last has missed what was said through somebody else's.
pub(crate) fn newest_seen(request: &Request) -> Option<MessageId> {
    newest(&request.messages[..request.own.as_ref()?.unseen])
}

/// The newest message of the user in the open turn, which the agent is told now.
pub(crate) fn newest_told(request: &Request) -> Option<MessageId> {
    newest(&request.messages[request.open..])
}

fn newest(messages: &[Message]) -> Option<MessageId> {
    messages.iter().rev().find(|message| message.role == Role::User).map(|message| message.id)
}

/// The texts of a prompt; `decided` says what a person decided while the agent was gone.
pub(crate) fn texts(request: &Request, footing: Footing, decided: &[String]) -> Vec<String> {
    let mut texts = Vec::new();
    let (before, open) = request.messages.split_at(request.open);
    let resumes = !request.resumes.is_empty();
    match footing {
        Footing::Fresh => {
            if let Some(system) = &request.system {
                texts.push(format!("<instructions>\n{system}\n</instructions>"));
            }
            // A turn that goes on after a wait is, for a new conversation, something that was said before.
            let mut told = before.to_vec();
            if resumes {
                told.extend(not_done_yet(request));
            }
            if !told.is_empty() {
                texts.push(retell::handover(&told));
            }
        }
        Footing::Knows(seen) => {
            if let Some(cut) = request.own.as_ref().and_then(|own| own.cut.clone()) {
                texts.push(retell::cut_off(&request.messages[cut]));
            }
            if seen < request.open {
                texts.push(retell::meanwhile(&before[seen..]));
            }
        }
        Footing::CutOffNow => texts.push(retell::cut_off(&not_done_yet(request))),
    }
    if resumes {
        texts.push(decision(decided, open));
    } else {
        texts.extend(open.iter().filter(|message| message.role == Role::User).flat_map(words));
    }
    texts
}

/// The open turn without the unknown outcomes of calls that waited for a person: they were not made.
fn not_done_yet(request: &Request) -> Vec<Message> {
    let asked = |id: &str| {
        request
            .resumes
            .iter()
            .any(|(suspension, _)| suspension.awaited.tool_calls.iter().any(|call| call.id == id))
    };
    let mut open = request.messages[request.open..].to_vec();
    for message in &mut open {
        message.content.retain(
            |part| !matches!(part, Part::ToolResult { tool_call_id, .. } if asked(tool_call_id)),
        );
    }
    open
}

/// What a person decided while the agent's process was gone.
fn decision(decided: &[String], open: &[Message]) -> String {
    let mut text = "<decision>\nYou were waiting for the user when your process ended. The user has answered:\n".to_owned();
    for made in decided {
        text.push_str(&format!("- {made}\n"));
    }
    if decided.is_empty() {
        let said = open
            .iter()
            .rev()
            .find(|message| message.role == Role::User)
            .map(|message| words(message).join("\n"));
        text.push_str(&format!("- {}\n", said.unwrap_or_default()));
    }
    text.push_str(
        "Go on with what you were doing. What was allowed has not been done yet.\n</decision>",
    );
    text
}

fn words(message: &Message) -> Vec<String> {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(text).collect()
}

/// The words by which it can be seen whether an agent's own conversation has kept a message: the user's, of the turn
/// that was cut off. Nothing where the same was said before, for then it proves nothing.
pub(crate) fn evidence(request: &Request) -> Option<String> {
    let range = match request.own.as_ref().and_then(|own| own.cut.clone()) {
        Some(cut) => cut,
        None if !request.resumes.is_empty() => request.open..request.messages.len(),
        None => return None,
    };
    let said = |message: &Message| {
        Some(words(message).join("\n").trim().to_owned()).filter(|text| !text.is_empty())
    };
    let needle = request.messages[range.clone()]
        .iter()
        .find(|message| message.role == Role::User)
        .and_then(said)?;
    let before =
        request.messages[..range.start].iter().filter(|message| message.role == Role::User);
    let ambiguous = before.filter_map(said).any(|text| text.contains(&needle));
    (!ambiguous).then_some(needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::said;
    use ctx_engine::provider::Own;

    fn request(messages: Vec<Message>, open: usize) -> Request {
        Request { open, ..crate::test_harness::request(messages) }
    }

    #[test]
    fn whatever_the_footing_the_agent_is_told_each_message_that_it_lacks_once() {
        // R237
        let all = vec![
            said(Role::User, "alpha"),
            said(Role::Assistant, "beta"),
            said(Role::User, "gamma"),
            said(Role::Assistant, "delta"),
            said(Role::User, "omega"),
        ];
        let request = request(all, 4);
        let count =
            |footing, word: &str| texts(&request, footing, &[]).join("\n\n").matches(word).count();
        for word in ["alpha", "beta", "gamma", "delta", "omega"] {
            assert_eq!(count(Footing::Fresh, word), 1, "{word}");
        }
        assert_eq!(
            (
                count(Footing::Knows(2), "alpha"),
                count(Footing::Knows(2), "gamma"),
                count(Footing::Knows(2), "omega")
            ),
            (0, 1, 1)
        );
        assert_eq!((count(Footing::Knows(4), "delta"), count(Footing::Knows(4), "omega")), (0, 1));
    }

    #[test]
    fn a_message_alone_is_passed_on_as_it_is_so_that_commands_work() {
        let request = request(vec![said(Role::User, "/compact now")], 0);
        assert_eq!(texts(&request, Footing::Fresh, &[]), ["/compact now"]);
    }

    #[test]
    fn what_was_cut_off_is_told_without_the_users_words() {
        let all = vec![
            said(Role::User, "alpha"),
            said(Role::Assistant, "half"),
            said(Role::User, "omega"),
        ];
        let own = Own { id: "s".to_owned(), unseen: 0, clean: false, cut: Some(0..2) };
        let request = Request { own: Some(own), ..request(all, 2) };
        assert_eq!(evidence(&request).as_deref(), Some("alpha"));
        let text = texts(&request, Footing::Knows(2), &[]).join("\n\n");
        assert!(
            text.contains("half") && text.contains("omega") && !text.contains("alpha"),
            "{text}"
        );
    }

    #[test]
    fn words_that_were_said_before_prove_nothing() {
        let all = vec![said(Role::User, "go on"), said(Role::User, "go on"), said(Role::User, "x")];
        let own = Own { id: "s".to_owned(), unseen: 1, clean: false, cut: Some(1..2) };
        assert_eq!(evidence(&Request { own: Some(own), ..request(all, 2) }), None);
    }
}
