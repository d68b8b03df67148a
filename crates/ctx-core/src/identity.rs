//! Who sends a message: entities, their identities on channels, and the envelope of a message that
//! comes from a channel (R118–R143).

pub mod merge;

use serde::{Deserialize, Serialize};

use crate::id::EntityId;
use crate::refusal::Refusal;
use crate::text_limits;
use crate::time::Timestamp;

/// Maximum length of each text of an envelope and of an identity.
pub const FIELD_MAX_BYTES: usize = 255;
/// Maximum number of identities of one entity.
pub const IDENTITIES_MAX: usize = 1000;

/// What an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum EntityKind {
    #[default]
    Person,
    Agent,
    Service,
}

/// A person, agent or service that sends messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Entity {
    pub id: EntityId,
    pub kind: EntityKind,
    pub name: String,
    /// What the entity is to the owner, for example `family`. Policies can match it.
    pub relationship: Option<String>,
    /// Whether the entity owns this store.
    pub owner: bool,
    /// The entity that this one was merged into. It has no identities any more.
    pub merged_into: Option<EntityId>,
    pub created_at: Timestamp,
}

impl Entity {
    /// The entity, unless it was merged into another one.
    ///
    /// Fails with the other one.
    pub fn unmerged(self) -> Result<Self, Refusal> {
        match self.merged_into {
            Some(into) => Err(Refusal::EntityMerged { into }),
            None => Ok(self),
        }
    }
}

/// An address on a channel. At most one entity has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Address {
    pub channel: String,
    /// The account of ctx on the channel, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    pub sender_id: String,
}

/// An address of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    #[serde(flatten)]
    pub address: Address,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub entity: EntityId,
    /// Whether the link is verified. A sender with a link that is only claimed stays unknown.
    pub verified: bool,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub linked_at: Timestamp,
}

impl Identity {
    /// Checks that the address can be linked. `known` is the link that it has, `count` the number
    /// of identities of the entity. A link that is only claimed gives way to another one.
    ///
    /// Fails if another entity has a verified link, or the entity has too many identities.
    pub fn check_link(&self, known: Option<&Self>, count: usize) -> Result<(), Refusal> {
        match known {
            Some(known) if known.entity == self.entity => Ok(()),
            Some(known) if known.verified => Err(Refusal::IdentityLinked { entity: known.entity }),
            _ if count >= IDENTITIES_MAX => {
                Err(Refusal::TooMany { what: "identities", count: count + 1, max: IDENTITIES_MAX })
            }
            _ => Ok(()),
        }
    }
}

/// The type of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum PrincipalType {
    Owner,
    Known,
    Unknown,
    System,
    Webhook,
    Agent,
}

/// The sender of a message, as far as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Principal {
    #[serde(rename = "type")]
    pub kind: PrincipalType,
    pub entity_id: Option<EntityId>,
    pub name: Option<String>,
    pub relationship: Option<String>,
}

impl Principal {
    /// A sender that no entity is linked to.
    pub fn unknown(name: Option<String>) -> Self {
        Self { kind: PrincipalType::Unknown, entity_id: None, name, relationship: None }
    }

    /// The sender that a verified identity of this entity belongs to.
    pub fn of(entity: &Entity) -> Self {
        let kind = match entity.kind {
            _ if entity.owner => PrincipalType::Owner,
            EntityKind::Person => PrincipalType::Known,
            EntityKind::Agent => PrincipalType::Agent,
            EntityKind::Service => PrincipalType::System,
        };
        Self {
            kind,
            entity_id: Some(entity.id),
            name: Some(entity.name.clone()),
            relationship: entity.relationship.clone(),
        }
    }
}

/// Where on a channel a message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the other variants are named after what they are")]
pub enum PeerKind {
    /// A direct message.
    #[default]
    Dm,
    Group,
    Channel,
}

/// The envelope of a message from a channel (the requirements' Delivery).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Envelope {
    pub channel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    pub sender_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_name: Option<String>,
    #[serde(default)]
    pub peer_kind: PeerKind,
    /// The group or channel; for a direct message where the answer goes, if not to the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The message on the channel that this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to_id: Option<String>,
}

impl Envelope {
    /// Checks that no text is empty or too long.
    ///
    /// Fails with the name of the field.
    pub fn check(&self) -> Result<(), Refusal> {
        self.address().check()?;
        let texts = [
            ("sender_name", &self.sender_name),
            ("peer_id", &self.peer_id),
            ("thread_id", &self.thread_id),
            ("reply_to_id", &self.reply_to_id),
        ];
        for (what, text) in texts {
            text.as_deref().map(|text| check_field(what, text)).transpose()?;
        }
        Ok(())
    }

    /// The address of the sender.
    pub fn address(&self) -> Address {
        Address {
            channel: self.channel.clone(),
            account_id: self.account_id.clone(),
            sender_id: self.sender_id.clone(),
        }
    }
}

impl Address {
    /// Checks that no part is empty or too long.
    ///
    /// Fails with the name of the part.
    pub fn check(&self) -> Result<(), Refusal> {
        check_field("channel", &self.channel)?;
        check_field("sender_id", &self.sender_id)?;
        self.account_id.as_deref().map(|id| check_field("account_id", id)).transpose()?;
        Ok(())
    }

    /// The address as one text: `channel:sender_id`, or `channel/account_id:sender_id`. Different
    /// addresses have different keys.
    pub fn key(&self) -> String {
        let channel = channel_key(&self.channel, self.account_id.as_deref());
        format!("{channel}:{}", escape(&self.sender_id))
    }
}

/// Checks a text of an envelope, an identity or an entity.
///
/// Fails if it is empty, too long or contains NUL.
pub fn check_field(what: &'static str, text: &str) -> Result<(), Refusal> {
    match text_limits::check(text, FIELD_MAX_BYTES) {
        Ok(_) => Ok(()),
        Err(why) => Err(Refusal::BadText { what, why }),
    }
}

/// A channel as a part of a key, with the account of ctx if it has several.
pub fn channel_key(channel: &str, account_id: Option<&str>) -> String {
    match account_id {
        Some(account) => format!("{}/{}", escape(channel), escape(account)),
        None => escape(channel),
    }
}

/// Percent-encodes the characters that have a meaning in labels, white space and control
/// characters, so that a value never forms more than one part of a label.
pub fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for char in value.chars() {
        if matches!(char, ':' | '/' | '%' | '~') || char.is_whitespace() || char.is_control() {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        } else {
            escaped.push(char);
        }
    }
    escaped
}

/// The value that [`escape`] encoded. `None` if the text is not the result of `escape`.
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        rest = more;
        if first == b'%' {
            let digits = std::str::from_utf8(more.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &more[2..];
        } else {
            bytes.push(first);
        }
    }
    let value = String::from_utf8(bytes).ok()?;
    (escape(&value) == text).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_limits::BadText;
    use proptest::prelude::*;

    #[test]
    fn values_with_separators_are_encoded() {
        for (value, escaped) in [
            ("mom", "mom"),
            ("@mom:example.org", "@mom%3Aexample.org"),
            ("a/b%c d\n~", "a%2Fb%25c%20d%0A%7E"),
            ("中\u{3000}文", "中%E3%80%80文"),
        ] {
            assert_eq!(escape(value), escaped);
            assert_eq!(unescape(escaped).as_deref(), Some(value));
        }
        for wrong in ["a:b", "%", "%2", "%zz", "%41", "%3a", "%FF", "a b"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn texts_are_not_blank_too_long_or_with_nul() {
        let long = "x".repeat(FIELD_MAX_BYTES + 1);
        for (text, why) in [
            ("", BadText::Empty),
            (" \n", BadText::Empty),
            ("a\0b", BadText::Nul),
            (&long, BadText::TooLong { bytes: FIELD_MAX_BYTES + 1, max: FIELD_MAX_BYTES }),
        ] {
            assert_eq!(check_field("name", text), Err(Refusal::BadText { what: "name", why }));
        }
        assert_eq!(check_field("name", &long[1..]), Ok(()));
    }

    #[test]
    fn a_verified_link_belongs_to_one_entity_and_a_claim_gives_way() {
        let identity = |entity, verified| Identity {
            address: Address {
                channel: "irc".to_owned(),
                account_id: None,
                sender_id: "mom".to_owned(),
            },
            entity: EntityId(ulid::Ulid(entity)),
            verified,
            linked_at: Timestamp(0),
        };
        let linked = Refusal::IdentityLinked { entity: EntityId(ulid::Ulid(2)) };
        let max = IDENTITIES_MAX;
        let too_many = Refusal::TooMany { what: "identities", count: max + 1, max };
        for (known, count, expected) in [
            (None, 0, Ok(())),
            (None, max, Err(too_many)),
            (Some(identity(1, true)), max, Ok(())),
            (Some(identity(1, false)), 1, Ok(())),
            (Some(identity(2, false)), 1, Ok(())),
            (Some(identity(2, true)), 1, Err(linked)),
        ] {
            assert_eq!(identity(1, true).check_link(known.as_ref(), count), expected, "{known:?}");
        }
    }

    proptest! {
        #[test]
        fn different_addresses_have_different_keys(
            a in "[a-c:/%~ ]{1,4}", b in "[a-c:/%~ ]{1,4}", c in "[a-c:/%~ ]{1,4}",
            d in "[a-c:/%~ ]{1,4}", e in "[a-c:/%~ ]{1,4}", f in "[a-c:/%~ ]{1,4}",
            accounts in (any::<bool>(), any::<bool>()),
        ) {
            let address = |channel: String, account: String, sender_id: String, has: bool| Address {
                channel,
                account_id: has.then_some(account),
                sender_id,
            };
            let one = address(a, b, c, accounts.0);
            let other = address(d, e, f, accounts.1);
            prop_assert_eq!(one == other, one.key() == other.key());
        }
    }
}
