//! How an error reaches the user: what happened, why, what to do next, under a stable code.

use std::borrow::Cow;

use ctx_engine::Error;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::task::StateName;
use serde_json::{Value, json};

/// Wrong use is not the same as a failure: the caller can mend the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    WrongUse = 2,
}

/// An error on its way to the user.
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

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What else a program may want to know.
    pub(crate) fn extra(&self) -> &[(&'static str, Value)] {
        &self.extra
    }

    /// With one more field for programs.
    pub(crate) fn with(mut self, key: &'static str, value: Value) -> Self {
        self.extra.push((key, value));
        self
    }

    /// A provider's failure, which is a part of the turn already.
    pub(crate) fn of_run(code: &str, message: &str) -> Self {
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
            "bad_text" | "bad_label" | "too_many" | "bad_answer" => Exit::WrongUse,
            _ => Exit::Failed,
        };
        let extra = match error.refusal().and_then(Refusal::way) {
            Some(way) => {
                let name = |state: Option<StateName>| json!(state.map_or("none", StateName::name));
                vec![("from", name(way.from)), ("to", name(way.to))]
            }
            None => Vec::new(),
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

fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "no_task" => "start one with `ctx stage start TASK`",
        "task_open" => {
            "seal it with `ctx stage compact`, or give it up with `ctx stage abort`, then try again"
        }
        "invalid_transition" => "`ctx stage status` says where the task stands",
        "no_prompt" => "`ctx stage status` shows a question when one is waiting",
        "prompt_open" => {
            "answer it with `ctx stage choose continue` or `ctx stage choose start_fresh`"
        }
        "stale_writer" => {
            "somebody else is working on this task; look with `ctx stage status` and try again"
        }
        "bad_text" => "give the text as an argument, or `-` to read it from standard input",
        "no_store" => "make one with `ctx init`, or name one with `--data DIR` or CTX_DATA",
        "no_session" => "`ctx session list --all` lists the sessions of this store",
        "store_too_new" | "bundle_too_new" => "update ctx on this machine; nothing was changed",
        "damaged" => {
            "`ctx verify` names everything that is damaged; to go back to a copy made by `ctx backup`, move this directory away and put the copy as ctx.db into an empty one"
        }
        "read_only" => {
            "check the rights of the directory and that its disk is mounted for writing; nothing was changed"
        }
        "disk_full" => "make room and try again; everything that was acknowledged is safe",
        "network_disk" => "keep the store on a local disk: `--data DIR` or CTX_DATA",
        "unavailable" => "try again; everything that was acknowledged is safe",
        "not_a_bundle" => {
            "bundles are made by `ctx export SESSION -o FILE` and `ctx stage export -o FILE`"
        }
        "other_bundle" => {
            "a session is taken in with `ctx import FILE`, a task with `ctx stage import FILE`"
        }
        "bundle_too_large" => "copy the whole store instead: `ctx backup FILE`",
        "bundle_damaged" | "missing_head" => {
            "export it again and copy the file whole; nothing was changed"
        }
        "already_sealed" | "already_ended" => "start a new task; `ctx log` shows the finished work",
        "diverged" => "seal one of the two branches and start a new task from it",
        "label_in_use" => "choose another label",
        "inbox_full" => {
            "wait until some are answered, or take one back: `ctx session inbox SESSION --withdraw ID`"
        }
        "steer_unavailable" => {
            "send it with `--mode queue` to wait its turn, or with `--mode interrupt` to go first"
        }
        "no_suspension" => "`ctx session resume SESSION` says what it waits for",
        "suspension_consumed" => {
            "nothing was changed; `ctx session show SESSION` shows how it went on"
        }
        "bad_answer" => {
            "`ctx session resume SESSION` shows what it waits for and which answers it takes"
        }
        "session_busy" => {
            "wait for it with `ctx session tail SESSION --until-idle`, or end it with `ctx session cancel SESSION`"
        }
        "session_error" => {
            "`ctx verify` names what is damaged; its history stays readable as far as it is whole"
        }
        "unknown_provider" => {
            "name providers in ctx.toml under [providers], and the default under [defaults]; then `ctx session retry SESSION`"
        }
        "unknown_persona" => "name personas in ctx.toml under [personas]",
        "tools_unsupported" => "choose a provider that takes tools with `--provider NAME`",
        "delivery_refused" => "set its delivery to `open` or `hold` first",
        "no_item" | "not_waiting" => "`ctx session inbox SESSION` lists the messages that wait",
        "nothing_to_retry" => "send a message with `ctx session send SESSION TEXT`",
        "not_an_ancestor" => {
            "`ctx session tree SESSION` shows the turns; fork from one that is on another branch"
        }
        "nothing_to_compact" => "say something first: `ctx session send SESSION TEXT`",
        "no_compaction" => {
            "`ctx session tree SESSION` shows the turns; fork from any of them with `--turn`"
        }
        "compact_unavailable" => {
            "it shortens its context by itself; start it with a message, and it may offer a command for it"
        }
        "too_much_pinned" => "let another turn go with `ctx session pin SESSION TURN --remove`",
        "not_pinned" => "`ctx session pin SESSION` lists the pinned turns",
        "nothing_to_reopen" => "`ctx log` shows the finished work",
        "not_observable" => "use the verbs that move a task",
        _ => return None,
    })
}
