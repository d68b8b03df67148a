//! Rules about the sources of the whole workspace, kept by tests instead of by review.
//!
//! | module | rule |
//! |---|---|
//! | `purity` | `ctx-core` has no runtime, database or network, and reads no clock or file |
//! | `module_tree` | every Rust file is compiled: it is a target or has a `mod` line |
//! | `prose` | comments, longer strings and documents are in plain technical English |
//! | `dependencies` | every dependency that the workspace declares is used by a crate |
//! | `layout` | lines of at most 100 columns, source files of at most 600 lines |
//!
//! Each rule is a function of texts, and has tests that show that it can fail.

mod dependencies;
mod layout;
mod module_tree;
mod prose;
mod purity;
mod rust_source;
mod workspace;
