//! What is known of a server without asking it. How it answers is tested against a real one, in `tests/wire`.

use ctx_engine::provider::Can;

use super::*;
use crate::Timeouts;

fn config() -> Config {
    Config {
        base_url: "http://127.0.0.1:1/v1".to_owned(),
        api_key: None,
        key_variable: None,
        model: Some("m".to_owned()),
        context_window: 4096,
        images: true,
        timeouts: Timeouts::default(),
    }
}

#[test]
fn it_says_what_it_can_and_what_is_missing() {
    let about = OpenAi::new(config(), Api::Chat).about();
    assert_eq!((about.kind, about.context_window, about.unavailable), ("openai", 4096, None));
    assert_eq!((about.model.as_deref(), about.models), (Some("m"), vec!["m".to_owned()]));
    assert_eq!(about.can, Can { tools: true, images: true, ..Can::default() });

    let unset = Config { key_variable: Some("CTX_TEST_NO_SUCH_KEY".to_owned()), ..config() };
    let about = OpenAi::new(unset.clone(), Api::Chat).about();
    assert_eq!(about.unavailable.as_deref(), Some("set CTX_TEST_NO_SUCH_KEY"));
    assert_eq!(about.key_variable.as_deref(), Some("CTX_TEST_NO_SUCH_KEY"));
    let given = Config { api_key: Some("sk-12345".to_owned()), ..unset };
    assert_eq!(OpenAi::new(given, Api::Chat).about().unavailable, None);

    let nowhere = Config { base_url: "localhost".to_owned(), ..config() };
    assert!(
        OpenAi::new(nowhere, Api::Chat)
            .about()
            .unavailable
            .is_some_and(|why| why.contains("base_url"))
    );
}

#[test]
fn a_key_is_not_shown() {
    let shown = format!(
        "{:?}",
        OpenAi::new(Config { api_key: Some("sk-12345".to_owned()), ..config() }, Api::Chat)
    );
    assert!(!shown.contains("sk-12345"), "{shown}");
}
