//! How an error reaches the user: what happened, why, what to do next, under a stable code.

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
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) exit: Exit,
    extra: Vec<(&'static str, Value)>,
}

impl Problem {
    pub(crate) fn failed(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, exit: Exit::Failed, extra: Vec::new() }
    }

    pub(crate) fn wrong_use(code: &'static str, message: impl Into<String>) -> Self {
        Self { exit: Exit::WrongUse, ..Self::failed(code, message) }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// What else a program may want to know.
    pub(crate) fn extra(&self) -> &[(&'static str, Value)] {
        &self.extra
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
            "bad_text" | "bad_label" | "too_many" => Exit::WrongUse,
            _ => Exit::Failed,
        };
        let extra = match error.refusal().and_then(Refusal::way) {
            Some(way) => {
                let name = |state: Option<StateName>| json!(state.map_or("none", StateName::name));
                vec![("from", name(way.from)), ("to", name(way.to))]
            }
            None => Vec::new(),
        };
        Self { code, message: error.to_string(), hint: hint(&error).map(str::to_owned), exit, extra }
    }
}

fn hint(error: &Error) -> Option<&'static str> {
    Some(match error.code() {
        "no_task" => "start one with `ctx stage start TASK`",
        "task_open" => "seal it with `ctx stage compact`, or give it up with `ctx stage abort`, then try again",
        "invalid_transition" => "`ctx stage status` says where the task stands",
        "no_prompt" => "`ctx stage status` shows a question when one is waiting",
        "prompt_open" => "answer it with `ctx stage choose continue` or `ctx stage choose start_fresh`",
        "stale_writer" => "somebody else is working on this task; look with `ctx stage status` and try again",
        "bad_text" => "give the text as an argument, or `-` to read it from standard input",
        "no_store" => "make one with `ctx init`, or name one with `--data DIR` or CTX_DATA",
        "no_session" => "`ctx status` lists the sessions of this store",
        "store_too_new" | "bundle_too_new" => "update ctx on this machine; nothing was changed",
        "damaged" => {
            "`ctx verify` names everything that is damaged; to go back to a copy made by `ctx backup`, move this directory away and put the copy as ctx.db into an empty one"
        }
        "read_only" => "check the rights of the directory and that its disk is mounted for writing; nothing was changed",
        "disk_full" => "make room and try again; everything that was acknowledged is safe",
        "network_disk" => "keep the store on a local disk: `--data DIR` or CTX_DATA",
        "unavailable" => "try again; everything that was acknowledged is safe",
        "not_a_bundle" => "bundles are made by `ctx stage export -o FILE`",
        "bundle_damaged" | "missing_head" => "export it again and copy the file whole; nothing was changed",
        "already_sealed" | "already_ended" => "start a new task; `ctx log` shows the finished work",
        "diverged" => "seal one of the two branches and start a new task from it",
        "label_in_use" => "choose another label",
        "not_observable" => "use the verbs that move a task",
        _ => return None,
    })
}
