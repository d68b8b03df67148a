//! What a run reads: the session's row, the history, and requests to stop it or to add messages.

use std::collections::HashSet;
use std::sync::Arc;

use ctx_core::decide::Needs;
use ctx_core::id::TurnId;
use ctx_core::inbox::{Item, ItemState};
use ctx_core::refusal::Refusal;
use ctx_core::session::Session;
use ctx_store::Target;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Runner;
use crate::context::History;
use crate::engine::Error;
use crate::provider::Steer;

impl Runner<'_> {
    /// The session's row. The first call of a provider uses the row of the transaction that opened
    /// the run.
    pub(crate) async fn row(&mut self) -> Result<Session, Error> {
        if !std::mem::replace(&mut self.row_was_read, true) {
            return Ok(self.opened_run.session.clone());
        }
        let view = self.engine.store().view(&Target::Id(self.session), Needs::PINS).await?;
        let view = view.ok_or(Refusal::NoSession)?;
        let pins: HashSet<TurnId> = view.pins.iter().map(|pin| pin.turn).collect();
        // A turn was pinned or unpinned during the run.
        self.history = self.history.take().filter(|(_, history)| history.pins == pins);
        Ok(view.session)
    }

    /// The history before the open turn.
    pub(crate) async fn history(&mut self) -> Result<Arc<History>, Error> {
        let head = self.opened_run.head;
        if let Some((_, known)) = self.history.as_ref().filter(|(known, _)| *known == head) {
            return Ok(known.clone());
        }
        let history = Arc::new(History::read(self.engine, self.session, head).await?);
        self.history = Some((head, history.clone()));
        Ok(history)
    }

    /// Reads the run's row: whether it is to end, and which messages are to be added.
    pub(crate) async fn poll_run(
        &mut self,
        stop: &CancellationToken,
        steer: &mpsc::Sender<Steer>,
        steered: &mut Vec<Item>,
    ) {
        let Ok(view) = self.engine.store().view(&Target::Id(self.session), Needs::RUN).await else {
            return;
        };
        let Some(view) = view else {
            // The session was deleted.
            self.run_lost = true;
            return;
        };
        let Some(run) =
            view.run.filter(|run| run.id == self.opened_run.run.id && run.ended_at.is_none())
        else {
            self.run_lost = true;
            return;
        };
        if let Some(cancel) = run.cancel {
            if self.cancel.is_none() && !self.new.entries.is_empty() {
                // Whoever cancelled may close the turn before the provider has stopped.
                self.checkpoint().await;
            }
            self.cancel.get_or_insert(cancel);
            stop.cancel();
        }
        for item in view.inbox.into_iter().filter(|item| item.state == ItemState::Steering) {
            if steered.iter().all(|other| other.message_id != item.message_id) {
                let sent = steer.try_send(Steer { message_id: item.message_id, text: item.text() });
                if sent.is_ok() {
                    steered.push(item);
                }
            }
        }
    }
}
