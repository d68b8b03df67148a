//! Asks the user at the terminal: permissions, questions, and the choice of a pending prompt.

use std::io::{BufRead, IsTerminal, Write};

use ctx_engine::core::answer_match::numbered_option;
use ctx_engine::core::prompt::Choice;
use ctx_engine::core::suspension::{Answer, Kind, Suspension};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::{Engine, Info};

use crate::problem::Problem;
use crate::waiting_prompt::prompt_text;

use super::super::Context;
use super::super::output::visible_text;
use super::session_follower::SessionFollower;

const ANSWER_PROMPT: &str = "answer, Enter to decide later, or /quit> ";

/// Whether input and output are a terminal and `--json` is not set.
pub(in crate::cli) fn is_interactive(context: &Context) -> bool {
    !context.out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Reads a line, trimmed. `None` at the end of the input.
pub(in crate::cli) async fn read_line(prompt: &str) -> Result<Option<String>, Problem> {
    let mut stdout = std::io::stdout().lock();
    let _ = write!(stdout, "{prompt}").and_then(|()| stdout.flush());
    drop(stdout);
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
    });
    let line = read
        .await
        .map_err(|e| Problem::failed("input", format!("failed to read from the terminal: {e}")))?;
    let line = line
        .map_err(|e| Problem::failed("input", format!("failed to read from the terminal: {e}")))?;
    Ok(line.map(|line| line.trim().to_owned()))
}

/// Follows the session until it is idle and asks the user for everything it waits for. The session
/// stays suspended if the user gives no answer.
pub(in crate::cli) async fn follow_and_ask(
    engine: &Engine,
    follower: &mut SessionFollower,
) -> Result<Info, Problem> {
    loop {
        let info = follower.follow_until_settled().await?;
        let answered = match (info.suspensions.first(), &info.prompt) {
            (Some(suspension), _) => ask_suspension(engine, follower, &info, suspension).await?,
            (None, Some(_)) => ask_prompt(engine, follower, &info).await?,
            (None, None) => false,
        };
        if !answered {
            return Ok(info);
        }
    }
}

/// Asks for a permission or the answer to a question. Returns `false` if it stays unanswered.
async fn ask_suspension(
    engine: &Engine,
    follower: &mut SessionFollower,
    info: &Info,
    suspension: &Suspension,
) -> Result<bool, Problem> {
    let awaited = &suspension.awaited;
    if matches!(awaited.kind, Kind::ToolResult | Kind::Event) {
        return Ok(false);
    }
    let question = awaited.question.as_deref().unwrap_or(awaited.kind.name());
    follower.printer.print_line(&visible_text(question))?;
    for call in &awaited.tool_calls {
        follower.printer.print_line(&visible_text(&format!(
            "  {} {}",
            call.name,
            one_line(&call.params.to_string(), 200)
        )))?;
    }
    for (n, offer) in awaited.options.iter().enumerate() {
        let line = format!("  {}) {}", n + 1, offer.label);
        follower.printer.print_line(&visible_text(&line))?;
    }
    let Some(text) = follower.read_line(ANSWER_PROMPT).await? else {
        return Ok(follower.was_cancelled());
    };
    if text.is_empty() {
        return Ok(false);
    }
    let choice = match numbered_option(&awaited.options, &text) {
        Some(offer) => offer.id.clone(),
        None => text,
    };
    let answer = Answer {
        choice: Some(choice),
        by: Some("the command line".to_owned()),
        ..Answer::default()
    };
    match engine.runs().resume(&info.session.id.to_string(), suspension.id, answer).await {
        // The caller asks again.
        Err(error) if error.code() == "bad_answer" => {
            follower.printer.print_line(&error.to_string())?;
        }
        // Another client has answered first; its answer counts.
        Err(error) if matches!(error.code(), "suspension_consumed" | "no_suspension") => {}
        answered => drop(answered?),
    }
    Ok(true)
}

/// Asks for the choice of the pending prompt. Returns `false` if it stays unanswered.
async fn ask_prompt(
    engine: &Engine,
    follower: &mut SessionFollower,
    info: &Info,
) -> Result<bool, Problem> {
    let Some(prompt) = &info.prompt else { return Ok(false) };
    let text = prompt_text(prompt, info.task.as_ref());
    follower.printer.print_line(&visible_text(&text))?;
    let Some(text) = follower.read_line(ANSWER_PROMPT).await? else {
        return Ok(false);
    };
    if text.is_empty() {
        return Ok(false);
    }
    let Some(choice) = prompt.choice_of(&text) else {
        let names = prompt.choices().map(Choice::name).join(" or ");
        follower.printer.print_line(&format!("Type A or B, or {names}."))?;
        return Ok(true);
    };
    match engine.runs().answer_prompt(&info.session.id.to_string(), choice).await {
        Err(error) if error.code() == "no_prompt" => {}
        answered => drop(answered?),
    }
    Ok(true)
}
