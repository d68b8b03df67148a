//! `remotes.toml` beside `ctx.toml`: the remotes by name. It contains no secrets; tokens and keys
//! are named, not stored.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

use super::{Address, Identity, Recipient};

const FILE_NAME: &str = "remotes.toml";
const FILE_MODE: u32 = 0o600;
/// Maximum size of the file in bytes.
const FILE_MAX_BYTES: u64 = 1 << 20;
const NAME_MAX_CHARS: usize = 64;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Remotes {
    #[serde(default)]
    pub(crate) remotes: BTreeMap<String, Remote>,
}

/// One remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Remote {
    pub(crate) url: String,
    /// The environment variable with the token of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_env: Option<String>,
    /// age recipients that can read an encrypted directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) recipients: Vec<String>,
    /// The file with the age identity that reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<PathBuf>,
}

impl Remote {
    pub(crate) fn address(&self) -> Result<Address, Problem> {
        Address::parse(&self.url)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        !self.recipients.is_empty() || self.identity.is_some()
    }

    /// The identities of the identity file.
    pub(crate) fn identities(&self) -> Result<Vec<Identity>, Problem> {
        self.identity.as_deref().map_or(Ok(Vec::new()), Identity::read_file)
    }

    /// The recipients, and those of the identity file.
    pub(crate) fn recipients(&self) -> Result<Vec<Recipient>, Problem> {
        let mut recipients: Vec<Recipient> =
            self.recipients.iter().map(|text| Recipient::parse(text)).collect::<Result<_, _>>()?;
        for identity in self.identities()? {
            let recipient = identity.recipient();
            if !recipients.contains(&recipient) {
                recipients.push(recipient);
            }
        }
        Ok(recipients)
    }

    /// The token from the environment.
    pub(crate) fn token(&self) -> Result<Option<String>, Problem> {
        let Some(name) = &self.token_env else { return Ok(None) };
        match std::env::var(name) {
            Ok(token) if !token.trim().is_empty() => Ok(Some(token.trim().to_owned())),
            _ => {
                let message = format!("no token for the remote: the variable {name} is not set");
                Err(Problem::failed("no_token", message)
                    .hint("create one on the server with `ctx token create --scope write`"))
            }
        }
    }
}

impl Remotes {
    /// Reads the file; without it there are no remotes.
    pub(crate) fn load(data: &Path) -> Result<Self, Problem> {
        let path = data.join(FILE_NAME);
        let unreadable = |why: String| {
            Problem::wrong_use("bad_remotes", format!("cannot read {}: {why}", path.display()))
                .hint("correct the file, or remove it and add the remotes again")
        };
        match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Ok(meta) if meta.len() > FILE_MAX_BYTES => {
                return Err(unreadable("it is too large".to_owned()));
            }
            _ => {}
        }
        let text = fs::read_to_string(&path).map_err(|e| unreadable(e.to_string()))?;
        toml::from_str(&text).map_err(|e| unreadable(e.to_string().trim().to_owned()))
    }

    /// Replaces the file.
    pub(crate) fn save(&self, data: &Path) -> Result<(), Problem> {
        let path = data.join(FILE_NAME);
        let failed = |why: String| {
            Problem::failed("unwritable", format!("cannot write {}: {why}", path.display()))
                .hint("check the permissions of the data directory")
        };
        let text = toml::to_string(self).map_err(|e| failed(e.to_string()))?;
        let new = data.join(format!("{FILE_NAME}.{}", std::process::id()));
        let write = || {
            let mut options = fs::OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|e| failed(e.to_string()))
    }

    /// The remote with a name; without a name `origin`, or the only one.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<(&str, &Remote), Problem> {
        let found = match name {
            Some(name) => self.remotes.get_key_value(name),
            None if self.remotes.len() == 1 => self.remotes.first_key_value(),
            None => self.remotes.get_key_value("origin"),
        };
        found.map(|(name, remote)| (name.as_str(), remote)).ok_or_else(|| match name {
            Some(name) => Problem::failed(
                "no_remote",
                format!("no remote is named `{}`", name.escape_debug()),
            )
            .hint("list the remotes with `ctx remote list`"),
            None if self.remotes.is_empty() => Problem::failed("no_remote", "there is no remote")
                .hint("add one with `ctx remote add NAME ADDRESS`"),
            None => Problem::wrong_use("no_remote", "several remotes exist and none was named")
                .hint("name one of them: `ctx remote list` lists them"),
        })
    }

    /// Refuses names that are not plain words: a name is part of a file name.
    pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_valid = name.len() <= NAME_MAX_CHARS
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(is_plain);
        if is_valid {
            return Ok(());
        }
        Err(Problem::wrong_use("bad_remote", "invalid name of a remote").hint(
            "use up to 64 letters, digits, `-`, `_` and `.`, and begin with a letter or digit",
        ))
    }
}
