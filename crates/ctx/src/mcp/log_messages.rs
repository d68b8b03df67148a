//! The log of a connection. The client sets a level; failed tool calls are logged to it. Later
//! versions of the protocol have no log level and get no messages.

#![allow(deprecated, reason = "clients of earlier protocol versions set a log level")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::RequestContext;
use serde_json::json;

/// The level until the client sets one: nothing is sent.
const OFF: u8 = u8::MAX;

/// The level of one connection.
#[derive(Debug, Clone)]
pub(super) struct LogMessages(Arc<AtomicU8>);

impl Default for LogMessages {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(OFF)))
    }
}

impl LogMessages {
    pub(super) fn set_level(&self, level: LoggingLevel) {
        self.0.store(level as u8, Ordering::Release);
    }

    /// Reports a failed tool call as a warning, if the client wants warnings.
    pub(super) async fn tool_failed(
        &self,
        context: &RequestContext<RoleServer>,
        name: &str,
        result: &CallToolResult,
    ) {
        let level = LoggingLevel::Warning;
        let lowest = self.0.load(Ordering::Acquire);
        if lowest > level as u8 {
            return;
        }
        let text = result.content.iter().find_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        let data = json!({"tool": name, "message": text});
        let message = LoggingMessageNotificationParam::new(level, data).with_logger("ctx");
        let _ = context.peer.notify_logging_message(message).await;
    }
}
