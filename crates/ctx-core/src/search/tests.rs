//! Tables of queries: what they are read as, and what they match.

use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::*;

const NOW: Timestamp = Timestamp(1_767_225_600_000 + 3_600_000); // 2026-01-01T01:00:00Z

fn parsed(text: &str) -> Query {
    Query::parse(text, NOW).expect("a query")
}

fn passage(text: &str, role: crate::message::Role) -> Passage {
    let (weight, role) = (Weight::Text, Some(role));
    Passage { text: text.to_owned(), weight, role, message: None, at: NOW }
}

fn document(texts: &[&str]) -> Document {
    let passages = texts.iter().map(|text| passage(text, crate::message::Role::User)).collect();
    Document { passages, ..Document::default() }
}

fn matches(query: &str, texts: &[&str]) -> bool {
    let (query, document) = (parsed(query), document(texts));
    let found = match_document(&query, &document).is_some();
    if found {
        assert!(selects(&query, &document), "the index misses what matches");
    }
    found
}

/// Whether an index with the words of a document selects it.
fn selects(query: &Query, document: &Document) -> bool {
    let words = document.index_words(&[]);
    let has = |term: &IndexTerm| {
        words.split(' ').any(|word| match term.prefix {
            true => word.starts_with(&term.text),
            false => word == term.text,
        })
    };
    let index = IndexQuery::new(query, None);
    index.all.iter().all(|terms| terms.iter().any(has)) && !index.none.iter().any(has)
}

#[test]
fn words_phrases_prefixes_and_exclusions_match() {
    let table = [
        ("retry LOGIC", "add Retry-logic", true),
        ("retr", "add retry", false),
        ("retr*", "add retry", true),
        ("etry*", "add retry", false),
        ("\"retry logic\"", "the retry logic", true),
        ("\"retry logic\"", "logic of the retry", false),
        ("\"retry logic\"", "retry the logic", false),
        ("\"retry logic", "the retry logic", true),
        ("retry-after", "retry-after: 5", true),
        ("retry-after", "after a retry", false),
        ("retry -after", "a retry", true),
        ("retry -after", "retry-after", false),
        ("retry -\"after that\"", "after the retry", true),
        ("retry -\"after that\"", "retry after that", false),
        ("-retry", "something", true),
        ("-retry", "a retry", false),
        ("main.rs", "src/main.rs:3", true),
        ("C:\\Users\\new\\main.rs", "open C:\\Users\\new\\main.rs now", true),
        ("6\"nails", "say 6\"nails", true),
        ("a AND b", "b a", true),
        ("https://example.com/x", "see https://example.com/x.", true),
        ("localhost:8080", "at localhost:8080", true),
        ("std::vec", "use std::vec;", true),
        ("é", "e", false),
    ];
    for (query, text, expected) in table {
        assert_eq!(matches(query, &[text]), expected, "{query} in {text}");
    }
}

#[test]
fn identifiers_match_by_parts_and_as_a_whole() {
    for text in ["call fetch_page(url)", "call fetchPage(url)", "FETCH_PAGE", "FetchPage"] {
        for query in ["fetch", "page", "fetch_page", "fetchPage", "fetchpage", "fetch_pa*", "pag*"]
        {
            assert!(matches(query, &[text]), "{query} in {text}");
        }
        assert!(!matches("fetchpages", &[text]) && !matches("etch", &[text]), "{text}");
    }
    assert!(matches("\"call fetch page\"", &["call fetchPage(url)"]));
    assert!(matches("\"page url\"", &["call fetchPage(url)"]));
    assert!(!matches("fetch_page", &["fetch the page"]));
    assert!(matches("f*", &["fetchFoo"]));
}

#[test]
fn scripts_without_spaces_match_any_part() {
    let text = "修复登录页面的错误";
    for query in ["登录", "登录页面", "修复 错误", "错", "误", "\"登录页\""] {
        assert!(matches(query, &[text]), "{query}");
    }
    for query in ["页登", "退出", "录登录"] {
        assert!(!matches(query, &[text]), "{query}");
    }
    for query in ["这个", "fix", "这个bug", "fix这个", "bug吧"] {
        assert!(matches(query, &["请fix这个bug吧"]), "{query}");
    }
    assert!(!matches("这bug", &["请fix这个bug吧"]));
    assert!(matches("ข้อผิด", &["แก้ไขข้อผิดพลาด"]));
}

#[test]
fn words_may_be_in_different_passages_but_not_phrases() {
    let texts = ["the retry", "logic of it"];
    assert!(matches("retry logic", &texts));
    assert!(!matches("\"retry logic\"", &texts));
}

#[test]
fn regular_expressions_match_the_text_as_it_is() {
    for (query, text, expected) in [
        ("/ret(ry|ries)/", "three retries", true),
        ("/Retries/", "three retries", false),
        ("/Retries/i", "three retries", true),
        ("/^b.d$/", "a\nbad\nc", true),
        ("/a b/", "a b", true),
        ("/usr\\/lib/", "in usr/lib now", true),
        ("/usr/lib", "in /usr/lib now", true),
        ("retries /e{2}/", "three retries", true),
        ("-/e{2}/ retries", "three retries", false),
    ] {
        assert_eq!(matches(query, &[text]), expected, "{query} in {text}");
    }
}

#[test]
fn malformed_queries_are_refused_with_a_code() {
    for (query, expected) in [
        ("/a(/", "invalid_regex"),
        ("/(x{1000}){1000}/", "invalid_regex"),
        ("sesion:main", "unknown_filter"),
        ("outcome:done", "invalid_filter"),
        ("role:robot", "invalid_filter"),
        ("since:soon", "invalid_filter"),
        ("kind:step", "invalid_filter"),
    ] {
        let refusal = Query::parse(query, NOW).expect_err(query);
        assert_eq!(refusal.code(), expected, "{query}");
        assert!(matches!(refusal, Refusal::BadQuery { .. }));
    }
    let long = "x".repeat(5000);
    assert_eq!(Query::parse(&long, NOW).expect_err("too long").code(), "query_too_long");
}

#[test]
fn filters_are_read_with_their_values() {
    let query =
        parsed("role:user,tool project:\"my project\" -tool:grep since:2d words before:2026-01-01");
    assert_eq!(query.clauses.len(), 1);
    assert_eq!(query.values(FilterKey::Role), Some(&["user".to_owned(), "tool".to_owned()][..]));
    assert_eq!(query.values(FilterKey::Project), Some(&["my project".to_owned()][..]));
    assert_eq!(query.values(FilterKey::Tool), None, "negated");
    let times: Vec<i64> =
        query.filters.iter().filter_map(|filter| filter.time).map(|at| at.0).collect();
    assert_eq!(times, [NOW.0 - 2 * 86_400_000, NOW.0 - 3_600_000]);
    assert!(parsed("* -- ! -").is_empty());
    assert!(parsed("").is_empty());
    for text in ["http://x.y", "x:", "std::env", "line:12", "Session:main", "\"role:user\""] {
        assert!(parsed(text).filters.is_empty(), "{text}");
    }
}

#[test]
fn a_role_limits_the_passages_that_match() {
    use crate::message::Role;
    let document = Document {
        passages: vec![passage("ask walrus", Role::User), passage("the otter", Role::Assistant)],
        ..Document::default()
    };
    let found = |query: &str| match_document(&parsed(query), &document).is_some();
    assert!(found("role:user walrus") && found("role:assistant otter"));
    assert!(!found("role:user otter") && !found("role:assistant walrus"));
    assert!(!found("role:user walrus otter") && found("role:user,assistant walrus otter"));
    assert!(!found("role:tool walrus") && found("-role:tool walrus"));
    assert!(found("role:user -otter"), "the exclusion is of the same role");
}

#[test]
fn adjacent_words_and_newer_documents_rank_higher() {
    let relevance = |text: &str| {
        match_document(&parsed("retry logic"), &document(&[text])).expect("a match").relevance
    };
    assert!(relevance("the retry logic here") > relevance("logic and then some other retry"));
    assert!(relevance("retry retry logic") > relevance("retry x logic"));
    let old = Timestamp(NOW.0 - 400 * 86_400_000);
    assert!(score(2.0, NOW, NOW) > score(2.0, old, NOW));
    assert!(score(4.5, old, NOW) > score(2.0, NOW, NOW), "relevance outweighs age");
}

#[test]
fn a_snippet_marks_the_matches_on_one_line() {
    let text = format!("{} the Retry\n\n  logic of {}", "é ".repeat(100), "ü ".repeat(200));
    let document = document(&["unrelated", &text]);
    let query = parsed("retry logic");
    let found = match_document(&query, &document).expect("a match");
    let segments = snippet(&document, &found);
    let marked: Vec<&str> = segments
        .iter()
        .filter(|segment| segment.is_match)
        .map(|segment| segment.text.as_str())
        .collect();
    assert_eq!(marked, ["Retry", "logic"]);
    let shown: String = segments.iter().map(|segment| segment.text.as_str()).collect();
    assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("the Retry logic of"));
    let short = document_snippet("apple three", "apple");
    assert_eq!(short, "[apple] three");
    assert_eq!(document_snippet("an apple", "apple"), "an [apple]");
    assert_eq!(document_snippet("an apple pie", "\"apple pie\""), "an [apple pie]");
}

fn document_snippet(text: &str, query: &str) -> String {
    let document = document(&[text]);
    let found = match_document(&parsed(query), &document).expect("a match");
    let shown = |segment: Segment| match segment.is_match {
        true => format!("[{}]", segment.text),
        false => segment.text,
    };
    snippet(&document, &found).into_iter().map(shown).collect()
}
