//! Lists: every page size returns every row once, in the order of the list.

use ctx_core::id::{CommitId, SessionId, TaskId, TurnId};
use ctx_core::session::{New, Session, Status};
use ctx_store::{CommitQuery, Error, PAGE_MAX, SessionQuery};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    FeedCursor, MoveCursor, SessionWriter, StoreHandle, at, create, new_session, note,
};

const LIMITS: [usize; 3] = [1, 2, PAGE_MAX];

async fn all_sessions(store: &StoreHandle, query: &SessionQuery) -> Vec<Session> {
    let (mut all, mut query): (Vec<Session>, _) = (Vec::new(), query.clone());
    loop {
        let page = store.sessions(&query).await.expect("a page");
        assert!(page.len() <= query.limit);
        let Some(last) = page.last() else { return all };
        query.after = Some((last.last_activity_at, last.id));
        all.extend(page);
    }
}

pub(crate) async fn sessions_are_paged_in_the_order_of_their_activity(backend: &impl Backend) {
    let store = backend.open().await;
    assert!(all_sessions(&store, &SessionQuery::newest(1)).await.is_empty());
    // Several have the same time and are ordered by creation.
    for n in 0..11 {
        SessionWriter::create(&store, &format!("session {n}"), n / 4).await;
    }
    let expected: Vec<String> = (0..11).rev().map(|n| format!("session {n}")).collect();
    for limit in LIMITS {
        let listed = all_sessions(&store, &SessionQuery::newest(limit)).await;
        let labels: Vec<String> = listed.into_iter().map(|session| session.label).collect();
        assert_eq!(labels, expected, "pages of {limit}");
    }
    assert!(store.sessions(&SessionQuery::newest(0)).await.expect("a page").is_empty());
}

pub(crate) async fn a_page_of_sessions_has_at_most_one_more_than_the_maximum(
    backend: &impl Backend,
) {
    let store = backend.open().await;
    let mut made = JoinSet::new();
    for n in 0..PAGE_MAX as i64 + 5 {
        let store = store.clone();
        made.spawn(async move { create(&store, new_session(&format!("session {n}"), n)).await });
    }
    made.join_all().await.into_iter().for_each(|made| drop(made.expect("created")));
    for (limit, found) in [(PAGE_MAX, PAGE_MAX), (PAGE_MAX + 1, PAGE_MAX + 1)] {
        let page = store.sessions(&SessionQuery::newest(limit)).await.expect("a page");
        assert_eq!(page.len(), found);
    }
    let page = store.sessions(&SessionQuery::newest(usize::MAX)).await.expect("a page");
    assert_eq!(page.len(), PAGE_MAX + 1, "one more shows that there is another page");
    assert_eq!(all_sessions(&store, &SessionQuery::newest(PAGE_MAX)).await.len(), PAGE_MAX + 5);
    assert_eq!(
        store.idle_sessions(at(i64::from(u32::MAX)), usize::MAX).await.expect("ids").len(),
        PAGE_MAX
    );
}

pub(crate) async fn sessions_are_filtered_by_status_project_words_and_parent(
    backend: &impl Backend,
) {
    // R201, R207, R216
    let store = backend.open().await;
    for (n, status) in
        [Status::Active, Status::Suspended, Status::Archived, Status::Error].into_iter().enumerate()
    {
        let mut new = new_session(&format!("session {n}"), n as i64);
        new.project = format!("project{}", n % 2);
        new.title = Some(format!("100% Title_{n} \\ ü"));
        let writer = SessionWriter::create_as(&store, new).await;
        writer.put_session(|session| session.status = status, n as i64).await;
    }
    let found = async |query: SessionQuery| -> Vec<String> {
        let mut labels: Vec<String> =
            all_sessions(&store, &query).await.into_iter().map(|session| session.label).collect();
        labels.sort();
        labels
    };
    let all = SessionQuery::newest(2);
    let with = |statuses: &[Status]| SessionQuery { statuses: statuses.to_vec(), ..all.clone() };
    assert_eq!(found(with(&[Status::Active, Status::Suspended])).await, ["session 0", "session 1"]);
    assert_eq!(found(with(&[Status::Error])).await, ["session 3"]);
    assert_eq!(found(with(&[])).await.len(), 4, "an empty filter filters nothing");
    let project = |name: &str| SessionQuery { project: Some(name.to_owned()), ..all.clone() };
    assert_eq!(found(project("project1")).await, ["session 1", "session 3"]);
    assert!(found(project("project")).await.is_empty(), "a project is matched whole");
    let words = |words: &str| SessionQuery { words: Some(words.to_owned()), ..all.clone() };
    for (query, expected) in [
        ("title_2", vec!["session 2"]),
        ("SESSION 3", vec!["session 3"]),
        ("ject1", vec!["session 1", "session 3"]),
        ("100%", vec!["session 0", "session 1", "session 2", "session 3"]),
        ("1%t", vec![]),
        ("e_t", vec![]),
        ("\\", vec!["session 0", "session 1", "session 2", "session 3"]),
        ("nowhere", vec![]),
    ] {
        assert_eq!(found(words(query)).await, expected, "{query}");
    }
    let both = SessionQuery { statuses: vec![Status::Archived], ..words("session") };
    assert_eq!(found(both).await, ["session 2"]);
    let children = SessionQuery { parent: Some("session 0".to_owned()), ..all.clone() };
    assert!(found(children).await.is_empty());
    let hidden = store.hidden().await.expect("hidden");
    assert_eq!((hidden.archived, hidden.error), (1, 1));
}

pub(crate) async fn tasks_of_a_session_are_paged_newest_first(backend: &impl Backend) {
    let store = backend.open().await;
    let (writer, other) = (
        SessionWriter::create(&store, "main", 0).await,
        SessionWriter::create(&store, "other", 0).await,
    );
    let id = writer.id().await;
    assert!(store.tasks(id, true, None, 9).await.expect("tasks").is_empty());
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.insert(0, writer.start(&format!("task {n}"), n).await);
        writer.seal("done", n).await.expect("sealed");
        other.start("elsewhere", n).await;
        other.seal("done", n).await.expect("sealed");
    }
    for newest_first in [true, false] {
        for limit in LIMITS {
            let (mut found, mut after): (Vec<TaskId>, _) = (Vec::new(), None);
            loop {
                let page = store.tasks(id, newest_first, after, limit).await.expect("a page");
                let Some(last) = page.last() else { break };
                after = Some(last.id);
                found.extend(page.iter().map(|task| task.id));
            }
            assert_eq!(found, ids, "pages of {limit}");
        }
        ids.reverse();
    }
    assert!(store.tasks(id, true, None, 0).await.expect("tasks").is_empty());
    let foreign = store.tasks(other.id().await, true, None, 1).await.expect("tasks")[0].id;
    for unknown in [foreign, TaskId(Ulid::new())] {
        let failed = store.tasks(id, true, Some(unknown), 9).await;
        assert!(matches!(failed, Err(Error::NotFound { what: "task", .. })), "{failed:?}");
    }
    let failed = store.tasks(SessionId(Ulid::new()), true, None, 9).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "session", .. })), "{failed:?}");
}

pub(crate) async fn head_moves_are_paged_newest_first(backend: &impl Backend) {
    // R148
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let other = SessionWriter::create(&store, "other", 0).await;
    let id = writer.id().await;
    assert!(store.head_moves(id, None, 9).await.expect("moves").is_empty());
    let mut expected: Vec<(Option<TurnId>, i64)> = Vec::new();
    for n in 0..4 {
        expected.insert(0, (Some(writer.say(&format!("turn {n}"), n).await), n));
        other.say("elsewhere", n).await;
    }
    let first = expected[3].0.expect("a turn");
    writer.rewind(first, 9).await.expect("rewound");
    expected.insert(0, (Some(first), 9));
    for limit in LIMITS {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = store.head_moves(id, before, limit).await.expect("a page");
            let Some(last) = page.last() else { break };
            before = Some(MoveCursor::of(last));
            found.extend(page.iter().map(|moved| (moved.turn, moved.at.0 - at(0).0)));
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
    assert!(store.head_moves(id, None, 0).await.expect("moves").is_empty());
    let failed = store.head_moves(SessionId(Ulid::new()), None, 9).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "session", .. })), "{failed:?}");
}

pub(crate) async fn turns_are_paged_by_depth(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.insert(0, writer.say(&format!("turn {n}"), n).await);
    }
    for limit in LIMITS {
        let (mut found, mut depth): (Vec<TurnId>, _) = (Vec::new(), u64::from(u32::MAX));
        loop {
            let page = store.turns_from(ids[0], depth, limit).await.expect("a page");
            let Some(last) = page.last() else { break };
            depth = last.depth - 1;
            found.extend(page.iter().map(|turn| turn.id));
        }
        assert_eq!(found, ids, "pages of {limit}");
    }
    let from = store.turns_from(ids[2], 3, 2).await.expect("turns");
    assert_eq!(from.iter().map(|turn| turn.id).collect::<Vec<_>>(), ids[4..6]);
    assert!(store.turns_from(ids[0], 0, 9).await.expect("turns").is_empty());
    assert!(store.turns_from(ids[0], 9, 0).await.expect("turns").is_empty());
    let unknown = TurnId(ctx_core::id::ObjectId::of(&[b"unknown"]));
    let failed = store.turns_from(unknown, 9, 9).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "turn", .. })), "{failed:?}");
}

pub(crate) async fn a_tree_lists_every_branch_oldest_first(backend: &impl Backend) {
    // R180, R181
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let id = main.id().await;
    assert!(store.tree(id, 9).await.expect("a tree").is_empty());
    let one = main.say("one", 1).await;
    let two = main.say("two", 2).await;
    let fork = SessionWriter::create_as(&store, crate::harness::fork_at(one, 1, "fork", 3)).await;
    let other = fork.say("another two", 4).await;
    SessionWriter::create(&store, "elsewhere", 5).await.say("unrelated", 6).await;
    main.rewind(one, 7).await.expect("rewound");
    for writer in [&main, &fork] {
        let tree = store.tree(writer.id().await, 9).await.expect("a tree");
        assert_eq!(
            tree.iter().map(|turn| (turn.id, turn.parent, turn.depth)).collect::<Vec<_>>(),
            [(one, None, 1), (two, Some(one), 2), (other, Some(one), 2)]
        );
        assert_eq!(
            tree.iter().map(|turn| turn.heads.clone()).collect::<Vec<_>>(),
            [vec!["main".to_owned()], vec![], vec!["fork".to_owned()]]
        );
    }
    for (limit, found) in [(0, 0), (1, 1), (2, 2), (PAGE_MAX, 3)] {
        assert_eq!(store.tree(id, limit).await.expect("a tree").len(), found);
    }
    let failed = store.tree(SessionId(Ulid::new()), 9).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "session", .. })), "{failed:?}");
}

pub(crate) async fn commits_steps_and_notes_are_paged(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let (mut commits, mut task): (Vec<CommitId>, _) = (Vec::new(), None);
    for n in 0..5 {
        task = Some(writer.start(&format!("task {n}"), 10 * n).await);
        writer.observe(vec![note(&format!("note {n}"))], vec![], 10 * n + 1).await.expect("noted");
        let sealed = writer.seal("done", 10 * n + 2).await.expect("sealed");
        commits.insert(0, sealed.reply.id);
    }
    let task = task.expect("a task");
    let steps = writer.chain(task).await;
    for limit in LIMITS {
        let (mut found, mut before): (Vec<CommitId>, _) = (Vec::new(), None);
        loop {
            let query = CommitQuery { before, limit, ..CommitQuery::default() };
            let page = store.commits(&query).await.expect("a page");
            let Some((last, _)) = page.last() else { break };
            before = Some(*last);
            found.extend(page.into_iter().map(|(id, _)| id));
        }
        assert_eq!(found, commits, "pages of {limit}");
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = store.steps(task, after, limit).await.expect("a page");
            let Some(last) = page.last() else { break };
            after = last.seq;
            found.extend(page);
        }
        assert_eq!(found, steps, "pages of {limit}");
        let (mut found, mut from) = (Vec::new(), at(0));
        loop {
            let page = store.narrative(from, at(1000), limit).await.expect("a page");
            let Some(last) = page.last() else { break };
            from = ctx_core::time::Timestamp(last.at.0 + 1);
            found.extend(page.into_iter().map(|sentence| sentence.text));
        }
        // Sealing adds a note of its own, in the same step as its end.
        let own: Vec<&String> = found.iter().filter(|text| text.starts_with("note ")).collect();
        assert_eq!(own, ["note 0", "note 1", "note 2", "note 3", "note 4"], "pages of {limit}");
    }
}

pub(crate) async fn files_written_are_listed_by_name(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let other = SessionWriter::create(&store, "other", 0).await;
    let id = writer.id().await;
    let files =
        async |after, limit| store.files_written(id, at(after), limit).await.expect("files");
    assert!(files(0, 9).await.is_empty());
    writer.start("a task", 1).await;
    writer.write("b.rs", b"1".to_vec(), 10).await;
    writer.write("a.rs", b"2".to_vec(), 20).await;
    writer.write("b.rs", b"3".to_vec(), 30).await;
    let read = ctx_core::step::Entry::FileRead {
        path: "read.rs".to_owned(),
        content: ctx_core::stored_content::Content::Text("x".to_owned()),
    };
    writer.observe(vec![read], vec![], 31).await.expect("observed");
    writer.seal("done", 32).await.expect("sealed");
    writer.start("another task", 40).await;
    writer.write("c.rs", b"4".to_vec(), 41).await;
    other.start("elsewhere", 1).await;
    other.write("other.rs", b"5".to_vec(), 50).await;
    assert_eq!(files(0, 9).await, ["a.rs", "b.rs", "c.rs"], "each once, and no others");
    assert_eq!(files(20, 9).await, ["b.rs", "c.rs"], "only what was written after that moment");
    assert!(files(41, 9).await.is_empty());
    assert_eq!(files(0, PAGE_MAX).await.len(), 3);
    for limit in [0, 1, 2] {
        assert_eq!(files(0, limit).await.len(), limit);
    }
    let failed = store.files_written(SessionId(Ulid::new()), at(0), 9).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "session", .. })), "{failed:?}");
}

pub(crate) async fn a_page_of_files_is_the_beginning_of_the_list(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    for (ms, path) in [(2, "c.rs"), (3, "b.rs"), (4, "a.rs")] {
        writer.write(path, b"x".to_vec(), ms).await;
    }
    let files = store.files_written(writer.id().await, at(0), 2).await.expect("files");
    assert_eq!(files, ["a.rs", "b.rs"]);
}

pub(crate) async fn search_pages_of_one_hit_repeat_nothing(backend: &impl Backend) {
    let store = backend.open().await;
    // The same turn in two sessions is one hit.
    let (ready, body) = crate::harness::turn("needle", 1);
    for name in ["one", "two"] {
        let (ready, body) = (ready.clone(), body.clone());
        let writer = SessionWriter::create(&store, name, 0).await;
        writer
            .decide(1, vec![body], move |view, _| ctx_core::decide::append_turn(view, None, &ready))
            .await
            .expect("appended");
    }
    store.catch_up().await;
    assert_eq!(store.search("needle", 9).await.expect("searched").len(), 1);
    let (mut hits, mut from) = (Vec::new(), None);
    loop {
        let page = store.search_from("needle", from, 1).await.expect("searched");
        hits.extend(page.hits);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(hits.len(), 1, "{hits:?}");
}

pub(crate) async fn filters_and_pages_combine(backend: &impl Backend) {
    let store = backend.open().await;
    for n in 0..9 {
        let project = if n % 3 == 0 { "wanted" } else { "other" };
        let new = New { project: project.to_owned(), ..new_session(&format!("session {n}"), n) };
        SessionWriter::create_as(&store, new).await;
    }
    for limit in LIMITS {
        let query =
            SessionQuery { project: Some("wanted".to_owned()), ..SessionQuery::newest(limit) };
        let listed = all_sessions(&store, &query).await;
        let labels: Vec<String> = listed.into_iter().map(|session| session.label).collect();
        assert_eq!(labels, ["session 6", "session 3", "session 0"], "pages of {limit}");
    }
}

pub(crate) async fn the_largest_limit_is_no_limit(backend: &impl Backend) {
    const ALL: usize = usize::MAX;
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let id = writer.id().await;
    let task = writer.start("a needle", 1).await;
    writer.write("a.rs", b"x".to_vec(), 2).await;
    writer.note("noted", 3).await;
    writer.seal("done", 4).await.expect("sealed");
    writer.say("one", 5).await;
    let head = writer.say("two", 6).await;
    let always = (at(0), at(1000));
    for indexed in [false, true] {
        if indexed {
            store.catch_up().await;
        }
        assert_eq!(store.resolve(&head.to_string()[..20], ALL).await.expect("found").len(), 1);
        assert_eq!(store.search("needle", ALL).await.expect("hits").len(), 1);
    }
    assert_eq!(store.turns(head, ALL).await.expect("turns").len(), 2);
    assert_eq!(store.turns_from(head, 1, ALL).await.expect("turns").len(), 1);
    assert_eq!(store.tree(id, ALL).await.expect("a tree").len(), 2);
    assert_eq!(store.head_moves(id, None, ALL).await.expect("moves").len(), 2);
    assert_eq!(store.tasks(id, true, None, ALL).await.expect("tasks").len(), 1);
    assert_eq!(store.steps(task, 0, ALL).await.expect("steps"), writer.chain(task).await);
    let few = store.narrative(always.0, always.1, 9).await.expect("notes");
    assert_eq!(store.narrative(always.0, always.1, ALL).await.expect("notes"), few);
    assert_eq!(store.files_written(id, at(0), ALL).await.expect("files").len(), 1);
    let commits = CommitQuery { limit: ALL, ..CommitQuery::default() };
    assert_eq!(store.commits(&commits).await.expect("commits").len(), 1);
    assert_eq!(store.sessions(&SessionQuery::newest(ALL)).await.expect("sessions").len(), 1);
    assert_eq!(store.idle_sessions(at(1000), ALL).await.expect("sessions").len(), 1);
    let own = store.feed(id, 0, ALL).await.expect("a feed");
    assert_eq!(store.feed_of_all(FeedCursor::START, ALL).await.expect("a feed"), own);
}
