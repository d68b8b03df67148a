//! The MCP server over its two transports, and the context pack.
//!
//! | module | content |
//! |---|---|
//! | `protocol` | versions, definitions, errors, progress, cancellation, resources, prompts |
//! | `over_http` | sessions, scopes of tokens, Host and Origin, the setting that turns it off |
//! | `memory` | search and reading within a budget |
//! | `tasks` | recording work, questions, other agents |
//! | `second_agent` | an agent that knows only what ctx tells it |
//! | `pack` | `ctx pack` and the tool `context_pack` |

mod memory;
mod over_http;
mod pack;
mod protocol;
mod second_agent;
mod tasks;
