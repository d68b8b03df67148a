//! `ctx outbox …`: list, show and retry deliveries to channels.

use std::sync::Arc;

use clap::Subcommand;
use ctx_engine::core::id::OutgoingId;
use ctx_engine::core::outbox::{Outgoing, Status};
use ctx_engine::core::short_id::ulid_beginning;
use ctx_engine::{Engine, OutboxQuery, StoredOutgoing, UlidKind};
use serde_json::json;

use crate::channel_setup;
use crate::json::{outbox_json, variant_name};
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, GREEN, ID, RED, YELLOW, visible_line, visible_text};
use super::table::{Cell, Column, Table};
use super::times::Times;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List deliveries, newest first
    List(ListArgs),
    /// Show a delivery with its text and its last error
    Show(ShowArgs),
    /// Deliver a dead one again; a running `ctx serve` sends it
    Retry(RetryArgs),
}

#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Show only deliveries with this status
    #[arg(long, value_parser = Status::ALL.map(Status::name))]
    status: Option<String>,
    /// Show only deliveries to this channel
    #[arg(long)]
    channel: Option<String>,
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Show deliveries older than this one (the `next_cursor` of the previous page)
    #[arg(long, value_name = "CURSOR")]
    before: Option<i64>,
}

#[derive(clap::Args)]
pub(super) struct ShowArgs {
    /// Show the delivery with this id; list the ids with `ctx outbox list`
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(clap::Args)]
pub(super) struct RetryArgs {
    /// Retry the delivery with this id; list the ids with `ctx outbox list --status dead`
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    // The configured channels decide which deliveries wait for a configuration.
    let courier = channel_setup::courier(&context.config()?)?;
    let engine = context.engine()?.with_courier(Arc::new(courier));
    match verb {
        Verb::List(args) => list(context, &engine, args).await,
        Verb::Show(args) => {
            let outgoing = engine.outbox().get(find_id(&engine, &args.id).await?).await?;
            context.out.print(|| document(&outgoing), || details(&outgoing))
        }
        Verb::Retry(args) => {
            let outgoing = engine.outbox().retry(find_id(&engine, &args.id).await?).await?;
            context.out.print(|| document(&outgoing), || line(&outgoing))
        }
    }
}

async fn list(context: &Context, engine: &Engine, args: ListArgs) -> Result<(), Problem> {
    let limit = usize::from(args.limit);
    let status = args.status.as_deref().map(str::parse).transpose();
    let query = OutboxQuery {
        status: status.map_err(|why: String| Problem::wrong_use("wrong_use", why))?,
        channel: args.channel,
        session: None,
        before: args.before,
        limit: limit + 1,
    };
    let mut found = engine.outbox().list(&query).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| last.row.to_string());
    let ids = found.iter().map(|stored| stored.outgoing.id.0).collect();
    let short = engine.ids().short(UlidKind::Outgoing, ids).await?;
    let times = context.out.times(engine.now());
    context.out.print_paged(
        || {
            let deliveries: Vec<_> =
                found.iter().map(|stored| outbox_json::Outgoing::of(&stored.outgoing)).collect();
            json!({"deliveries": deliveries, "next_cursor": next})
        },
        || {
            if found.is_empty() {
                return vec!["No deliveries.".to_owned()];
            }
            let mut lines = table(&found, &short, &times).lines(context.out.width());
            if let Some(next) = &next {
                let how = format!("show them with `--before {next}` or `--limit N`");
                lines.push(format!("{DIM}More deliveries; {how}{DIM:#}"));
            }
            lines
        },
    )
}

fn table(found: &[StoredOutgoing], short: &[String], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("ID"),
        Column::new("STATUS"),
        Column::new("KIND").if_width(80),
        Column::new("CHANNEL").at_most(16),
        Column::new("TO").at_most(24),
        Column::text("TEXT"),
        Column::text("LAST ERROR").if_width(100),
        Column::new("CREATED"),
    ]);
    for (stored, short) in found.iter().zip(short) {
        let outgoing = &stored.outgoing;
        let error = outgoing.last_error.as_deref().unwrap_or_default();
        let (colour, error) = match outgoing.status {
            Status::Delivered => (GREEN, ""),
            Status::Pending => (YELLOW, error),
            Status::Dead => (RED, error),
        };
        table.row([
            Cell::styled(short, ID),
            Cell::styled(outgoing.status.name(), colour),
            Cell::new(variant_name(&outgoing.kind)),
            Cell::new(&outgoing.to.channel),
            Cell::new(&outgoing.to.peer_id),
            Cell::new(&outgoing.body.text),
            Cell::new(error),
            Cell::styled(times.relative(outgoing.created_at), DIM),
        ]);
    }
    table
}

async fn find_id(engine: &Engine, text: &str) -> Result<OutgoingId, Problem> {
    let list = "list the ids with `ctx outbox list`";
    if ulid_beginning(text).is_none() {
        let message = "invalid delivery id: expected a ULID or its beginning";
        return Err(Problem::wrong_use("bad_id", message).hint(list));
    }
    let missing = || Problem::failed("not_found", format!("there is no delivery `{text}`"));
    engine.ids().delivery(text).await?.ok_or_else(|| missing().hint(list))
}

fn document(outgoing: &Outgoing) -> serde_json::Value {
    json!(outbox_json::Outgoing::of(outgoing))
}

fn line(outgoing: &Outgoing) -> String {
    let shown = |text: &str, max| visible_line(text, max);
    let error = outgoing.last_error.as_ref().filter(|_| outgoing.status != Status::Delivered);
    let error = error.map_or_else(String::new, |error| format!(" ({})", shown(error, 60)));
    format!(
        "{} {BOLD}{:9}{BOLD:#} {} {DIM}{} to {}{DIM:#}{error} {}",
        outgoing.id,
        outgoing.status.name(),
        variant_name(&outgoing.kind),
        shown(&outgoing.to.channel, 30),
        shown(&outgoing.to.peer_id, 40),
        shown(&outgoing.body.text, 60)
    )
}

fn details(outgoing: &Outgoing) -> String {
    let mut lines = vec![
        line(outgoing),
        format!("Session: {}", visible_text(&outgoing.label)),
        format!("Created: {}", outgoing.created_at),
        format!("Attempts: {}", outgoing.attempts),
    ];
    match outgoing.delivered_at {
        Some(at) => lines.push(format!("Delivered: {at}")),
        None if outgoing.status == Status::Pending => {
            lines.push(format!("Next attempt: {}", outgoing.next_attempt_at));
        }
        None => {}
    }
    if let Some(error) = &outgoing.last_error {
        lines.push(format!("Last error: {}", visible_text(error)));
    }
    lines.push(String::new());
    lines.push(visible_text(&outgoing.body.text));
    lines.join("\n")
}
