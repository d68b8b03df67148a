//! Session keys: the labels of sessions that messages from channels are routed to (R119–R124).
//!
//! | key | label |
//! |---|---|
//! | entity | `dm:{entity_id}` |
//! | sender without an entity | `dm:{channel}:{sender_id}` |
//! | group | `group:{channel}:{peer_id}` |
//! | thread of a group | `group:{channel}:{peer_id}:thread:{thread_id}` |
//! | worker | `worker:{ulid}` |
//! | system | `system:{purpose}` |
//!
//! `{channel}` is [`channel_key`]: it has `/` and the account where the channel has several. Every
//! value is escaped, so different keys have different labels and a value never adds a part.

use std::fmt;
use std::str::FromStr;

use ulid::Ulid;

use crate::id::EntityId;
use crate::identity::{Address, channel_key, escape, unescape};

/// What a session is for, as its label tells.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields are named after what they hold")]
pub enum SessionKey {
    /// Direct messages of an entity, on all channels.
    Entity { entity: EntityId },
    /// Direct messages of a sender that no entity is linked to.
    Sender(Address),
    /// A group, for all its members.
    Group { channel: String, account_id: Option<String>, peer_id: String },
    /// A thread of a group.
    Thread { channel: String, account_id: Option<String>, peer_id: String, thread_id: String },
    /// A session that another session started.
    Worker { id: Ulid },
    /// A session of ctx or of a schedule.
    System { purpose: String },
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entity { entity } => write!(f, "dm:{entity}"),
            Self::Sender(address) => write!(f, "dm:{}", address.key()),
            Self::Group { channel, account_id, peer_id } => {
                let channel = channel_key(channel, account_id.as_deref());
                write!(f, "group:{channel}:{}", escape(peer_id))
            }
            Self::Thread { channel, account_id, peer_id, thread_id } => {
                let channel = channel_key(channel, account_id.as_deref());
                write!(f, "group:{channel}:{}:thread:{}", escape(peer_id), escape(thread_id))
            }
            Self::Worker { id } => write!(f, "worker:{id}"),
            Self::System { purpose } => write!(f, "system:{}", escape(purpose)),
        }
    }
}

/// The text is not a session key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid session key `{label}`: {reason}")]
pub struct BadSessionKey {
    label: String,
    reason: &'static str,
}

/// Maximum length of a label in an error message.
const LABEL_SHOWN_CHARS: usize = 80;

const FORMS: &str = "the forms are dm:ENTITY, dm:CHANNEL:SENDER, group:CHANNEL:PEER, \
                     group:CHANNEL:PEER:thread:ID, worker:ULID and system:PURPOSE";

impl FromStr for SessionKey {
    type Err = BadSessionKey;

    fn from_str(label: &str) -> Result<Self, BadSessionKey> {
        parse(label).map_err(|reason| BadSessionKey {
            label: label.chars().take(LABEL_SHOWN_CHARS).collect(),
            reason,
        })
    }
}

fn parse(label: &str) -> Result<SessionKey, &'static str> {
    let parts: Vec<&str> = label.split(':').collect();
    match parts.as_slice() {
        ["dm", entity] => {
            let entity = ulid(entity).ok_or("the entity id is not a ULID of 26 characters")?;
            Ok(SessionKey::Entity { entity: EntityId(entity) })
        }
        ["dm", channel, sender] => {
            let (channel, account_id) = parse_channel(channel)?;
            Ok(SessionKey::Sender(Address { channel, account_id, sender_id: value(sender)? }))
        }
        ["group", channel, peer] => {
            let (channel, account_id) = parse_channel(channel)?;
            Ok(SessionKey::Group { channel, account_id, peer_id: value(peer)? })
        }
        ["group", channel, peer, "thread", thread] => {
            let (channel, account_id) = parse_channel(channel)?;
            let (peer_id, thread_id) = (value(peer)?, value(thread)?);
            Ok(SessionKey::Thread { channel, account_id, peer_id, thread_id })
        }
        ["worker", id] => {
            let id = ulid(id).ok_or("the worker's id is not a ULID of 26 characters")?;
            Ok(SessionKey::Worker { id })
        }
        ["system", purpose] => Ok(SessionKey::System { purpose: value(purpose)? }),
        _ => Err(FORMS),
    }
}

/// A ULID in the form in which it is printed. Other spellings would be a second label of the same
/// key.
fn ulid(text: &str) -> Option<Ulid> {
    Ulid::from_string(text).ok().filter(|ulid| ulid.to_string() == text)
}

fn value(text: &str) -> Result<String, &'static str> {
    match unescape(text) {
        Some(value) if !value.is_empty() => Ok(value),
        Some(_) => Err("a part is empty"),
        None => Err("a part has characters that must be percent-encoded"),
    }
}

fn parse_channel(text: &str) -> Result<(String, Option<String>), &'static str> {
    match text.split_once('/') {
        Some((channel, account)) => Ok((value(channel)?, Some(value(account)?))),
        None => Ok((value(text)?, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    const ULID: &str = "01JCZ5V0S3E8Q4T6W7X8Y9ZABC";

    fn entity() -> EntityId {
        ULID.parse().expect("a ULID")
    }

    fn sender(channel: &str, account: Option<&str>, sender: &str) -> SessionKey {
        SessionKey::Sender(Address {
            channel: channel.into(),
            account_id: account.map(Into::into),
            sender_id: sender.into(),
        })
    }

    // R119–R124
    #[test]
    fn each_kind_of_key_has_its_label() {
        let group = |account: Option<&str>| SessionKey::Group {
            channel: "irc".into(),
            account_id: account.map(Into::into),
            peer_id: "#ctx".into(),
        };
        let thread = SessionKey::Thread {
            channel: "slack".into(),
            account_id: None,
            peer_id: "C1".into(),
            thread_id: "17.5".into(),
        };
        for (key, label) in [
            (SessionKey::Entity { entity: entity() }, format!("dm:{ULID}")),
            (sender("telegram", None, "42"), "dm:telegram:42".into()),
            (sender("irc", Some("libera"), "mom"), "dm:irc/libera:mom".into()),
            (sender("matrix", None, "@m:x.org"), "dm:matrix:@m%3Ax.org".into()),
            (group(None), "group:irc:#ctx".into()),
            (group(Some("a/b")), "group:irc/a%2Fb:#ctx".into()),
            (thread, "group:slack:C1:thread:17.5".into()),
            (SessionKey::Worker { id: entity().0 }, format!("worker:{ULID}")),
            (SessionKey::System { purpose: "heartbeat".into() }, "system:heartbeat".into()),
        ] {
            assert_eq!(key.to_string(), label);
            assert_eq!(label.parse(), Ok(key), "{label}");
        }
    }

    #[test]
    fn other_texts_are_not_session_keys() {
        let lower = ULID.to_lowercase();
        for wrong in [
            "",
            "dm",
            "dm:",
            "dm:mom",
            &format!("dm:{lower}"),
            "dm::x",
            "dm:x:",
            "dm:a:b:c",
            "dm:a/:b",
            "dm:a/b/c:d",
            "dm:a:b c",
            "dm:a:b%3a",
            "dm:a:%41",
            "group:a",
            "group:a:b:thread",
            "group:a:b:thread:",
            "group:a:b:Thread:c",
            "worker:1",
            "system:",
            "system:a:b",
            "other:a",
            "DM:a:b",
            " dm:a:b",
            "dm:a:b\n",
            "dm:a:b~merged",
        ] {
            assert!(wrong.parse::<SessionKey>().is_err(), "{wrong}");
        }
        let error = "dm:mom".parse::<SessionKey>().expect_err("not a ULID").to_string();
        assert!(error.contains("`dm:mom`") && error.contains("ULID"), "{error}");
    }

    /// Values with every character that has a meaning in a label.
    const VALUE: &str = "[a-c:/%~ \n\t\u{3000}é0-3]{1,6}|thread|dm|01JCZ5V0S3E8Q4T6W7X8Y9ZABC";

    fn keys() -> impl Strategy<Value = SessionKey> {
        let account = || option::of(VALUE);
        prop_oneof![
            any::<u128>().prop_map(|id| SessionKey::Entity { entity: EntityId(Ulid(id)) }),
            (VALUE, account(), VALUE).prop_map(|(channel, account_id, sender_id)| {
                SessionKey::Sender(Address { channel, account_id, sender_id })
            }),
            (VALUE, account(), VALUE).prop_map(|(channel, account_id, peer_id)| {
                SessionKey::Group { channel, account_id, peer_id }
            }),
            (VALUE, account(), VALUE, VALUE).prop_map(
                |(channel, account_id, peer_id, thread_id)| SessionKey::Thread {
                    channel,
                    account_id,
                    peer_id,
                    thread_id
                }
            ),
            any::<u128>().prop_map(|id| SessionKey::Worker { id: Ulid(id) }),
            VALUE.prop_map(|purpose| SessionKey::System { purpose }),
        ]
    }

    proptest! {
        #[test]
        fn a_printed_key_parses_to_the_same_key(key in keys()) {
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        #[test]
        fn different_keys_have_different_labels(one in keys(), other in keys()) {
            prop_assert_eq!(one == other, one.to_string() == other.to_string());
        }

        #[test]
        fn different_senders_never_share_a_label(
            one in (VALUE, option::of(VALUE), VALUE), other in (VALUE, option::of(VALUE), VALUE),
        ) {
            let label = |(channel, account, id): &(String, Option<String>, String)| {
                sender(channel, account.as_deref(), id).to_string()
            };
            prop_assert_eq!(one == other, label(&one) == label(&other));
        }

        #[test]
        fn a_sender_id_never_forms_another_kind_of_key(id in "\\PC{1,20}|[:/%~\n a-z]{1,40}") {
            let label = sender("irc", None, &id).to_string();
            prop_assert_eq!(label.parse(), Ok(sender("irc", None, &id)));
        }

        #[test]
        fn a_text_that_parses_is_the_label_of_its_key(text in "(dm|group|worker|system):.{0,40}") {
            if let Ok(key) = text.parse::<SessionKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
