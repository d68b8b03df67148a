//! Where a PostgreSQL store is: the URL, and where the password comes from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::Error;
use crate::location::Server;

use super::tls::{self, Check};

/// How long one attempt to connect takes at most, unless the URL says otherwise.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const PORT: u16 = 5432;

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    Never,
    IfOffered,
    Always,
}

/// A database server and how to connect to it.
pub(super) struct Address {
    /// Names or addresses with their ports. A name that begins with `/` is a directory of sockets.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) user: String,
    pub(super) database: String,
    pub(super) password: Option<String>,
    /// Parameters of the session, as `options` has them.
    pub(super) options: String,
    pub(super) application: String,
    pub(super) connect_max: Duration,
    pub(super) encryption: Encryption,
    pub(super) tls: Arc<ClientConfig>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// The parts of a URL. Later ones replace earlier ones.
#[derive(Default)]
struct Parts {
    hosts: Vec<String>,
    ports: Vec<String>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    options: String,
    application: Option<String>,
    connect_max: Option<Duration>,
    mode: Option<String>,
    roots: Option<PathBuf>,
    passfile: Option<PathBuf>,
}

impl Parts {
    fn of(url: &str) -> Result<Self, Error> {
        let mut parts = Self::default();
        let is_known = |scheme: &str| {
            ["postgres", "postgresql"].iter().any(|known| known.eq_ignore_ascii_case(scheme))
        };
        let rest = url.split_once("://").filter(|(scheme, _)| is_known(scheme));
        let (_, rest) = rest.ok_or_else(|| invalid("it does not begin with postgres://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (rest, database) = rest.split_once('/').unwrap_or((rest, ""));
        parts.database = non_empty(database);
        let (login, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        (parts.user, parts.password) = (non_empty(user), non_empty(password));
        for host in hosts.split(',').filter(|host| !host.is_empty()) {
            // An IPv6 address has brackets.
            let (name, port) = match host.rsplit_once(':') {
                Some((name, port)) if !port.contains(']') => (name, port),
                _ => (host, ""),
            };
            parts.hosts.push(decoded(name.trim_start_matches('[').trim_end_matches(']')));
            parts.ports.push(port.to_owned());
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parts.set(name, decoded(value))?;
        }
        Ok(parts)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Error> {
        let list = |value: &str| value.split(',').map(str::to_owned).collect();
        match name {
            "host" => self.hosts = list(&value),
            "port" => self.ports = list(&value),
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            "dbname" => self.database = Some(value),
            "options" => self.options = value,
            "application_name" => self.application = Some(value),
            "connect_timeout" => {
                let seconds = value.parse().map_err(|_| invalid("connect_timeout is no number"))?;
                self.connect_max = Some(Duration::from_secs(seconds)).filter(|max| !max.is_zero());
            }
            "sslmode" => self.mode = Some(value),
            "sslrootcert" => self.roots = Some(PathBuf::from(value)),
            "passfile" => self.passfile = Some(PathBuf::from(value)),
            // A server that does not accept writes is never used.
            "target_session_attrs" if ["any", "read-write", "primary"].contains(&&*value) => {}
            // The text may be part of a password.
            _ => {
                return Err(invalid(
                    "a parameter is not supported, or the password contains `?`, `/`, `@` or `#`, \
                     which are written as %3F, %2F, %40 and %23",
                ));
            }
        }
        Ok(())
    }

    /// Each host with its port.
    fn servers(&self) -> Result<Vec<(String, u16)>, Error> {
        let port = |n: usize| {
            let text = self.ports.get(n).or(self.ports.first()).map_or("", |text| text);
            if text.is_empty() { Ok(PORT) } else { text.parse() }
        };
        let hosts =
            if self.hosts.is_empty() { vec!["localhost".into()] } else { self.hosts.clone() };
        let server = |(n, host): (usize, String)| {
            Ok((host, port(n).map_err(|_| invalid("a port is no number"))?))
        };
        hosts.into_iter().enumerate().map(server).collect()
    }
}

impl Address {
    /// The address of a database.
    pub(super) fn of(server: &Server) -> Result<Self, Error> {
        Self::at(&server.url, server.password.as_ref())
    }

    /// The address of the connection on which notifications are received.
    pub(super) fn of_listener(server: &Server) -> Result<Option<Self>, Error> {
        server.listen_url.as_ref().map(|url| Self::at(url, server.password.as_ref())).transpose()
    }

    fn at(url: &str, password: Option<&String>) -> Result<Self, Error> {
        let parts = Parts::of(url)?;
        let (encryption, check) = match parts.mode.as_deref() {
            None | Some("prefer" | "allow") => (Encryption::IfOffered, Check::Nothing),
            Some("disable") => (Encryption::Never, Check::Nothing),
            // As libpq does: a given root certificate is used.
            Some("require") if parts.roots.is_none() => (Encryption::Always, Check::Nothing),
            Some("require" | "verify-ca") => (Encryption::Always, Check::Issuer),
            Some("verify-full") => (Encryption::Always, Check::IssuerAndName),
            Some(_) => {
                return Err(invalid(
                    "sslmode is none of disable, prefer, require, verify-ca, verify-full",
                ));
            }
        };
        let own = || std::env::var("PGUSER").or_else(|_| std::env::var("USER")).ok();
        let user = parts.user.clone().or_else(own).unwrap_or_else(|| "postgres".to_owned());
        let mut address = Self {
            hosts: parts.servers()?,
            database: parts.database.unwrap_or_else(|| user.clone()),
            user,
            password: parts.password.or_else(|| password.cloned()),
            options: parts.options,
            application: parts.application.unwrap_or_else(|| "ctx".to_owned()),
            connect_max: parts.connect_max.unwrap_or(CONNECT_MAX),
            encryption,
            tls: tls::config(check, parts.roots.as_deref())?,
        };
        if address.password.is_none() {
            address.password = address.found_password(parts.passfile);
        }
        Ok(address)
    }

    /// What messages call the database: host, port and database. Never the password.
    pub(super) fn name(&self) -> String {
        let hosts = self.hosts.iter().map(|(host, port)| format!("{host}:{port}"));
        format!("PostgreSQL at {}/{}", hosts.collect::<Vec<_>>().join(","), self.database)
    }

    /// The password from the environment or a file, as libpq finds it.
    fn found_password(&self, passfile: Option<PathBuf>) -> Option<String> {
        if let Some(password) = std::env::var("PGPASSWORD").ok().filter(|text| !text.is_empty()) {
            return Some(password);
        }
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
        let given = passfile.or_else(|| std::env::var_os("PGPASSFILE").map(PathBuf::from));
        let text = std::fs::read_to_string(given.or_else(home)?).ok()?;
        self.hosts.iter().find_map(|(host, port)| {
            password_in(&text, [host, &port.to_string(), &self.database, &self.user])
        })
    }
}

pub(super) fn invalid(why: &str) -> Error {
    Error::Unavailable(format!("its URL is not valid: {why}"))
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| decoded(text))
}

/// Replaces `%xx`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| first == b'%');
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The password of the first line `host:port:database:user:password` that matches.
fn password_in(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (mut fields, mut field, mut escaped) = (Vec::new(), String::new(), false);
        for c in line.chars() {
            match c {
                '\\' if !escaped => escaped = true,
                ':' if !escaped && fields.len() < 4 => fields.push(std::mem::take(&mut field)),
                c => {
                    field.push(c);
                    escaped = false;
                }
            }
        }
        let fits = |(field, wanted): (&String, &str)| field == "*" || field == wanted;
        (fields.len() == 4 && fields.iter().zip(wanted).all(fits)).then_some(field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, Error> {
        Address::of(&Server::at(url))
    }

    #[test]
    fn a_url_says_where_a_database_is() {
        let url = "postgres://me%40x:p%2Fw@db.example:6543,[::1]/ctx?connect_timeout=3";
        let address = parse(url).expect("a URL");
        let hosts = [("db.example".to_owned(), 6543), ("::1".to_owned(), 5432)];
        assert_eq!(address.hosts, hosts);
        assert_eq!((&*address.user, address.password.as_deref()), ("me@x", Some("p/w")));
        assert_eq!(address.connect_max, Duration::from_secs(3));
        let address = parse("postgresql:///d?host=/run/pg&port=5433&user=u").expect("a URL");
        assert_eq!(address.name(), "PostgreSQL at /run/pg:5433/d");
        assert_eq!(parse("postgres://u@%2Frun%2Fpg/").expect("a URL").database, "u");
    }

    #[test]
    fn a_place_names_host_port_and_database_and_no_password() {
        let url = "postgres://me:s3cret@db.example:6543/ctx?sslmode=require&connect_timeout=3";
        let address = parse(url).expect("a URL");
        assert_eq!(address.name(), "PostgreSQL at db.example:6543/ctx");
        assert_eq!(address.encryption, Encryption::Always);
        assert!(!format!("{address:?}").contains("s3cret"));
        for bad in [
            "postgres://h/d?sslmode=maybe&password=s3cret",
            "postgres://h:x/s3cret",
            "postgres://u:s3cret@h/d?unknown=s3cret",
        ] {
            let error = parse(bad).expect_err("refused").to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let missing = "postgres://h/d?sslmode=verify-full&sslrootcert=/no%20file";
        let error = parse(missing).expect_err("refused").to_string();
        assert!(error.contains("/no file"), "{error}");
    }

    #[test]
    fn the_first_matching_line_of_a_passfile_has_the_password() {
        let text = "# h:1:d:u:comment\nother:*:*:*:no\n*:5432:d\\:b:u:a\\:b\\\\c:d\n*:*:*:*:any";
        assert_eq!(password_in(text, ["h", "5432", "d:b", "u"]).as_deref(), Some("a:b\\c:d"));
        assert_eq!(password_in(text, ["h", "1", "d", "u"]).as_deref(), Some("any"));
        assert_eq!(password_in("h:1:d:u:p", ["h", "2", "d", "u"]), None);
    }
}
