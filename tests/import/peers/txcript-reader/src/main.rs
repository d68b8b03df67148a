//! Prints what the crate `txcript` reads of the sessions in HOME: one session per line, in its common
//! model.

fn main() {
    for session in txcript::local::discover() {
        let harness = session.harness.as_str();
        let line = match session.read() {
            Ok(read) => serde_json::json!({
                "harness": harness, "meta": read.meta, "messages": read.body,
            }),
            Err(error) => serde_json::json!({
                "harness": harness, "id": session.meta.id, "error": error.to_string(),
            }),
        };
        println!("{line}");
    }
}
