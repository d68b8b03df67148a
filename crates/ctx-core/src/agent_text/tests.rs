use super::*;

#[test]
fn questions_and_offers_wait_for_the_user() {
    for text in [
        "I looked.\n\nShall I go on?",
        "I can do that in two ways. Say the word and I will go ahead.",
        "The plan is ready.\n\nIf you like, I can start with the parser.",
        "I would delete the old files. Let me know if you want that.",
        "**Really?**",
        "Which one do you prefer?\n\n1. tabs\n2. spaces",
        "Shall I use A or B?\n\n- A is fast\n- B is small",
        "Should I apply this?\n\n```diff\n- a\n+ b\n```",
        "Shall I continue? I can also stop here.",
        "The fix is in place. Do you want me to add a test?",
        "続けますか？",
        "削除してもよろしいでしょうか。",
        "Soll ich weitermachen",
        "Sag Bescheid, dann lege ich los.",
        "Dites-moi quelle option vous préférez.",
        "Dime si empiezo.",
        "Дайте знать, и я начну.",
        "请告诉我用哪个。",
    ] {
        assert!(matches!(conclusion(text), Conclusion::Asks(_)), "{text}");
    }
    let text = "I looked at it.\n\nWhich one?\n\n- a\n- b";
    assert_eq!(conclusion(text), Conclusion::Asks("Which one?\n\n- a\n- b"));
}

#[test]
fn only_a_clear_statement_is_a_completion() {
    for text in [
        "Done.",
        "Done: the uploader tries three times.",
        "I've added retry logic to the uploader. All tests pass.",
        "I have added the retry logic.",
        "The retry logic is in place and the tests pass.",
        "The function has been renamed.",
        "Which one was it? I took the first.\n\nDone.",
        "Done. Let me know if you need anything else!",
        "All tests pass.\n\nIs there anything else I can help with?",
        "I fixed the bug.\n\n```rust\nlet x = y?;\n```",
        "Fertig. Die Tests laufen durch.",
        "C'est fait.",
        "Listo, ya está.",
        "Готово.",
        "已完成。",
        "実装しました。",
    ] {
        assert_eq!(conclusion(text), Conclusion::Completed, "{text}");
    }
}

#[test]
fn anything_else_leaves_the_task_running() {
    for text in [
        "",
        "```\ncode\n```",
        "I am looking at the code.",
        "The uploader has three retries.",
        "A mutex protects the counter, because two threads write to it.",
        "I've added the first part. Next, I will write the tests.",
        "I added the function, but the tests still fail.",
        "The parser is not done yet.",
        "Here is what I found:\n\n- one\n- two",
        "let x = 1;",
        "You are welcome.",
        "Fixed or exponential?\n\nI took the first.",
        "Noch nicht fertig.",
        "まだ完了していません。",
    ] {
        assert_eq!(conclusion(text), Conclusion::Open, "{text}");
    }
}

#[test]
fn only_the_end_of_a_long_text_is_read() {
    let long = format!("{}\n\nDone.", "Is it so? ".repeat(100_000));
    assert_eq!(conclusion(&long), Conclusion::Completed);
    let one_paragraph = "word ".repeat(200_000);
    assert_eq!(conclusion(&one_paragraph), Conclusion::Open);
}
