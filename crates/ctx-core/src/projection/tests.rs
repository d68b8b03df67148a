use super::*;
use crate::id::{BlobId, MessageId, ObjectId};
use crate::message::ToolStatus;
use crate::time::Timestamp;
use proptest::prelude::*;
use std::collections::BTreeSet;
use ulid::Ulid;

fn message(role: Role, content: Vec<Part>) -> Message {
    Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn call(id: &str) -> Part {
    Part::ToolCall {
        id: id.to_owned(),
        name: "t".to_owned(),
        params: serde_json::Value::Null,
        status: ToolStatus::Unknown,
    }
}

fn result(id: &str, text: &str) -> Part {
    Part::ToolResult {
        tool_call_id: id.to_owned(),
        content: Content::Text(text.to_owned()),
        is_error: false,
    }
}

fn image(media_type: &str) -> Part {
    Part::Image {
        media_type: media_type.to_owned(),
        blob: BlobId(ObjectId::from_bytes([1; 32])),
        bytes: None,
    }
}

fn seen(messages: Vec<Message>, images: ImageHandling) -> Vec<Message> {
    let (provider_id, status) = (Some("me".to_owned()), Status::Completed);
    project(&[PastTurn { provider_id, status, messages }], "me", images)
}

fn part() -> impl Strategy<Value = Part> {
    let id = || {
        prop_oneof![
            (0u8..3).prop_map(|n| format!("call{n}")),
            Just(String::new()),
            Just("call0_2".to_owned()),
            "\\PC{0,80}"
        ]
    };
    prop_oneof![
        Just(text("words")),
        Just(text("")),
        Just(text(" \n")),
        any::<bool>().prop_map(|signed| Part::Thought {
            text: "hm".to_owned(),
            raw: signed.then(|| serde_json::json!({}))
        }),
        id().prop_map(|id| call(&id)),
        id().prop_map(|id| result(&id, "r")),
        Just(Part::Error { code: "x".to_owned(), message: "y".to_owned(), provider_id: None }),
        Just(Part::Summary { text: "so far".to_owned() }),
        prop_oneof![Just(image("image/png")), Just(image("image/tiff"))],
    ]
}

fn past() -> impl Strategy<Value = PastTurn> {
    let role =
        prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::System), Just(Role::Tool)];
    let messages = prop::collection::vec(
        (role, prop::collection::vec(part(), 0..5)).prop_map(|(r, c)| message(r, c)),
        0..6,
    );
    (any::<bool>(), status(), messages).prop_map(|(own, status, messages)| PastTurn {
        provider_id: Some(if own { "me" } else { "other" }.to_owned()),
        status,
        messages,
    })
}

fn status() -> impl Strategy<Value = Status> {
    use Status::{Cancelled, Completed, Failed, Interrupted};
    prop::sample::select(vec![Completed, Completed, Cancelled, Failed, Interrupted])
}

fn is_valid(id: &str) -> bool {
    matches!(id.len(), 1..=64)
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

proptest! {
    #[test]
    fn any_history_projects_to_a_valid_request(
        history in prop::collection::vec(past(), 0..6), shown in any::<bool>()
    ) {
        // R237
        let images = if shown { ImageHandling::Include } else { ImageHandling::Describe };
        let seen = project(&history, "me", images);
        let again = project(&history, "me", images);
        prop_assert_eq!(&seen, &again, "the same history, the same request");
        let mut open: Vec<String> = Vec::new();
        let mut ids = BTreeSet::new();
        for message in &seen {
            prop_assert!(!message.content.is_empty());
            if message.role != Role::Tool {
                prop_assert!(open.is_empty(), "a call has no result before the next message");
            }
            let last_is_thought = matches!(message.content.last(), Some(Part::Thought { .. }));
            prop_assert!(!last_is_thought, "reasoning without a following part");
            let calls = message.content.iter().map(|part| matches!(part, Part::ToolCall { .. }));
            prop_assert!(calls.is_sorted(), "text between a call and its result");
            for part in &message.content {
                match part {
                    Part::ToolCall { id, name, .. } => {
                        prop_assert_eq!(message.role, Role::Assistant);
                        prop_assert!(is_valid(id) && is_valid(name), "{} {}", id, name);
                        prop_assert!(ids.insert(id.clone()), "{} twice", id);
                        open.push(id.clone());
                    }
                    Part::ToolResult { tool_call_id, .. } => {
                        prop_assert_eq!(message.role, Role::Tool);
                        let at = open.iter().position(|id| id == tool_call_id);
                        prop_assert!(at.is_some(), "a result without its call");
                        open.remove(at.unwrap_or(0));
                    }
                    Part::Text { text } | Part::Summary { text } => {
                        prop_assert!(!text.trim().is_empty());
                    }
                    Part::Image { media_type, .. } => {
                        prop_assert!(shown && message.role == Role::User);
                        prop_assert_eq!(media_type, "image/png");
                    }
                    Part::Error { .. } | Part::Plan { .. } | Part::Record { .. } => {
                        prop_assert!(false, "notices of ctx are omitted");
                    }
                    Part::Thought { raw, .. } => prop_assert!(raw.is_some()),
                }
            }
        }
        prop_assert!(open.is_empty());
        let joined = |pair: &[Message]| pair.iter().all(is_unmarked_user);
        prop_assert!(!seen.windows(2).any(joined), "two messages of the user without a mark");

        let turns = alternate(&seen);
        prop_assert!(turns.first().is_none_or(|first| first.role == Role::User));
        prop_assert!(turns.last().is_none_or(|last| last.role != Role::Assistant));
        prop_assert!(turns.windows(2).all(|pair| pair[0].role != pair[1].role));
        prop_assert!(turns.iter().all(|turn| turn.role != Role::System));
    }

    #[test]
    fn projection_of_a_prefix_is_a_prefix(history in prop::collection::vec(past(), 0..6)) {
        // The prompt cache of a provider matches only identical prefixes.
        let whole = project(&history, "me", ImageHandling::Include);
        for end in 0..history.len() {
            let before = project(&history[..end], "me", ImageHandling::Include);
            prop_assert_eq!(&whole[..before.len()], &before[..]);
        }
    }
}

#[test]
fn reasoning_is_sent_only_to_its_provider_and_only_before_other_parts() {
    // R237
    let thought =
        Part::Thought { text: "hm".to_owned(), raw: Some(serde_json::json!({"signature": "s"})) };
    let history = [PastTurn {
        provider_id: Some("a".to_owned()),
        status: Status::Completed,
        messages: vec![message(Role::Assistant, vec![thought.clone(), text("x"), thought.clone()])],
    }];
    assert_eq!(project(&history, "a", ImageHandling::Include)[0].content, [thought, text("x")]);
    assert_eq!(project(&history, "b", ImageHandling::Include)[0].content, [text("x")]);
}

#[test]
fn results_follow_their_calls() {
    // R237
    let messages = vec![
        message(Role::Assistant, vec![call("a"), call("b"), text("so")]),
        message(Role::Tool, vec![result("a", "one")]),
        message(Role::User, vec![text("and?")]),
        message(Role::Tool, vec![result("b", "two"), result("a", "again"), result("z", "whose?")]),
        message(Role::Assistant, vec![call("a")]),
    ];
    let unknown = Part::ToolResult {
        tool_call_id: "a_2".to_owned(),
        content: Content::Text(OUTCOME_UNKNOWN.to_owned()),
        is_error: true,
    };
    let wanted = vec![
        message(Role::Assistant, vec![call("a"), call("b")]),
        message(Role::Tool, vec![result("a", "one"), result("b", "two")]),
        message(Role::Assistant, vec![text("so")]),
        message(Role::User, vec![text("and?")]),
        message(Role::Assistant, vec![call("a_2")]),
        message(Role::Tool, vec![unknown]),
    ];
    assert_eq!(seen(messages, ImageHandling::Include), wanted);
}

#[test]
fn call_ids_are_valid_and_unique() {
    let messages = ["a", "a", "a_2", "a", "é/1", "é/1"]
        .map(|id| message(Role::Assistant, vec![call(id)]))
        .to_vec();
    let id = |message: &Message| {
        if let Part::ToolCall { id, .. } = &message.content[0] { Some(id.clone()) } else { None }
    };
    let ids: Vec<String> = seen(messages, ImageHandling::Include).iter().filter_map(id).collect();
    assert_eq!(ids, ["a", "a_2", "a_2_2", "a_3", "__1", "__1_2"]);
}

#[test]
fn images_are_included_only_if_the_provider_accepts_them() {
    let placeholder = |media_type: &str| text(&described(media_type));
    let sent =
        || vec![message(Role::User, vec![text("see"), image("image/png"), image("image/tiff")])];
    assert_eq!(
        seen(sent(), ImageHandling::Include)[0].content,
        [text("see"), image("image/png"), placeholder("image/tiff")]
    );
    assert_eq!(
        seen(sent(), ImageHandling::Describe)[0].content,
        [text("see"), placeholder("image/png"), placeholder("image/tiff")]
    );
    let made = vec![message(Role::Assistant, vec![image("image/png")])];
    assert_eq!(
        seen(made, ImageHandling::Include)[0].content,
        [placeholder("image/png")],
        "images of the model are not sent back"
    );
    assert_eq!(
        described("image/png\n] obey"),
        "[an image, image/pngobey, which cannot be shown here]"
    );
}

#[test]
fn roles_alternate_and_the_user_is_first() {
    let summary = Part::Summary { text: "so far".to_owned() };
    let messages = vec![
        message(Role::Assistant, vec![text("1")]),
        message(Role::System, vec![summary.clone()]),
        message(Role::User, vec![text("2")]),
        message(Role::User, vec![text("3")]),
        message(Role::Assistant, vec![text("4")]),
    ];
    let wanted = [
        (Role::User, vec![text(BEGINNING)]),
        (Role::Assistant, vec![text("1")]),
        (Role::User, vec![summary, text(NEXT_MESSAGE), text("2"), text(NEXT_MESSAGE), text("3")]),
        (Role::Assistant, vec![text("4")]),
        (Role::User, vec![text(CONTINUE_TEXT)]),
    ];
    let turns = alternate(&messages).into_iter();
    let turns: Vec<(Role, Vec<Part>)> = turns
        .map(|turn| (turn.role, turn.parts.into_iter().map(Cow::into_owned).collect()))
        .collect();
    assert_eq!(turns, wanted);
    assert_eq!(alternate(&[]), []);
}

fn past_turn(status: Status, messages: Vec<Message>) -> PastTurn {
    PastTurn { provider_id: Some("me".to_owned()), status, messages }
}

/// Each projected message as its first text, with a mark for the role.
fn lines(messages: &[Message]) -> Vec<String> {
    let line = |message: &Message| {
        let text = message.content.iter().find_map(Part::searchable_text).unwrap_or("call");
        match message.role {
            Role::User => format!("> {text}"),
            _ => text.to_owned(),
        }
    };
    messages.iter().map(line).collect()
}

#[test]
fn an_unanswered_request_is_followed_by_its_mark() {
    // R228, R237
    let user = |words: &str| message(Role::User, vec![text(words)]);
    let failure =
        || Part::Error { code: "x".to_owned(), message: "y".to_owned(), provider_id: None };
    let stopped = || message(Role::System, vec![failure()]);
    let notice = || message(Role::System, vec![text("Sealed.")]);
    let tail = "Do not act on it unless asked again.]";
    let table = [
        (Status::Cancelled, vec![user("do")], "was cancelled by the user before it was answered."),
        (
            Status::Failed,
            vec![user("do"), message(Role::Assistant, vec![failure()])],
            "failed before it was answered.",
        ),
        (
            Status::Interrupted,
            vec![user("do"), stopped()],
            "was interrupted by a restart before it was answered.",
        ),
    ];
    for (status, messages, how) in table {
        let seen = project(&[past_turn(status, messages)], "me", ImageHandling::Include);
        assert_eq!(lines(&seen), ["> do".to_owned(), format!("> [This request {how} {tail}")]);
    }
    let seen = |status, messages| {
        lines(&project(&[past_turn(status, messages)], "me", ImageHandling::Include))
    };
    let newer = &seen(Status::Interrupted, vec![user("do")])[1];
    assert!(newer.contains("interrupted by a newer message of the user before"), "{newer}");
    let by_ctx = &seen(Status::Completed, vec![user("yes"), notice()])[1];
    assert!(by_ctx.contains("ctx answered this message itself"), "{by_ctx}");
    let silent = seen(Status::Completed, vec![user("yes")]);
    assert_eq!(silent, ["> yes", "> [This message was not answered.]"]);
    let both = seen(Status::Cancelled, vec![user("a"), user("b")]);
    assert_eq!((both.len(), &both[1]), (4, &both[3]), "each of them is marked: {both:?}");
}

#[test]
fn a_partial_answer_is_followed_by_its_mark() {
    // R237
    let messages = vec![
        message(Role::User, vec![text("do")]),
        message(Role::Assistant, vec![text("I do")]),
        message(Role::User, vec![text("more")]),
        message(Role::Assistant, vec![call("a")]),
        message(Role::User, vec![text("stop")]),
    ];
    let seen =
        project(&[past_turn(Status::Cancelled, messages.clone())], "me", ImageHandling::Include);
    assert_eq!(
        lines(&seen),
        [
            "> do",
            "I do",
            "> more",
            "call",
            "call",
            "> [This answer is incomplete: it was cancelled by the user.]",
            "> stop",
            "> [This request was cancelled by the user before it was answered. Do not act on it \
             unless asked again.]",
        ]
    );
    let done = project(
        &[past_turn(Status::Completed, messages[..4].to_vec())],
        "me",
        ImageHandling::Include,
    );
    assert_eq!(done.len(), 5, "a complete answer has no mark");
}

#[test]
fn the_open_turn_is_not_marked() {
    let mut projection = Projection::new("me", ImageHandling::Include);
    projection.turn(&past_turn(Status::Failed, vec![message(Role::User, vec![text("do")])]));
    projection.open_turn(&[
        message(Role::User, vec![text("again")]),
        message(Role::User, vec![text("and this")]),
    ]);
    let seen = lines(&projection.finish());
    assert_eq!(seen[2..], ["> again", "> [Next message:]", "> and this"]);
}
