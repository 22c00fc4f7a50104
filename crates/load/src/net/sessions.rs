//! TLS sessions: kept for later handshakes, and optionally in a file.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use boring::ssl::SslSession;
use penstock_sys::lock::Unpoisoned;
use penstock_sys::ssl::client;

/// The most sessions that are kept; the oldest are dropped.
const SESSIONS_MAX: usize = 10_000;

/// The largest session file: `SESSIONS_MAX` sessions of the largest size.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

const HEADING: &str = "# TLS sessions of penstock load. They decrypt the connections that resume them.";

/// The sessions, newest last.
#[derive(Default)]
pub(crate) struct SessionPool {
    at_hand: Mutex<VecDeque<SslSession>>,
    /// Sessions of QUIC, which remember its transport parameters too.
    quic: Mutex<VecDeque<Vec<u8>>>,
    /// Lines of the file that belong to other servers.
    others: Mutex<Vec<String>>,
}

impl SessionPool {
    /// Adds a session.
    pub(crate) fn put(&self, session: SslSession) {
        let mut sessions = self.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(session);
    }

    /// Takes a session to offer. Tickets of TLS 1.3 are offered once (RFC 8446 §C.4), others repeatedly.
    pub(crate) fn take(&self) -> Option<SslSession> {
        let mut sessions = self.lock();
        if client::is_single_use(sessions.back()?) { sessions.pop_back() } else { sessions.back().cloned() }
    }

    /// Adds a session of QUIC.
    pub(crate) fn put_quic(&self, session: Vec<u8>) {
        let mut sessions = self.quic.lock().unpoisoned();
        if sessions.len() >= SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back(session);
    }

    /// Takes a session of QUIC to offer, which happens once.
    pub(crate) fn take_quic(&self) -> Option<Vec<u8>> {
        self.quic.lock().unpoisoned().pop_back()
    }

    /// The number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.lock().len() + self.quic.lock().unpoisoned().len()
    }

    /// Adds the sessions of a file, which may be missing. Sessions of other server names are kept for `save`.
    pub(crate) fn load(&self, file: &Path, server_name: &str) -> io::Result<()> {
        let size = match fs::metadata(file) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if size > FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large for a file of sessions"));
        }
        for (number, line) in fs::read_to_string(file)?.lines().enumerate() {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let fault = || {
                let text = format!("line {} is no session; remove the file to start again", number + 1);
                io::Error::new(io::ErrorKind::InvalidData, text)
            };
            let (name, hex) = line.split_once(' ').ok_or_else(fault)?;
            let der = from_hex(hex).ok_or_else(fault)?;
            let session = SslSession::from_der(&der).map_err(|_| fault())?;
            if name == shown(server_name) {
                self.put(session);
            } else {
                self.others().push(line.to_owned());
            }
        }
        Ok(())
    }

    /// Writes the sessions to a file that only its owner can read.
    pub(crate) fn save(&self, file: &Path, server_name: &str) -> io::Result<()> {
        let mut text = format!("{HEADING}\n");
        self.others().iter().for_each(|line| text.extend([line, "\n"]));
        for session in self.lock().iter() {
            if let Ok(der) = session.to_der() {
                text.push_str(&format!("{} {}\n", shown(server_name), to_hex(&der)));
            }
        }
        let mut name = file.as_os_str().to_owned();
        name.push(".new");
        let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&name)?;
        new.write_all(text.as_bytes())?;
        drop(new);
        fs::rename(&name, file)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SslSession>> {
        self.at_hand.lock().unpoisoned()
    }

    fn others(&self) -> MutexGuard<'_, Vec<String>> {
        self.others.lock().unpoisoned()
    }
}

fn shown(server_name: &str) -> &str {
    if server_name.is_empty() { "-" } else { server_name }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits; `None` if they are malformed.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().as_bytes();
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_an_empty_one_and_a_wrong_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sessions");
        let sessions = SessionPool::default();
        sessions.load(&file, "localhost").unwrap();
        assert_eq!(sessions.count(), 0);
        for wrong in ["localhost", "localhost zz", "localhost 3003"] {
            fs::write(&file, format!("{HEADING}\n{wrong}\n")).unwrap();
            let said = sessions.load(&file, "localhost").unwrap_err().to_string();
            assert!(said.contains("line 2 is no session"), "{wrong}: {said}");
        }
        assert!(sessions.take().is_none());
    }

    #[test]
    fn hexadecimal_digits_come_back_as_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)).unwrap(), bytes);
        assert_eq!(from_hex("abc"), None);
    }
}
