//! ctx's own tools: how an agent says where it stands.

use ctx_core::decide::{self, Moment, Needs, SessionView};
use ctx_core::id::SessionId;
use ctx_core::inbox::Tool;
use ctx_core::refusal::Refusal;
use ctx_store::Target;
use serde_json::{Value, json};

use crate::engine::{Engine, Error};

const ASK_USER: &str = "ask_user";
const FINISH_TASK: &str = "finish_task";

/// The tools that tracked sessions offer.
pub(crate) fn own() -> Vec<Tool> {
    let tool = |name: &str, description: &str, field: &str| Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}),
    };
    vec![
        tool(ASK_USER, "Ask the user something that you need to know before you can go on. End your turn afterwards.", "question"),
        tool(FINISH_TASK, "Say that the task is done, with a summary of what was done. The user confirms or asks for more.", "summary"),
    ]
}

pub(crate) fn is_own(name: &str) -> bool {
    matches!(name, ASK_USER | FINISH_TASK)
}

/// Carries out a call of an own tool in the run that holds `fence`: what the agent is told, and whether that is an error.
pub(crate) async fn call(engine: &Engine, session: SessionId, fence: u64, name: &str, params: &Value) -> Result<(String, bool), Error> {
    let field = if name == ASK_USER { "question" } else { "summary" };
    let Some(text) = params.get(field).and_then(Value::as_str).map(str::to_owned) else {
        return Ok((format!("`{field}` is missing"), true));
    };
    let asks = name == ASK_USER;
    let rule = move |view: &SessionView, moment: &Moment| {
        if view.session.fence != fence {
            return Err(Refusal::StaleWriter);
        }
        if asks { decide::ask(view, &text, moment) } else { decide::done(view, &text, moment) }
    };
    match engine.decide(Target::Id(session), Needs::WORK, Vec::new(), rule).await {
        Ok(_) if asks => {
            Ok(("The question was put to the user. End your turn now; the answer comes as the next message.".to_owned(), false))
        }
        Ok(_) => Ok(("Noted. The user will confirm or ask for changes; end your turn now.".to_owned(), false)),
        Err(error) if error.refusal().is_some() => Ok((error.to_string(), true)),
        Err(error) => Err(error),
    }
}
