//! The handle for messages. Sending is in `submit`, reading in `message_pages` and `turns`, the
//! queue in `inbox`.

use crate::engine::Engine;

/// Messages: send them, read them, and change those that wait in an inbox.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::{NewMessage, Order};
/// use ctx_engine::core::session::Origin;
///
/// engine.sessions().create_idle("notes", Origin::Api).await?;
/// // Without a process that runs the session, the message waits in the inbox.
/// let sent = engine.messages().post("notes", NewMessage::text("Hello")).await?;
/// assert_eq!(sent.position, Some(1));
/// engine.messages().edit("notes", sent.message_id, "Good morning").await?;
/// let page = engine.messages().page("notes", Order::Asc, None, 50).await?;
/// assert!(page.messages.is_empty(), "nothing was answered yet");
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Messages<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Messages: send them, read them, and change those that wait in an inbox.
    pub const fn messages(&self) -> Messages<'_> {
        Messages { engine: self }
    }
}
