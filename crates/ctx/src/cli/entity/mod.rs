//! `ctx entity …`: people, agents and services that send messages, and their addresses on channels.

mod add;
mod edit;
mod link;
mod list;
mod merge;
mod sessions;
mod show;
mod unlink;

use clap::Subcommand;
use ctx_engine::core::identity::{
    Address, Entity as CoreEntity, EntityKind, FIELD_MAX_BYTES, Identity as CoreIdentity,
};
use ctx_engine::{Engine, Error};

use crate::json::entity_json::Entity;
use crate::json::variant_name;
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, GREEN, YELLOW, visible_line, visible_text};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List the entities, oldest first, without those that were merged
    List(list::Args),
    /// Add an entity
    Add(add::Args),
    /// Show an entity and its identities
    Show(show::Args),
    /// Change an entity
    Edit(edit::Args),
    /// Link an address on a channel to an entity
    ///
    /// From then on, direct messages of the address go to the session of the entity. If the address
    /// has a session and the entity has none, the session of the address becomes that of the
    /// entity.
    Link(link::Args),
    /// Remove the link of an address to an entity
    Unlink(unlink::Args),
    /// Merge an entity into another one
    ///
    /// The session with more turns receives the messages of both. The other session keeps its
    /// history under a label that ends in `~merged`.
    Merge(merge::Args),
    /// List the sessions with direct messages of an entity, newest activity first
    Sessions(sessions::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::List(args) => list::run(context, &args).await,
        Verb::Add(args) => add::run(context, args).await,
        Verb::Show(args) => show::run(context, &args).await,
        Verb::Edit(args) => edit::run(context, args).await,
        Verb::Link(args) => link::run(context, args).await,
        Verb::Unlink(args) => unlink::run(context, args).await,
        Verb::Merge(args) => merge::run(context, &args).await,
        Verb::Sessions(args) => sessions::run(context, &args).await,
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum KindArg {
    Person,
    Agent,
    Service,
}

impl From<KindArg> for EntityKind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Person => Self::Person,
            KindArg::Agent => Self::Agent,
            KindArg::Service => Self::Service,
        }
    }
}

/// An address on a channel.
#[derive(clap::Args)]
struct AddressArgs {
    /// The channel, such as irc
    #[arg(long)]
    channel: String,
    /// The id of the sender on the channel
    #[arg(long, value_name = "ID")]
    sender: String,
    /// The account of ctx on the channel, where it has several
    #[arg(long, value_name = "ID")]
    account: Option<String>,
}

impl From<AddressArgs> for Address {
    fn from(args: AddressArgs) -> Self {
        Self { channel: args.channel, account_id: args.account, sender_id: args.sender }
    }
}

/// The entity with an id or a name.
async fn find(engine: &Engine, name: &str) -> Result<CoreEntity, Problem> {
    engine.entities().find(name).await.map_err(|error| {
        let mut problem = Problem::from(error);
        if problem.code == "no_entity" {
            problem.message = format!("there is no entity `{}`", shown(name));
        }
        problem
    })
}

/// An error about a text of an entity or an address.
fn problem(error: Error) -> Problem {
    let is_text = error.code() == "bad_text";
    let problem = Problem::from(error);
    if is_text {
        return problem.hint(format!("use a text of 1 to {FIELD_MAX_BYTES} bytes"));
    }
    problem
}

/// The document of an entity with its identities.
async fn document(
    engine: &Engine,
    entity: &CoreEntity,
) -> Result<(Entity, Vec<CoreIdentity>), Problem> {
    let identities = engine.entities().identities(entity.id).await?;
    Ok((Entity::new(entity, &identities), identities))
}

fn shown(text: &str) -> String {
    visible_line(text, 60)
}

/// `01J… Mom person · family · owner`
fn entity_line(entity: &CoreEntity) -> String {
    let mut words = vec![variant_name(&entity.kind)];
    words.extend(entity.relationship.as_deref().map(shown));
    if entity.owner {
        words.push(format!("{GREEN}owner{GREEN:#}"));
    }
    words.extend(entity.merged_into.map(|into| format!("{YELLOW}merged into {into}{YELLOW:#}")));
    let words = words.join(" · ");
    format!("{DIM}{}{DIM:#} {BOLD}{}{BOLD:#} {words}", entity.id, shown(&entity.name))
}

/// The key of an address, and whether it is only claimed.
fn identity_line(identity: &CoreIdentity) -> String {
    visible_text(&address_text(identity))
}

fn address_text(identity: &CoreIdentity) -> String {
    let key = identity.address.key();
    if identity.verified { key } else { format!("{key} claimed, not verified") }
}
