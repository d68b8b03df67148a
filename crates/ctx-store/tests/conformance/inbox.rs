//! The inbox: messages that wait, in order, until a run takes them.

use ctx_core::decide::{self, ClassifyMode, Delivered, Settings, Submit, SubmitTarget};
use ctx_core::id::MessageId;
use ctx_core::identity::{Envelope, PeerKind};
use ctx_core::inbox::{self, Item, ItemState, Mode, OverflowPolicy, Overrides, Rights};
use ctx_core::message::{Part, Source};
use ctx_core::object::{Named, Object};
use ctx_core::policy::ToolRights;
use ctx_core::prompt::Choice;
use ctx_core::refusal::Refusal;
use ctx_core::session::{Activity, Delivery};
use ctx_core::time::Span;
use ctx_store::{Error, SessionQuery};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    NODE, PLAIN_PROVIDER, SessionWriter, Snapshot, StoreHandle, at, image, label, new_session,
    note, run_host, submission, submission_in, text_of, verify,
};

fn texts(items: &[Item]) -> Vec<String> {
    items.iter().map(Item::text).collect()
}

/// A session with an open run, so that messages wait.
async fn busy(store: &StoreHandle, name: &str) -> SessionWriter {
    let writer = SessionWriter::create(store, name, 0).await;
    writer.open_run("the first", 1).await;
    writer
}

async fn waiting(writer: &SessionWriter) -> Vec<Item> {
    let items = writer.view().await.inbox;
    items.into_iter().filter(|item| item.state == ItemState::Waiting).collect()
}

pub(crate) async fn a_waiting_message_reads_back_as_it_was_sent(backend: &impl Backend) {
    // R166, R239
    let store = backend.open().await;
    let writer = busy(&store, "main").await;
    let content = vec![
        Part::Text { text: "Grüße\n\"世界\" \\ \u{1F600} \u{7}".to_owned() },
        Part::Text { text: String::new() },
    ];
    let overrides = Overrides {
        provider_id: Some(PLAIN_PROVIDER.to_owned()),
        model: Some("small".to_owned()),
        tools: vec![],
        from_worker: Some("worker:one".to_owned()),
        envelope: Some(Envelope {
            channel: "irc".to_owned(),
            account_id: None,
            sender_id: "mom".to_owned(),
            sender_name: None,
            peer_kind: PeerKind::Group,
            peer_id: Some("#home".to_owned()),
            thread_id: None,
            reply_to_id: None,
        }),
        rights: Some(Rights {
            tools: vec![ToolRights {
                allow: None,
                deny: ["ask_user".to_owned()].into_iter().collect(),
            }],
            approve: true,
        }),
        instructions: Some("be brief".to_owned()),
        given: vec![ctx_core::draft::Entry::Text { text: "given".to_owned() }],
    };
    for (n, source) in
        [Source::Agent, Source::Timer, Source::Trigger, Source::Webhook, Source::Event]
            .into_iter()
            .enumerate()
    {
        let submit = Submit {
            message_id: MessageId(Ulid(1 + n as u128)),
            content: content.clone(),
            source,
            overrides: overrides.clone(),
            ..submission("")
        };
        let accepted = writer.send(submit, 10 + n as i64).await;
        assert_eq!(accepted.position, Some(n + 1));
        assert_eq!(accepted.state, Activity::Running);
    }
    let items = waiting(&writer).await;
    for (n, item) in items.iter().enumerate() {
        assert_eq!(
            (&item.content, &item.overrides, item.enqueued_at),
            (&content, &overrides, at(10 + n as i64))
        );
        assert_eq!(item.message_id, MessageId(Ulid(1 + n as u128)));
        assert_eq!(item.mode, Mode::default_for(item.source, false));
    }
    drop((store, writer));
    let again = SessionWriter::of(&backend.open().await, "main");
    assert_eq!(waiting(&again).await, items, "after reopening");
    let id = again.id().await;
    let whole = again.store.inbox(id).await.expect("an inbox");
    assert_eq!(whole[1..], items[..], "behind the message of the run");
}

pub(crate) async fn every_queue_mode_takes_its_place(backend: &impl Backend) {
    // R153, R156, R158, R159, R165
    let store = backend.open().await;
    let writer = busy(&store, "main").await;
    for (ms, mode) in
        [(2, Mode::Queue), (3, Mode::Followup), (4, Mode::Collect), (5, Mode::SteerBacklog)]
    {
        writer.send(submission_in(mode, mode.name()), ms).await;
    }
    writer.send(submission_in(Mode::Interrupt, "first"), 6).await;
    writer.send(submission_in(Mode::Interrupt, "second"), 7).await;
    let view = writer.view().await;
    assert_eq!(texts(&waiting(&writer).await), ["first", "second", "queue", "followup", "collect"]);
    let steering: Vec<&Item> =
        view.inbox.iter().filter(|item| item.state == ItemState::Steering).collect();
    assert_eq!(steering.len(), 1, "it goes into the run");
    let listed = store.session_views(&SessionQuery::newest(9)).await.expect("views");
    assert_eq!(listed[0].inbox, view.inbox, "a list shows the same inbox in the same order");
}

pub(crate) async fn a_steering_message_goes_into_the_run_that_checkpoints_it(
    backend: &impl Backend,
) {
    // R155
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let id = writer.send(submission_in(Mode::Steer, "use tabs"), 2).await.message_id;
    let steering: Vec<Item> = writer.view().await.inbox;
    let steering = steering.into_iter().filter(|item| item.state == ItemState::Steering);
    assert_eq!(steering.map(|item| item.text()).collect::<Vec<_>>(), ["use tabs"]);
    let injected = decide::Checkpoint { injected: vec![id], ..decide::Checkpoint::default() };
    writer.checkpoint(&opened.run, injected, vec![], 4).await.expect("a checkpoint");
    assert_eq!(writer.view().await.inbox.len(), 1, "only the message of the run is left");
    // One that did not land before the run ended goes to the head of the inbox.
    writer.send(submission_in(Mode::Queue, "later"), 5).await;
    writer.send(submission_in(Mode::Steer, "too late"), 6).await;
    writer.end_run(&opened, "answer", 7).await;
    assert_eq!(texts(&waiting(&writer).await), ["too late", "later"]);
}

fn capped(at_cap: OverflowPolicy) -> Settings {
    let inbox = inbox::Settings { cap: 2, at_cap, ..inbox::Settings::default() };
    Settings { inbox, ..Settings::default() }
}

pub(crate) async fn messages_over_the_cap_are_dropped_as_the_policy_says(backend: &impl Backend) {
    // R167
    let store = backend.open().await;
    let cases = [
        (OverflowPolicy::Old, vec!["two", "three"], vec!["one"]),
        (OverflowPolicy::New, vec!["one", "two"], vec!["three"]),
        (OverflowPolicy::Summarize, vec!["two", "three"], vec!["one"]),
        (OverflowPolicy::Reject, vec!["one", "two"], vec![]),
    ];
    for (n, (at_cap, kept, dropped)) in cases.into_iter().enumerate() {
        let writer = busy(&store, &format!("session {n}")).await;
        for text in ["one", "two", "three"] {
            let submit = submission_in(Mode::Queue, text);
            let sent = writer
                .submit_with(SubmitTarget::Existing, submit, &capped(at_cap), vec![], 2)
                .await;
            let full = matches!(sent, Err(Error::Refused(Refusal::InboxFull { cap: 2 })));
            assert_eq!(full, at_cap == OverflowPolicy::Reject && text == "three", "{sent:?}");
        }
        let items = waiting(&writer).await;
        let ends: Vec<String> =
            texts(&items).iter().map(|text| text.lines().last().unwrap_or("").to_owned()).collect();
        assert_eq!(ends, kept, "{at_cap:?}");
        let all = store.inbox(writer.id().await).await.expect("an inbox");
        let gone: Vec<Item> =
            all.iter().filter(|item| item.state == ItemState::Dropped).cloned().collect();
        assert_eq!(texts(&gone), dropped, "a dropped message stays readable");
    }
    // They are forgotten after a week.
    store.purge_all(at(2 + Span::days(7).0 as i64)).await;
    for n in 0..4 {
        let writer = SessionWriter::of(&store, &format!("session {n}"));
        let all = store.inbox(writer.id().await).await.expect("an inbox");
        assert!(all.iter().all(|item| item.state != ItemState::Dropped));
        assert_eq!(waiting(&writer).await.len(), 2, "what waits is kept");
    }
}

pub(crate) async fn waiting_messages_are_edited_moved_and_withdrawn(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store, "main").await;
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        ids.push(writer.send(submission_in(Mode::Queue, text), 2).await.message_id);
    }
    let (one, two, three) = (ids[0], ids[1], ids[2]);
    writer
        .decide(3, vec![], move |view, invocation| decide::edit_item(view, two, "zwei", invocation))
        .await
        .expect("edited");
    writer
        .decide(4, vec![], move |view, invocation| decide::move_item(view, three, 1, invocation))
        .await
        .expect("moved");
    assert_eq!(texts(&waiting(&writer).await), ["three", "one", "zwei"]);
    writer
        .decide(5, vec![], move |view, invocation| decide::withdraw_item(view, one, invocation))
        .await
        .expect("withdrawn");
    assert_eq!(texts(&waiting(&writer).await), ["three", "zwei"]);
    let inbox = writer.view().await.inbox;
    let taken = inbox.iter().find(|item| item.state == ItemState::Taken);
    let taken = taken.expect("the message of the run").message_id;
    let before = Snapshot::of(&store).await;
    for (id, refusal) in [(one, Refusal::NoInboxItem), (taken, Refusal::NotWaiting)] {
        let refused = writer
            .decide(6, vec![], move |view, invocation| decide::withdraw_item(view, id, invocation))
            .await;
        assert!(matches!(refused, Err(Error::Refused(ref found)) if *found == refusal));
    }
    assert_eq!(Snapshot::of(&store).await, before);
}

pub(crate) async fn a_picture_is_stored_with_the_message_that_shows_it(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store, "main").await;
    let picture = Object::blob(text_of(1, 6000));
    let submit = |id| Submit {
        message_id: MessageId(Ulid(id)),
        content: vec![image(&picture), Part::Text { text: "look".to_owned() }],
        ..submission_in(Mode::Queue, "")
    };
    let before = Snapshot::of(&store).await;
    let refused = writer.submit(submit(1), 2).await;
    assert!(matches!(refused, Err(Error::NotFound { what: "blob", .. })), "{refused:?}");
    assert_eq!(Snapshot::of(&store).await, before);

    let objects = vec![Named::from(picture.clone())];
    let settings = Settings::default();
    let sent = writer.submit_with(SubmitTarget::Existing, submit(2), &settings, objects, 3).await;
    sent.expect("accepted");
    writer.submit(submit(3), 4).await.expect("the picture is known now");
    assert_eq!(store.object(picture.id()).await.expect("readable"), Some(picture.clone()));
    assert_eq!(store.gc(at(1_000_000), Span(0)).await.expect("collected").blobs_removed, 0);
    for id in [2, 3] {
        let id = MessageId(Ulid(id));
        writer
            .decide(5, vec![], move |view, invocation| decide::withdraw_item(view, id, invocation))
            .await
            .expect("withdrawn");
    }
    assert_eq!(store.gc(at(1_000_000), Span(0)).await.expect("collected").blobs_removed, 1);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn collected_messages_become_one_turn(backend: &impl Backend) {
    // R157, R163, R164
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    for (ms, text) in [(10, "one"), (20, "two"), (30, "three")] {
        writer.send(submission_in(Mode::Collect, text), ms).await;
    }
    writer.send(submission_in(Mode::Queue, "four"), 40).await;
    let head = writer.end_run(&opened, "answer", 50).await;
    let early = writer.deliver(60).await.expect("a decision");
    let wait = Delivered::NotBefore(at(1030));
    assert_eq!(early.reply, wait, "a second after the last of them");
    let opened = writer.deliver_run(1030).await;
    assert_eq!(
        (texts(&opened.items), opened.head),
        (vec!["one".to_owned(), "two".to_owned(), "three".to_owned()], Some(head))
    );
    let turn = writer.end_run(&opened, "answer", 1040).await;
    let turns = store.turns(turn, 1).await.expect("turns");
    assert_eq!(turns[0].messages().expect("readable").expect("not purged").len(), 4);
    assert_eq!(texts(&waiting(&writer).await), ["four"]);
}

pub(crate) async fn concurrent_first_messages_create_one_session(backend: &impl Backend) {
    // R133
    let (one, two) = (backend.open().await, backend.open().await);
    let mut sends = JoinSet::new();
    for n in 0..16 {
        let writer = SessionWriter::of(if n % 2 == 0 { &one } else { &two }, "new");
        sends.spawn(async move {
            let to = SubmitTarget::GetOrCreate(Box::new(new_session("new", n)));
            let submit = submission_in(Mode::Queue, &format!("message {n}"));
            writer.submit_with(to, submit, &Settings::default(), vec![], n).await
        });
    }
    let sent: Vec<_> = sends.join_all().await.into_iter().map(|sent| sent.expect("sent")).collect();
    let ids: Vec<_> = sent.iter().map(|written| written.session).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(sent.iter().filter(|decision| decision.reply.opened_run.is_some()).count(), 1);
    let view = SessionWriter::of(&one, "new").view().await;
    assert_eq!(view.inbox.len(), 16, "every message is kept");
    let exclusive = SubmitTarget::New(Box::new(new_session("new", 99)));
    let refused = SessionWriter::of(&one, "new")
        .submit_with(exclusive, submission("x"), &Settings::default(), vec![], 99)
        .await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::LabelInUse { .. }))), "{refused:?}");
    let missing = SessionWriter { store: one, target: label("nowhere") };
    let refused = missing.submit(submission("x"), 99).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NoSession))), "{refused:?}");
}

pub(crate) async fn a_question_holds_its_message_until_the_choice(backend: &impl Backend) {
    // R94, R97
    let store = backend.open().await;
    let mut new = new_session("main", 0);
    new.track_tasks = Some(true);
    let writer = SessionWriter::create_as(&store, new).await;
    let task = writer.start("fix the parser", 1).await;
    writer.write("parser.rs", b"fn parse() {}".to_vec(), 2).await;
    writer.observe(vec![note("half done")], vec![], 3).await.expect("noted");
    let submit = Submit {
        classify_mode: ClassifyMode::Deferred,
        ..submission("Now add connection pooling")
    };
    let id = writer.send(submit, 4).await.message_id;
    let judged = std::collections::HashMap::from([(id, ctx_core::intent::Intent::NewTask)]);
    writer
        .decide(5, vec![], move |view, invocation| {
            decide::deliver(view, &judged, &run_host(NODE), &Settings::default(), invocation)
        })
        .await
        .expect("asked");
    let view = writer.view().await;
    let prompt = view.prompt.clone().expect("a question");
    assert_eq!((prompt.kind(), prompt.opened_at), ("new_task", at(5)));
    assert_eq!(view.inbox.iter().map(|item| item.state).collect::<Vec<_>>(), [ItemState::Held]);
    let asked = SessionQuery { waiting: true, ..SessionQuery::newest(9) };
    let listed = store.session_views(&asked).await.expect("views");
    assert_eq!(listed[0].prompt, Some(prompt.clone()));
    drop((store, writer));
    let store = backend.open().await;
    let writer = SessionWriter::of(&store, "main");
    assert_eq!(writer.view().await.prompt, Some(prompt), "after reopening");
    let chosen = writer
        .decide(6, vec![], |view, invocation| {
            let settings = Settings::default();
            decide::answer_session_prompt(
                view,
                Choice::StartFresh,
                &run_host(NODE),
                &settings,
                invocation,
            )
        })
        .await
        .expect("chosen");
    let opened = chosen.reply.expect("a run");
    assert_eq!(texts(&opened.items), ["Now add connection pooling"]);
    let view = writer.view().await;
    assert_eq!(view.prompt, None);
    assert_ne!(view.task.expect("a new task").id, task);
    assert!(store.task(task).await.expect("a read").expect("a task").commit.is_some());
    assert!(store.session_views(&asked).await.expect("views").is_empty());
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn held_delivery_keeps_messages_and_refused_delivery_takes_none(
    backend: &impl Backend,
) {
    // R226
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.put_session(|session| session.delivery = Delivery::Hold, 1).await;
    assert!(writer.send(submission("wait"), 2).await.opened_run.is_none());
    let nothing = writer.deliver(3).await.expect("a decision");
    assert_eq!(nothing.reply, Delivered::Nothing);
    writer.put_session(|session| session.delivery = Delivery::Refuse, 4).await;
    let before = Snapshot::of(&store).await;
    let refused = writer.submit(submission("no"), 5).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::DeliveryRefused))), "{refused:?}");
    assert_eq!(Snapshot::of(&store).await, before);
    writer.put_session(|session| session.delivery = Delivery::Open, 6).await;
    let opened = writer.deliver_run(7).await;
    assert_eq!(texts(&opened.items), ["wait"]);
}
