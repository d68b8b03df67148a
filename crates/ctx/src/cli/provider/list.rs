//! `ctx provider list`: what is configured or found, what can be used, and which one a session would use.

use serde_json::{Value, json};

use crate::problem::Problem;
use crate::providers::{Assembled, assemble};
use crate::shape::provider::Providers;

use super::super::Context;
use super::super::output::{BOLD, DIM, GREEN, YELLOW};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {}

pub(super) fn run(context: &Context, _: &Args) -> Result<(), Problem> {
    let assembled = assemble(&context.config()?, &context.data)?;
    context.out.say(|| document(&assembled), || lines(&assembled).join("\n"))
}

/// The shape of `GET /api/providers`, with why each is there and why the default is the default.
fn document(assembled: &Assembled) -> Value {
    let mut document = json!(Providers::from(&assembled.providers));
    document["default_reason"] = json!(assembled.reason);
    for provider in document["providers"].as_array_mut().into_iter().flatten() {
        let origin = provider["id"].as_str().and_then(|id| assembled.origins.get(id)).cloned();
        provider["origin"] = json!(origin);
    }
    document
}

fn lines(assembled: &Assembled) -> Vec<String> {
    let providers = &assembled.providers;
    let width = providers.all.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |name: &String| {
        let about = providers.all.get(name).map(|provider| provider.about())?;
        let default = if *name == providers.default { "*" } else { " " };
        let state = match &about.unavailable {
            None => format!("{GREEN}usable{GREEN:#}"),
            Some(why) => format!("{YELLOW}not usable{YELLOW:#}: {why}"),
        };
        let model = about.model.map(|model| format!(" · {model}")).unwrap_or_default();
        let origin = assembled.origins.get(name).map(String::as_str).unwrap_or_default();
        Some(format!(
            "{default} {BOLD}{name:<width$}{BOLD:#}  {:<9}  {state}{model} {DIM}· {origin}{DIM:#}",
            about.kind
        ))
    };
    let mut lines: Vec<String> = providers.all.keys().filter_map(line).collect();
    lines.push(format!(
        "A session that names nobody uses {BOLD}{}{BOLD:#}: {}.",
        providers.default, assembled.reason
    ));
    lines
}

/// For `ctx doctor`: whether a session would find somebody, and who that is.
pub(in crate::cli) fn summary(assembled: &Assembled) -> (bool, String) {
    let providers = &assembled.providers;
    let unavailable =
        |name: &String| providers.all.get(name).and_then(|provider| provider.about().unavailable);
    let others =
        providers.all.keys().filter(|name| **name != providers.default).map(
            |name| match unavailable(name) {
                None => name.clone(),
                Some(why) => format!("{name} ({why})"),
            },
        );
    let others: Vec<String> = others.collect();
    let beside =
        if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
    match unavailable(&providers.default) {
        None => (true, format!("sessions use {}: {}{beside}", providers.default, assembled.reason)),
        Some(why) => (
            false,
            format!("sessions use {}, which cannot be used: {why}{beside}", providers.default),
        ),
    }
}
