//! Errors as the user sees them: `what failed: why`, a hint, a stable code and an exit code.

use std::borrow::Cow;

use ctx_engine::Error;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::task::StateName;
use serde_json::{Value, json};

/// Exit codes. `WrongUse` means that the command line, the input or the configuration is invalid,
/// `Interrupted` that the user pressed Ctrl-C, which is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    WrongUse = 2,
    Interrupted = 130,
}

#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) exit: Exit,
    extra: Vec<(&'static str, Value)>,
}

impl Problem {
    pub(crate) fn failed(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            hint: None,
            exit: Exit::Failed,
            extra: Vec::new(),
        }
    }

    pub(crate) fn wrong_use(
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self { exit: Exit::WrongUse, ..Self::failed(code, message) }
    }

    /// The user ended the verb with Ctrl-C.
    pub(crate) fn interrupted(
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self { exit: Exit::Interrupted, ..Self::failed(code, message) }
    }

    /// The same problem with another message.
    pub(crate) fn message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The hint of an error code on the command line.
    pub(crate) fn hint_of(code: &str) -> Option<&'static str> {
        hint(code)
    }

    /// Additional fields of the JSON document.
    pub(crate) fn extra(&self) -> &[(&'static str, Value)] {
        &self.extra
    }

    /// Adds a field to the JSON document.
    pub(crate) fn with(mut self, key: &'static str, value: Value) -> Self {
        self.extra.push((key, value));
        self
    }

    /// The failure of a run. It is already stored as an error part of the turn.
    pub(crate) fn run_failed(code: &str, message: &str) -> Self {
        Self { hint: hint(code).map(str::to_owned), ..Self::failed(code.to_owned(), message) }
    }

    pub(crate) fn json(&self) -> Value {
        let mut document = json!({"code": self.code, "message": self.message, "hint": self.hint});
        for (key, value) in &self.extra {
            document[key] = value.clone();
        }
        document
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Error::from(refusal).into()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = error.code();
        let exit = match code {
            "bad_text" | "bad_label" | "too_many" | "bad_answer" | "invalid_cursor"
            | "invalid_regex" | "unknown_filter" | "invalid_filter" | "query_too_long" => {
                Exit::WrongUse
            }
            _ => Exit::Failed,
        };
        let extra = match error.refusal() {
            Some(Refusal::AmbiguousId { candidates, .. }) => {
                vec![("candidates", json!(candidates))]
            }
            refusal => transition_states(refusal),
        };
        Self {
            code: code.into(),
            message: error.to_string(),
            hint: hint(code).map(str::to_owned),
            exit,
            extra,
        }
    }
}

/// Both states of a refused transition, as fields of the JSON document.
fn transition_states(refusal: Option<&Refusal>) -> Vec<(&'static str, Value)> {
    match refusal.and_then(Refusal::invalid_transition) {
        Some(transition) => {
            let name = |state: Option<StateName>| json!(state.map_or("none", StateName::name));
            vec![("from", name(transition.from)), ("to", name(transition.to))]
        }
        None => Vec::new(),
    }
}

/// Hints for the command line. HTTP has its own in `http/problem_details.rs`.
fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "ambiguous_id" => "use more characters of the id",
        "no_task" => "start a task with `ctx stage start TASK`",
        "task_open" => "seal the open task with `ctx stage seal`, or end it with `ctx stage abort`",
        "invalid_transition" => "show the state of the task with `ctx stage status`",
        "no_prompt" => "show the open task and its prompt with `ctx stage status`",
        "prompt_open" => {
            "answer with `ctx stage choose continue` or `ctx stage choose start_fresh`"
        }
        "stale_writer" => {
            "another process changed the task; check `ctx stage status` and run the command again"
        }
        "bad_text" => "pass the text as an argument, or `-` to read it from standard input",
        "invalid_regex" => "put the text into quotes to search for it literally",
        "unknown_filter" | "invalid_filter" => {
            "see docs/search.md for the filters; put the text into quotes to search for it"
        }
        "invalid_cursor" => "start again without `--cursor`",
        "no_store" => {
            "nothing is recorded here yet: start a conversation with `ctx run TEXT` or `ctx chat`, \
             create a store for a project with `ctx init`, or select one with `--data DIR`"
        }
        "not_empty" => "add what the target lacks with `--merge`, or choose another target",
        "unsupported" => {
            "use `pg_dump` or continuous archiving, or copy the store to a directory with \
             `ctx store copy`; see docs/postgres.md"
        }
        "no_session" => "list the sessions with `ctx session list --all`",
        "store_too_new" | "bundle_too_new" => "update ctx on this machine; nothing was changed",
        "damaged" => {
            "list the damage with `ctx verify`; to restore a backup, copy it as ctx.db into an \
             empty directory"
        }
        "read_only" => {
            "check the permissions of the directory and that its file system is mounted read-write"
        }
        "disk_full" => "free disk space and run the command again; acknowledged data is safe",
        "network_disk" => "move the store to a local disk and select it with `--data DIR`",
        "unavailable" => "run the command again; acknowledged data is safe",
        "not_a_bundle" => {
            "create a bundle with `ctx export SESSION -o FILE` or `ctx stage export -o FILE`"
        }
        "other_bundle" => {
            "import a session with `ctx import FILE`, a task with `ctx stage import FILE`"
        }
        "bundle_too_large" => "copy the whole store instead, with `ctx backup FILE`",
        "bundle_damaged" | "missing_head" => {
            "export again and copy the complete file; nothing was changed"
        }
        "already_sealed" | "already_ended" => "list the sealed tasks with `ctx log`",
        "diverged" => "seal one of the two copies and start a new task",
        "label_in_use" => "choose another label",
        "inbox_full" => "wait, or remove a message with `ctx session inbox SESSION --withdraw ID`",
        "steer_unavailable" => {
            "use `--mode queue` to wait for the run, or `--mode interrupt` to cancel it"
        }
        "no_suspension" => "show what the session waits for with `ctx session resume SESSION`",
        "suspension_consumed" => "show the conversation with `ctx session show SESSION`",
        "bad_answer" => "show the possible answers with `ctx session resume SESSION`",
        "session_busy" => {
            "wait with `ctx session tail SESSION --until-idle`, or cancel the run with \
             `ctx session cancel SESSION`"
        }
        "session_error" => "list the damage with `ctx verify`",
        "unknown_provider" => "list the providers with `ctx provider list`",
        "unknown_persona" => "add the persona to ctx.toml under [personas]",
        "tools_unsupported" => "choose a provider that supports tools with `--provider NAME`",
        "delivery_refused" => "set the delivery of the session to `open` or `hold`",
        "no_item" | "not_waiting" => "list the waiting messages with `ctx session inbox SESSION`",
        "nothing_to_retry" => "send a message with `ctx session send SESSION TEXT`",
        "not_an_ancestor" => {
            "show the turns with `ctx session tree SESSION`; a turn of another branch can be forked"
        }
        "nothing_to_compact" => "send a message first, with `ctx session send SESSION TEXT`",
        "no_compaction" => "fork from any turn with `ctx session fork SESSION --turn ID`",
        "compact_unavailable" => {
            "the agent compacts its own context; send a message to start it, then retry"
        }
        "too_much_pinned" => "unpin another turn with `ctx session pin SESSION TURN --remove`",
        "not_pinned" => "list the pinned turns with `ctx session pin SESSION`",
        "not_dead" => "list the dead deliveries with `ctx outbox list --status dead`",
        "nothing_to_reopen" => "list the sealed tasks with `ctx log`",
        "no_entity" | "ambiguous_name" => "list the entities and their ids with `ctx entity list`",
        "entity_merged" => "use the entity that it was merged into",
        "identity_linked" => "remove that link with `ctx entity unlink`, or merge the two entities",
        "no_identity" => "list the addresses of the entity with `ctx entity show ENTITY`",
        "no_alias" => "list the aliases with `ctx alias list`",
        "no_policy" => "create policies.yaml beside ctx.toml and check it with `ctx policy check`",
        "not_observable" => "use the verb for this transition; `ctx stage --help` lists them",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_of_a_database_server_names_what_to_use() {
        let error = ctx_engine::StoreError::Unsupported("cannot write a backup: why");
        let problem = Problem::from(Error::from(error));
        assert_eq!((problem.exit, &*problem.code), (Exit::Failed, "unsupported"));
        let hint = problem.hint.expect("a hint");
        for word in ["pg_dump", "continuous archiving", "ctx store copy", "docs/postgres.md"] {
            assert!(hint.contains(word), "{hint}");
        }
    }
}
