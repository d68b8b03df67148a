//! Search: finds the text of turns, steps and commits, newest first.

use ctx_core::decide;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::step::Entry;
use ctx_core::stored_content::Content;
use ctx_core::turn::{About, Ready};
use ctx_store::Hit;
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{SessionWriter, StoreHandle, at, message, note};

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

    let kinds = [
        ("grep_files", "turn"),
        ("needleparam", "turn"),
        ("needleresult", "turn"),
        ("needlecommand", "step"),
        ("needlefile", "step"),
        ("needlenote", "step"),
        ("needleplan", "step"),
        ("needlecommit", "commit"),
    ];
    for (word, kind) in kinds {
        let found = hits(&store, word).await;
        assert_eq!(found.iter().map(|hit| hit.kind).collect::<Vec<_>>(), [kind], "{word}");
        assert!(found[0].snippet.contains(word), "{}", found[0].snippet);
        let object =
            store.object(found[0].id).await.expect("readable").expect("a hit names an object");
        assert_eq!(object.kind.name(), kind);
    }
    let task: Vec<&str> = hits(&store, "needletask").await.iter().map(|hit| hit.kind).collect();
    assert_eq!(task, ["commit", "step"], "the description is in the first step and in the commit");
}

pub(crate) async fn hits_are_newest_first_up_to_the_limit(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    for n in 0..100 {
        match n % 2 {
            0 => drop(writer.say(&format!("word number {n}"), 10 + n).await),
            _ => writer.note(&format!("word number {n}"), 10 + n).await,
        }
    }
    store.catch_up().await;
    for limit in [0, 1, 7, 99, 100, 1000] {
        let found = store.search("word", limit).await.expect("searched");
        let times: Vec<i64> = found.iter().map(|hit| hit.at.0 - at(10).0).collect();
        assert_eq!(times, (0..100).rev().take(limit).collect::<Vec<i64>>());
    }
}

pub(crate) async fn a_rare_word_is_found_among_many_rows(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    let mut writers = JoinSet::new();
    for n in 0..16 {
        let writer = writer.clone();
        writers.spawn(async move {
            let entries = (0..30).flat_map(|m| {
                [
                    note(&format!("rare{} common", n * 30 + m)),
                    Entry::Plan { text: "filler".to_owned() },
                ]
            });
            writer.observe(entries.collect(), vec![], 2 + n).await.expect("observed");
        });
    }
    writers.join_all().await;
    for n in (0..480).step_by(37).chain([479]) {
        assert_eq!(hits(&store, &format!("rare{n}")).await.len(), 1, "rare{n}");
    }
    assert_eq!(hits(&store, "common").await.len(), 480);
    assert_eq!(hits(&store, "rare*").await.len(), 480);
    assert_eq!(hits(&store, "rare480").await, []);
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
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a needle in a task", 1).await;
    for n in 0..5 {
        writer.note(&format!("needle note {n}"), 2 + 2 * n).await;
        writer.say(&format!("needle turn {n}"), 3 + 2 * n).await;
    }
    writer.seal("found the needle", 20).await.expect("sealed");
    store.catch_up().await;
    let whole = store.search_from("needle", None, 100).await.expect("searched");
    assert!(whole.hits.len() >= 12 && whole.next.is_none(), "{whole:?}");
    for size in [1, 3, 5] {
        let (mut hits, mut from) = (Vec::new(), None);
        loop {
            let page = store.search_from("needle", from, size).await.expect("searched");
            assert!(page.hits.len() <= size);
            hits.extend(page.hits);
            // Turns written between two pages are newer than all of them.
            writer.say("one more needle", 30).await;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let older: Vec<_> = hits.into_iter().filter(|hit| hit.at < at(30)).collect();
        assert_eq!(older, whole.hits, "pages of {size}");
    }
}
