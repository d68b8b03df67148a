//! Create an idle session under a label of its own. A fork is a new session with a head.

use crate::id::SessionId;
use crate::refusal::Refusal;
use crate::session::{self, Origin, is_session_id, is_valid_label};
use crate::text_limits::check;

use super::update_session::field;
use super::{Change, Decided, Decision, Event, SessionView};

/// Longest working directory in bytes: the longest path that Linux accepts.
const WORKING_DIR_MAX_BYTES: usize = 4096;

/// The label of a session that was created without one.
pub fn default_label(origin: Origin, id: SessionId) -> String {
    match origin {
        Origin::Fork => format!("fork-{id}"),
        Origin::Subagent => format!("worker:{id}"),
        _ => format!("session-{id}"),
    }
}

/// Creates the session, if its label is free.
///
/// Fails if the label is in use or invalid, or another text is too long.
pub fn create_session(found: Option<&SessionView>, wanted: &session::New) -> Decided<()> {
    if found.is_some() {
        return Err(Refusal::LabelInUse { label: wanted.label.clone() });
    }
    if !is_valid_label(&wanted.label) {
        return Err(Refusal::BadLabel { label: wanted.label.chars().take(80).collect() });
    }
    if is_session_id(&wanted.label) {
        return Err(Refusal::LabelIsAnId { label: wanted.label.clone() });
    }
    let texts = [("title", &wanted.title), ("model", &wanted.model)];
    for (what, text) in texts {
        text.as_deref().map(|text| field(what, text)).transpose()?;
    }
    field("project", &wanted.project)?;
    // A path may be longer than other texts of a session.
    if let Some(dir) = &wanted.working_dir {
        check(dir, WORKING_DIR_MAX_BYTES)
            .map_err(|why| Refusal::BadText { what: "working directory", why })?;
    }
    Ok(Decision {
        changes: vec![Change::CreateSession(Box::new(wanted.clone()))],
        events: vec![Event::SessionCreated],
        ..Decision::unchanged(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    #[test]
    fn a_generated_label_shows_the_origin_of_the_session() {
        let id = SessionId(Ulid(1));
        for (origin, prefix) in [
            (Origin::Fork, "fork-"),
            (Origin::Subagent, "worker:"),
            (Origin::Api, "session-"),
            (Origin::Cli, "session-"),
        ] {
            let label = default_label(origin, id);
            assert_eq!(label, format!("{prefix}{id}"));
            assert!(is_valid_label(&label) && !is_session_id(&label), "{label}");
        }
    }
}
