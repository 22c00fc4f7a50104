//! The messages between two processes: a line of words each, with descriptors beside them.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Descriptors of one message; the system allows 253.
pub(super) const DESCRIPTORS_MAX: usize = 64;
/// Bytes of the words of one message.
const WORDS_BYTES_MAX: usize = 16 * 1024;
/// Bytes of what lies in a file beside a message: the slots of the largest memory tier take less.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// One end of the channel.
#[derive(Debug)]
pub(super) struct Channel(pub(super) OwnedFd);

/// What the other process says.
#[derive(Debug)]
pub(super) struct Message {
    words: String,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Message {
    /// The first word.
    pub(super) fn subject(&self) -> &str {
        self.words.split(' ').next().unwrap_or_default()
    }

    /// The others.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.split(' ').skip(1)
    }

    /// The bytes of the file beside the message.
    ///
    /// # Errors
    /// There is none, it is too large, or what the system said.
    pub(super) fn file_bytes(&self) -> io::Result<Vec<u8>> {
        let file = self.descriptors.last().ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut file = File::from(file.try_clone()?);
        file.rewind()?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Channel {
    /// Bounds the time that [`Self::receive`] and [`Self::send`] wait.
    pub(super) fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        set_socket_timeout(&self.0, Timeout::Send, patience)?;
        Ok(set_socket_timeout(&self.0, Timeout::Recv, patience)?)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other process has ended, or what the system said.
    pub(super) fn send(&self, words: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.0, &[IoSlice::new(words.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Sends bytes of any number beside a message.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(super) fn send_bytes(
        &self,
        words: &str,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut file = File::from(memfd_create("penstock", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        let all: Vec<BorrowedFd<'_>> = descriptors.iter().copied().chain([file.as_fd()]).collect();
        self.send(words, &all)
    }

    /// Waits for a message; `None` if the other process has ended. Signals do not end the wait.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] without a message in time, or what the system said.
    pub(super) fn receive(&self) -> io::Result<Option<Message>> {
        let mut words = vec![0; WORDS_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        // The kernel does not go on by itself with a call that has a time limit.
        let received = retry_on_intr(|| {
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut words)], &mut beside, RecvFlags::CMSG_CLOEXEC)
        });
        let count = match received {
            Ok(received) => received.bytes,
            // It has ended with a message of ours unread.
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            return Ok(None);
        }
        words.truncate(count);
        let descriptors = beside.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
            _ => Vec::new(),
        });
        let descriptors = descriptors.collect();
        Ok(Some(Message { words: String::from_utf8_lossy(&words).into_owned(), descriptors }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Channel, Channel) {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Channel(one), Channel(other))
    }

    #[test]
    fn words_and_descriptors_arrive_together_and_the_end_is_seen() {
        let (one, other) = pair();
        one.send_bytes("tier a b", b"bytes", &[io::stderr().as_fd()]).unwrap();
        one.send("all", &[]).unwrap();
        let tier = other.receive().unwrap().unwrap();
        assert_eq!((tier.subject(), tier.words().collect::<Vec<_>>()), ("tier", vec!["a", "b"]));
        assert_eq!((tier.descriptors.len(), tier.file_bytes().unwrap().as_slice()), (2, &b"bytes"[..]));
        let all = other.receive().unwrap().unwrap();
        assert_eq!((all.subject(), all.words().count(), all.descriptors.len()), ("all", 0, 0));
        assert!(all.file_bytes().is_err());
        other.set_patience(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(other.receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(one);
        assert!(other.receive().unwrap().is_none());
        assert!(other.send("ready", &[]).is_err());
    }

    #[test]
    fn a_message_takes_as_many_descriptors_as_are_sent_at_once() {
        let (one, other) = pair();
        let error = io::stderr();
        one.send("sockets", &[error.as_fd(); DESCRIPTORS_MAX]).unwrap();
        // The space is rounded up.
        assert!(one.send("sockets", &[error.as_fd(); 2 * DESCRIPTORS_MAX]).is_err());
        assert_eq!(other.receive().unwrap().unwrap().descriptors.len(), DESCRIPTORS_MAX);
    }
}
