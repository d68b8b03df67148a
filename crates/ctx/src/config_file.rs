//! Changes of `ctx.toml` by the program: comments and order of the user's text are kept, the result
//! is parsed before it replaces the file, and the text before it is kept in a backup.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

use crate::config::ProviderConfig;
use crate::problem::Problem;

/// A larger file is not changed.
const FILE_MAX_BYTES: usize = 1 << 20;
/// Mode of a new file: it may hold variables of agents.
const NEW_MODE: u32 = 0o600;
const NAME_MAX_CHARS: usize = 40;
const TEXT_MAX_CHARS: usize = 2000;
/// Longest command of an agent, in words.
const COMMAND_MAX: usize = 64;

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) path: PathBuf,
    /// The file before the change; none if there was no file.
    pub(crate) backup: Option<PathBuf>,
}

/// The configuration file.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    path: PathBuf,
}

impl ConfigFile {
    /// The file of `--config`, else `ctx.toml` in the data directory.
    pub(crate) fn new(data: &Path, named: Option<&Path>) -> Self {
        Self { path: named.map_or_else(|| data.join("ctx.toml"), Path::to_owned) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file exists.
    pub(crate) fn exists(&self) -> bool {
        self.path.is_file()
    }

    /// The text; empty if there is no file.
    pub(crate) fn text(&self) -> Result<String, Problem> {
        match fs::read_to_string(&self.path) {
            Ok(text) if text.len() > FILE_MAX_BYTES => {
                Err(self.failed("read", &format!("it has more than {FILE_MAX_BYTES} bytes")))
            }
            Ok(text) => Ok(text),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(e) => Err(self.failed("read", &e.to_string())),
        }
    }

    /// Changes the file. `check` gets the new text and its path; the file is replaced only if it
    /// succeeds.
    ///
    /// Fails if the file is not valid TOML, the change or the check fails, another program changed
    /// the file meanwhile, or it cannot be written.
    pub(crate) fn edit<T>(
        &self,
        change: impl FnOnce(&mut DocumentMut) -> Result<(), Problem>,
        check: impl FnOnce(&str, &Path) -> Result<T, Problem>,
    ) -> Result<(T, Written), Problem> {
        let before = self.text()?;
        let mut document: DocumentMut = before.parse().map_err(|e: toml_edit::TomlError| {
            let why = format!("{}: {}", self.path.display(), e.message());
            Problem::wrong_use("bad_config", why)
        })?;
        change(&mut document)?;
        let after = document.to_string();
        let checked = check(&after, &self.path)?;
        if self.text()? != before {
            return Err(Problem::failed(
                "config_changed",
                format!("failed to change {}: another program changed it", self.path.display()),
            )
            .hint("reload the page and repeat the change"));
        }
        Ok((checked, self.replace(&before, &after)?))
    }

    fn replace(&self, before: &str, after: &str) -> Result<Written, Problem> {
        // A link stays a link: its target is replaced.
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let mode = fs::metadata(&path).map_or(NEW_MODE, |found| found.permissions().mode() & 0o777);
        let backup = self.exists().then(|| sibling(&path, "bak"));
        let write = || {
            if let Some(backup) = &backup {
                write_file(backup, before, mode)?;
            }
            write_file(&path, after, mode)
        };
        write().map_err(|e| self.failed("write", &e.to_string()))?;
        Ok(Written { path, backup })
    }

    fn failed(&self, what: &str, why: &str) -> Problem {
        let message = format!("failed to {what} {}: {why}", self.path.display());
        Problem::failed("config_unwritable", message)
            .hint("check the permissions of the file and of its directory")
    }
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.{ending}"))
}

/// Replaces a file as a whole: a crash leaves the old or the new content.
fn write_file(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let part = sibling(path, &format!("part-{}", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&part)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path))
        .and_then(|()| fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Sets `[providers.NAME]`. Fields that the page does not manage are kept.
///
/// Fails if the name or a value is invalid.
pub(crate) fn set_provider(
    document: &mut DocumentMut,
    name: &str,
    config: &ProviderConfig,
) -> Result<(), Problem> {
    check_provider(name, config)?;
    let providers = section(document, "providers", true)?;
    if !providers.contains_key(name) {
        providers.insert(name, Item::Table(Table::new()));
    }
    let table = providers
        .get_mut(name)
        .and_then(Item::as_table_like_mut)
        .ok_or_else(|| bad(&format!("`providers.{name}` is not a table")))?;
    let text = |value: &Option<String>| value.clone().map(Value::from);
    set(table, "kind", Some(config.kind.clone().into()));
    set(table, "base_url", text(&config.base_url));
    set(table, "api_key_env", text(&config.api_key_env));
    set(table, "model", text(&config.model));
    let window = config.context_window.and_then(|window| i64::try_from(window).ok());
    set(table, "context_window", window.map(Value::from));
    let command: Array = config.command.iter().map(String::as_str).collect();
    set(table, "command", (!command.is_empty()).then(|| command.into()));
    Ok(())
}

/// Removes `[providers.NAME]`, and `defaults.provider` if it names it. Returns whether it existed.
pub(crate) fn remove_provider(document: &mut DocumentMut, name: &str) -> Result<bool, Problem> {
    let existed = section(document, "providers", true)?.remove(name).is_some();
    let is_default = document
        .get("defaults")
        .and_then(|defaults| defaults.get("provider"))
        .is_some_and(|default| default.as_str() == Some(name));
    if is_default {
        set_value(document, "defaults", "provider", None)?;
    }
    Ok(existed)
}

/// Sets `section.key`, or removes it if the value is `None`.
pub(crate) fn set_value(
    document: &mut DocumentMut,
    name: &str,
    key: &str,
    value: Option<&str>,
) -> Result<(), Problem> {
    if value.is_none() && !document.contains_key(name) {
        return Ok(());
    }
    set(section(document, name, false)?, key, value.map(Value::from));
    Ok(())
}

/// A table of the file, which is added if it is missing. An implicit one has no header of its own.
fn section<'a>(
    document: &'a mut DocumentMut,
    name: &str,
    implicit: bool,
) -> Result<&'a mut dyn TableLike, Problem> {
    let new = || {
        let mut table = Table::new();
        table.set_implicit(implicit);
        Item::Table(table)
    };
    let item = document.entry(name).or_insert_with(new);
    item.as_table_like_mut().ok_or_else(|| bad(&format!("`{name}` is not a table")))
}

/// Sets or removes a value. The comment behind a value is kept.
fn set(table: &mut dyn TableLike, key: &str, value: Option<Value>) {
    let Some(mut value) = value else {
        table.remove(key);
        return;
    };
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

fn bad(why: &str) -> Problem {
    Problem::wrong_use("bad_provider", why.to_owned())
}

/// Checks what the parser of the configuration accepts and the page must not write.
pub(crate) fn check_provider(name: &str, config: &ProviderConfig) -> Result<(), Problem> {
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
            && text.len() <= NAME_MAX_CHARS
    };
    if !is_name(name) || name == "demo" {
        return Err(bad(&format!("invalid name of a provider: `{}`", clipped(name)))
            .hint("use lower-case letters, digits, - and _, such as local"));
    }
    let texts = [&config.base_url, &config.api_key_env, &config.model];
    let texts = texts.into_iter().flatten().chain(&config.command);
    if texts.clone().any(|text| text.chars().count() > TEXT_MAX_CHARS || text.contains('\0')) {
        return Err(bad(&format!("a value is longer than {TEXT_MAX_CHARS} characters")));
    }
    if config.command.len() > COMMAND_MAX {
        return Err(bad(&format!("the command has more than {COMMAND_MAX} words")));
    }
    let is_variable = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    if config.api_key_env.as_deref().is_some_and(|text| !is_variable(text)) {
        // The text may be the key itself, so the message does not repeat it.
        return Err(bad("`api_key_env` is not the name of an environment variable")
            .hint("enter a name such as OPENAI_API_KEY; a key is never stored"));
    }
    let has_password = |url: &str| {
        let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
        authority.split(['/', '?', '#']).next().is_some_and(|host| host.contains('@'))
    };
    if config.base_url.as_deref().is_some_and(has_password) {
        return Err(bad("`base_url` contains a user name or a password")
            .hint("put the key into an environment variable and enter its name"));
    }
    Ok(())
}

fn clipped(text: &str) -> String {
    text.chars().take(NAME_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\n[server]\nlisten = \"127.0.0.1:1\" # a port\n\n\
        [providers.local] # here\n# the server\nbase_url = \"http://127.0.0.1:1/v1\" # old\n\
        kind = \"openai\"\nmax_tokens = 7\n\n[defaults]\nprovider = \"local\"\n";

    fn local(url: &str) -> ProviderConfig {
        ProviderConfig {
            kind: "openai".to_owned(),
            base_url: Some(url.to_owned()),
            model: Some("m".to_owned()),
            ..ProviderConfig::default()
        }
    }

    #[test]
    fn comments_order_and_other_fields_are_kept() {
        let mut document: DocumentMut = TEXT.parse().expect("TOML");
        set_provider(&mut document, "local", &local("http://127.0.0.1:2/v1")).expect("set");
        let expected = TEXT
            .replace("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
            .replace("max_tokens = 7\n", "max_tokens = 7\nmodel = \"m\"\n");
        assert_eq!(document.to_string(), expected);
        assert!(remove_provider(&mut document, "local").expect("removed"));
        let text = document.to_string();
        assert!(text.contains("# a port") && !text.contains("local"), "{text}");
    }

    #[test]
    fn a_new_file_gets_one_table_per_provider() {
        let mut document = DocumentMut::new();
        let agent = ProviderConfig {
            kind: "acp".to_owned(),
            command: vec!["opencode".to_owned(), "acp".to_owned()],
            ..ProviderConfig::default()
        };
        set_provider(&mut document, "opencode", &agent).expect("set");
        set_value(&mut document, "defaults", "provider", Some("opencode")).expect("set");
        assert_eq!(
            document.to_string(),
            "[providers.opencode]\nkind = \"acp\"\ncommand = [\"opencode\", \"acp\"]\n\n\
             [defaults]\nprovider = \"opencode\"\n"
        );
    }

    #[test]
    fn keys_passwords_and_odd_names_are_refused() {
        let key = |text: &str| ProviderConfig {
            api_key_env: Some(text.to_owned()),
            ..local("http://127.0.0.1:1/v1")
        };
        assert!(check_provider("local", &key("OPENAI_API_KEY")).is_ok());
        for secret in ["sk-abc", "AIzaSyAbc", "", "A B"] {
            let problem = check_provider("local", &key(secret)).expect_err("refused");
            assert!(secret.is_empty() || !problem.message.contains(secret), "{problem:?}");
        }
        let url = local("http://me:secret@127.0.0.1/v1");
        assert!(check_provider("local", &url).is_err());
        for name in ["", "demo", "Local", "a.b", "1a", "a b"] {
            assert!(check_provider(name, &key("KEY")).is_err(), "{name}");
        }
    }
}
