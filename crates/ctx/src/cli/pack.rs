//! `ctx pack TASK`: what a new agent should know about a task, within a token budget.

use ctx_engine::FoundTask;
use ctx_engine::core::context_pack::{BUDGET_DEFAULT, BUDGET_MAX, BUDGET_MIN};
use ctx_engine::core::text_limits::one_line;
use serde_json::json;

use crate::json::task_json;
use crate::problem::Problem;

use super::Context;
use super::output::visible_text;

/// Characters of a description in the list of candidates.
const DESCRIPTION_MAX_CHARS: usize = 80;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Pack the task with this id (a unique beginning is enough), or the task that these words
    /// describe best
    #[arg(required = true, value_name = "TASK")]
    task: Vec<String>,
    /// Use at most this many tokens
    #[arg(long, value_name = "N", default_value_t = BUDGET_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u64).range(BUDGET_MIN..=BUDGET_MAX))]
    budget: u64,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let (engine, name) = (context.engine()?, args.task.join(" "));
    let task = match engine.records().find_task(&name).await? {
        FoundTask::One(task) => *task,
        FoundTask::None => {
            return Err(Problem::failed("not_found", format!("no task matches `{name}`"))
                .hint("find tasks with `ctx log`, `ctx status` or `ctx search`"));
        }
        FoundTask::Several(tasks) => {
            let line = |task: &ctx_engine::core::task::Task| {
                format!("{} {}", task.id, one_line(&task.description, DESCRIPTION_MAX_CHARS))
            };
            let names: Vec<String> = tasks.iter().map(line).collect();
            let found = tasks.iter().map(task_json::task).collect::<Vec<_>>();
            return Err(Problem::wrong_use(
                "ambiguous",
                format!("several tasks match `{name}` equally well:\n{}", names.join("\n")),
            )
            .with("tasks", json!(found))
            .hint("use the id of a task, or more words"));
        }
    };
    let pack = engine.records().pack(task, args.budget).await?;
    context.out.print(|| json!(pack), || visible_text(&pack.text).trim_end().to_owned())
}
