//! The person at the terminal: lines are read from them, and what a session waits for is asked.

use std::io::{BufRead, IsTerminal, Write};

use ctx_engine::core::prompt::Choice;
use ctx_engine::core::suspension::{Answer, Kind, Suspension};
use ctx_engine::core::text::one_line;
use ctx_engine::{Engine, Info};

use crate::problem::Problem;

use super::super::Context;
use super::stream::Stream;
use super::transcript::plain;

/// Whether somebody can be asked here.
pub(in crate::cli) fn is_here(context: &Context) -> bool {
    !context.out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// A line; nothing at the end of the input.
pub(super) async fn line(prompt: &str) -> Result<Option<String>, Problem> {
    let mut stdout = std::io::stdout().lock();
    let _ = write!(stdout, "{prompt}").and_then(|()| stdout.flush());
    drop(stdout);
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
    });
    let line = read.await.map_err(|e| Problem::failed("input", format!("the terminal: {e}")))?;
    let line = line.map_err(|e| Problem::failed("input", format!("the terminal: {e}")))?;
    Ok(line.map(|line| line.trim().to_owned()))
}

/// Prints until the session is idle, asking the person whatever it waits for. It still waits where they gave no answer.
pub(in crate::cli) async fn attend(engine: &Engine, stream: &mut Stream) -> Result<Info, Problem> {
    loop {
        let info = stream.settled().await?;
        let answered = match (info.suspensions.first(), &info.prompt) {
            (Some(suspension), _) => ask(engine, stream, &info, suspension).await?,
            (None, Some(_)) => choose(engine, stream, &info).await?,
            (None, None) => false,
        };
        if !answered {
            return Ok(info);
        }
    }
}

/// Asks a permission or a question; `false` where it is not answered here.
async fn ask(
    engine: &Engine,
    stream: &mut Stream,
    info: &Info,
    suspension: &Suspension,
) -> Result<bool, Problem> {
    let awaited = &suspension.awaited;
    if matches!(awaited.kind, Kind::ToolResult | Kind::Event) {
        return Ok(false);
    }
    let question = awaited.question.as_deref().unwrap_or(awaited.kind.name());
    stream.printer.line(&plain(question))?;
    for call in &awaited.tool_calls {
        stream.printer.line(&plain(&format!(
            "  {} {}",
            call.name,
            one_line(&call.params.to_string(), 200)
        )))?;
    }
    for (n, offer) in awaited.options.iter().enumerate() {
        stream.printer.line(&plain(&format!("  {}) {}", n + 1, offer.label)))?;
    }
    let Some(said) = stream.line("> ").await? else { return Ok(stream.was_cancelled()) };
    let numbered = said.parse::<usize>().ok().and_then(|n| awaited.options.get(n.checked_sub(1)?));
    let choice = numbered.map_or(said, |offer| offer.id.clone());
    let answer = Answer { results: Vec::new(), choice: Some(choice) };
    match engine.runs().resume(&info.session.id.to_string(), suspension.id, answer).await {
        // Asked again.
        Err(error) if error.code() == "bad_answer" => stream.printer.line(&error.to_string())?,
        // Somebody else was faster; what they said stands.
        Err(error) if matches!(error.code(), "suspension_consumed" | "no_suspension") => {}
        answered => drop(answered?),
    }
    Ok(true)
}

/// Asks the question with two choices.
async fn choose(engine: &Engine, stream: &mut Stream, info: &Info) -> Result<bool, Problem> {
    let Some(prompt) = &info.prompt else { return Ok(false) };
    stream.printer.line(&plain(&prompt.text))?;
    let Some(said) = stream.line("> ").await? else { return Ok(false) };
    let Some(choice) = prompt.choice_of(&said) else {
        let names = prompt.choices().map(Choice::name).join(" or ");
        stream.printer.line(&format!("please say A or B, {names}"))?;
        return Ok(true);
    };
    match engine.runs().answer_prompt(&info.session.id.to_string(), choice).await {
        Err(error) if error.code() == "no_prompt" => {}
        answered => drop(answered?),
    }
    Ok(true)
}
