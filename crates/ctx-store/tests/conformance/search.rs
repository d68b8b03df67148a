//! Search: finds what was said and nothing else, newest first.

use std::sync::Arc;

use ctx_core::content::Content;
use ctx_core::decide;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::step::Entry;
use ctx_core::turn::{About, Ready};
use ctx_store::{Hit, Store};
use tokio::task::JoinSet;

use crate::Place;
use crate::hand::{Hand, at, label, message, note};

async fn hits(store: &Arc<dyn Store>, words: &str) -> Vec<Hit> {
    store.search(words, 1000).await.expect("searched")
}

/// A store in which each of these was said, in a turn of its own.
async fn where_was_said(place: &impl Place, sayings: &[&str]) -> Arc<dyn Store> {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    for (n, saying) in sayings.iter().enumerate() {
        hand.say(saying, 1 + n as i64).await;
    }
    store
}

/// Asserts how many of the sayings each query finds.
async fn finds(place: &impl Place, sayings: &[&str], queries: &[(&str, usize)]) {
    let store = where_was_said(place, sayings).await;
    for (query, expected) in queries {
        let found = hits(&store, query).await;
        assert_eq!(found.len(), *expected, "{query}: {found:?}");
    }
}

pub(crate) async fn all_words_must_be_there_in_any_order(place: &impl Place) {
    let sayings = ["Fix the retry logic", "the logic of the parser", "retry: later"];
    let queries = [
        ("logic", 2),
        ("retry", 2),
        ("retry logic", 1),
        ("LOGIC Retry", 1),
        ("parser retry", 0),
        ("the", 2),
        ("parser nowhere", 0),
    ];
    finds(place, &sayings, &queries).await;
}

pub(crate) async fn a_word_is_a_whole_word_unless_a_star_follows(place: &impl Place) {
    let sayings = ["add retries to fetch_page", "retry-after: 5", "pre-retry"];
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
    finds(place, &sayings, &queries).await;
}

pub(crate) async fn a_query_without_words_finds_nothing(place: &impl Place) {
    finds(
        place,
        &["something * was - said"],
        &[("", 0), ("  ", 0), ("*", 0), ("- ** !", 0), ("\0", 0), ("said", 1)],
    )
    .await;
}

pub(crate) async fn words_of_many_scripts_are_found(place: &impl Place) {
    let sayings = [
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
    finds(place, &sayings, &queries).await;
}

pub(crate) async fn scripts_without_spaces_are_found_by_any_part(place: &impl Place) {
    let sayings = [
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
    finds(place, &sayings, &queries).await;
}

pub(crate) async fn a_word_may_begin_where_one_script_meets_another(place: &impl Place) {
    finds(place, &["请fix这个bug吧"], &[("这个", 1), ("fix", 1), ("这个bug", 1), ("fix这个", 1)])
        .await;
}

pub(crate) async fn capitals_are_found_in_every_alphabet(place: &impl Place) {
    finds(place, &["ΔΙΌΡΘΩΣΕ ΤΟΥΣ ΚΎΚΛΟΥΣ"], &[("διόρθωσε", 1), ("ΚΎΚΛΟΥΣ", 1), ("κύκλους", 1)])
        .await;
}

pub(crate) async fn a_word_finds_itself_even_where_lower_case_is_longer(place: &impl Place) {
    finds(place, &["İstanbul hattı"], &[("hattı", 1), ("İstanbul", 1)]).await;
}

pub(crate) async fn words_with_marks_inside_are_found(place: &impl Place) {
    let sayings = [r"open C:\Users\new\main.rs now", r#"say 6"nails"#];
    finds(
        place,
        &sayings,
        &[("main.rs", 1), (r"C:\Users\new\main.rs", 1), (r"new\main.rs", 1), (r#"6"nails"#, 1)],
    )
    .await;
}

pub(crate) async fn what_was_never_said_is_not_found(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "hiddenlabel", 0).await;
    hand.say("hello", 1).await;
    hand.start("a task", 2).await;
    hand.note("noted", 3).await;
    hand.seal("done", 4).await.expect("sealed");
    // The names that records are built of, and values nobody said.
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

pub(crate) async fn every_kind_of_record_is_searched(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
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
    hand.decide(1, vec![body], move |view, _| decide::append_turn(view, None, &ready))
        .await
        .expect("appended");
    hand.start("needletask description", 2).await;
    let command = Entry::Command {
        argv: vec!["cargo".to_owned(), "needlecommand".to_owned()],
        exit: Some(0),
        output: None,
    };
    let read = Entry::FileRead {
        path: "src/needlefile.rs".to_owned(),
        content: Content::Text(String::new()),
    };
    hand.observe(
        vec![command, read, note("a needlenote"), Entry::Plan { text: "needleplan".to_owned() }],
        vec![],
        3,
    )
    .await
    .expect("observed");
    hand.seal("needlecommit", 4).await.expect("sealed");

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
    assert_eq!(
        task,
        ["commit", "step"],
        "what was to be done is in the first step and in the commit"
    );
}

pub(crate) async fn the_newest_comes_first_and_no_more_than_asked(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a task", 1).await;
    for n in 0..100 {
        match n % 2 {
            0 => drop(hand.say(&format!("word number {n}"), 10 + n).await),
            _ => hand.note(&format!("word number {n}"), 10 + n).await,
        }
    }
    for limit in [0, 1, 7, 99, 100, 1000] {
        let found = store.search("word", limit).await.expect("searched");
        let times: Vec<i64> = found.iter().map(|hit| hit.at.0 - at(10).0).collect();
        assert_eq!(times, (0..100).rev().take(limit).collect::<Vec<i64>>());
    }
}

pub(crate) async fn a_word_in_thousands_of_rows_is_found_wherever_it_stands(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a task", 1).await;
    let mut writers = JoinSet::new();
    for n in 0..16 {
        let hand = hand.clone();
        writers.spawn(async move {
            let entries = (0..30).flat_map(|m| {
                [
                    note(&format!("rare{} common", n * 30 + m)),
                    Entry::Plan { text: "filler".to_owned() },
                ]
            });
            hand.observe(entries.collect(), vec![], 2 + n).await.expect("observed");
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

pub(crate) async fn what_was_said_before_a_restart_is_found_after_it(place: &impl Place) {
    let store = where_was_said(place, &["unsettled words"]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(hits(&store, "unsettled").await.len(), 1);
    let hand = Hand { store: store.clone(), target: label("main") };
    hand.say("settled words", 10).await;
    store.settle().await.expect("settled");
    drop((store, hand));
    let store = place.open().await;
    assert_eq!(hits(&store, "words").await.len(), 2);
}

pub(crate) async fn what_another_process_says_is_found_at_once(place: &impl Place) {
    let (one, two) = (place.open().await, place.open().await);
    let hand = Hand::create(&one, "main", 0).await;
    for n in 1..20_usize {
        let (speaker, searcher) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        hand.through(speaker).say(&format!("word{n} common"), n as i64).await;
        assert_eq!(hits(searcher, &format!("word{n}")).await.len(), 1);
        assert_eq!(hits(searcher, "common").await.len(), n);
    }
}

pub(crate) async fn a_search_goes_on_where_a_page_ended(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a needle in a task", 1).await;
    for n in 0..5 {
        hand.note(&format!("needle note {n}"), 2 + 2 * n).await;
        hand.say(&format!("needle turn {n}"), 3 + 2 * n).await;
    }
    hand.seal("found the needle", 20).await.expect("sealed");
    let whole = store.search_from("needle", None, 100).await.expect("searched");
    assert!(whole.hits.len() >= 12 && whole.next.is_none(), "{whole:?}");
    for size in [1, 3, 5] {
        let (mut hits, mut from) = (Vec::new(), None);
        loop {
            let page = store.search_from("needle", from, size).await.expect("searched");
            assert!(page.hits.len() <= size);
            hits.extend(page.hits);
            // What is said between two pages is newer than all of them.
            hand.say("one more needle", 30).await;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let older: Vec<_> = hits.into_iter().filter(|hit| hit.at < at(30)).collect();
        assert_eq!(older, whole.hits, "nothing twice, nothing left out, in pages of {size}");
    }
}
