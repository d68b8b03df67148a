//! One object of each kind, with every field in use. Never change an object; add new ones.

use ctx_core::bundle::{Manifest, TaskBundle, write};
use ctx_core::commit::{Commit, CommitType, FileTouch, StepRange, TurnRange};
use ctx_core::id::{
    BlobId, CommitId, MessageId, NoteId, ObjectId, SessionId, StepId, TaskId, TurnId,
};
use ctx_core::message::{Message, Part, Role, Source, ToolStatus};
use ctx_core::object::Object;
use ctx_core::relation::{Confidence, Edge, Evidence, Label, Node, NodeKind, Tool};
use ctx_core::step::{Entry, Kind, Step};
use ctx_core::stored_content::Content;
use ctx_core::task::{Progress, State, StateName};
use ctx_core::time::Timestamp;
use ctx_core::turn::{
    About, Header, Kind as TurnKind, MessageHead, Ready, Status, ToolCallHead, Usage,
};
use serde_json::json;
use ulid::Ulid;

/// Not valid UTF-8, so that no code can treat it as text.
pub(crate) const BLOB: &[u8] = b"\x00\xff\xfegolden blob\r\n\x1f";

const SESSION: SessionId = SessionId(Ulid(0x0193_3111_2222_3333_4444_5555_6666_0001));
const TASK: TaskId = TaskId(Ulid(0x0193_3111_2222_3333_4444_5555_6666_0002));
const AT: i64 = 1_763_243_045_007;
const WORKER: &str = "worker:01JCRH28H26CSM8H2NANVQE0WK";

/// Every object with the name of its golden file.
pub(crate) fn all() -> Vec<(&'static str, Object)> {
    let steps = steps().into_iter().map(|(name, step)| (name, step.encode()));
    let commits = commits().into_iter().map(|(name, commit)| (name, commit.encode()));
    let ([turn, body], [turn_picture, body_picture]) = (whole(), small());
    let others = [
        ("turn", turn),
        ("turn-body", body),
        ("turn-picture", turn_picture),
        ("turn-body-picture", body_picture),
        ("blob", Object::blob(BLOB.to_vec())),
    ];
    others.into_iter().chain(steps).chain(commits).collect()
}

fn hash(name: &str) -> ObjectId {
    ObjectId::of(&[name.as_bytes()])
}

fn blob() -> BlobId {
    BlobId(Object::blob(BLOB.to_vec()).id())
}

fn message(n: u128) -> MessageId {
    MessageId(Ulid(0x0193_3111_2222_3333_4444_5555_7777_0000 + n))
}

/// The metadata of an interrupted turn, with every field set.
fn about() -> About {
    let usage = Usage {
        input_tokens: Some(9_007_199_254_740_993),
        output_tokens: Some(0),
        cached_tokens: None,
        cost: Some("0.0042 USD".into()),
        scope: "turn".into(),
        ..Usage::default()
    };
    About {
        kind: TurnKind::Normal,
        status: Status::Interrupted,
        provider_id: Some("local".into()),
        model: Some("some-model".into()),
        usage: Some(usage),
        started_at: Timestamp(AT),
        ended_at: Timestamp(AT + 1),
    }
}

/// Header and body of a turn.
fn turn(about: About, parent: Option<TurnId>, messages: Vec<Message>) -> [Object; 2] {
    let (ready, body) = Ready::new(about, messages);
    [ready.with_parent(parent).object, body.into_object()]
}

fn whole() -> [Object; 2] {
    turn(about(), Some(TurnId(hash("the turn before"))), messages())
}

/// The expected header of the turn.
pub(crate) fn header() -> Header {
    let head = |n, role, source| MessageHead { id: message(n), role, source };
    let call = |id: &str, name: &str, status, label: Option<&str>| ToolCallHead {
        id: id.into(),
        message: 1,
        name: name.into(),
        status,
        spawned_session_label: label.map(str::to_owned),
    };
    let about = about();
    Header {
        parent: Some(TurnId(hash("the turn before"))),
        kind: about.kind,
        status: about.status,
        provider_id: about.provider_id,
        model: about.model,
        usage: about.usage,
        started_at: about.started_at,
        ended_at: about.ended_at,
        messages: vec![
            head(1, Role::User, Some(Source::Human)),
            head(2, Role::Assistant, None),
            head(3, Role::Tool, None),
            head(4, Role::System, Some(Source::Timer)),
        ],
        tool_calls: vec![
            call("call_1", "bash", ToolStatus::Completed, None),
            call("call_2", "bash", ToolStatus::Failed, None),
            call("call_3", "dispatch_to_agent", ToolStatus::Unknown, Some(WORKER)),
            call("call_4", "bash", ToolStatus::Pending, None),
            call("call_5", "bash", ToolStatus::Running, None),
        ],
        body: whole()[1].id(),
    }
}

/// Messages of every role with every type of part, with and without optional fields, and a tool
/// call of every status.
pub(crate) fn messages() -> Vec<Message> {
    let text = |text: &str| Part::Text { text: text.into() };
    let call = |id: &str, name: &str, params, status| Part::ToolCall {
        id: id.into(),
        name: name.into(),
        params,
        status,
    };
    let result = |id: &str, content, is_error| Part::ToolResult {
        tool_call_id: id.into(),
        content,
        is_error,
    };
    let asked = vec![
        text("Grüße, 世界 \u{1f980} \"quoted\" \\ \u{7}\n\t\u{2028}"),
        Part::Image { media_type: "image/png".into(), blob: blob(), bytes: None },
    ];
    let answered = vec![
        Part::Thought {
            text: "Hm".into(),
            raw: Some(json!({"z": [1, -2.5, 1e300, null], "a": {"ö": true, "b": "c"}})),
        },
        Part::Thought { text: String::new(), raw: None },
        call("call_1", "bash", json!({"command": "ls", "a": 1}), ToolStatus::Completed),
        call("call_2", "bash", json!({}), ToolStatus::Failed),
        call("call_3", "dispatch_to_agent", json!({"task": "sand the hull"}), ToolStatus::Unknown),
        call("call_4", "bash", json!("not an object"), ToolStatus::Pending),
        call("call_5", "bash", json!(null), ToolStatus::Running),
        Part::Plan { entries: json!([{"content": "First", "status": "pending"}]) },
        Part::Error {
            code: "rate_limited".into(),
            message: "Too many requests".into(),
            provider_id: Some("local".into()),
        },
        Part::Error { code: "other".into(), message: "?".into(), provider_id: None },
        Part::Summary { text: "What was said before".into() },
    ];
    let results = vec![
        result("call_1", Content::Text("a.rs\nb.rs\n".into()), false),
        result("call_2", Content::Blob { blob: blob(), bytes: BLOB.len() as u64 }, true),
        result(
            "call_1",
            Content::Omitted { omitted: BlobId(hash("too large")), bytes: u64::MAX },
            false,
        ),
        result("call_3", Content::Text(format!("started {WORKER}")), false),
        result("call of an earlier turn", Content::Text("late".into()), true),
    ];
    let said = |n: u128, role, source, after: i64, content| Message {
        id: message(n),
        role,
        source,
        content,
        created_at: Timestamp(AT + after),
    };
    vec![
        said(1, Role::User, Some(Source::Human), 0, asked),
        said(2, Role::Assistant, None, 1, answered),
        said(3, Role::Tool, None, 2, results),
        said(4, Role::System, Some(Source::Timer), -3 * AT, vec![text("before 1970")]),
    ]
}

/// An image that was sent, with its size.
pub(crate) fn picture() -> Vec<Message> {
    let picture = Part::Image {
        media_type: "image/webp".into(),
        blob: blob(),
        bytes: Some(BLOB.len() as u64),
    };
    let content = vec![Part::Text { text: "see".into() }, picture];
    vec![Message {
        id: message(5),
        role: Role::User,
        source: None,
        content,
        created_at: Timestamp(AT),
    }]
}

/// A root turn with only the required fields.
fn small() -> [Object; 2] {
    turn(About::at(Timestamp(AT)), None, picture())
}

/// Its expected header.
pub(crate) fn small_header() -> Header {
    let About { kind, status, provider_id, model, usage, started_at, ended_at } =
        About::at(Timestamp(AT));
    let messages = vec![MessageHead { id: message(5), role: Role::User, source: None }];
    let body = small()[1].id();
    Header {
        parent: None,
        kind,
        status,
        provider_id,
        model,
        usage,
        started_at,
        ended_at,
        messages,
        tool_calls: vec![],
        body,
    }
}

fn edge() -> Edge {
    Edge {
        from: Node::new(NodeKind::File, "src/a:b.rs"),
        to: Node::new(NodeKind::Task, TASK),
        label: Label::UpdatedIn,
        weight: Some(7),
        evidence: Evidence {
            commit: Some(CommitId(hash("a commit"))),
            tool: Tool::RustAnalyzer,
            confidence: Confidence::Medium,
            span: Some((0, 42)),
            blob: Some(blob()),
        },
    }
}

fn step(parent: Option<&str>, kind: Kind, payload: Vec<Entry>, state: State) -> Step {
    Step {
        parent: parent.map(|name| StepId(hash(name))),
        base: parent.map(|_| CommitId(hash("the base"))),
        session: SESSION,
        task: TASK,
        kind,
        payload,
        state,
        timestamp: Timestamp(AT),
    }
}

/// A step of each kind, with every entry and every state among them.
pub(crate) fn steps() -> Vec<(&'static str, Step)> {
    let before = Some("the step before");
    let note = |n: u128, text: &str| Entry::Note {
        id: NoteId(Ulid(0x0193_3111_2222_3333_4444_5555_8888_0000 + n)),
        text: text.into(),
    };
    let moved = |from, to| Entry::Moved { from: Some(from), to };
    let large = Content::Blob { blob: blob(), bytes: BLOB.len() as u64 };
    let asked =
        State::AwaitingUser { question: "Fixed or exponential?".into(), asked_at: AT / 1000 };
    let interrupted = State::Interrupted { user_message: "Make it 5\nand log".into() };
    let pending = State::PendingComplete { summary: "Retries 3 times".into() };
    let argv = |words: [&str; 2]| words.map(str::to_owned).to_vec();
    vec![
        (
            "step-session-start",
            step(
                None,
                Kind::SessionStart,
                vec![Entry::Task { description: "Add retries".into() }],
                State::Running,
            ),
        ),
        (
            "step-file-read",
            step(
                before,
                Kind::FileRead,
                vec![Entry::FileRead { path: "src/lib.rs".into(), content: large.clone() }],
                State::Running,
            ),
        ),
        (
            "step-file-write",
            step(
                before,
                Kind::FileWrite,
                vec![
                    Entry::FileWrite {
                        path: "a.rs".into(),
                        content: Some(Content::Text("fn a() {}\n".into())),
                    },
                    Entry::FileWrite { path: "gone.rs".into(), content: None },
                ],
                interrupted,
            ),
        ),
        (
            "step-command-run",
            step(
                before,
                Kind::CommandRun,
                vec![
                    Entry::Command {
                        argv: argv(["cargo", "test"]),
                        exit: Some(-9),
                        output: Some(large),
                    },
                    Entry::Command { argv: argv(["sleep", "1 000"]), exit: None, output: None },
                ],
                State::Running,
            ),
        ),
        (
            "step-note",
            step(before, Kind::Note, vec![note(1, "The client has one call site")], State::Running),
        ),
        (
            "step-plan",
            step(before, Kind::Plan, vec![Entry::Plan { text: "First this".into() }], pending),
        ),
        (
            "step-relations",
            step(before, Kind::Relations, vec![Entry::Relation(edge())], State::Running),
        ),
        (
            "step-state",
            step(
                before,
                Kind::State,
                vec![
                    note(2, "Question for user: Fixed or exponential?"),
                    moved(StateName::Running, StateName::AwaitingUser),
                ],
                asked,
            ),
        ),
        (
            "step-state-aborted",
            step(
                before,
                Kind::State,
                vec![moved(StateName::Running, StateName::Aborted)],
                State::Aborted { reason: "no".into() },
            ),
        ),
        ("step-compact", step(before, Kind::Compact, vec![], State::Complete)),
    ]
}

fn commit(parents: &[&str], commit_type: CommitType, state: State) -> Commit {
    let root = parents.is_empty();
    let file = |path: &str, written, blob| FileTouch { path: path.into(), written, blob };
    let turns = TurnRange {
        first: TurnId(hash("the first turn")),
        last: TurnId(hash("the last turn")),
        count: 4,
    };
    Commit {
        parents: parents.iter().map(|name| CommitId(hash(name))).collect(),
        project: "demo".into(),
        session: SESSION,
        task: TASK,
        description: "Add retries".into(),
        message: "Retries 3 times".into(),
        commit_type,
        state,
        steps: StepRange { last: StepId(hash("the newest step")), count: 9 },
        turns: (!root).then_some(turns),
        files: if root {
            vec![]
        } else {
            vec![file("a.rs", true, Some(blob())), file("b.rs", false, None)]
        },
        started_at: Timestamp(AT),
        created_at: Timestamp(AT + 60_000),
    }
}

/// A commit of each type; the first is a project's first.
pub(crate) fn commits() -> Vec<(&'static str, Commit)> {
    let stale = CommitType::StaleAutoCompact { idle_duration_secs: 691_200 };
    let replaced = CommitType::InterruptedByNewTask { new_task_summary: "Now add pooling".into() };
    let waiting = State::AwaitingUser { question: "Which?".into(), asked_at: AT / 1000 };
    vec![
        ("commit-normal", commit(&[], CommitType::Normal, State::Complete)),
        (
            "commit-abandoned",
            commit(
                &["the commit before"],
                CommitType::Abandoned,
                State::Aborted { reason: "no".into() },
            ),
        ),
        ("commit-stale", commit(&["the commit before"], stale, waiting)),
        ("commit-interrupted", commit(&["one parent", "another"], replaced, State::Running)),
    ]
}

/// Two steps in a chain; the second needs the blob.
fn chain() -> [Step; 2] {
    let first = step(
        None,
        Kind::SessionStart,
        vec![Entry::Task { description: "Add retries".into() }],
        State::Running,
    );
    let content = Some(Content::Blob { blob: blob(), bytes: BLOB.len() as u64 });
    let parent = Some(StepId(first.encode().id()));
    let wrote = vec![Entry::FileWrite { path: "a.bin".into(), content }];
    let second = Step { parent, ..step(None, Kind::FileWrite, wrote, State::Running) };
    [first, second]
}

/// The manifest of the golden bundle.
pub(crate) fn task_bundle() -> TaskBundle {
    let [_, second] = chain();
    let progress = Progress {
        files_written: 1,
        recent: vec!["wrote a.bin".into()],
        last_summary: Some("Done once".into()),
        ..Progress::default()
    };
    TaskBundle {
        task: TASK,
        task_description: "Add retries".into(),
        state: State::Running,
        staging_head: StepId(second.encode().id()),
        steps: 2,
        base: None,
        progress_summary: progress.summary(),
        progress,
        started_at: Timestamp(AT),
        last_activity: Timestamp(AT),
    }
}

/// The golden bundle.
pub(crate) fn bundle() -> Vec<u8> {
    let [first, second] = chain();
    write(
        &Manifest::Task(Box::new(task_bundle())),
        &[first.encode(), second.encode(), Object::blob(BLOB.to_vec())],
    )
}
