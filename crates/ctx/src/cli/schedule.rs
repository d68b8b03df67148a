//! `ctx schedule …`: list the schedules of the configuration.

use clap::Subcommand;
use ctx_engine::core::time::Timestamp;
use serde_json::json;

use crate::json::schedule_json::{Schedule, Schedules};
use crate::problem::Problem;

use super::Context;
use super::output::BOLD;
use super::table::{Cell, Column, Table};
use super::times::Times;

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
    let times = context.out.times(engine.now());
    context.out.print_paged(
        || json!(listed),
        || {
            if listed.schedules.is_empty() {
                return vec!["No schedules. Add one to ctx.toml under [[schedule]].".to_owned()];
            }
            let mut table = Table::new([
                Column::new("NAME").at_most(32),
                Column::new("RULE"),
                Column::new("NEXT"),
                Column::new("LAST"),
                Column::text("SESSION"),
            ]);
            for schedule in &listed.schedules {
                table.row(cells(schedule, &times));
            }
            table.lines(context.out.width())
        },
    )
}

fn cells(schedule: &Schedule, times: &Times) -> [Cell; 5] {
    let rule = match (&schedule.cron, &schedule.every) {
        (Some(cron), _) => cron.clone(),
        (None, every) => format!("every {}", every.as_deref().unwrap_or_default()),
    };
    let tick = |tick: &Option<String>| {
        let at = tick.as_deref().map(|text| (text, Timestamp::parse(text)));
        Cell::new(match at {
            None => "never".to_owned(),
            Some((_, Some(at))) => times.relative(at),
            Some((text, None)) => text.to_owned(),
        })
    };
    [
        Cell::styled(&schedule.name, BOLD),
        Cell::new(rule),
        tick(&schedule.next_tick),
        tick(&schedule.last_tick),
        Cell::new(&schedule.session),
    ]
}
