//! Prints what the crate `cross_agent_session_resumer` reads of the sessions in HOME: one session per
//! line, in its own model. The arguments are ids of sessions.

use casr::discovery::ProviderRegistry;

fn main() {
    let registry = ProviderRegistry::default_registry();
    for id in std::env::args().skip(1) {
        for provider in registry.all_providers() {
            let Some(path) = provider.owns_session(&id) else { continue };
            let line = match provider.read_session(&path) {
                Ok(session) => serde_json::json!({"tool": provider.slug(), "session": session}),
                Err(error) => serde_json::json!({
                    "tool": provider.slug(), "id": id, "error": error.to_string(),
                }),
            };
            println!("{line}");
        }
    }
}
