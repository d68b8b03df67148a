//! `ctx stage relate`: record a relation between two nodes.

use ctx_engine::core::Refusal;
use ctx_engine::core::relation::{BadRelation, Confidence, Edge, Evidence, Label, Node, Tool};

use crate::problem::Problem;

use super::super::Context;
use super::print_task;

pub(super) async fn run(
    context: &Context,
    from: &str,
    label: &str,
    to: &str,
) -> Result<(), Problem> {
    let bad = |e: BadRelation| Problem::wrong_use("bad_relation", e.to_string());
    let edge = Edge {
        from: from.parse::<Node>().map_err(bad)?,
        to: to.parse::<Node>().map_err(bad)?,
        label: label.parse::<Label>().map_err(bad)?,
        weight: None,
        evidence: Evidence::from_tool(Tool::Llm, Confidence::Medium),
    };
    let mut recorder = context.recorder().await?;
    recorder.observe_relation(edge);
    print_task(context, &recorder.flush().await?.ok_or(Refusal::NoTask)?)
}
