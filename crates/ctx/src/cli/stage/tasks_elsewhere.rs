//! The error of a verb that found no open task in the default session, while a conversation of the
//! directory has one.

use ctx_engine::core::task::Task;
use ctx_engine::{DEFAULT_SESSION, Info, PAGE_MAX};

use crate::problem::Problem;

use super::super::Context;
use super::super::output::visible_line;
use super::super::session::sessions_here;

/// Tasks that the message names.
const NAMED_MAX: usize = 3;
const DESCRIPTION_MAX_CHARS: usize = 60;

/// Names the open tasks of other sessions, and the command that seals each. A problem of another
/// kind, or of a session that the user named, stays as it is.
pub(super) async fn explain(context: &Context, problem: Problem) -> Problem {
    let is_named = context.session.as_deref().is_some_and(|session| session != DEFAULT_SESSION);
    if problem.code != "no_task" || is_named {
        return problem;
    }
    match found(context).await {
        Ok(found) if !found.is_empty() => describe(problem, &found),
        _ => problem,
    }
}

/// Short ids of the sessions of this directory that have an open task, and the tasks.
async fn found(context: &Context) -> Result<Vec<(String, Task)>, Problem> {
    let engine = context.engine()?;
    let sessions = sessions_here(context, &engine, PAGE_MAX).await?;
    let with_task = |info: Info| Some((info.session.id, info.task?));
    let open: Vec<_> = sessions.into_iter().filter_map(with_task).collect();
    let ids: Vec<_> = open.iter().map(|(id, _)| *id).collect();
    let short = engine.ids().short_sessions(&ids).await?;
    Ok(short.into_iter().zip(open).map(|(short, (_, task))| (short, task)).collect())
}

fn describe(problem: Problem, found: &[(String, Task)]) -> Problem {
    let name = |(session, task): &(String, Task)| {
        format!("`{}` in {session}", visible_line(&task.description, DESCRIPTION_MAX_CHARS))
    };
    let named: Vec<String> = found.iter().take(NAMED_MAX).map(name).collect();
    let (named, example) = (named.join(", "), &found[0].0);
    let message = match found.len() {
        1 => format!(
            "no task is open in the session {DEFAULT_SESSION}; a conversation has one: {named}"
        ),
        count => format!(
            "no task is open in the session {DEFAULT_SESSION}; {count} conversations have one: \
             {named}{}",
            if count > NAMED_MAX { ", …" } else { "" }
        ),
    };
    problem.message(message).hint(format!(
        "seal it with `ctx session confirm {example}`, or add `--session {example}` to this command"
    ))
}
