//! Relations between files, code items, tasks and notes: labelled edges with evidence.
//!
//! A node is written `kind:id`, for example `file:src/lib.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{BlobId, CommitId};

/// Maximum length of the id of a node.
pub const NODE_ID_MAX_BYTES: usize = 4096;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $(#[doc = $text] #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            #[allow(missing_docs, reason = "the name is self-explanatory")]
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in JSON and in the text form.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl FromStr for $name {
            type Err = BadRelation;

            fn from_str(text: &str) -> Result<Self, BadRelation> {
                Self::ALL.iter().copied().find(|n| n.name() == text).ok_or_else(|| BadRelation {
                    text: text.chars().take(80).collect(),
                    wanted: {
                        let names: Vec<&str> = Self::ALL.iter().map(|n| n.name()).collect();
                        format!("one of {}", names.join(", "))
                    },
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// The text is not a valid node, label, kind, tool or confidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid relation `{text}`: expected {wanted}")]
pub struct BadRelation {
    /// The text, truncated to 80 characters.
    pub text: String,
    /// The expected form.
    pub wanted: String,
}

names! {
    /// What a node represents.
    NodeKind {
        File = "file", Module = "module", Item = "item", Package = "package", Target = "target",
        Crate = "crate", Task = "task", Note = "note", Decision = "decision",
        Diagnostic = "diagnostic",
    }
}

names! {
    /// How two nodes are related.
    Label {
        Contains = "contains", Defines = "defines", HasVersion = "has_version",
        DependsOn = "depends_on", TargetOf = "target_of", CrateFromTarget = "crate_from_target",
        Imports = "imports", References = "references", Calls = "calls",
        Implements = "implements", UsesType = "uses_type", Mentions = "mentions",
        UpdatedIn = "updated_in", DerivedFrom = "derived_from",
    }
}

names! {
    /// What found a relation.
    Tool {
        Cargo = "cargo", Parser = "parser", RustAnalyzer = "rust_analyzer", Human = "human",
        Llm = "llm",
    }
}

names! {
    /// How certain a relation is.
    Confidence { High = "high", Medium = "medium", Low = "low" }
}

/// A node of the relation graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Node {
    pub kind: NodeKind,
    /// The path, name or id. Never empty, at most [`NODE_ID_MAX_BYTES`] long.
    pub id: String,
}

impl Node {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub fn new(kind: NodeKind, id: impl fmt::Display) -> Self {
        Self { kind, id: id.to_string() }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

impl FromStr for Node {
    type Err = BadRelation;

    fn from_str(text: &str) -> Result<Self, BadRelation> {
        let bad = || BadRelation {
            text: text.chars().take(80).collect(),
            wanted: "a node as kind:id, for example file:src/main.rs".into(),
        };
        let (kind, id) = text.split_once(':').ok_or_else(bad)?;
        if id.trim().is_empty() || id.len() > NODE_ID_MAX_BYTES || id.contains('\0') {
            return Err(bad());
        }
        Ok(Self { kind: kind.parse()?, id: id.to_owned() })
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Why an edge is considered true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Evidence {
    /// The commit in which the relation was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    pub tool: Tool,
    pub confidence: Confidence,
    /// Offsets of the first and the last byte in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(u64, u64)>,
    /// The version of the file that `span` refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobId>,
}

impl Evidence {
    /// Evidence without a commit or a position in a file.
    pub const fn from_tool(tool: Tool, confidence: Confidence) -> Self {
        Self { commit: None, tool, confidence, span: None, blob: None }
    }
}

/// A labelled, directed edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Edge {
    pub from: Node,
    pub to: Node,
    pub label: Label,
    /// Strength of the relation. Its meaning depends on the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    pub evidence: Evidence,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_written_as_kind_and_id() {
        let node: Node = "file:src/a:b.rs".parse().expect("node");
        assert_eq!((node.kind, node.id.as_str()), (NodeKind::File, "src/a:b.rs"));
        assert_eq!(node.to_string(), "file:src/a:b.rs");
        for bad in ["", "file", "file:", "file: ", "planet:mars", "file:a\0b"] {
            assert!(bad.parse::<Node>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_name_parses_to_its_value() {
        for label in Label::ALL {
            assert_eq!(label.name().parse::<Label>().as_ref(), Ok(label));
        }
        assert_eq!(Label::ALL.len(), 14);
        assert_eq!(NodeKind::ALL.len(), 10);
    }
}
