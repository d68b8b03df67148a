//! `ctx doctor`: look for what could go wrong here.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ctx_engine::Health;
use serde::Serialize;
use serde_json::json;

use crate::problem::Problem;
use crate::providers::assemble;

use super::Context;
use super::provider::summary;

/// A log this long means that something keeps it from being moved into the database.
const WAL_BYTES_ODD: u64 = 256 << 20;

#[derive(clap::Args)]
pub(super) struct Args {}

#[derive(Serialize)]
struct Finding {
    check: &'static str,
    ok: bool,
    detail: String,
}

impl Finding {
    fn new(check: &'static str, ok: bool, detail: impl Into<String>) -> Self {
        Self { check, ok, detail: detail.into() }
    }
}

pub(super) async fn run(context: &Context, _: &Args) -> Result<(), Problem> {
    let mut findings = vec![configuration(context), providers(context)];
    match context.engine() {
        Err(problem) => findings.push(Finding::new(
            "store",
            false,
            format!("{} [{}]", problem.message, problem.code),
        )),
        Ok(engine) => {
            let health = engine.maintenance().health().await;
            findings.extend(rights(&context.data));
            findings.push(writable(&context.data));
            findings.extend(match health {
                Ok(health) => store(context, &health),
                Err(error) => vec![Finding::new("store", false, error.to_string())],
            });
        }
    }
    let failed = findings.iter().filter(|finding| !finding.ok).count();
    context.out.say(
        || json!({"ok": failed == 0, "checks": findings}),
        || {
            let line = |f: &Finding| {
                format!("{} {:<14} {}", if f.ok { "ok  " } else { "FAIL" }, f.check, f.detail)
            };
            findings.iter().map(line).collect::<Vec<_>>().join("\n")
        },
    )?;
    if failed == 0 {
        Ok(())
    } else {
        Err(Problem::failed("unwell", format!("{failed} checks failed")))
    }
}

fn configuration(context: &Context) -> Finding {
    match context.config().and_then(|config| config.settings()) {
        Ok(settings) => Finding::new(
            "configuration",
            true,
            format!(
                "tasks ask after {} and are sealed after {}",
                settings.stale.ask_after, settings.stale.seal_after
            ),
        ),
        Err(problem) => Finding::new("configuration", false, problem.message),
    }
}

/// A configuration that cannot be read is told once.
fn providers(context: &Context) -> Finding {
    match context.config().map(|config| assemble(&config, &context.data)) {
        Ok(Ok(assembled)) => {
            let (ok, detail) = summary(&assembled);
            Finding::new("providers", ok, detail)
        }
        Ok(Err(problem)) => Finding::new("providers", false, problem.message),
        Err(_) => Finding::new("providers", false, "not looked for without a configuration"),
    }
}

fn rights(data: &Path) -> Vec<Finding> {
    let mode = |path: &Path| {
        std::fs::metadata(path).map(|meta| meta.permissions().mode() & 0o777).unwrap_or(0)
    };
    let (dir, file) = (mode(data), mode(&data.join("ctx.db")));
    let private = dir & 0o077 == 0 || file & 0o077 == 0;
    vec![Finding::new(
        "rights",
        private,
        format!(
            "directory {dir:o}, database {file:o}{}",
            if private { "" } else { "; others can read it: chmod 700" }
        ),
    )]
}

fn writable(data: &Path) -> Finding {
    let probe = data.join(format!(".probe.{}", ulid::Ulid::new()));
    let wrote = std::fs::write(&probe, b"x");
    let _ = std::fs::remove_file(&probe);
    match wrote {
        Ok(()) => Finding::new("writable", true, data.display().to_string()),
        Err(e) => Finding::new("writable", false, format!("{}: {e}", data.display())),
    }
}

fn store(context: &Context, health: &Health) -> Vec<Finding> {
    let counts = format!(
        "{}: {} sessions, {} turns, {} steps, {} commits, {} blobs; schema {}, SQLite {}",
        context.data.display(),
        health.sessions,
        health.turns,
        health.steps,
        health.commits,
        health.blobs,
        health.schema,
        health.sqlite
    );
    vec![
        Finding::new("store", true, counts),
        Finding::new(
            "log",
            health.wal_bytes < WAL_BYTES_ODD,
            format!(
                "{} bytes of log beside {} of database",
                health.wal_bytes, health.database_bytes
            ),
        ),
        Finding::new(
            "indexes",
            true,
            format!(
                "{} bytes; {} rows behind, filled when needed",
                health.search_bytes, health.unindexed
            ),
        ),
    ]
}
