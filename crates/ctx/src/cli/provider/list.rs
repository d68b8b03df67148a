//! `ctx provider list`: list the configured and discovered providers, their availability and the
//! default.

use serde_json::{Value, json};

use crate::json::provider_json::Providers;
use crate::problem::Problem;
use crate::provider_setup::{Assembled, assemble};

use super::super::Context;
use super::super::output::{BOLD, DIM, GREEN, YELLOW};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {}

pub(super) fn run(context: &Context, _: &Args) -> Result<(), Problem> {
    let assembled = assemble(&context.config()?, &context.data)?;
    context.out.print(|| document(&assembled), || lines(&assembled).join("\n"))
}

/// The document of `GET /api/providers`, with the reasons in `origin` and `default_reason`.
fn document(assembled: &Assembled) -> Value {
    let mut document = json!(Providers::from(&assembled.providers));
    document["default_reason"] = json!(assembled.default_reason);
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
            None => format!("{GREEN}available{GREEN:#}"),
            Some(why) => format!("{YELLOW}not available{YELLOW:#}: {why}"),
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
        "Default provider: {BOLD}{}{BOLD:#} ({})",
        providers.default, assembled.default_reason
    ));
    lines
}

/// For `ctx doctor`: whether the default provider is available, and a description.
pub(in crate::cli) fn default_provider_check(assembled: &Assembled) -> (bool, String) {
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
    let others =
        if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
    match unavailable(&providers.default) {
        None => (
            true,
            format!("default provider {}: {}{others}", providers.default, assembled.default_reason),
        ),
        Some(why) => (
            false,
            format!("default provider {} is not available: {why}{others}", providers.default),
        ),
    }
}
