//! Make a session: a label of its own, idle, no provider started. A fork is one with a head.

use crate::refusal::Refusal;
use crate::session::{self, label_is_legal};

use super::update_session::field;
use super::{Change, Decided, Decision, Event, SessionView};

/// Makes the session that is wanted, where nothing has its label.
///
/// # Errors
/// If the label is taken or is none, or another text is too long or empty.
pub fn create_session(found: Option<&SessionView>, wanted: &session::New) -> Decided {
    if found.is_some() {
        return Err(Refusal::LabelInUse { label: wanted.label.clone() });
    }
    if !label_is_legal(&wanted.label) {
        return Err(Refusal::BadLabel { label: wanted.label.chars().take(80).collect() });
    }
    for (what, text) in [("title", &wanted.title), ("model", &wanted.model), ("working directory", &wanted.working_dir)] {
        text.as_deref().map(|text| field(what, text)).transpose()?;
    }
    field("project", &wanted.project)?;
    Ok(Decision {
        changes: vec![Change::CreateSession(Box::new(wanted.clone()))],
        events: vec![Event::SessionCreated],
        ..Decision::default()
    })
}
