//! The outside programs and models that ctx talks to.
//!
//! | file | owns |
//! |---|---|
//! | `command` | a model behind any command line, asked what a message means |

mod command;

pub use command::CommandClassifier;
