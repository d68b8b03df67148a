//! `ctx token …`: who may ask a server over the network.

use clap::Subcommand;
use ctx_engine::Engine;
use ctx_engine::core::id::TokenId;
use ctx_engine::core::text::one_line;
use ctx_engine::core::token::{Scope, Token};
use serde_json::{Value, json};

use crate::problem::Problem;

use super::Context;
use super::init::name_of;
use super::output::{BOLD, DIM};
use super::session::transcript::plain;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Make a token; it is shown this once and never again
    Create(CreateArgs),
    /// The tokens there are, oldest first
    List,
    /// Revoke a token at once and for good
    Revoke(RevokeArgs),
}

#[derive(clap::Args)]
pub(super) struct CreateArgs {
    /// What it may do: look; also talk and change; also delete and administer
    #[arg(long)]
    scope: Given,
    /// What it is for, to know it by in the list
    #[arg(long)]
    name: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Given {
    Read,
    Write,
    Admin,
}

#[derive(clap::Args)]
pub(super) struct RevokeArgs {
    /// Which, by its id: `ctx token list` shows it
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Create(args) => create(context, args).await,
        Verb::List => list(context).await,
        Verb::Revoke(args) => revoke(context, &args).await,
    }
}

async fn create(context: &Context, args: CreateArgs) -> Result<(), Problem> {
    let scope = match args.scope {
        Given::Read => Scope::Read,
        Given::Write => Scope::Write,
        Given::Admin => Scope::Admin,
    };
    // As `serve` does: a token is often made before the first start.
    Engine::init(&context.data, &name_of(std::path::Path::new(".")))?;
    let made = context.engine()?.tokens().create(scope, args.name).await?;
    context.out.say(
        || {
            let mut document = row(&made.token);
            document["token"] = json!(made.secret);
            document
        },
        || {
            let id = made.token.id;
            format!(
                "{}\n{DIM}It is not shown again. Revoke it with `ctx token revoke {id}`.{DIM:#}",
                made.secret
            )
        },
    )
}

async fn list(context: &Context) -> Result<(), Problem> {
    let tokens = context.engine()?.tokens().list().await?;
    context.out.say(
        || json!({"tokens": tokens.iter().map(row).collect::<Vec<_>>()}),
        || match tokens.as_slice() {
            [] => "There are no tokens. `ctx token create --scope read` makes one.".to_owned(),
            tokens => tokens.iter().map(line).collect::<Vec<_>>().join("\n"),
        },
    )
}

async fn revoke(context: &Context, args: &RevokeArgs) -> Result<(), Problem> {
    let id: TokenId = args.id.parse().map_err(|_| {
        // Whoever mistakes the token for its id must not find it in a log.
        Problem::wrong_use("bad_id", "this is not the id of a token")
            .hint("`ctx token list` shows the ids")
    })?;
    let token = context.engine()?.tokens().revoke(id).await?;
    context.out.say(|| row(&token), || format!("Revoked {}", line(&token)))
}

fn row(token: &Token) -> Value {
    json!({"id": token.id, "name": token.name, "scope": token.scope.name(), "created_at": token.created_at.to_string()})
}

fn line(token: &Token) -> String {
    let at = token.created_at.to_string();
    let name = token
        .name
        .as_ref()
        .map_or_else(String::new, |name| format!(" {}", plain(&one_line(name, 60))));
    format!(
        "{} {BOLD}{:5}{BOLD:#} {DIM}{}{DIM:#}{name}",
        token.id,
        token.scope.name(),
        &at[..16.min(at.len())]
    )
}
