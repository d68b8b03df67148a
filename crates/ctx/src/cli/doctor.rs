//! `ctx doctor`: check the configuration, the providers and the store.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ctx_engine::{Health, Location};
use serde::Serialize;
use serde_json::json;

use crate::problem::Problem;
use crate::provider_setup::assemble;

use super::Context;
use super::output::plural;
use super::provider::default_provider_check;

/// A larger write-ahead log means that checkpoints do not complete.
const WAL_BYTES_SUSPICIOUS: u64 = 256 << 20;

#[derive(clap::Args)]
pub(super) struct Args {}

#[derive(Serialize)]
struct Check {
    check: &'static str,
    ok: bool,
    detail: String,
}

impl Check {
    fn new(check: &'static str, ok: bool, detail: impl Into<String>) -> Self {
        Self { check, ok, detail: detail.into() }
    }
}

pub(super) async fn run(context: &Context, _: &Args) -> Result<(), Problem> {
    let mut checks = vec![configuration(context), providers(context)];
    match context.engine() {
        Err(problem) => checks.push(Check::new(
            "store",
            false,
            format!("{} [{}]", problem.message, problem.code),
        )),
        Ok(engine) => {
            let health = engine.maintenance().health().await;
            if let Ok(Location::Directory(dir)) =
                context.config().and_then(|config| context.location(&config))
            {
                checks.extend(permissions(&dir));
                checks.push(writable(&dir));
            }
            checks.extend(match health {
                Ok(health) => store(context, &health),
                Err(error) => vec![Check::new("store", false, error.to_string())],
            });
        }
    }
    let failed = checks.iter().filter(|check| !check.ok).count();
    context.out.print(
        || json!({"ok": failed == 0, "checks": checks}),
        || {
            let line = |f: &Check| {
                format!("{} {:<14} {}", if f.ok { "ok  " } else { "FAIL" }, f.check, f.detail)
            };
            checks.iter().map(line).collect::<Vec<_>>().join("\n")
        },
    )?;
    if failed == 0 {
        Ok(())
    } else {
        Err(Problem::failed("unwell", format!("{failed} checks failed")))
    }
}

fn configuration(context: &Context) -> Check {
    match context.config().and_then(|config| config.settings()) {
        Ok(settings) => Check::new(
            "configuration",
            true,
            format!(
                "idle tasks: ask after {}, seal after {}",
                settings.stale.ask_after, settings.stale.seal_after
            ),
        ),
        Err(problem) => Check::new("configuration", false, problem.message),
    }
}

/// An invalid configuration is reported by the check `configuration` only.
fn providers(context: &Context) -> Check {
    match context.config().map(|config| assemble(&config, &context.data)) {
        Ok(Ok(assembled)) => {
            let (ok, detail) = default_provider_check(&assembled);
            Check::new("providers", ok, detail)
        }
        Ok(Err(problem)) => Check::new("providers", false, problem.message),
        Err(_) => Check::new("providers", false, "not checked: the configuration is invalid"),
    }
}

fn permissions(data: &Path) -> Vec<Check> {
    let mode = |path: &Path| {
        std::fs::metadata(path).map(|meta| meta.permissions().mode() & 0o777).unwrap_or(0)
    };
    let (dir, file) = (mode(data), mode(&data.join("ctx.db")));
    let private = dir & 0o077 == 0 || file & 0o077 == 0;
    vec![Check::new(
        "rights",
        private,
        format!(
            "directory {dir:o}, database {file:o}{}",
            if private { "" } else { "; other users can read the store: run chmod 700" }
        ),
    )]
}

fn writable(data: &Path) -> Check {
    let probe = data.join(format!(".probe.{}", ulid::Ulid::new()));
    let wrote = std::fs::write(&probe, b"x");
    let _ = std::fs::remove_file(&probe);
    match wrote {
        Ok(()) => Check::new("writable", true, data.display().to_string()),
        Err(e) => Check::new("writable", false, format!("{}: {e}", data.display())),
    }
}

fn store(context: &Context, health: &Health) -> Vec<Check> {
    let counts = format!(
        "{}: {}, {}, {}, {}, {}; schema {}, {}",
        context.config().and_then(|config| context.store_name(&config)).unwrap_or_default(),
        plural(health.sessions, "session"),
        plural(health.turns, "turn"),
        plural(health.steps, "step"),
        plural(health.commits, "commit"),
        plural(health.blobs, "blob"),
        health.schema,
        health.engine
    );
    let sizes: Vec<String> =
        health.bytes.iter().map(|(name, bytes)| format!("{name} {bytes} bytes")).collect();
    vec![
        Check::new("store", true, counts),
        Check::new("size", health.size("wal") < WAL_BYTES_SUSPICIOUS, sizes.join(", ")),
        Check::new(
            "indexes",
            true,
            format!(
                "{} bytes; {} not indexed yet",
                health.size("search"),
                plural(health.unindexed, "row")
            ),
        ),
    ]
}
