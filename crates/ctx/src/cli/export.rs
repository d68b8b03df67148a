//! `ctx export SESSION`: write a session to a bundle, a document, the home of another tool, or a
//! git repository ([`super::export_git`]).

use std::path::PathBuf;

use ctx_engine::Engine;
use ctx_engine::core::bundle;
use ctx_engine::core::redaction::Redactor;
use serde_json::{Value, json};

use crate::export::{Document, NativeTool, Secrets, SessionReader, Target, export_to_tool, report};
use crate::problem::Problem;

use super::bundle_file::BundleFile;
use super::export_git::GitArgs;
use super::output::{plural, visible_text};
use super::{Context, export_git};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION", required_unless_present_any = ["git", "notes", "trace"])]
    session_name: Option<String>,
    /// Write to this file [default: standard output in a pipe, else a file named after the
    /// session]. With --to TOOL: write below this directory instead of the tool's own
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the session for this tool to continue, or as a document [default: a bundle, which
    /// `ctx import` reads]
    #[arg(long, value_name = "TARGET", value_parser = target_names(),
          conflicts_with_all = ["git", "notes", "trace"])]
    to: Option<String>,
    /// Replace secrets by `[redacted:KIND]` and count them. The copy is another history
    #[arg(long, conflicts_with_all = ["git", "notes", "trace"])]
    redact: bool,
    #[command(flatten)]
    git: GitArgs,
}

impl Args {
    /// The session, which every form but those of git requires.
    fn session(&self) -> &str {
        self.session_name.as_deref().unwrap_or_default()
    }
}

fn target_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(Target::names())
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    if args.git.is_used() {
        return export_git::run(context, args.session_name.as_deref(), &args.git).await;
    }
    let engine = context.engine()?;
    let secrets = if args.redact { Secrets::Redact } else { Secrets::Keep };
    match args.to.as_deref().and_then(Target::named) {
        None if args.redact => redacted_bundle(context, &engine, args).await,
        None => whole_bundle(context, &engine, args).await,
        Some(Target::Document(form)) => document(context, &engine, args, form, secrets).await,
        Some(Target::Tool(tool)) => native(context, &engine, args, tool, secrets).await,
    }
}

async fn whole_bundle(context: &Context, engine: &Engine, args: &Args) -> Result<(), Problem> {
    let mut export = engine.bundles().export(args.session()).await?;
    let name = format!("session-{}.ctx-bundle", export.manifest().session);
    let mut file = BundleFile::create(context, args.output.as_deref(), &name)?;
    while let Some(part) = export.next_part().await? {
        file.write(&part)?;
    }
    let Some(file) = file.finish()? else { return Ok(()) };
    let manifest = export.manifest();
    context.out.print(
        || {
            json!({
                "session": manifest.session,
                "label": manifest.label,
                "head": manifest.head,
                "turn_count": manifest.turn_count,
                "tasks": manifest.tasks.len(),
                "bytes": export.bytes(),
                "file": file,
            })
        },
        || {
            format!(
                "Wrote {} ({}, {}, {}). Import it with `ctx import {}`.",
                file.display(),
                plural(export.bytes(), "byte"),
                plural(manifest.turn_count, "turn"),
                plural(manifest.tasks.len(), "task"),
                file.display()
            )
        },
    )
}

/// The ids of a redacted bundle depend on all of its objects, so it is complete before it is
/// written.
async fn redacted_bundle(context: &Context, engine: &Engine, args: &Args) -> Result<(), Problem> {
    let mut export = engine.bundles().export(args.session()).await?;
    let mut bytes = Vec::with_capacity(export.bytes());
    while let Some(part) = export.next_part().await? {
        bytes.extend(part);
    }
    let mut redactor = Redactor::default();
    let bytes = bundle::redact(bytes, &mut redactor).map_err(ctx_engine::Error::from)?;
    let manifest = export.manifest();
    let name = format!("session-{}.ctx-bundle", manifest.session);
    let mut file = BundleFile::create(context, args.output.as_deref(), &name)?;
    file.write(&bytes)?;
    let Some(file) = file.finish()? else {
        print_report(&redactor);
        return Ok(());
    };
    context.out.print(
        || {
            json!({
                "session": manifest.session,
                "label": manifest.label,
                "turn_count": manifest.turn_count,
                "tasks": manifest.tasks.len(),
                "bytes": bytes.len(),
                "file": file,
                "redacted": report::document(&redactor),
            })
        },
        || {
            let (bytes, report) = (bytes.len(), report::line(&redactor));
            format!("Wrote {} ({bytes} bytes). {report}", file.display())
        },
    )
}

async fn document(
    context: &Context,
    engine: &Engine,
    args: &Args,
    form: Document,
    secrets: Secrets,
) -> Result<(), Problem> {
    let mut reader = SessionReader::open(engine, args.session(), form.order(), secrets).await?;
    let mut format = form.format(reader.session());
    let name = format!("session-{}.{}", reader.session().id, form.extension());
    let mut file = BundleFile::create(context, args.output.as_deref(), &name)?;
    let (mut bytes, mut buffer) = (0, Vec::new());
    format.start(&mut buffer);
    while let Some(turns) = reader.next().await? {
        turns.iter().for_each(|turn| format.turn(turn, &mut buffer));
        file.write(&buffer)?;
        bytes += buffer.len();
        buffer.clear();
    }
    format.end(&mut buffer);
    file.write(&buffer)?;
    bytes += buffer.len();
    let redactor = (secrets == Secrets::Redact).then(|| reader.redactor());
    let Some(file) = file.finish()? else {
        redactor.into_iter().for_each(print_report);
        return Ok(());
    };
    let session = reader.session();
    context.out.print(
        || {
            let document = json!({
                "session": session.id.to_string(),
                "label": session.label,
                "to": form.name(),
                "turn_count": session.turn_count,
                "bytes": bytes,
                "file": file,
            });
            with_report(document, redactor)
        },
        || {
            let report = redactor.map(|one| format!(" {}", report::line(one))).unwrap_or_default();
            let turns = plural(session.turn_count, "turn");
            format!("Wrote {} ({bytes} bytes, {turns}).{report}", file.display())
        },
    )
}

async fn native(
    context: &Context,
    engine: &Engine,
    args: &Args,
    tool: NativeTool,
    secrets: Secrets,
) -> Result<(), Problem> {
    let output = args.output.as_deref();
    let export = export_to_tool(engine, args.session(), tool, output, secrets).await?;
    let redactor = (secrets == Secrets::Redact).then_some(&export.redactor);
    context.out.print(
        || {
            let document = json!({
                "session": export.session.id.to_string(),
                "label": export.session.label,
                "to": tool.name(),
                "id": export.id,
                "file": export.file,
                "working_dir": export.working_dir,
                "turn_count": export.session.turn_count,
                "resume_command": export.resume_command,
            });
            with_report(document, redactor)
        },
        || {
            let file = visible_text(&export.file.display().to_string());
            let report = redactor.map(|one| format!(" {}", report::line(one))).unwrap_or_default();
            let command = visible_text(&export.resume_command);
            let turns = plural(export.session.turn_count, "turn");
            format!("Wrote {file} ({turns}).{report}\n{command}")
        },
    )
}

fn with_report(mut document: Value, redactor: Option<&Redactor>) -> Value {
    if let Some(redactor) = redactor {
        document["redacted"] = report::document(redactor);
    }
    document
}

/// The report beside a document on standard output.
fn print_report(redactor: &Redactor) {
    eprintln!("{}", report::line(redactor));
}
