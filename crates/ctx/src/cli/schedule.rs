//! `ctx schedule …`: list the schedules of the configuration.

use clap::Subcommand;
use serde_json::json;

use crate::json::schedule_json::{Schedule, Schedules};
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List the schedules with their last and next ticks
    List,
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::List => list(context).await,
    }
}

async fn list(context: &Context) -> Result<(), Problem> {
    let engine = context.engine()?.with_schedules(context.config()?.schedules());
    let listed = Schedules::from(engine.schedules().list().await?);
    context.out.print(
        || json!(listed),
        || match listed.schedules.as_slice() {
            [] => "No schedules. Add one to ctx.toml under [[schedule]].".to_owned(),
            schedules => schedules.iter().map(line).collect::<Vec<_>>().join("\n"),
        },
    )
}

fn line(schedule: &Schedule) -> String {
    let rule = match (&schedule.cron, &schedule.every) {
        (Some(cron), _) => cron.clone(),
        (None, every) => format!("every {}", every.as_deref().unwrap_or_default()),
    };
    let tick = |tick: &Option<String>| tick.as_deref().unwrap_or("never").to_owned();
    format!(
        "{BOLD}{}{BOLD:#} {DIM}({rule}){DIM:#} next {} last {} {DIM}→{DIM:#} {}",
        schedule.name,
        tick(&schedule.next_tick),
        tick(&schedule.last_tick),
        schedule.session
    )
}
