//! The turn that every store of the comparison stores: 1 KiB from the user, 2 KiB from the agent,
//! and two tool calls with results of 4 KiB. The text consists of random words.

use ctx_engine::NewTurn;
use ctx_engine::core::id::MessageId;
use ctx_engine::core::message::{Message, Part, Role, Source, ToolStatus};
use ctx_engine::core::object::Named;
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::About;
use serde_json::json;
use ulid::Ulid;

const USER_BYTES: usize = 1024;
const ASSISTANT_BYTES: usize = 2048;
const TOOL_BYTES: usize = 4096;

const POOL_BYTES: usize = 1 << 20;

/// A pool of random words. Messages are slices of it with a unique prefix.
pub(super) struct Workload {
    pool: String,
}

impl Workload {
    pub(super) fn new() -> Self {
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut pool = String::with_capacity(POOL_BYTES + 10);
        while pool.len() < POOL_BYTES {
            for _ in 0..2 + next() % 8 {
                pool.push(char::from(b'a' + (next() % 26) as u8));
            }
            pool.push(' ');
        }
        Self { pool }
    }

    pub(super) fn text(&self, key: u64, part: u64, size: usize) -> String {
        let mut text = format!("{key:x}.{part:x} ");
        let at = (key.wrapping_mul(2_654_435_761).wrapping_add(part * 40_503)) as usize
            % (POOL_BYTES - size);
        text.push_str(&self.pool[at..at + size - text.len()]);
        text
    }

    pub(super) fn turn(&self, key: u64, at: Timestamp) -> NewTurn {
        let (call, read): (Vec<Part>, Vec<(Part, Option<Named>)>) =
            (0..2).map(|n| self.tool(key, n)).unzip();
        let (results, blobs): (Vec<Part>, Vec<Option<Named>>) = read.into_iter().unzip();
        let message = |role, source, content| Message {
            id: MessageId(Ulid::new()),
            role,
            source,
            content,
            created_at: at,
        };
        let text = |part, size| vec![Part::Text { text: self.text(key, part, size) }];
        let messages = vec![
            message(Role::User, Some(Source::Human), text(0, USER_BYTES)),
            message(Role::Assistant, None, call),
            message(Role::Tool, None, results),
            message(Role::Assistant, None, text(1, ASSISTANT_BYTES)),
        ];
        NewTurn { about: About::at(at), messages, blobs: blobs.into_iter().flatten().collect() }
    }

    fn tool(&self, key: u64, n: u64) -> (Part, (Part, Option<Named>)) {
        let id = format!("call_{key:x}_{n}");
        let (content, blob) = Content::split(self.text(key, 2 + n, TOOL_BYTES).into_bytes());
        let params = json!({"path": format!("src/{key}/{n}.rs")});
        let call = Part::ToolCall {
            id: id.clone(),
            name: "read_file".to_owned(),
            params,
            status: ToolStatus::Completed,
        };
        (call, (Part::ToolResult { tool_call_id: id, content, is_error: false }, blob))
    }
}
