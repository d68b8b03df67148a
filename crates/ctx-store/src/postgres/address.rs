//! Where a PostgreSQL store is and how the connection to it is secured: the URL, the password, TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;
use crate::location::Server;

/// How long one attempt to connect takes at most, unless the URL says otherwise.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long sent data may stay unacknowledged before the connection counts as lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);

/// How long a connection may be idle before it is probed.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A database server and how to connect to it.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    /// Host, port and database, for messages. Never the password.
    pub(super) place: String,
}

impl Address {
    /// The address of a database.
    pub(super) fn of(server: &Server) -> Result<Self, Error> {
        let url = &*server.url;
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut mode, mut roots, mut passfile) = (Vec::new(), None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("sslmode", value) => mode = Some(value.to_owned()),
                ("sslrootcert", value) => roots = Some(PathBuf::from(percent_decoded(value))),
                ("passfile", value) => passfile = Some(PathBuf::from(percent_decoded(value))),
                _ => kept.push(pair),
            }
        }
        let text =
            if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        let mut config: Config = text.parse().map_err(|e| invalid(&format!("{e}")))?;
        let (ssl, check) = match mode.as_deref() {
            None | Some("prefer" | "allow") => (SslMode::Prefer, Check::Nothing),
            Some("disable") => (SslMode::Disable, Check::Nothing),
            // As libpq does: a given root certificate is used.
            Some("require") if roots.is_none() => (SslMode::Require, Check::Nothing),
            Some("require" | "verify-ca") => (SslMode::Require, Check::Issuer),
            Some("verify-full") => (SslMode::Require, Check::IssuerAndName),
            Some(_) => {
                return Err(invalid(
                    "sslmode is none of disable, prefer, require, verify-ca, verify-full",
                ));
            }
        };
        config.ssl_mode(ssl).application_name("ctx").tcp_user_timeout(UNACKNOWLEDGED_MAX);
        config.keepalives_idle(IDLE_MAX).keepalives_interval(IDLE_MAX / 2).keepalives_retries(2);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        if config.get_password().is_none()
            && let Some(password) = server.password.clone().or_else(|| password(&config, passfile))
        {
            config.password(password);
        }
        let place = format!("{}/{}", servers(&config).join(","), database(&config));
        Ok(Self { tls: tls(check, roots.as_deref())?, place, config })
    }

    /// What messages call the database.
    pub(super) fn name(&self) -> String {
        format!("PostgreSQL at {}", self.place)
    }
}

fn invalid(why: &str) -> Error {
    Error::Unavailable(format!("its URL is not valid: {why}"))
}

fn percent_decoded(text: &str) -> String {
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

fn database(config: &Config) -> &str {
    config.get_dbname().or_else(|| config.get_user()).unwrap_or("postgres")
}

/// `host:port` of each server.
fn servers(config: &Config) -> Vec<String> {
    let port = |n: usize| {
        let ports = config.get_ports();
        ports.get(n).or(ports.first()).copied().unwrap_or(5432)
    };
    let server = |(n, host): (usize, &Host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(n)),
        Host::Unix(path) => format!("{}:{}", path.display(), port(n)),
    };
    config.get_hosts().iter().enumerate().map(server).collect()
}

/// The password from the environment or a file, as libpq finds it.
fn password(config: &Config, passfile: Option<PathBuf>) -> Option<String> {
    if let Some(password) = std::env::var("PGPASSWORD").ok().filter(|text| !text.is_empty()) {
        return Some(password);
    }
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
    let file =
        passfile.or_else(|| std::env::var_os("PGPASSFILE").map(PathBuf::from)).or_else(home)?;
    let text = std::fs::read_to_string(file).ok()?;
    let user = config.get_user().unwrap_or_default();
    servers(config).iter().find_map(|server| {
        let (host, port) = server.rsplit_once(':')?;
        password_in(&text, [host, port, database(config), user])
    })
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

/// What is checked of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Nothing,
    Issuer,
    IssuerAndName,
}

fn tls(check: Check, roots: Option<&Path>) -> Result<MakeRustlsConnect, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let issuers =
        if check == Check::Nothing { None } else { Some(issuers(roots, provider.clone())?) };
    let verifier =
        Verifier { issuers, name: check == Check::IssuerAndName, provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Internal(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// The verifier of certificates that the root certificates in a file have issued.
fn issuers(
    file: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".postgresql/root.crt"));
    let file = file.map(Path::to_owned).or_else(home).unwrap_or_default();
    let unusable =
        |e: &dyn std::fmt::Display| invalid(&format!("sslrootcert {}: {e}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&file).map_err(|e| unusable(&e))? {
        let certificate = certificate.map_err(|e| unusable(&e))?;
        roots.add(certificate).map_err(|e| unusable(&e))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|e| unusable(&e))
}

#[derive(Debug)]
struct Verifier {
    /// `None`: any certificate is accepted.
    issuers: Option<Arc<WebPkiServerVerifier>>,
    /// Whether the certificate must name the host.
    name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(issuers) = &self.issuers else { return Ok(ServerCertVerified::assertion()) };
        let verified =
            issuers.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) if !self.name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, Error> {
        Address::of(&Server::at(url))
    }

    #[test]
    fn a_place_names_host_port_and_database_and_no_password() {
        let url = "postgres://me:s3cret@db.example:6543/ctx?sslmode=require&connect_timeout=3";
        let address = parse(url).expect("a URL");
        assert_eq!(address.name(), "PostgreSQL at db.example:6543/ctx");
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert!(!format!("{:?}", address.config).contains("s3cret"));
        for bad in ["postgres://h/d?sslmode=maybe&password=s3cret", "postgres://h:x/s3cret"] {
            let error = parse(bad).err().expect("refused").to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
        let missing = "postgres://h/d?sslmode=verify-full&sslrootcert=/no%20file";
        let error = parse(missing).err().expect("refused").to_string();
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
