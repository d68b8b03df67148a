//! `ctx policy explain`: show the decision about a message and the part of each policy in it.

use std::collections::BTreeSet;

use ctx_engine::Explained;
use ctx_engine::core::identity::{Envelope, PeerKind, Principal};
use ctx_engine::core::policy::{Access, RuleResult};
use serde_json::json;

use crate::json::variant_name;
use crate::policy_file;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{BOLD, DIM, GREEN, RED, visible_text};
use super::check::effect_word;

/// Names that are longer do not widen the column.
const NAME_WIDTH_MAX: usize = 30;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The channel of the message
    #[arg(long)]
    channel: String,
    /// The id of the sender on the channel
    #[arg(long, value_name = "ID")]
    sender: String,
    /// The account of ctx on the channel, where it has several
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// The group or channel in which the message was sent
    #[arg(long, value_name = "ID")]
    peer: Option<String>,
    /// Where the message was sent [default: group with --peer, else dm]
    #[arg(long, value_name = "KIND")]
    peer_kind: Option<PeerKindArg>,
    /// The thread of the message
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// The text of the message; policies can match its start
    #[arg(long, default_value = "")]
    text: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum PeerKindArg {
    Dm,
    Group,
    Channel,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Problem> {
    let policies = policy_file::load(&context.policy_file())?;
    let engine = context.engine()?;
    engine.inbound().set_policies(policies);
    let peer_kind = match args.peer_kind {
        Some(PeerKindArg::Dm) => PeerKind::Dm,
        Some(PeerKindArg::Group) => PeerKind::Group,
        Some(PeerKindArg::Channel) => PeerKind::Channel,
        None if args.peer.is_some() => PeerKind::Group,
        None => PeerKind::Dm,
    };
    let envelope = Envelope {
        channel: args.channel,
        account_id: args.account,
        sender_id: args.sender,
        sender_name: None,
        peer_kind,
        peer_id: args.peer,
        thread_id: args.thread,
        reply_to_id: None,
    };
    let explained = engine.inbound().explain(&envelope, &args.text).await?;
    context.out.print(|| json!(explained), || lines(&envelope, &explained).join("\n"))
}

fn lines(envelope: &Envelope, explained: &Explained) -> Vec<String> {
    let mut lines = vec![
        row("sender", &visible_text(&envelope.address().key())),
        row("principal", &principal_words(&explained.principal)),
        String::new(),
    ];
    let rules = &explained.explanation.rules;
    let widths = rules.iter().map(|rule| visible_text(&rule.policy).chars().count());
    let width = widths.max().unwrap_or(0).min(NAME_WIDTH_MAX);
    lines.extend(rules.iter().map(|rule| rule_line(rule, width)));
    if rules.is_empty() {
        lines.push("The file has no policies.".to_owned());
    }
    lines.push(String::new());
    match &explained.explanation.result {
        Ok(access) => lines.extend(access_lines(access)),
        Err(denial) => {
            let why = visible_text(&denial.to_string());
            lines.push(row("result", &format!("{RED}denied{RED:#} [{}]", denial.code())));
            lines.push(row("reason", &why));
        }
    }
    lines
}

fn row(name: &str, value: &str) -> String {
    format!("{DIM}{name:<13}{DIM:#} {value}")
}

fn principal_words(principal: &Principal) -> String {
    let mut words = format!("{BOLD}{}{BOLD:#}", variant_name(&principal.kind));
    let name = principal.name.as_deref().map(visible_text);
    let relationship = principal.relationship.as_deref().map(visible_text);
    for word in [name, relationship].into_iter().flatten() {
        words.push_str(&format!(" · {word}"));
    }
    if let Some(entity) = principal.entity_id {
        words.push_str(&format!(" {DIM}{entity}{DIM:#}"));
    }
    words
}

/// Whether the policy matched, its name, priority and effect, and why.
fn rule_line(rule: &RuleResult, width: usize) -> String {
    let mark =
        if rule.matched { format!("{GREEN}✓{GREEN:#}") } else { format!("{DIM}·{DIM:#}") };
    let (name, why) = (visible_text(&rule.policy), visible_text(&rule.reason));
    format!("{mark} {name:<width$}  {:>3}  {}  {why}", rule.priority, effect_word(rule.effect))
}

fn access_lines(access: &Access) -> Vec<String> {
    let or_default = |value: Option<String>| {
        value.map_or_else(|| "default".to_owned(), |value| visible_text(&value))
    };
    let names = |names: &BTreeSet<String>| {
        let names: Vec<_> = names.iter().map(|name| visible_text(name)).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" };
    let allowed = access.tools.allow.as_ref().map_or_else(|| "all".to_owned(), names);
    vec![
        row("result", &format!("{GREEN}allowed{GREEN:#}")),
        row("policy", &visible_text(&access.policy)),
        row("label", &format!("{BOLD}{}{BOLD:#}", visible_text(&access.label))),
        row("persona", &or_default(access.persona.clone())),
        row("queue mode", &or_default(access.queue_mode.map(|mode| mode.name().to_owned()))),
        row("track tasks", &or_default(access.track_tasks.map(|it| yes_or_no(it).to_owned()))),
        row("tools allowed", &allowed),
        row("tools denied", &names(&access.tools.deny)),
        row("may approve", yes_or_no(access.approve)),
    ]
}
