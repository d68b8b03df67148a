//! A real IRC server (ngircd), and a person on it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::adapter::fixed_port;
use super::{TIMEOUT, wait_for};

/// A running server; ended when it is dropped.
pub(crate) struct IrcServer {
    child: Option<Child>,
    pub(crate) port: u16,
    dir: TempDir,
}

/// The program, if it is installed. `CTX_NGIRCD` names it, else PATH and the directory of Debian's
/// package are searched.
pub(crate) fn ngircd() -> Option<PathBuf> {
    let named = std::env::var_os("CTX_NGIRCD").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let usual =
        dirs.iter().map(|dir| dir.join("ngircd")).chain([PathBuf::from("/usr/sbin/ngircd")]);
    named.into_iter().chain(usual).find(|program| program.is_file())
}

impl IrcServer {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = Self { child: None, port: fixed_port(), dir };
        let config = format!(
            "[Global]\nName = irc.example.net\nInfo = tests\nListen = 127.0.0.1\nPorts = {}\n\
             [Limits]\nMaxConnectionsIP = 0\nMaxNickLength = 20\nMaxPenaltyTime = 0\n\
             [Options]\nDNS = no\nIdent = no\nPAM = no\n",
            server.port
        );
        std::fs::write(server.dir.path().join("ngircd.conf"), config).expect("a file");
        server.run();
        server
    }

    /// Ends the server and starts it again: every connection is lost.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.run();
    }

    fn run(&mut self) {
        let mut command = Command::new(ngircd().expect("ngircd is installed"));
        command.arg("-n").arg("-f").arg(self.dir.path().join("ngircd.conf"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("ngircd starts"));
        wait_for("the IRC server", || TcpStream::connect(("127.0.0.1", self.port)).ok());
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for IrcServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A person who is connected.
pub(crate) struct IrcPerson {
    stream: BufReader<TcpStream>,
}

impl IrcPerson {
    pub(crate) fn connect(server: &IrcServer, nick: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mut person = Self { stream: BufReader::new(stream) };
        person.write(&format!("NICK {nick}\r\nUSER {nick} 0 * :{nick}"));
        person.line_with(" 001 ");
        person
    }

    pub(crate) fn write(&mut self, line: &str) {
        self.stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).expect("it is connected");
    }

    pub(crate) fn say(&mut self, target: &str, text: &str) {
        self.write(&format!("PRIVMSG {target} :{text}"));
    }

    /// The next line that contains this text. Lines before it are dropped.
    #[track_caller]
    pub(crate) fn line_with(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line);
            assert!(read.is_ok_and(|bytes| bytes > 0), "the connection ended before `{part}`");
            if let Some(token) = line.strip_prefix("PING ") {
                let token = token.trim_end().to_owned();
                self.write(&format!("PONG {token}"));
            }
            if line.contains(part) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// The text of the next message of a sender to a target.
    #[track_caller]
    pub(crate) fn next_from(&mut self, nick: &str, target: &str) -> String {
        loop {
            let line = self.line_with(&format!(" PRIVMSG {target} :"));
            if line.starts_with(&format!(":{nick}!")) {
                return line.split_once(" :").expect("a text").1.to_owned();
            }
        }
    }
}
