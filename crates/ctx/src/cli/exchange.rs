//! What `ctx push`, `ctx pull` and `ctx sync` have in common: the remote, the transfer and its
//! report.

use ctx_engine::exchange::{LocalPeer, Moved, Selection, TransferReport, transfer};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::remote::{self, Connection, Remotes, local_dir};

use super::output::{GREEN, YELLOW, plural, visible_text};
use super::{Context, init};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Exchange with this remote [default: `origin`, or the only remote]
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// Exchange only these sessions, given by label or id [default: all sessions]
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
}

/// The direction of an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Push,
    Pull,
    /// Pull, then push.
    Both,
}

pub(super) async fn run(
    context: &Context,
    args: &Args,
    direction: Direction,
) -> Result<(), Problem> {
    let remotes = Remotes::load(&context.data)?;
    let (name, remote) = remotes.find(args.remote.as_deref())?;
    let mut names = args.sessions.clone();
    names.extend(context.named_session.clone());
    let selection = if names.is_empty() { Selection::All } else { Selection::Named(names) };
    if direction != Direction::Push {
        init::ensure_store(context).await?;
    }
    let here = LocalPeer::new(context.engine()?, local_dir);
    let Connection { peer, traffic } = remote::connect(name, remote, &context.data).await?;
    let mut pulled = TransferReport::default();
    let mut pushed = TransferReport::default();
    if direction != Direction::Push {
        let progress = |done, total| context.out.progress("pulling", done, total);
        let wanted = Wanted { selection: &selection, may_miss: direction == Direction::Both };
        pulled = wanted.transfer(&*peer, &here, &progress).await?;
    }
    if direction != Direction::Pull {
        let progress = |done, total| context.out.progress("pushing", done, total);
        let wanted = Wanted { selection: &selection, may_miss: direction == Direction::Both };
        pushed = wanted.transfer(&here, &*peer, &progress).await?;
    }
    let report =
        Report { name, pulled, pushed, sent: traffic.sent(), received: traffic.received() };
    context.out.print(|| report.document(), || report.lines().join("\n"))
}

/// The sessions of one transfer.
struct Wanted<'a> {
    selection: &'a Selection,
    /// Whether a named session may be on the other side only.
    may_miss: bool,
}

impl Wanted<'_> {
    async fn transfer(
        &self,
        source: &dyn ctx_engine::exchange::Peer,
        target: &dyn ctx_engine::exchange::Peer,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<TransferReport, Problem> {
        match transfer(source, target, self.selection, progress).await {
            Err(error) if self.may_miss && error.code == "no_session" => {
                Ok(TransferReport::default())
            }
            report => Ok(report?),
        }
    }
}

struct Report<'a> {
    name: &'a str,
    pulled: TransferReport,
    pushed: TransferReport,
    sent: u64,
    received: u64,
}

/// Whether something was stored.
fn has_effect(moved: &&Moved) -> bool {
    moved.effect == ctx_engine::ImportEffect::Created || moved.turns > 0 || moved.tasks > 0
}

impl Report<'_> {
    fn branched(&self) -> impl Iterator<Item = (&'static str, &Moved)> {
        let here = self.pulled.moved.iter().map(|moved| ("here", moved));
        let there = self.pushed.moved.iter().map(|moved| ("there", moved));
        here.chain(there).filter(|(_, moved)| moved.branch_of.is_some() && has_effect(moved))
    }

    fn document(&self) -> Value {
        let moved = |report: &TransferReport| -> Vec<Value> {
            let document = |moved: &Moved| {
                json!({
                    "session": moved.session,
                    "label": moved.label,
                    "effect": moved.effect,
                    "turns": moved.turns,
                    "tasks": moved.tasks,
                    "tasks_left": moved.tasks_left,
                    "branch_of": moved.branch_of,
                })
            };
            report.moved.iter().filter(has_effect).map(document).collect()
        };
        let branched: Vec<Value> = self
            .branched()
            .map(|(side, moved)| {
                json!({
                    "session": moved.session,
                    "label": moved.label,
                    "branch_of": moved.branch_of,
                    "side": side,
                })
            })
            .collect();
        let skipped: Vec<Value> = [("pull", &self.pulled), ("push", &self.pushed)]
            .into_iter()
            .flat_map(|(way, report)| report.skipped.iter().map(move |skipped| (way, skipped)))
            .map(|(way, skipped)| {
                json!({
                    "session": skipped.session,
                    "label": skipped.label,
                    "direction": way,
                    "code": skipped.reason.code,
                    "message": skipped.reason.message,
                })
            })
            .collect();
        let (pushed, pulled) = (moved(&self.pushed), moved(&self.pulled));
        let up_to_date = pushed.is_empty() && pulled.is_empty() && skipped.is_empty();
        json!({
            "remote": self.name,
            "pushed": pushed,
            "pulled": pulled,
            "branched": branched,
            "skipped": skipped,
            "bytes_sent": self.sent,
            "bytes_received": self.received,
            "up_to_date": up_to_date,
        })
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (what, report) in [("Pulled", &self.pulled), ("Pushed", &self.pushed)] {
            let moved: Vec<&Moved> = report.moved.iter().filter(has_effect).collect();
            if !moved.is_empty() {
                let turns: u64 = moved.iter().map(|moved| moved.turns).sum();
                let tasks: usize = moved.iter().map(|moved| moved.tasks).sum();
                lines.push(format!(
                    "{GREEN}{what}{GREEN:#} {} with {} and {}",
                    plural(moved.len() as u64, "session"),
                    plural(turns, "new turn"),
                    plural(tasks as u64, "task"),
                ));
            }
        }
        for (side, moved) in self.branched() {
            lines.push(format!(
                "{YELLOW}Diverged{YELLOW:#}: the other branch of `{}` is the session `{}` {side}",
                visible_text(moved.branch_of.as_deref().unwrap_or_default()),
                visible_text(&moved.label),
            ));
        }
        for skipped in self.pulled.skipped.iter().chain(&self.pushed.skipped) {
            lines.push(format!(
                "{YELLOW}Skipped{YELLOW:#} `{}`: {}",
                visible_text(&skipped.label),
                visible_text(&skipped.reason.message),
            ));
        }
        if lines.is_empty() {
            lines.push(format!("Everything is up to date with {}.", self.name));
        }
        lines.push(format!("{} B sent, {} B received", self.sent, self.received));
        lines
    }
}
