//! Values: every text, from empty to the longest, and every byte reads back as it was written.

use std::collections::BTreeMap;

use ctx_core::decide::{FIELD_MAX_CHARS, Patch, update_session};
use ctx_core::id::{MessageId, TokenId};
use ctx_core::inbox::{Mode, Overrides, Tool};
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::refusal::Refusal;
use ctx_core::session::{LABEL_MAX_CHARS, New, Origin, Parent};
use ctx_core::suspension::{Awaited, Kind};
use ctx_core::text_limits::{TASK_TEXT_MAX_BYTES, TEXT_MAX_BYTES};
use ctx_core::token::{Scope, TOKENS_MAX, Token, digest};
use ctx_core::turn::{About, Ready, Status, Usage};
use ctx_store::Error;
use serde_json::json;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    NODE, SessionWriter, at, awaited_calls, create, new_session, note, run_host, submission_in,
    verify,
};

/// Texts that a database, a JSON encoder or a tokenizer may treat specially.
fn texts() -> Vec<String> {
    let control: String = (1..32_u8).map(char::from).chain(['\u{7f}', '\u{85}']).collect();
    let every_plane = "\u{80}\u{7ff}\u{800}\u{fffd}\u{ffff}\u{10000}\u{10ffff}".to_owned();
    vec![
        " ".to_owned(),
        control,
        every_plane,
        "Grüße, 世界 \u{1F600}\u{200d}\u{1F4BB} e\u{301} \u{202e}abc\u{202c} \u{feff}".to_owned(),
        r#"' " \ ; -- /* % _ $1 ?1 {} [] \u0041 \x00 'DROP TABLE turns"#.to_owned(),
        "line\r\nline\n\n\tend ".to_owned(),
        "{\"parent\":null}".to_owned(),
        "null".to_owned(),
        "0".to_owned(),
    ]
}

pub(crate) async fn every_text_of_a_session_reads_back(backend: &impl Backend) {
    let store = backend.open().await;
    for (n, text) in texts().into_iter().enumerate() {
        let text = format!("{n}{text}{n}");
        let new = New {
            title: Some(text.clone()),
            project: text.clone(),
            working_dir: Some(format!("/{text}")),
            persona: Some(text.clone()),
            provider_id: Some(text.clone()),
            model: Some(text.clone()),
            parent: Some(Parent {
                session: text.clone(),
                turn: None,
                tool_call: Some(text.clone()),
            }),
            origin: Origin::Subagent,
            ..new_session(&format!("session {n}"), 0)
        };
        let writer = SessionWriter::create_as(&store, new.clone()).await;
        let session = writer.session().await;
        assert_eq!((&session.title, &session.project), (&new.title, &new.project));
        assert_eq!((&session.working_dir, &session.persona), (&new.working_dir, &new.persona));
        assert_eq!((&session.provider_id, &session.model), (&new.provider_id, &new.model));
        assert_eq!(session.parent, new.parent);
        let options = BTreeMap::from([
            (text.clone(), Some(text.clone())),
            ("k".to_owned(), Some("v".to_owned())),
        ]);
        let patch = Patch { options: Some(Some(options)), title: Some(None), ..Patch::default() };
        writer
            .decide(1, vec![], move |view, invocation| {
                update_session(view, &patch, &run_host(NODE).catalog, invocation)
            })
            .await
            .expect("changed");
        let session = writer.session().await;
        assert_eq!((session.title, session.options.get(&text)), (None, Some(&text)));
        let project = Some(new.project.clone());
        let query = ctx_store::SessionQuery { project, ..ctx_store::SessionQuery::newest(9) };
        assert_eq!(store.sessions(&query).await.expect("sessions").len(), 1, "{text:?}");
        // The end of a task moves the head of a project with that name.
        writer.start("a task", 2).await;
        let sealed = writer.seal("done", 3).await.expect("sealed").reply;
        assert_eq!(writer.view().await.project_head, Some(sealed.id));
    }
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn labels_of_every_script_and_of_full_length_are_found(backend: &impl Backend) {
    let store = backend.open().await;
    let long = "ü".repeat(LABEL_MAX_CHARS);
    let labels = ["a", "A", "ä", "a\u{308}", "世界/\u{1F600}", "a b", "%", "_", "'", "\\", &long];
    for (n, name) in labels.iter().enumerate() {
        create(&store, new_session(name, n as i64)).await.expect("labels differ in every byte");
    }
    for name in labels {
        assert_eq!(SessionWriter::of(&store, name).session().await.label, name);
    }
    let too_long = "x".repeat(LABEL_MAX_CHARS + 1);
    for bad in ["", " a", "a\n", "a\0b", &too_long, &Ulid(7).to_string()] {
        let refused = create(&store, new_session(bad, 99)).await;
        assert!(
            matches!(
                refused,
                Err(Error::Refused(Refusal::BadLabel { .. } | Refusal::LabelIsAnId { .. }))
            ),
            "{bad:?}"
        );
    }
    assert_eq!(store.counts().await.sessions, labels.len() as u64);
}

/// A turn with every kind of part that holds text.
fn parts(text: &str) -> Vec<Part> {
    vec![
        Part::Text { text: text.to_owned() },
        Part::Thought { text: text.to_owned(), raw: Some(json!({"s": text, "n": [1, 1.5, null]})) },
        Part::ToolCall {
            id: text.to_owned(),
            name: text.to_owned(),
            params: json!({text: {"nested": [text]}}),
            status: ToolStatus::Unknown,
        },
        Part::Error {
            code: text.to_owned(),
            message: text.to_owned(),
            provider_id: Some(text.to_owned()),
        },
        Part::Plan { entries: json!([{"content": text}]) },
        Part::Summary { text: text.to_owned() },
    ]
}

pub(crate) async fn every_text_of_a_turn_reads_back(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    for text in texts().into_iter().chain([String::new(), "a\0b".to_owned(), "x".repeat(100_000)]) {
        let message = Message {
            id: MessageId(Ulid::new()),
            role: Role::Assistant,
            source: None,
            content: parts(&text),
            created_at: at(1),
        };
        let usage = Usage {
            input_tokens: Some(0),
            output_tokens: Some(i64::MAX as u64),
            cached_tokens: None,
            cost: Some(text.clone()),
            scope: text.clone(),
            ..Usage::default()
        };
        let about = About {
            status: Status::Failed,
            provider_id: Some(text.clone()),
            model: Some(text.clone()),
            usage: Some(usage.clone()),
            ended_at: at(2),
            ..About::at(at(1))
        };
        let (ready, body) = Ready::new(about, vec![message.clone()]);
        let added = writer
            .decide(1, vec![body], move |view, _| {
                ctx_core::decide::append_turn(view, view.session.head, &ready)
            })
            .await
            .expect("appended");
        let turn = added.reply;
        let stored = &store.turns(turn, 1).await.expect("turns")[0];
        assert_eq!(stored.messages().expect("readable"), Some(vec![message]), "{text:?}");
        assert_eq!(
            (stored.header.usage.as_ref(), stored.header.model.as_ref()),
            (Some(&usage), Some(&text))
        );
        assert_eq!((stored.header.started_at, stored.header.ended_at), (at(1), at(2)));
    }
    let (ready, body) = Ready::new(About::at(at(3)), vec![]);
    writer
        .decide(3, vec![body], move |view, _| {
            ctx_core::decide::append_turn(view, view.session.head, &ready)
        })
        .await
        .expect("a turn without messages");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn the_longest_texts_are_taken_and_longer_ones_refused(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = "t".repeat(TASK_TEXT_MAX_BYTES);
    let id = writer.start(&task, 1).await;
    let longest = "n".repeat(TEXT_MAX_BYTES);
    writer.observe(vec![note(&longest)], vec![], 2).await.expect("observed");
    writer.seal(&longest, 3).await.expect("sealed");
    assert_eq!(store.task(id).await.expect("a read").expect("a task").description, task);
    let chain = writer.chain(id).await;
    assert_eq!(chain[1].step.notes().collect::<Vec<_>>(), [longest.as_str()]);

    writer.open_run(&longest, 4).await;
    let sent = writer.send(submission_in(Mode::Queue, &longest), 5).await;
    let items = store.inbox(writer.id().await).await.expect("an inbox");
    let item = items.iter().find(|item| item.message_id == sent.message_id).expect("queued");
    assert_eq!(item.text(), longest);
    let before = crate::harness::Snapshot::of(&store).await;
    let refused = writer.submit(submission_in(Mode::Queue, &format!("{longest}!")), 6).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::BadText { .. }))));
    let title = Patch { title: Some(Some("x".repeat(FIELD_MAX_CHARS + 1))), ..Patch::default() };
    let refused = writer
        .decide(7, vec![], move |view, invocation| {
            update_session(view, &title, &run_host(NODE).catalog, invocation)
        })
        .await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::BadText { .. }))));
    assert_eq!(crate::harness::Snapshot::of(&store).await, before);
    let title = "ü".repeat(FIELD_MAX_CHARS);
    let patch = Patch { title: Some(Some(title.clone())), ..Patch::default() };
    writer
        .decide(8, vec![], move |view, invocation| {
            update_session(view, &patch, &run_host(NODE).catalog, invocation)
        })
        .await
        .expect("the longest title");
    assert_eq!(writer.session().await.title, Some(title));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn every_text_of_a_run_and_its_suspension_reads_back(backend: &impl Backend) {
    let store = backend.open().await;
    for (n, text) in texts().into_iter().enumerate() {
        let writer = SessionWriter::create(&store, &format!("session {n}"), 0).await;
        let opened = writer.open_run("hello", 1).await;
        let call = ctx_core::suspension::AwaitedCall {
            id: text.clone(),
            name: text.clone(),
            params: json!({text.clone(): text}),
        };
        let awaited = Awaited {
            kind: Kind::ToolResult,
            tool_calls: vec![call],
            options: vec![],
            question: Some(text.clone()),
            provider_state: Some(json!([text, 0.1, -1, u64::MAX, null])),
        };
        let awaited = vec![awaited, awaited_calls(&["last"])];
        writer.suspend(&opened.run, vec![], awaited.clone(), 2).await.expect("suspended");
        let open = writer.view().await.suspensions;
        assert_eq!(open.iter().map(|open| open.awaited.clone()).collect::<Vec<_>>(), awaited);
        let answer = crate::harness::results(&[(&text, &text)]);
        writer.resume(open[0].id, answer.clone(), 3).await.expect("answered");
        assert_eq!(writer.view().await.answered[0].1, answer, "{text:?}");
        let tool = Tool {
            name: "t".to_owned(),
            description: text.clone(),
            parameters: json!({"d": text}),
        };
        let overrides = Overrides { tools: vec![tool], ..Overrides::default() };
        let submit = ctx_core::decide::Submit {
            overrides: overrides.clone(),
            ..submission_in(Mode::Interrupt, &format!("x{text}"))
        };
        let opened = writer.submit(submit, 4).await.expect("released").reply.opened_run;
        let run = opened.expect("a run").run;
        let (found, _) = store.run(run.id).await.expect("a read").expect("a run");
        assert_eq!(found.tools, overrides.tools, "{text:?}");
    }
}

pub(crate) async fn every_byte_reads_back_at_every_size(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    // Around the size at which content becomes a blob of its own, and well beyond it.
    for (n, size) in [0, 1, 4095, 4096, 4097, 8111, 65_536, 1 << 20].into_iter().enumerate() {
        let bytes: Vec<u8> = (0..size).map(|at: usize| (at * 7 + n) as u8).collect();
        let (content, blob) = ctx_core::stored_content::Content::split(bytes.clone());
        let path = format!("{size}.bin");
        let entry = ctx_core::step::Entry::FileWrite { path, content: Some(content.clone()) };
        writer.observe(vec![entry], blob.into_iter().collect(), 2).await.expect("observed");
        match content.blob() {
            Some(blob) => {
                let object = store.object(blob.0).await.expect("readable").expect("stored");
                assert_eq!(object.bytes, bytes, "{size} bytes");
            }
            None => assert_eq!(content.text().map(str::as_bytes), Some(&bytes[..])),
        }
    }
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn tokens_are_bounded_and_their_names_read_back(backend: &impl Backend) {
    let store = backend.open().await;
    assert!(store.tokens().await.expect("tokens").is_empty());
    let mut all = Vec::new();
    for n in 0..TOKENS_MAX {
        let name = (n % 2 == 0).then(|| format!("Gerät \u{1F600} {n}"));
        let scope = Scope::ALL[n % 3];
        let token =
            Token::new(TokenId(Ulid(n as u128)), name, scope, at(n as i64)).expect("a token");
        store.insert_token(&token, digest(&n.to_string())).await.expect("kept");
        all.push(token);
    }
    assert_eq!(store.tokens().await.expect("tokens"), all);
    let more = Token::new(TokenId(Ulid(1 << 64)), None, Scope::Read, at(1)).expect("a token");
    let refused = store.insert_token(&more, digest("one more")).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::TooMany { .. }))), "{refused:?}");
    assert_eq!(store.token(digest("one more")).await.expect("a read"), None);
    store.delete_token(all[0].id).await.expect("removed");
    store.insert_token(&more, digest("one more")).await.expect("there is room again");
    let same_id = Token::new(all[1].id, None, Scope::Admin, at(1)).expect("a token");
    store.delete_token(all[2].id).await.expect("removed");
    assert!(
        store.insert_token(&same_id, digest("another")).await.is_err(),
        "an id belongs to one token"
    );
    assert_eq!(store.token(digest("1")).await.expect("a read").as_ref(), Some(&all[1]));
}
