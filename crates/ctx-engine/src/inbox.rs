//! Access to the messages that wait in an inbox.

use ctx_core::decide::{self, Invocation, Needs, SessionView};
use ctx_core::id::MessageId;
use ctx_core::inbox::{Item, ItemState};
use ctx_core::refusal::Refusal;

use crate::engine::Error;
use crate::messages::Messages;

impl Messages<'_> {
    /// Replaces the text of a waiting message.
    ///
    /// Fails if the message is not waiting.
    pub async fn edit(self, session: &str, item: MessageId, text: &str) -> Result<(), Error> {
        let text = text.to_owned();
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::edit_item(view, item, &text, invocation)
        };
        self.engine
            .decide(self.engine.target(session).await?, Needs::RUN, Vec::new(), rule)
            .await
            .map(drop)
    }

    /// Moves a waiting message to another place, counted from 1.
    ///
    /// Fails if the message is not waiting.
    pub async fn reorder(self, session: &str, item: MessageId, place: usize) -> Result<(), Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::move_item(view, item, place, invocation)
        };
        self.engine
            .decide(self.engine.target(session).await?, Needs::RUN, Vec::new(), rule)
            .await
            .map(drop)
    }

    /// Removes a waiting message.
    ///
    /// Fails if the message is not waiting.
    pub async fn withdraw(self, session: &str, item: MessageId) -> Result<(), Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::withdraw_item(view, item, invocation)
        };
        self.engine
            .decide(self.engine.target(session).await?, Needs::RUN, Vec::new(), rule)
            .await
            .map(drop)
    }

    /// The waiting messages, and those that were dropped because the inbox was full.
    ///
    /// Fails if the session does not exist.
    pub async fn inbox(self, session: &str) -> Result<Vec<Item>, Error> {
        let needs = Needs { dropped: true, ..Needs::NOTHING };
        let view = self.engine.store().view(&self.engine.target(session).await?, needs).await?;
        let inbox = view.ok_or(Refusal::NoSession)?.inbox;
        Ok(inbox.into_iter().filter(|item| item.state != ItemState::Taken).collect())
    }
}
