//! Prompts that continue earlier work. Their text contains what is known about it.

use ctx_engine::core::context_pack::{BUDGET_MAX, BUDGET_MIN};
use ctx_engine::{Engine, OutsideCaller, ToolAnswer};
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Value, json};

pub(super) const CONTINUE: &str = "continue_where_we_left_off";
const DECISIONS: &str = "what_was_decided";

pub(super) fn all() -> Vec<Prompt> {
    let argument = |name, description, required| {
        PromptArgument::new(name).with_description(description).with_required(required)
    };
    let session = "The session to continue, by id or label; by default the newest one";
    let task = "The task to continue, by id or words; by default the one of the session";
    let budget = "Most tokens of what is known about it";
    vec![
        Prompt::new(
            CONTINUE,
            Some("Continue the work of an earlier session: its task, decisions and last messages"),
            Some(vec![
                argument("session", session, false),
                argument("task", task, false),
                argument("budget", budget, false),
            ]),
        )
        .with_title("Continue where we left off"),
        Prompt::new(
            DECISIONS,
            Some("Find what earlier sessions decided about a subject"),
            Some(vec![argument("subject", "What the decision is about", true)]),
        )
        .with_title("What was decided"),
    ]
}

pub(super) async fn get(
    engine: &Engine,
    caller: &OutsideCaller,
    name: &str,
    arguments: &JsonObject,
) -> Result<GetPromptResult, ErrorData> {
    let prompts = all();
    let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) else {
        return Err(ErrorData::invalid_params(format!("there is no prompt called `{name}`"), None));
    };
    check_arguments(prompt, arguments)?;
    let text = match name {
        DECISIONS => decisions(engine, caller, arguments).await?,
        _ => continuation(engine, caller, arguments).await?,
    };
    let messages = vec![PromptMessage::new_text(Role::User, text)];
    let description = prompt.title.clone().unwrap_or_default();
    Ok(GetPromptResult::new(messages).with_description(description))
}

fn check_arguments(prompt: &Prompt, given: &JsonObject) -> Result<(), ErrorData> {
    let invalid = |why: String| Err(ErrorData::invalid_params(why, None));
    let known = prompt.arguments.as_deref().unwrap_or_default();
    let names: Vec<&str> = known.iter().map(|argument| argument.name.as_str()).collect();
    for (name, value) in given {
        if !names.contains(&name.as_str()) {
            let names = names.join(", ");
            return invalid(format!("unknown argument `{name}`: the arguments are {names}"));
        }
        if !value.is_string() {
            return invalid(format!("invalid argument `{name}`: it must be a string"));
        }
    }
    let required = known.iter().filter(|argument| argument.required == Some(true));
    match required.map(|it| &it.name).find(|name| text(given, name).is_none()) {
        Some(missing) => invalid(format!("argument `{missing}` is missing")),
        None => Ok(()),
    }
}

fn text<'a>(arguments: &'a JsonObject, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

async fn continuation(
    engine: &Engine,
    caller: &OutsideCaller,
    arguments: &JsonObject,
) -> Result<String, ErrorData> {
    let budget = match text(arguments, "budget").map(str::parse::<u64>) {
        None => None,
        Some(Ok(budget)) if (BUDGET_MIN..=BUDGET_MAX).contains(&budget) => Some(budget),
        Some(_) => {
            let why = format!(
                "invalid argument `budget`: it must be a number from {BUDGET_MIN} to {BUDGET_MAX}"
            );
            return Err(ErrorData::invalid_params(why, None));
        }
    };
    let read = |tool: &'static str, mut params: Value| async move {
        if let Some(budget) = budget {
            params["budget"] = json!(budget);
        }
        answered(engine.tools().call(caller, tool, &params).await)
    };
    let intro = "Continue the work described below where it was left off. First check that what it \
                 says still holds, because files may have changed since; then go on with what is \
                 left. Do not repeat work that is done, and do not take up abandoned work again \
                 without a reason.";
    if let Some(task) = text(arguments, "task") {
        let pack = read("context_pack", json!({"task": task})).await?;
        return Ok(format!("{intro}\n\n{pack}"));
    }
    let session = match text(arguments, "session") {
        Some(session) => session.to_owned(),
        None => newest(engine).await?,
    };
    let info = engine.sessions().get(&session).await.map_err(|error| {
        ErrorData::invalid_params(format!("cannot read the session `{session}`: {error}"), None)
    })?;
    let transcript = read("read_session", json!({"session": session})).await?;
    let pack = match info.task {
        Some(task) => read("context_pack", json!({"task": task.id.to_string()})).await?,
        None => String::new(),
    };
    Ok(format!("{intro}\n\n{pack}{transcript}"))
}

async fn newest(engine: &Engine) -> Result<String, ErrorData> {
    let newest = engine.sessions().newest(1).await.map_err(|error| super::failed(&error))?;
    let newest = newest.first().map(|session| session.id.to_string());
    newest.ok_or_else(|| ErrorData::invalid_params("there is no session yet", None))
}

async fn decisions(
    engine: &Engine,
    caller: &OutsideCaller,
    arguments: &JsonObject,
) -> Result<String, ErrorData> {
    let subject = text(arguments, "subject").unwrap_or_default();
    let found = engine.tools().call(caller, "search", &json!({"query": subject})).await;
    let found = answered(found)?;
    Ok(format!(
        "What was decided about the following, and why? Subject: {subject}\n\nAnswer from the \
         record of earlier work and name the session or commit that says so. A search found \
         this; read more with read_turn, read_commit and context_pack:\n\n{found}"
    ))
}

fn answered(answer: ToolAnswer) -> Result<String, ErrorData> {
    match answer.is_error {
        true => Err(ErrorData::invalid_params(answer.text, None)),
        false => Ok(answer.text),
    }
}
