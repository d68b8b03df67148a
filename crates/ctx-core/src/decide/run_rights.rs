//! The tools that the agent may call in a run.

use crate::inbox::Item;
use crate::message::Source;
use crate::policy::ToolRights;
use crate::session::Session;

/// The rights of a run: those of its messages. A run that no person started has the rights of the
/// session.
pub(super) fn tool_rights(session: &Session, items: &[Item]) -> Vec<ToolRights> {
    let mut all: Vec<ToolRights> = Vec::new();
    for item in items {
        let tools = match &item.overrides.rights {
            Some(rights) => &rights.tools,
            None if item.source == Source::Human => continue,
            None => &session.tool_rights,
        };
        for tools in tools {
            if !tools.permits_all() && !all.contains(tools) {
                all.push(tools.clone());
            }
        }
    }
    all
}
