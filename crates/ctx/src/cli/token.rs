//! `ctx token …`: create, list and revoke API tokens.

use clap::Subcommand;
use ctx_engine::UlidKind;
use ctx_engine::core::token::{Scope, Token};
use serde_json::{Value, json};

use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, ID, visible_line};
use super::table::{Cell, Column, Table};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Create a token and print it; it cannot be shown again
    Create(CreateArgs),
    /// List the tokens, oldest first
    List,
    /// Revoke a token permanently, with immediate effect
    Revoke(RevokeArgs),
}

#[derive(clap::Args)]
pub(super) struct CreateArgs {
    /// Allow `read`, `write` (also send and change) or `admin` (also delete sessions)
    #[arg(long)]
    scope: ScopeArg,
    /// Name the token, to recognize it in the list
    #[arg(long)]
    name: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ScopeArg {
    Read,
    Write,
    Admin,
}

#[derive(clap::Args)]
pub(super) struct RevokeArgs {
    /// Revoke the token with this id; list the ids with `ctx token list`
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
        ScopeArg::Read => Scope::Read,
        ScopeArg::Write => Scope::Write,
        ScopeArg::Admin => Scope::Admin,
    };
    // Creates the store, because a token is often created before the first `ctx serve`.
    context.create_store()?;
    let created = context.engine()?.tokens().create(scope, args.name).await?;
    context.out.print(
        || {
            let mut document = token_json(&created.token);
            document["token"] = json!(created.secret);
            document
        },
        || {
            let id = created.token.id;
            format!(
                "{}\n{DIM}The token is not shown again. \
                 Revoke it with `ctx token revoke {id}`.{DIM:#}",
                created.secret
            )
        },
    )
}

async fn list(context: &Context) -> Result<(), Problem> {
    let engine = context.engine()?;
    let tokens = engine.tokens().list().await?;
    let ids = tokens.iter().map(|token| token.id.0).collect();
    let short = engine.ids().short(UlidKind::Token, ids).await?;
    let times = context.out.times(engine.now());
    context.out.print_paged(
        || json!({"tokens": tokens.iter().map(token_json).collect::<Vec<_>>()}),
        || {
            if tokens.is_empty() {
                let none = "No tokens. Create one with `ctx token create --scope read`.";
                return vec![none.to_owned()];
            }
            let mut table = Table::new([
                Column::new("ID"),
                Column::new("SCOPE"),
                Column::text("NAME"),
                Column::new("CREATED"),
            ]);
            for (token, short) in tokens.iter().zip(&short) {
                table.row([
                    Cell::styled(short, ID),
                    Cell::new(token.scope.name()),
                    Cell::new(token.name.as_deref().unwrap_or_default()),
                    Cell::styled(times.relative(token.created_at), DIM),
                ]);
            }
            table.lines(context.out.width())
        },
    )
}

async fn revoke(context: &Context, args: &RevokeArgs) -> Result<(), Problem> {
    let engine = context.engine()?;
    let id = engine.ids().token(&args.id).await?.ok_or_else(|| {
        // The argument is not repeated: it may be the secret token instead of its id.
        Problem::wrong_use("bad_id", "invalid token id").hint("list the ids with `ctx token list`")
    })?;
    let token = engine.tokens().revoke(id).await?;
    context.out.print(|| token_json(&token), || format!("Revoked {}", token_line(&token)))
}

fn token_json(token: &Token) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "scope": token.scope.name(),
        "created_at": token.created_at.to_string(),
    })
}

fn token_line(token: &Token) -> String {
    let at = token.created_at.to_string();
    let name =
        token.name.as_ref().map_or_else(String::new, |name| format!(" {}", visible_line(name, 60)));
    format!(
        "{} {BOLD}{:5}{BOLD:#} {DIM}{}{DIM:#}{name}",
        token.id,
        token.scope.name(),
        &at[..16.min(at.len())]
    )
}
