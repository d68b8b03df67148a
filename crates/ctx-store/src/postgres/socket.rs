//! A socket with messages of the server's protocol: connecting, encryption, authentication.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{self, ChannelBinding, ScramSha256};
use postgres_protocol::message::backend::{ErrorResponseBody, Message};
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::address::{Address, Encryption};

/// How long sent data may stay unacknowledged before the connection counts as lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);
/// How long a connection may be idle before it is probed.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Unanswered probes after which a connection counts as lost.
const PROBES: u32 = 2;
/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 15;

/// An error that the server reports.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// Five characters, such as `23505`.
    pub(super) code: String,
    pub(super) message: String,
    /// The server ends the connection.
    pub(super) fatal: bool,
}

impl Report {
    pub(super) fn of(body: &ErrorResponseBody) -> Self {
        let mut report = Self { code: String::new(), message: String::new(), fatal: false };
        let mut fields = body.fields();
        while let Ok(Some(field)) = fields.next() {
            let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => report.code = text,
                b'M' => report.message = text,
                b'V' => report.fatal = text != "ERROR",
                _ => {}
            }
        }
        report
    }
}

/// Why there is no connection.
pub(super) enum NotConnected {
    /// The server has answered.
    Refused(Report),
    Failed(io::Error),
}

impl From<io::Error> for NotConnected {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn open(host: &str, port: u16, address: &Address) -> io::Result<Self> {
        if host.starts_with('/') {
            let path = Path::new(host).join(format!(".s.PGSQL.{port}"));
            return Ok(Self::Unix(UnixStream::connect(path)?));
        }
        let mut failed = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for place in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&place, address.connect_max) {
                Ok(stream) => {
                    use rustix::net::sockopt;
                    stream.set_nodelay(true)?;
                    sockopt::set_socket_keepalive(&stream, true)?;
                    sockopt::set_tcp_keepidle(&stream, IDLE_MAX)?;
                    sockopt::set_tcp_keepintvl(&stream, IDLE_MAX / 2)?;
                    sockopt::set_tcp_keepcnt(&stream, PROBES)?;
                    let unacknowledged = UNACKNOWLEDGED_MAX.as_millis() as u32;
                    sockopt::set_tcp_user_timeout(&stream, unacknowledged)?;
                    return Self::Tcp(stream).encrypted(host, address);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn encrypted(self, host: &str, address: &Address) -> io::Result<Self> {
        let Self::Tcp(mut stream) = self else { return Ok(self) };
        if address.encryption == Encryption::Never {
            return Ok(Self::Tcp(stream));
        }
        stream.set_read_timeout(Some(address.connect_max))?;
        let mut request = BytesMut::new();
        frontend::ssl_request(&mut request);
        stream.write_all(&request)?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        if answer != *b"S" {
            return match address.encryption {
                Encryption::Always => Err(io::Error::other("the server does not encrypt")),
                _ => Ok(Self::Tcp(stream)),
            };
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(address.tls.clone(), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(tls, stream))))
    }

    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Self::Tls(tls) => {
                tls.sock.set_read_timeout(timeout)?;
                tls.sock.set_write_timeout(timeout)
            }
        }
    }

    fn io(&mut self) -> &mut dyn ReadWrite {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
            Self::Tls(stream) => stream,
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// A connection on which the server accepts statements.
pub(super) struct Socket {
    stream: Stream,
    input: BytesMut,
    buffer: Box<[u8]>,
    /// Messages that are not sent yet.
    pub(super) output: BytesMut,
}

impl Socket {
    /// Connects to the first server that accepts writes. `marked` adds a setting that only the
    /// server of a direct connection sees.
    pub(super) fn open(address: &Address, marked: bool) -> Result<Self, NotConnected> {
        let mut failed = None;
        for (host, port) in &address.hosts {
            match Self::open_at(host, *port, address, marked) {
                Ok(socket) => return Ok(socket),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let none = || io::Error::new(ErrorKind::NotFound, "no host").into();
        Err(failed.unwrap_or_else(none))
    }

    fn open_at(
        host: &str,
        port: u16,
        address: &Address,
        marked: bool,
    ) -> Result<Self, NotConnected> {
        let mut socket = Self {
            stream: Stream::open(host, port, address)?,
            input: BytesMut::new(),
            buffer: vec![0; READ_BYTES].into(),
            output: BytesMut::new(),
        };
        socket.set_timeout(Some(address.connect_max))?;
        let mut options = address.options.clone();
        if marked {
            options.push_str(" -c ctx.direct=1");
        }
        let parameters = [
            ("user", &*address.user),
            ("database", &address.database),
            ("application_name", &address.application),
            ("client_encoding", "UTF8"),
            ("options", options.trim()),
        ];
        let parameters = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        frontend::startup_message(parameters, &mut socket.output)?;
        socket.authenticate(address)?;
        let until = Instant::now() + address.connect_max;
        loop {
            match socket.next()? {
                Message::ReadyForQuery(_) => return Ok(socket),
                Message::ErrorResponse(body) => {
                    return Err(NotConnected::Refused(Report::of(&body)));
                }
                Message::ParameterStatus(body)
                    if body.name()? == "in_hot_standby" && body.value()? == "on" =>
                {
                    // It may be promoted, or the address may lead to another server soon.
                    let why = "the server is a standby and does not accept writes";
                    return Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, why).into());
                }
                _ if Instant::now() > until => {
                    return Err(io::Error::from(ErrorKind::TimedOut).into());
                }
                _ => {}
            }
        }
    }

    fn authenticate(&mut self, address: &Address) -> Result<(), NotConnected> {
        let password = || {
            let password = address.password.as_ref().map(String::as_bytes);
            password.ok_or_else(|| io::Error::other("the server asks for a password"))
        };
        let mut scram = None;
        loop {
            self.flush()?;
            match self.next()? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password()?, &mut self.output)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(address.user.as_bytes(), password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.output)?;
                }
                Message::AuthenticationSasl(body) => {
                    let mut mechanisms = body.mechanisms();
                    while mechanisms.next()?.is_some_and(|name| name != sasl::SCRAM_SHA_256) {}
                    let begun = ScramSha256::new(password()?, ChannelBinding::unsupported());
                    let name = sasl::SCRAM_SHA_256;
                    frontend::sasl_initial_response(name, begun.message(), &mut self.output)?;
                    scram = Some(begun);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let scram = scram.as_mut().ok_or_else(unexpected)?;
                    scram.update(body.data())?;
                    frontend::sasl_response(scram.message(), &mut self.output)?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    scram.as_mut().ok_or_else(unexpected)?.finish(body.data())?;
                }
                Message::ErrorResponse(body) => {
                    return Err(NotConnected::Refused(Report::of(&body)));
                }
                _ => return Err(unexpected().into()),
            }
        }
    }

    /// Sets how long a read or write may take.
    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_timeout(timeout)
    }

    /// Sends what is to be sent.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let stream = self.stream.io();
        stream.write_all(&self.output)?;
        stream.flush()?;
        self.output.clear();
        Ok(())
    }

    /// The next message of the server.
    pub(super) fn next(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.input)? {
                return Ok(message);
            }
            match self.stream.io().read(&mut self.buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.input.extend_from_slice(&self.buffer[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.output.clear();
        frontend::terminate(&mut self.output);
        let _ = self.flush();
    }
}

fn unexpected() -> io::Error {
    io::Error::other("the server sent an unexpected message")
}
