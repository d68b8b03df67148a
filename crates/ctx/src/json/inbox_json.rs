//! A message in the inbox of a session.

use ctx_engine::core::id::MessageId;
use ctx_engine::core::inbox::Item;
use serde::Serialize;
use utoipa::ToSchema;

use super::variant_name;

/// A message in the inbox of a session
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InboxItem {
    id: String,
    session: String,
    /// Position in the queue, from 1; null if the message no longer waits
    position: Option<usize>,
    /// Queue mode: `interrupt`, `steer`, `followup`, `collect`, `steer-backlog` or `queue`
    mode: String,
    source: String,
    text: String,
    state: String,
    intent: Option<String>,
    enqueued_at: String,
}

impl InboxItem {
    pub(crate) fn has_id(&self, item: MessageId) -> bool {
        self.id == item.to_string()
    }

    /// Converts all items of a session. Only waiting items are numbered.
    pub(crate) fn all(session: &str, items: &[Item]) -> Vec<Self> {
        let mut waiting = 0;
        let mut one = |item: &Item| {
            let position = (variant_name(&item.state) == "waiting").then(|| {
                waiting += 1;
                waiting
            });
            Self {
                id: item.message_id.to_string(),
                session: session.to_owned(),
                position,
                mode: item.mode.name().to_owned(),
                source: variant_name(&item.source),
                text: item.text(),
                state: variant_name(&item.state),
                intent: item.intent.map(|intent| intent.name().to_owned()),
                enqueued_at: item.enqueued_at.to_string(),
            }
        };
        items.iter().map(&mut one).collect()
    }
}
