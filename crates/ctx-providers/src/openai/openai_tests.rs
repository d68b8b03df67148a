//! The description of a server. Requests and responses are tested in `tests/providers`.

use ctx_engine::provider::ProviderFeatures;

use super::*;
use crate::Timeouts;

fn config() -> ServerConfig {
    ServerConfig {
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
fn description_names_capabilities_and_missing_settings() {
    let about = OpenAi::new(config(), Api::Chat).about();
    assert_eq!((about.kind, about.context_window, about.unavailable), ("openai", 4096, None));
    assert_eq!((about.model.as_deref(), about.models), (Some("m"), vec!["m".to_owned()]));
    assert_eq!(
        about.can,
        ProviderFeatures { tools: true, images: true, ..ProviderFeatures::default() }
    );

    let without_key =
        ServerConfig { key_variable: Some("CTX_TEST_NO_SUCH_KEY".to_owned()), ..config() };
    let about = OpenAi::new(without_key.clone(), Api::Chat).about();
    assert_eq!(about.unavailable.as_deref(), Some("set CTX_TEST_NO_SUCH_KEY"));
    assert_eq!(about.key_variable.as_deref(), Some("CTX_TEST_NO_SUCH_KEY"));
    let with_key = ServerConfig { api_key: Some("sk-12345".to_owned()), ..without_key };
    assert_eq!(OpenAi::new(with_key, Api::Chat).about().unavailable, None);

    let invalid_url = ServerConfig { base_url: "localhost".to_owned(), ..config() };
    assert!(
        OpenAi::new(invalid_url, Api::Chat)
            .about()
            .unavailable
            .is_some_and(|why| why.contains("base_url"))
    );
}

#[test]
fn debug_output_hides_the_key() {
    let debug_output = format!(
        "{:?}",
        OpenAi::new(ServerConfig { api_key: Some("sk-12345".to_owned()), ..config() }, Api::Chat)
    );
    assert!(!debug_output.contains("sk-12345"), "{debug_output}");
}
