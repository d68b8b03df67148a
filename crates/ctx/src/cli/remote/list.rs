//! `ctx remote list`.

use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::output::BOLD;
use crate::cli::table::{Cell, Column, Table};
use crate::problem::Problem;
use crate::remote::{Remote, Remotes};

/// The JSON document of a remote.
pub(super) fn document(name: &str, remote: &Remote) -> Value {
    json!({
        "name": name,
        "url": remote.url,
        "encrypted": remote.is_encrypted(),
        "recipients": remote.recipients,
        "identity": remote.identity,
        "token_env": remote.token_env,
    })
}

pub(super) fn run(context: &Context) -> Result<(), Problem> {
    let remotes = Remotes::load(&context.data)?.remotes;
    context.out.print_paged(
        || {
            let all = remotes.iter().map(|(name, remote)| document(name, remote));
            json!({"remotes": all.collect::<Vec<_>>()})
        },
        || {
            if remotes.is_empty() {
                return vec!["No remotes. Add one with `ctx remote add NAME ADDRESS`.".to_owned()];
            }
            let mut table = Table::new([
                Column::new("NAME"),
                Column::text("ADDRESS"),
                Column::new("ENCRYPTED"),
            ]);
            for (name, remote) in &remotes {
                let encrypted = if remote.is_encrypted() { "yes" } else { "no" };
                table.row([Cell::styled(name, BOLD), Cell::new(&remote.url), Cell::new(encrypted)]);
            }
            table.lines(context.out.width())
        },
    )
}
