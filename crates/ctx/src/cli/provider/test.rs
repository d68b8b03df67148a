//! `ctx provider test NAME`: send one question to a provider and report the timings. Nothing is
//! stored.

use std::time::Duration;

use ctx_engine::core::text_limits::one_line;

use crate::problem::Problem;
use crate::provider_setup::assemble;
use crate::provider_test::{ANSWER_MAX_CHARS, TestResult, test_provider};

use super::super::Context;
use super::super::output::BOLD;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Test this provider; list the names with `ctx provider list`
    name: String,
    /// Use this model [default: the provider's]
    #[arg(long)]
    model: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let assembled = assemble(&context.config()?, &context.data)?;
    let Some(provider) = assembled.providers.all.get(&args.name) else {
        let known: Vec<&str> = assembled.providers.all.keys().map(String::as_str).collect();
        return Err(Problem::wrong_use(
            "unknown_provider",
            format!("unknown provider `{}`: the providers are {}", args.name, known.join(", ")),
        )
        .hint("list the providers with `ctx provider list`"));
    };
    let result = test_provider(&args.name, provider, args.model.clone()).await?;
    context.out.print(|| result.document(&args.name), || lines(&args.name, &result))
}

fn lines(name: &str, result: &TestResult) -> String {
    let seconds = |at: Option<Duration>| {
        at.map_or_else(|| "-".to_owned(), |at| format!("{:.2} s", at.as_secs_f64()))
    };
    let count = |tokens: Option<u64>| {
        tokens.map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string())
    };
    let usage = result.usage.as_ref().map_or_else(
        || "not reported".to_owned(),
        |usage| {
            let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
            format!("{input} input tokens, {output} output tokens")
        },
    );
    let answer = one_line(result.answer.trim(), ANSWER_MAX_CHARS);
    [
        format!("{BOLD}{name}{BOLD:#} answered: {answer}"),
        format!("first event  {}", seconds(result.first_delta)),
        format!("first text   {}", seconds(result.first_text)),
        format!("total        {}", seconds(Some(result.total))),
        format!("usage        {usage}"),
    ]
    .join("\n")
}
