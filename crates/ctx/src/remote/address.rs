//! The address of a remote: `ssh://[USER@]HOST[:PORT][/PATH]`, `https://SERVER`, or a directory.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::problem::Problem;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Ssh(SshHost),
    /// The address of a ctx server, without a slash at the end.
    Http(String),
    Directory(PathBuf),
}

/// A machine that is reached over ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshHost {
    /// `HOST` or `USER@HOST`.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// The data directory or project there; `None` for the default store of the user.
    pub(crate) path: Option<String>,
}

impl Address {
    /// Parses an address. A relative directory is taken from the working directory.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        match text.split_once("://") {
            Some(("ssh", rest)) => SshHost::parse(rest).map(Self::Ssh),
            Some(("https", rest)) => server("https", rest),
            Some(("http", rest)) if is_loopback(authority(rest)) => server("http", rest),
            Some(("http", _)) => Err(Problem::wrong_use(
                "bad_remote",
                "invalid address: `http://` is accepted only for this machine",
            )
            .hint("use https:// or ssh://, which encrypt the connection")),
            Some((scheme, _)) => {
                Err(bad(&format!("the scheme `{}` is unknown", scheme.escape_debug())))
            }
            None if text.is_empty() || text.contains('\0') => Err(bad("it is empty")),
            None => {
                let dir = std::path::absolute(Path::new(text)).map_err(|e| bad(&e.to_string()))?;
                Ok(Self::Directory(dir))
            }
        }
    }
}

fn bad(why: &str) -> Problem {
    Problem::wrong_use("bad_remote", format!("invalid address: {why}"))
        .hint("use ssh://HOST/PATH, https://SERVER or /DIRECTORY")
}

fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn server(scheme: &str, rest: &str) -> Result<Address, Problem> {
    let host = authority(rest);
    if host.is_empty() || host.starts_with(':') {
        return Err(bad("it has no host"));
    }
    if host.contains('@') {
        return Err(Problem::wrong_use("bad_remote", "invalid address: it contains a password")
            .hint("name an environment variable with the token: `--token-env NAME`"));
    }
    if rest.contains(['?', '#']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(bad("it must be the address of a server without a query"));
    }
    Ok(Address::Http(format!("{scheme}://{}", rest.trim_end_matches('/'))))
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl SshHost {
    fn parse(rest: &str) -> Result<Self, Problem> {
        let (host, path) = match rest.split_once('/') {
            Some((host, path)) => (host, Some(path)),
            None => (rest, None),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && !port.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| bad("the port is not a number"))?))
            }
            _ => (host, None),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._@[]:%+".contains(c);
        // A host that starts with a dash would be an option of ssh.
        if host.is_empty() || !host.chars().all(is_plain) || host.starts_with(['-', '@']) {
            return Err(bad("the host is not valid"));
        }
        if host.contains("@-") {
            return Err(bad("the host is not valid"));
        }
        let path = path.filter(|path| !path.is_empty()).map(|path| match path {
            home if home == "~" || home.starts_with("~/") => home.to_owned(),
            path => format!("/{path}"),
        });
        if path.as_deref().is_some_and(|path| path.chars().any(char::is_control)) {
            return Err(bad("the path contains control characters"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let ssh = |host: &str, port, path: Option<&str>| {
            Address::Ssh(SshHost { host: host.into(), port, path: path.map(str::to_owned) })
        };
        let table = [
            ("ssh://box", ssh("box", None, None)),
            ("ssh://me@box:2222/srv/ctx", ssh("me@box", Some(2222), Some("/srv/ctx"))),
            ("ssh://box/~/work", ssh("box", None, Some("~/work"))),
            ("ssh://[::1]:22/x", ssh("::1", Some(22), Some("/x"))),
            ("https://ctx.example.org/", Address::Http("https://ctx.example.org".into())),
            ("http://127.0.0.1:7420", Address::Http("http://127.0.0.1:7420".into())),
            ("http://[::1]:7420", Address::Http("http://[::1]:7420".into())),
            ("/mnt/share", Address::Directory("/mnt/share".into())),
        ];
        for (text, address) in table {
            assert_eq!(Address::parse(text).ok(), Some(address), "{text}");
        }
    }

    #[test]
    fn dangerous_addresses_are_refused() {
        for text in [
            "http://example.org",
            "http://localhost.example.org",
            "http://127.0.0.1.example.org",
            "ssh://-oProxyCommand=x/y",
            "ssh://me@-oProxyCommand=x",
            "ssh:///path",
            "ssh://box;x",
            "ssh://box/a\nb",
            "https://user:secret@example.org",
            "https://",
            "ftp://example.org",
            "",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
