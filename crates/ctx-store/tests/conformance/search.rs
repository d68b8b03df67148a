//! Search: finds the text of turns and of the records of tasks, best first.

use ctx_core::decide;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::refusal::Refusal;
use ctx_core::search::{Hit, HitKind};
use ctx_core::session::New;
use ctx_core::step::Entry;
use ctx_core::stored_content::Content;
use ctx_core::turn::{About, Ready};
use ctx_store::Error;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{
    SessionWriter, StoreHandle, at, fork_at, message, new_session, note, text_of,
};

async fn hits(store: &StoreHandle, words: &str) -> Vec<Hit> {
    store.catch_up().await;
    store.search(words, 1000).await.expect("searched")
}

/// A store with a turn for each of these texts.
async fn store_with_turns(backend: &impl Backend, texts: &[&str]) -> StoreHandle {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    for (n, text) in texts.iter().enumerate() {
        writer.say(text, 1 + n as i64).await;
    }
    store
}

/// Asserts how many of the texts each query finds.
async fn finds(backend: &impl Backend, texts: &[&str], queries: &[(&str, usize)]) {
    let store = store_with_turns(backend, texts).await;
    for (query, expected) in queries {
        let found = hits(&store, query).await;
        assert_eq!(found.len(), *expected, "{query}: {found:?}");
    }
}

pub(crate) async fn every_word_must_occur_in_any_order(backend: &impl Backend) {
    let texts = ["Fix the retry logic", "the logic of the parser", "retry: later"];
    let queries = [
        ("logic", 2),
        ("retry", 2),
        ("retry logic", 1),
        ("LOGIC Retry", 1),
        ("parser retry", 0),
        ("the", 2),
        ("parser nowhere", 0),
    ];
    finds(backend, &texts, &queries).await;
}

pub(crate) async fn a_word_matches_whole_words_unless_a_star_follows(backend: &impl Backend) {
    let texts = ["add retries to fetch_page", "retry-after: 5", "pre-retry"];
    let queries = [
        ("retr", 0),
        ("retr*", 3),
        ("retries*", 1),
        ("etry*", 0),
        ("retry", 2),
        ("RETR*", 3),
        ("retry-after", 1),
        ("add retr*", 1),
        ("fetch_page", 1),
        ("fetch_pa*", 1),
        ("\"retry\"", 2),
        ("retry,", 2),
    ];
    finds(backend, &texts, &queries).await;
}

pub(crate) async fn a_query_without_words_finds_nothing(backend: &impl Backend) {
    finds(
        backend,
        &["something * was - said"],
        &[("", 0), ("  ", 0), ("*", 0), ("- ** !", 0), ("\0", 0), ("said", 1)],
    )
    .await;
}

pub(crate) async fn words_of_many_scripts_are_found(backend: &impl Backend) {
    let texts = [
        "Überprüfe die Größe",
        "исправь Ошибку в коде",
        "naïve café",
        "버그 수정",
        "διόρθωσε το σφάλμα",
    ];
    let queries = [
        ("überprüfe", 1),
        ("ÜBERPRÜFE", 1),
        ("GRÖSSE", 0),
        ("größe", 1),
        ("ошибку", 1),
        ("ОШИБКУ", 1),
        ("ошиб*", 1),
        ("naïve", 1),
        ("caf*", 1),
        ("caf", 0),
        ("버그", 1),
        ("수정", 1),
        ("ΔΙΌΡΘΩΣΕ", 1),
        ("prüfe", 0),
    ];
    finds(backend, &texts, &queries).await;
}

pub(crate) async fn scripts_without_spaces_match_any_part(backend: &impl Backend) {
    let texts = [
        "修复登录页面的错误",
        "サーバーのログを追加",
        "请fix这个bug吧",
        "แก้ไขข้อผิดพลาด",
        "時々失敗する",
    ];
    let queries = [
        ("登录", 1),
        ("登录页面", 1),
        ("修复 错误", 1),
        ("错", 1),
        ("页登", 0),
        ("ログ", 1),
        ("サーバー", 1),
        ("bug", 1),
        ("bug吧", 1),
        ("ข้อผิด", 1),
        ("時々", 1),
        ("退出", 0),
    ];
    finds(backend, &texts, &queries).await;
}

pub(crate) async fn a_word_may_begin_where_the_script_changes(backend: &impl Backend) {
    finds(backend, &["请fix这个bug吧"], &[("这个", 1), ("fix", 1), ("这个bug", 1), ("fix这个", 1)])
        .await;
}

pub(crate) async fn search_ignores_case_in_every_alphabet(backend: &impl Backend) {
    finds(backend, &["ΔΙΌΡΘΩΣΕ ΤΟΥΣ ΚΎΚΛΟΥΣ"], &[("διόρθωσε", 1), ("ΚΎΚΛΟΥΣ", 1), ("κύκλους", 1)])
        .await;
}

pub(crate) async fn a_word_whose_lower_case_is_longer_is_found(backend: &impl Backend) {
    finds(backend, &["İstanbul hattı"], &[("hattı", 1), ("İstanbul", 1)]).await;
}

pub(crate) async fn words_with_punctuation_inside_are_found(backend: &impl Backend) {
    let texts = [r"open C:\Users\new\main.rs now", r#"say 6"nails"#];
    finds(
        backend,
        &texts,
        &[("main.rs", 1), (r"C:\Users\new\main.rs", 1), (r"new\main.rs", 1), (r#"6"nails"#, 1)],
    )
    .await;
}

pub(crate) async fn field_names_and_labels_are_not_searched(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "hiddenlabel", 0).await;
    writer.say("hello", 1).await;
    writer.start("a task", 2).await;
    writer.note("noted", 3).await;
    writer.seal("done", 4).await.expect("sealed");
    // Names of fields and values that are not text of a message.
    for never in [
        "payload",
        "timestamp",
        "session_start",
        "messages",
        "content",
        "human",
        "hiddenlabel",
        "commit_type",
        "null",
        "goodbye",
    ] {
        assert_eq!(hits(&store, never).await, [], "{never}");
    }
}

pub(crate) async fn every_kind_of_record_is_searched(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let call = Part::ToolCall {
        id: "c1".to_owned(),
        name: "grep_files".to_owned(),
        params: serde_json::json!({"pattern": "needleparam"}),
        status: ToolStatus::Completed,
    };
    let result = Part::ToolResult {
        tool_call_id: "c1".to_owned(),
        content: Content::Text("needleresult".to_owned()),
        is_error: false,
    };
    let said = |role, part| Message { role, content: vec![part], ..message("", 1) };
    let (ready, body) =
        Ready::new(About::at(at(1)), vec![said(Role::Assistant, call), said(Role::Tool, result)]);
    writer
        .decide(1, vec![body], move |view, _| decide::append_turn(view, None, &ready))
        .await
        .expect("appended");
    writer.start("needletask description", 2).await;
    let command = Entry::Command {
        argv: vec!["cargo".to_owned(), "needlecommand".to_owned()],
        exit: Some(0),
        output: None,
    };
    let read = Entry::FileRead {
        path: "src/needlefile.rs".to_owned(),
        content: Content::Text(String::new()),
    };
    writer
        .observe(
            vec![
                command,
                read,
                note("a needlenote"),
                Entry::Plan { text: "needleplan".to_owned() },
            ],
            vec![],
            3,
        )
        .await
        .expect("observed");
    writer.seal("needlecommit", 4).await.expect("sealed");

    let words = [
        "grep_files",
        "needleparam",
        "needleresult",
        "needletask",
        "needlecommand",
        "needlefile",
        "needlenote",
        "needleplan",
        "needlecommit",
    ];
    for word in words {
        let found = hits(&store, word).await;
        assert_eq!(found.len(), 1, "{word}: {found:?}");
        assert!(found[0].text().contains(word), "{}", found[0].text());
    }
}

pub(crate) async fn equal_hits_are_newest_first_up_to_the_limit(backend: &impl Backend) {
    let store = backend.open().await;
    for name in ["one", "two"] {
        SessionWriter::create(&store, name, 0).await;
    }
    for n in 0..60 {
        let writer = SessionWriter::of(&store, if n % 2 == 0 { "one" } else { "two" });
        writer.say(&format!("word number {n}"), 10 + n).await;
    }
    store.catch_up().await;
    for limit in [0, 1, 7, 59, 60, 1000] {
        let found = store.search("word", limit).await.expect("searched");
        let times: Vec<i64> = found.iter().map(|hit| hit.at.0 - at(10).0).collect();
        assert_eq!(times, (0..60).rev().take(limit).collect::<Vec<i64>>());
    }
}

pub(crate) async fn a_rare_word_is_found_among_many_rows(backend: &impl Backend) {
    let store = backend.open().await;
    let mut writers = JoinSet::new();
    for n in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            let writer = SessionWriter::create(&store, &format!("session {n}"), 0).await;
            for m in 0..10 {
                writer.say(&format!("rare{} common", n * 10 + m), 1 + m).await;
            }
        });
    }
    writers.join_all().await;
    for n in (0..160).step_by(37).chain([159]) {
        assert_eq!(hits(&store, &format!("rare{n}")).await.len(), 1, "rare{n}");
    }
    assert_eq!(hits(&store, "common").await.len(), 160);
    assert_eq!(hits(&store, "rare*").await.len(), 160);
    assert_eq!(hits(&store, "rare160").await, []);
}

pub(crate) async fn words_are_found_after_reopening(backend: &impl Backend) {
    let store = store_with_turns(backend, &["unsettled words"]).await;
    drop(store);
    let store = backend.open().await;
    assert_eq!(hits(&store, "unsettled").await.len(), 1);
    let writer = SessionWriter::of(&store, "main");
    writer.say("settled words", 10).await;
    store.catch_up().await;
    drop((store, writer));
    let store = backend.open().await;
    assert_eq!(hits(&store, "words").await.len(), 2);
}

pub(crate) async fn words_of_another_handle_are_found(backend: &impl Backend) {
    let (one, two) = (backend.open().await, backend.open().await);
    let writer = SessionWriter::create(&one, "main", 0).await;
    for n in 1..20_usize {
        let (speaker, searcher) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        writer.through(speaker).say(&format!("word{n} common"), n as i64).await;
        assert_eq!(hits(searcher, &format!("word{n}")).await.len(), 1);
        assert_eq!(hits(searcher, "common").await.len(), n);
    }
}

pub(crate) async fn search_pages_neither_repeat_nor_omit_hits(backend: &impl Backend) {
    let store = backend.open().await;
    let other = SessionWriter::create(&store, "other", 0).await;
    other.start("a needle in a task", 1).await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    for n in 0..8 {
        writer.say(&format!("needle {}", "needle ".repeat(n as usize % 3)), 3 + 2 * n).await;
    }
    store.catch_up().await;
    let whole = store.search_from("needle", None, 100).await.expect("searched");
    assert!(whole.hits.len() == 9 && whole.next.is_none(), "{whole:?}");
    for size in [1, 3, 5] {
        let (mut hits, mut from) = (Vec::new(), None);
        loop {
            let page = store.search_from("needle", from, size).await.expect("searched");
            assert!(page.hits.len() <= size);
            hits.extend(page.hits);
            // Turns written between two pages are newer than the first one.
            writer.say("one more needle", 30).await;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let older: Vec<_> = hits.into_iter().filter(|hit| hit.at < at(30)).collect();
        assert_eq!(older, whole.hits, "pages of {size}");
    }
    let page = store.search_from("needle", None, 1).await.expect("searched");
    let foreign = store.search_from("another", page.next, 1).await;
    assert!(matches!(foreign, Err(Error::Refused(Refusal::BadCursor))), "{foreign:?}");
}

/// Kind, outcome and text of the only hit.
async fn only(store: &StoreHandle, query: &str) -> (HitKind, Option<&'static str>, String) {
    let found = hits(store, query).await;
    assert_eq!(found.len(), 1, "{query}: {found:?}");
    (found[0].kind, found[0].outcome, found[0].text())
}

pub(crate) async fn a_turn_is_one_hit_with_its_task(backend: &impl Backend) {
    // R10, R113
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let before = writer.say("the walrus before", 1).await;
    let task = writer.start("feed the walrus", 2).await;
    let turn = writer.say("the walrus eats", 3).await;
    writer.note("walrus fed", 4).await;
    let found = hits(&store, "walrus").await;
    let turns: Vec<_> = found.iter().map(|hit| (hit.turn, hit.task, hit.outcome)).collect();
    assert_eq!(
        turns,
        [(Some(turn), Some(task), Some("open")), (Some(before), None, None)],
        "the steps are part of the turn"
    );
    assert_eq!(only(&store, "outcome:open walrus").await.1, Some("open"));
    let commit = writer.seal("the otter sleeps", 5).await.expect("sealed").reply.id;
    let found = hits(&store, "otter").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let hit = &found[0];
    assert_eq!((hit.kind, hit.turn, hit.commit), (HitKind::Turn, Some(turn), Some(commit)));
    assert_eq!((hit.outcome, hit.session_label.as_deref()), (Some("normal"), Some("main")));
    assert_eq!(hits(&store, "outcome:open walrus").await, []);
    assert_eq!(hits(&store, "outcome:normal walrus").await.len(), 1);
    assert_eq!(hits(&store, "-outcome:normal walrus").await.len(), 1);
}

pub(crate) async fn a_task_without_turns_is_a_hit_of_its_own_kind(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.say("unrelated", 1).await;
    for (n, name) in ["normal", "abandoned"].into_iter().enumerate() {
        let ms = 10 * (1 + n as i64);
        let task = writer.start(&format!("walrus {name}"), ms).await;
        writer.note("walrus noted", ms + 1).await;
        writer.note("walrus noted again", ms + 2).await;
        let (kind, outcome, _) = only(&store, &format!("walrus {name}")).await;
        assert_eq!((kind, outcome), (HitKind::Task, Some("open")));
        assert_eq!(hits(&store, "noted outcome:open").await.len(), 1, "one hit for a task");
        match name {
            "normal" => drop(writer.seal("done", ms + 3).await.expect("sealed")),
            _ => writer
                .decide(ms + 3, vec![], |view, invocation| decide::abort(view, None, invocation))
                .await
                .map(drop)
                .expect("given up"),
        }
        let found = hits(&store, &format!("walrus outcome:{name}")).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].task, found[0].outcome), (Some(task), Some(name)));
        assert!(found[0].commit.is_some() && found[0].turn.is_none());
    }
    assert_eq!(hits(&store, "kind:task walrus").await.len(), 2);
    assert_eq!(hits(&store, "kind:turn walrus").await, []);
}

/// Appends a turn of a tool call and its result.
async fn call_tool(writer: &SessionWriter, name: &str, params: Value, output: Vec<u8>, ms: i64) {
    let (content, blob) = Content::split(output);
    let call = Part::ToolCall {
        id: "c1".to_owned(),
        name: name.to_owned(),
        params,
        status: ToolStatus::Completed,
    };
    let result = Part::ToolResult { tool_call_id: "c1".to_owned(), content, is_error: false };
    let said = |role, part| Message { role, content: vec![part], ..message("", ms) };
    let messages =
        vec![message("please look", ms), said(Role::Assistant, call), said(Role::Tool, result)];
    let (ready, body) = Ready::new(About::at(at(ms)), messages);
    let objects = std::iter::once(body).chain(blob).collect();
    writer
        .decide(ms, objects, move |view, _| decide::append_turn(view, view.session.head, &ready))
        .await
        .expect("appended");
}

pub(crate) async fn outputs_of_any_size_are_searched_up_to_a_bound(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    for (n, size) in [100, 5000, 100_000, 2_000_000].into_iter().enumerate() {
        let filler = String::from_utf8(text_of(n as u64, size)).expect("text");
        let output = format!("begin{size} {filler} end{size}").into_bytes();
        call_tool(&writer, "bash", json!({"command": "make"}), output, 1 + n as i64).await;
    }
    call_tool(&writer, "bash", json!({}), vec![0, 159, 146, 150], 9).await;
    for size in [100, 5000, 100_000, 2_000_000] {
        for word in [format!("begin{size}"), format!("end{size}")] {
            let (kind, _, text) = only(&store, &word).await;
            assert!(kind == HitKind::Turn && text.contains(&word), "{word}: {text}");
        }
    }
    assert_eq!(hits(&store, "tool:bash").await.len(), 5);
}

pub(crate) async fn filters_limit_a_search(backend: &impl Backend) {
    let store = backend.open().await;
    let project =
        |label: &str, name: &str| New { project: name.to_owned(), ..new_session(label, 0) };
    let one = SessionWriter::create_as(&store, project("one", "Alpha")).await;
    let two = SessionWriter::create_as(&store, project("two", "beta project")).await;
    one.exchange("the walrus asks", "the otter answers", 1).await;
    call_tool(&one, "read_file", json!({"path": "src/main.rs"}), b"walrus code".to_vec(), 5).await;
    two.say("walrus elsewhere", 9).await;
    two.start("walrus files", 10).await;
    two.write("docs/Guide.md", b"x".to_vec(), 11).await;
    two.seal("done", 12).await.expect("sealed");
    let id = one.id().await.to_string();
    let table = [
        ("walrus", 4),
        ("walrus role:user", 2),
        ("walrus role:tool", 1),
        ("otter role:assistant", 1),
        ("otter role:user", 0),
        ("walrus -role:tool role:user", 2),
        ("walrus tool:read_file", 1),
        ("walrus tool:READ_file", 1),
        ("walrus tool:read", 1),
        ("walrus tool:grep", 0),
        ("walrus -tool:read_file", 3),
        ("walrus file:main.rs", 1),
        ("walrus file:src/main.rs", 1),
        ("file:guide.md", 1),
        ("walrus file:docs", 1),
        ("walrus file:other.rs", 0),
        ("walrus project:alpha", 2),
        ("walrus project:\"beta project\"", 2),
        ("walrus -project:alpha", 2),
        ("walrus project:gamma", 0),
        ("walrus session:one", 2),
        ("walrus session:two", 2),
        ("walrus session:one session:two", 4),
        ("walrus -session:one", 2),
        ("walrus session:three", 0),
        ("walrus session:one tool:read_file role:tool", 1),
        ("walrus kind:task", 1),
    ];
    for (query, expected) in table {
        let found = hits(&store, query).await;
        assert_eq!(found.len(), expected, "{query}: {found:?}");
    }
    for (query, expected) in [
        (format!("walrus session:{id}"), 2),
        (format!("walrus session:{}", &id[10..18]), 2),
        (format!("walrus since:{}", at(9)), 2),
        (format!("walrus before:{}", at(9)), 2),
        (format!("walrus after:{} before:{}", at(5), at(10)), 2),
    ] {
        assert_eq!(hits(&store, &query).await.len(), expected, "{query}");
    }
    let wrong = store.search("walrus outcome:strange", 9).await;
    assert!(matches!(&wrong, Err(Error::Refused(refusal)) if refusal.code() == "invalid_filter"));
    let wrong = store.search("/a(/", 9).await;
    assert!(matches!(&wrong, Err(Error::Refused(refusal)) if refusal.code() == "invalid_regex"));
}

pub(crate) async fn identifiers_phrases_and_expressions_match(backend: &impl Backend) {
    let texts = [
        "call fetchPageNow(url) again",
        "call fetch_page_now(url)",
        "fetch the page now",
        "set RETRY_MAX = 17",
        "no retry at all",
    ];
    let queries = [
        ("fetch", 3),
        ("page now", 3),
        ("fetchPageNow", 2),
        ("fetch_page_now", 2),
        ("fetchpagenow", 2),
        ("\"fetch page\"", 2),
        ("\"page now\"", 3),
        ("\"now page\"", 0),
        ("retry", 2),
        ("retry -max", 1),
        ("retry -\"at all\"", 1),
        ("/MAX = [0-9]+/", 1),
        ("retry /[0-9]{2}/", 1),
        ("retry /[0-9]{3}/", 0),
        ("/max/", 0),
        ("/max/i", 1),
        ("-fetch -retry", 0),
        ("-fetch", 2),
    ];
    finds(backend, &texts, &queries).await;
}

pub(crate) async fn a_misspelt_word_is_corrected_if_nothing_is_found(backend: &impl Backend) {
    let store = store_with_turns(backend, &["retry the configuration", "a wallrus"]).await;
    store.catch_up().await;
    for (query, expected) in [
        ("retyr", "retry"),
        ("confguration", "configuration"),
        ("cnofiguration", "configuration"),
        ("session:main retrry", "session:main retry"),
        ("retyr confguration", "retry configuration"),
        ("wallrsu", "wallrus"),
    ] {
        let page = store.search_from(query, None, 9).await.expect("searched");
        assert_eq!(page.hits, [], "{query}");
        assert!(page.suggestions.contains(&expected.to_owned()), "{query}: {:?}", page.suggestions);
    }
    for query in ["retry", "zeppelin", "retry zeppelin", "xx"] {
        let page = store.search_from(query, None, 9).await.expect("searched");
        assert_eq!(page.suggestions, [] as [String; 0], "{query}");
    }
}

pub(crate) async fn relevance_and_recency_rank_the_hits(backend: &impl Backend) {
    let store = store_with_turns(
        backend,
        &[
            "retry logic of the client",
            &format!("logic here {} and a retry there", "filler ".repeat(300)),
            "nothing",
        ],
    )
    .await;
    let found = hits(&store, "retry logic").await;
    let scores: Vec<f64> = found.iter().map(|hit| hit.score).collect();
    assert!(found.len() == 2 && scores[0] > scores[1], "{scores:?}");
    assert!(found[0].text().contains("client"), "the older one is more relevant");
    let marked: Vec<&str> = found[0]
        .snippet
        .iter()
        .filter(|segment| segment.is_match)
        .map(|segment| segment.text.as_str())
        .collect();
    assert_eq!(marked, ["retry", "logic"]);
}

pub(crate) async fn a_session_is_searched_with_what_it_inherited(backend: &impl Backend) {
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let mut turns = Vec::new();
    for n in 0..4 {
        turns.push(main.say(&format!("needle {n}"), 1 + n).await);
    }
    let fork = SessionWriter::create_as(&store, fork_at(turns[1], 2, "fork", 10)).await;
    let own = fork.say("needle of the fork", 11).await;
    let found = async |query: &str| -> Vec<_> {
        let mut found: Vec<_> =
            hits(&store, query).await.iter().filter_map(|hit| hit.turn).collect();
        found.sort_unstable();
        found
    };
    let sorted = |mut turns: Vec<ctx_core::id::TurnId>| {
        turns.sort_unstable();
        turns
    };
    assert_eq!(found("needle").await.len(), 5, "a shared turn is one hit");
    assert_eq!(found("needle session:fork").await, sorted(vec![turns[0], turns[1], own]));
    assert_eq!(found("needle session:main").await, sorted(turns.clone()));
    main.delete(12).await.expect("deleted");
    assert_eq!(found("needle").await, sorted(vec![turns[0], turns[1], own]));
    let shared = hits(&store, "needle").await;
    assert!(shared.iter().all(|hit| hit.session_label.as_deref() == Some("fork")), "{shared:?}");
}

pub(crate) async fn new_steps_of_a_task_are_found_with_the_old_ones(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a long task", 1).await;
    for n in 0..10 {
        let entry = |m: i64| match m % 2 {
            0 => note(&format!("walrus step{}", 30 * n + m)),
            _ => Entry::Plan { text: "filler".to_owned() },
        };
        writer.observe((0..30).map(entry).collect(), vec![], 2 + n).await.expect("observed");
        for step in [0, 14, 30 * n, 30 * n + 28] {
            assert_eq!(hits(&store, &format!("step{step}")).await.len(), 1, "step{step}");
        }
        assert_eq!(hits(&store, "walrus").await.len(), 1, "one task");
    }
}
