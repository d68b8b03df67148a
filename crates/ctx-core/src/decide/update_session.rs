//! Change the preferences of a session.

use std::collections::BTreeMap;

use crate::refusal::Refusal;
use crate::session::Delivery;
use crate::text_limits::{BadText, check};

use super::session_changes::SessionChanges;
use super::{Decided, Event, Invocation, ProviderCatalog, SessionView};

/// Longest title, model name or option, in characters.
pub const FIELD_MAX_CHARS: usize = 1000;
/// Most options of a session.
const OPTIONS_MAX: usize = 64;

/// The fields to change; `Some(None)` clears a field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of `Session` under the same names")]
pub struct Patch {
    pub title: Option<Option<String>>,
    pub persona: Option<Option<String>>,
    pub provider_id: Option<Option<String>>,
    pub model: Option<Option<String>>,
    pub delivery: Option<Delivery>,
    pub track_tasks: Option<bool>,
    /// Another directory, for a session whose own is not on this machine.
    pub working_dir: Option<String>,
    /// An option with the value `None` is removed.
    pub options: Option<Option<BTreeMap<String, Option<String>>>>,
}

/// Changes the fields.
///
/// Fails if a provider or persona is unknown, or a text is too long.
pub fn update_session(
    view: &SessionView,
    patch: &Patch,
    catalog: &ProviderCatalog,
    invocation: &Invocation,
) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    check_provider_and_persona(
        catalog,
        patch.provider_id.as_ref().and_then(Option::as_deref),
        patch.persona.as_ref().and_then(Option::as_deref),
    )?;
    let session = &mut changes.session;
    for (what, given, slot) in
        [("title", &patch.title, &mut session.title), ("model", &patch.model, &mut session.model)]
    {
        if let Some(value) = given {
            *slot = value.as_deref().map(|text| field(what, text)).transpose()?;
        }
    }
    if let Some(provider) = &patch.provider_id {
        session.provider_id.clone_from(provider);
    }
    if let Some(persona) = &patch.persona {
        session.persona.clone_from(persona);
    }
    if let Some(dir) = &patch.working_dir {
        session.working_dir = Some(dir.clone());
    }
    session.delivery = patch.delivery.unwrap_or(session.delivery);
    session.track_tasks = patch.track_tasks.unwrap_or(session.track_tasks);
    let before = session.options.clone();
    match &patch.options {
        Some(Some(options)) => set(&mut session.options, options)?,
        Some(None) => session.options.clear(),
        None => {}
    }
    let options_changed = session.options != before;
    if changes.session != view.session {
        changes.emit(Event::SessionUpdated);
    }
    if options_changed {
        changes.emit(Event::OptionsUpdated);
    }
    Ok(changes.finish(()))
}

/// Sets or removes options, up to [`OPTIONS_MAX`].
pub(super) fn set(
    options: &mut BTreeMap<String, String>,
    given: &BTreeMap<String, Option<String>>,
) -> Result<(), Refusal> {
    for (key, value) in given {
        let key = field("option", key)?;
        match value {
            Some(value) => options.insert(key, field("option", value)?),
            None => options.remove(&key),
        };
    }
    if options.len() > OPTIONS_MAX {
        return Err(Refusal::TooMany { what: "options", count: options.len(), max: OPTIONS_MAX });
    }
    Ok(())
}

/// Checks a text of a session's row.
pub(super) fn field(what: &'static str, text: &str) -> Result<String, Refusal> {
    let count = text.chars().count();
    if count > FIELD_MAX_CHARS {
        return Err(Refusal::BadText {
            what,
            why: BadText::TooMany { chars: count, max: FIELD_MAX_CHARS },
        });
    }
    check(text, usize::MAX).map(str::to_owned).map_err(|why| Refusal::BadText { what, why })
}

/// Checks that a provider and a persona exist.
///
/// Fails if one of them is unknown.
pub fn check_provider_and_persona(
    catalog: &ProviderCatalog,
    provider: Option<&str>,
    persona: Option<&str>,
) -> Result<(), Refusal> {
    match provider {
        Some(provider) if !catalog.providers.contains_key(provider) => {
            return Err(Refusal::UnknownProvider { provider: provider.to_owned() });
        }
        _ => {}
    }
    match persona {
        Some(persona) if !catalog.personas.iter().any(|known| known == persona) => {
            Err(Refusal::UnknownPersona { persona: persona.to_owned() })
        }
        _ => Ok(()),
    }
}
