//! Ids as a user gives them: complete, or a unique beginning. Every surface resolves ids here.

use ctx_core::id::{
    BlobId, CommitId, EntityId, MessageId, ObjectId, OutgoingId, RunId, SessionId, SuspensionId,
    TaskId, TokenId, TurnId,
};
use ctx_core::object::Kind;
use ctx_core::refusal::Refusal;
use ctx_core::short_id::{
    CANDIDATES_MAX, hash_beginning, random_half, shortest_unique, ulid_beginning, ulid_begins_with,
};
use ctx_store::{Found, Target, UlidKind};
use ulid::Ulid;

use crate::engine::{Engine, Error};

/// Objects with equal first digits that are compared.
const MATCHES_MAX: usize = 64;

/// Ids: complete ones from unique beginnings, and the shortest unique beginnings.
///
/// A ULID can be given by the beginning of either half, in upper or lower case, and a hash by its
/// first digits; both need at least four characters. `None` means that no record has such an id; a
/// beginning of several ids is refused with the candidates.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// let new = ctx_engine::NewSession::default();
/// let (id, _) = engine.sessions().create(new, None, None).await?;
/// let short = engine.ids().short_sessions(&[id]).await?.remove(0);
/// assert_eq!(short.len(), 4);
/// assert_eq!(engine.sessions().get(&short.to_lowercase()).await?.session.id, id);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Ids<'a> {
    engine: &'a Engine,
}

/// A record that [`Ids::record`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A task, open or ended.
    Task(TaskId),
    /// A turn, step, commit or blob.
    Object(Found),
}

impl Engine {
    /// Ids: complete ones from unique beginnings, and the shortest unique beginnings.
    pub const fn ids(&self) -> Ids<'_> {
        Ids { engine: self }
    }

    /// The session that a name refers to: id, label, alias, or the beginning of an id. A name that
    /// nothing has is returned as a label.
    ///
    /// Fails if the name is the beginning of several ids.
    pub(crate) async fn target(&self, name: &str) -> Result<Target, Error> {
        if let Ok(id) = name.parse() {
            return Ok(Target::Id(id));
        }
        let Some(beginning) = ulid_beginning(name) else {
            return Ok(Target::Label(name.to_owned()));
        };
        let found = self.store().sessions_named(name, &beginning, CANDIDATES_MAX).await?;
        let one = only(name, found.iter().map(|id| id.0).collect())?;
        Ok(one.map_or_else(|| Target::Label(name.to_owned()), |id| Target::Id(SessionId(id))))
    }
}

macro_rules! ulid_ids {
    ($($(#[$doc:meta])* $name:ident: $kind:ident => $id:ident),+ $(,)?) => {
        impl Ids<'_> {$(
            $(#[$doc])*
            ///
            /// Fails if the text is the beginning of several ids, or the store fails.
            pub async fn $name(self, text: &str) -> Result<Option<$id>, Error> {
                Ok(self.ulid(UlidKind::$kind, text).await?.map($id))
            }
        )+}
    };
}

ulid_ids! {
    /// The id of a task.
    task: Task => TaskId,
    /// The id of a run.
    run: Run => RunId,
    /// The id of an entity. Names of entities are not considered.
    entity: Entity => EntityId,
    /// The id of a delivery to a channel.
    delivery: Outgoing => OutgoingId,
    /// The id of an API token.
    token: Token => TokenId,
}

impl Ids<'_> {
    async fn ulid(self, kind: UlidKind, text: &str) -> Result<Option<Ulid>, Error> {
        if let Ok(id) = Ulid::from_string(text) {
            return Ok(Some(id));
        }
        let Some(beginning) = ulid_beginning(text) else { return Ok(None) };
        let found = self.engine.store().ids_beginning(kind, &beginning, CANDIDATES_MAX).await?;
        only(text, found)
    }

    /// The id of a message in the inbox of a session.
    ///
    /// Fails if the session does not exist, or the text is the beginning of several ids.
    pub async fn inbox_item(self, session: &str, text: &str) -> Result<Option<MessageId>, Error> {
        if let Ok(id) = text.parse() {
            return Ok(Some(id));
        }
        let items = self.engine.messages().inbox(session).await?;
        Ok(among(text, items.iter().map(|item| item.message_id.0))?.map(MessageId))
    }

    /// The id of an open suspension of a session.
    ///
    /// Fails if the session does not exist, or the text is the beginning of several ids.
    pub async fn suspension(
        self,
        session: &str,
        text: &str,
    ) -> Result<Option<SuspensionId>, Error> {
        if let Ok(id) = text.parse() {
            return Ok(Some(id));
        }
        let info = self.engine.sessions().get(session).await?;
        Ok(among(text, info.suspensions.iter().map(|one| one.id.0))?.map(SuspensionId))
    }

    /// The id of a turn. A complete id is not looked up.
    ///
    /// Fails if the text is the beginning of several ids, or the store fails.
    pub async fn turn(self, text: &str) -> Result<Option<TurnId>, Error> {
        Ok(self.hash(Some(Kind::Turn), text).await?.map(|found| TurnId(found.id)))
    }

    /// The id of a commit. A complete id is not looked up.
    ///
    /// Fails if the text is the beginning of several ids, or the store fails.
    pub async fn commit(self, text: &str) -> Result<Option<CommitId>, Error> {
        Ok(self.hash(Some(Kind::Commit), text).await?.map(|found| CommitId(found.id)))
    }

    /// The id of a blob. A complete id is not looked up.
    ///
    /// Fails if the text is the beginning of several ids, or the store fails.
    pub async fn blob(self, text: &str) -> Result<Option<BlobId>, Error> {
        Ok(self.hash(Some(Kind::Blob), text).await?.map(|found| BlobId(found.id)))
    }

    /// The object of any kind that a text refers to.
    ///
    /// Fails if the text is the beginning of several ids, or the store fails.
    pub async fn object(self, text: &str) -> Result<Option<Found>, Error> {
        self.hash(None, text).await
    }

    /// The task or object that a text refers to.
    ///
    /// Fails if the text is the beginning of several ids, or the store fails.
    pub async fn record(self, text: &str) -> Result<Option<Record>, Error> {
        let task = self.task(text).await?;
        match (task, self.object(text).await?) {
            (Some(task), None) => Ok(Some(Record::Task(task))),
            (None, object) => Ok(object.map(Record::Object)),
            (Some(task), Some(object)) => {
                let object = format!("{} {}", object.kind, object.id);
                Err(ambiguous(text, vec![format!("task {task}"), object]))
            }
        }
    }

    async fn hash(self, kind: Option<Kind>, text: &str) -> Result<Option<Found>, Error> {
        let Some(beginning) = hash_beginning(text) else { return Ok(None) };
        if let (Ok(id), Some(kind)) = (beginning.parse::<ObjectId>(), kind) {
            return Ok(Some(Found { id, kind }));
        }
        let mut found = self.engine.store().resolve(&beginning, MATCHES_MAX).await?;
        if let Some(kind) = kind {
            found.retain(|one| one.kind == kind);
        }
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            several => {
                let candidates = several
                    .iter()
                    .take(CANDIDATES_MAX)
                    .map(|one| format!("{} {}", one.kind, one.id));
                Err(ambiguous(text, candidates.collect()))
            }
        }
    }

    /// The short ids of sessions, in the same order.
    ///
    /// Fails if the store fails.
    pub async fn short_sessions(self, ids: &[SessionId]) -> Result<Vec<String>, Error> {
        self.short(UlidKind::Session, ids.iter().map(|id| id.0).collect()).await
    }

    /// The short ids of records of a kind, in the same order.
    ///
    /// Fails if the store fails.
    pub async fn short(self, kind: UlidKind, ids: Vec<Ulid>) -> Result<Vec<String>, Error> {
        Ok(self.engine.store().short_ids(kind, ids).await?)
    }

    /// The short ids of objects, in the same order.
    ///
    /// Fails if the store fails.
    pub async fn short_objects(self, ids: Vec<ObjectId>) -> Result<Vec<String>, Error> {
        Ok(self.engine.store().short_hashes(ids).await?)
    }
}

/// The short ids of all these ULIDs, which are the only ones that a user can name in their place.
pub fn short_among(ids: &[Ulid]) -> Vec<String> {
    let texts: Vec<String> = ids.iter().map(Ulid::to_string).collect();
    let short = |(n, text): (usize, &String)| {
        let others = texts.iter().enumerate().filter(|(other, _)| *other != n);
        let halves = others.flat_map(|(_, other)| [random_half(other), other.as_str()]);
        shortest_unique(random_half(text), halves)
    };
    texts.iter().enumerate().map(short).collect()
}

/// The one of these ids that a text is the beginning of.
fn among(text: &str, ids: impl Iterator<Item = Ulid>) -> Result<Option<Ulid>, Error> {
    let Some(beginning) = ulid_beginning(text) else { return Ok(None) };
    only(text, ids.filter(|id| ulid_begins_with(&id.to_string(), &beginning)).collect())
}

fn only(text: &str, found: Vec<Ulid>) -> Result<Option<Ulid>, Error> {
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        several => Err(ambiguous(text, several.iter().map(Ulid::to_string).collect())),
    }
}

fn ambiguous(text: &str, candidates: Vec<String>) -> Error {
    Refusal::AmbiguousId { id: text.to_owned(), candidates }.into()
}
