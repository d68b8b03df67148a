//! Templates of session keys: text with variables such as `{delivery.channel}` (R126).
//!
//! Every value is escaped, so it never adds a part to the label.

use crate::identity::{Envelope, PeerKind, Principal, PrincipalType, channel_key, escape};
use crate::session::{is_session_id, is_valid_label};
use crate::session_key::SessionKey;

use super::TEMPLATE_MAX_CHARS;
use super::matcher::known_name;

/// A checked template.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Variable(Variable),
}

/// A variable of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    EntityId,
    PrincipalName,
    PrincipalType,
    Channel,
    AccountId,
    SenderId,
    PeerId,
    ThreadId,
    PeerKind,
}

impl Variable {
    const ALL: [Self; 9] = [
        Self::EntityId,
        Self::PrincipalName,
        Self::PrincipalType,
        Self::Channel,
        Self::AccountId,
        Self::SenderId,
        Self::PeerId,
        Self::ThreadId,
        Self::PeerKind,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::EntityId => "principal.entity_id",
            Self::PrincipalName => "principal.name",
            Self::PrincipalType => "principal.type",
            Self::Channel => "delivery.channel",
            Self::AccountId => "delivery.account_id",
            Self::SenderId => "delivery.sender_id",
            Self::PeerId => "delivery.peer_id",
            Self::ThreadId => "delivery.thread_id",
            Self::PeerKind => "delivery.peer_kind",
        }
    }

    /// Whether the sender of a message can choose the value.
    const fn is_chosen_by_sender(self) -> bool {
        matches!(self, Self::SenderId | Self::PrincipalName)
    }

    /// The value in a label. `None` if the message has no value or an empty one.
    fn value(self, sender: &Principal, envelope: &Envelope) -> Option<String> {
        let text = |value: &str| (!value.is_empty()).then(|| escape(value));
        let option = |value: &Option<String>| value.as_deref().and_then(text);
        match self {
            Self::EntityId => sender.entity_id.map(|id| id.to_string()),
            Self::PrincipalName => known_name(sender).and_then(text),
            Self::PrincipalType => text(type_name(sender.kind)),
            Self::Channel if envelope.channel.is_empty() => None,
            Self::Channel => Some(channel_key(&envelope.channel, envelope.account_id.as_deref())),
            Self::AccountId => option(&envelope.account_id),
            Self::SenderId => text(&envelope.sender_id),
            Self::PeerId => option(&envelope.peer_id),
            Self::ThreadId => option(&envelope.thread_id),
            Self::PeerKind => text(peer_kind_name(envelope.peer_kind)),
        }
    }
}

/// The name of a type of principals in a policy file.
pub(super) const fn type_name(kind: PrincipalType) -> &'static str {
    match kind {
        PrincipalType::Owner => "owner",
        PrincipalType::Known => "known",
        PrincipalType::Unknown => "unknown",
        PrincipalType::System => "system",
        PrincipalType::Webhook => "webhook",
        PrincipalType::Agent => "agent",
    }
}

/// The name of a kind of peers in a policy file.
pub(super) const fn peer_kind_name(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::Dm => "dm",
        PeerKind::Group => "group",
        PeerKind::Channel => "channel",
    }
}

impl Template {
    /// Parses and checks a template. The error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > TEMPLATE_MAX_CHARS {
            return Err(format!("session.key has more than {TEMPLATE_MAX_CHARS} characters"));
        }
        let template = Self { pieces: pieces(text)? };
        template.check_text()?;
        template.check_prefix(text)?;
        Ok(template)
    }

    /// Whether the label contains the id of the sender's entity and nothing of the envelope, so
    /// that it is the same on all channels.
    pub(super) fn has_entity(&self) -> bool {
        let of_sender = |variable| {
            use Variable::{EntityId, PrincipalName, PrincipalType};
            matches!(variable, EntityId | PrincipalName | PrincipalType)
        };
        self.variables().any(|variable| variable == Variable::EntityId)
            && self.variables().all(of_sender)
    }

    /// The label for a message, or the name of the variable that has no value.
    ///
    /// A label in the form of an entity's is given to that entity only. Otherwise a sender whose id
    /// is the ULID of an entity would reach its session through a key like
    /// `dm:{delivery.sender_id}`.
    pub(super) fn expand(
        &self,
        sender: &Principal,
        envelope: &Envelope,
    ) -> Result<String, &'static str> {
        let mut label = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => label.push_str(text),
                Piece::Variable(variable) => {
                    label.push_str(&variable.value(sender, envelope).ok_or(variable.name())?);
                }
            }
        }
        if self.variables().next().is_some()
            && let Ok(SessionKey::Entity { entity }) = label.parse()
            && sender.entity_id != Some(entity)
        {
            return Err(Variable::EntityId.name());
        }
        Ok(label)
    }

    fn variables(&self) -> impl Iterator<Item = Variable> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(variable) => Some(*variable),
            Piece::Text(_) => None,
        })
    }

    /// Checks the characters of the fixed text.
    fn check_text(&self) -> Result<(), String> {
        for piece in &self.pieces {
            let Piece::Text(text) = piece else { continue };
            let wrong = |char: &char| char.is_whitespace() || char.is_control() || *char == '~';
            if let Some(char) = text.chars().find(wrong) {
                return Err(format!("session.key contains {char:?}, which a label cannot have"));
            }
        }
        Ok(())
    }

    /// Checks the part before the first `:`, which names the kind of the session.
    fn check_prefix(&self, text: &str) -> Result<(), String> {
        let has_variables = self.variables().next().is_some();
        let first = match self.pieces.first() {
            Some(Piece::Text(first)) => first.as_str(),
            _ => "",
        };
        let Some((prefix, rest)) = first.split_once(':').filter(|(prefix, _)| !prefix.is_empty())
        else {
            if !has_variables && is_valid_label(text) && !is_session_id(text) && !text.contains(':')
            {
                return Ok(());
            }
            return Err(format!(
                "session.key `{text}` must begin with a fixed prefix and `:`, for example `dm:`, \
                 `group:` or `system:`"
            ));
        };
        if prefix == "worker" {
            let key = "session.key cannot begin with `worker:`";
            return Err(format!("{key}: ctx makes the labels of workers"));
        }
        let is_own = matches!(prefix, "dm" | "system");
        if is_own && self.sender_chooses_first_part(prefix, rest) {
            return Err(format!(
                "session.key `{text}` lets a sender choose the session of another: the first part \
                 after `{prefix}:` cannot contain `{{delivery.sender_id}}` or `{{principal.name}}`"
            ));
        }
        Ok(())
    }

    /// Whether a value that a sender chooses is in the first part after the prefix, and would make
    /// the label that of another channel or purpose.
    fn sender_chooses_first_part(&self, prefix: &str, rest: &str) -> bool {
        let mut has_sender = false;
        let mut texts = rest;
        for piece in self.pieces.iter().skip(1) {
            if texts.contains(':') {
                return has_sender;
            }
            match piece {
                Piece::Text(text) => texts = text,
                Piece::Variable(variable) => {
                    texts = "";
                    has_sender |= variable.is_chosen_by_sender();
                }
            }
        }
        // A direct key of one part is checked when it is expanded.
        has_sender && (prefix == "system" || texts.contains(':'))
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        if rest.as_bytes()[at] == b'}' {
            return Err("session.key has a `}` without a `{`".into());
        }
        let Some(end) = rest[at..].find('}') else {
            return Err("session.key has a `{` without a `}`".into());
        };
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].to_owned()));
        }
        let name = &rest[at + 1..at + end];
        let variable = Variable::ALL.into_iter().find(|variable| variable.name() == name);
        pieces.push(Piece::Variable(variable.ok_or_else(|| unknown(name))?));
        rest = &rest[at + end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

fn unknown(name: &str) -> String {
    let known = Variable::ALL.map(|variable| format!("{{{}}}", variable.name())).join(", ");
    format!("unknown variable `{{{name}}}`; the variables are {known}")
}
