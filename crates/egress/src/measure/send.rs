//! Sending over a loopback connection, in user space and by the kernel.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use penstock_sys::aead::Cipher;
use penstock_sys::file::OpenFile;
use penstock_sys::ktls;
use penstock_sys::send::{PIECES_MAX, Piece, send_pieces};
use rustix::net::RecvFlags;

use super::{Cycle, MeasureLimits, Rate, batch_of_records, rounds, sealer, throwaway_keys};
use crate::batch::Batch;
use crate::pace::RECORD_BYTES;

/// The header of a frame of HTTP/2 (RFC 9113 §4.1).
const FRAME_HEADER_BYTES: usize = 9;

/// Seals into a batch and sends it, as the user-space outlet does.
pub(super) fn user_space(cipher: Cipher, source: &Arc<OpenFile>, limits: &MeasureLimits) -> Option<Rate> {
    let mut sealer = sealer(cipher)?;
    let mut batch = Batch::new();
    let mut at = Cycle::new(source.len());
    let mut pair = Pair::open(limits).ok()?;
    rounds(limits, || {
        let bytes = batch_of_records(&mut sealer, &mut batch, source, &mut at, limits.batch_bytes)?;
        pair.sender()?.write_all(batch.filled())?;
        Ok(bytes)
    })
}

/// Hands the keys to the kernel and sends file pages, as the kernel outlet does; `None` where the kernel cannot.
pub(super) fn kernel(cipher: Cipher, source: &Arc<OpenFile>, limits: &MeasureLimits) -> Option<Rate> {
    let mut at = Cycle::new(source.len());
    let mut pair = Pair::sealed_by_kernel(cipher, limits)?;
    let socket = pair.sender().ok()?;
    let window = (limits.window_bytes as u64).min(source.len());
    rounds(limits, || {
        let mut from = at.next(window);
        let count = usize::try_from(window).unwrap_or(usize::MAX);
        Ok(rustix::fs::sendfile(&*socket, source.as_fd(), Some(&mut from), count)?)
    })
}

/// Sends frames as the kernel outlet does: a header and mapped content fill a record, and some records leave together.
pub(super) fn kernel_frames(cipher: Cipher, source: &Arc<OpenFile>, limits: &MeasureLimits) -> Option<Rate> {
    let mut at = Cycle::new(source.len());
    let mut pair = Pair::sealed_by_kernel(cipher, limits)?;
    let socket = pair.sender().ok()?;
    let frames = (limits.frames_bytes / RECORD_BYTES).clamp(1, PIECES_MAX / 2);
    let header = [0; FRAME_HEADER_BYTES];
    rounds(limits, || {
        let mut pieces = [Piece::Memory(&[]); PIECES_MAX];
        for frame in pieces.chunks_exact_mut(2).take(frames) {
            let offset = at.next(RECORD_BYTES as u64);
            let content = source.window(offset, (RECORD_BYTES - FRAME_HEADER_BYTES) as u64)?;
            frame.copy_from_slice(&[Piece::Memory(&header), Piece::Mapped(content)]);
        }
        send_pieces(&*socket, &pieces[..2 * frames], false)
    })
}

/// Two ends of a loopback connection; a thread reads whatever arrives and drops it.
struct Pair {
    sender: Option<TcpStream>,
    reader: Option<JoinHandle<()>>,
}

impl Pair {
    fn open(limits: &MeasureLimits) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let sender = TcpStream::connect(listener.local_addr()?)?;
        let local = sender.local_addr()?;
        let receiver = loop {
            let (receiver, peer) = listener.accept()?;
            // Another program may have found the port in the meantime.
            if peer == local {
                break receiver;
            }
        };
        // A round never hangs: a write that takes as long as all rounds may take has failed.
        sender.set_write_timeout(Some(limits.patience))?;
        sender.set_nodelay(true)?;
        let reader = thread::Builder::new().name("measure".into()).spawn(move || drain(&receiver))?;
        Ok(Self { sender: Some(sender), reader: Some(reader) })
    }

    /// With the keys of the sender in the kernel; `None` where the kernel cannot seal.
    fn sealed_by_kernel(cipher: Cipher, limits: &MeasureLimits) -> Option<Self> {
        let keys = throwaway_keys(cipher)?;
        let mut pair = Self::open(limits).ok()?;
        let socket = pair.sender().ok()?;
        ktls::attach(&*socket).ok()?;
        ktls::set_send_keys(&*socket, &keys).ok()?;
        Some(pair)
    }

    fn sender(&mut self) -> io::Result<&mut TcpStream> {
        self.sender.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The end of the sender ends the reader.
        drop(self.sender.take());
        if let Some(reader) = self.reader.take() {
            // A panic of the reader has been printed; there is nothing more to do about it.
            drop(reader.join());
        }
    }
}

/// Takes bytes off the socket without copying them: `MSG_TRUNC` on TCP drops the bytes it counts.
fn drain(receiver: &TcpStream) {
    let mut nothing = vec![0_u8; 256 * 1024];
    while let Ok((_, count)) = rustix::net::recv(receiver, &mut nothing, RecvFlags::TRUNC) {
        if count == 0 {
            return;
        }
    }
}
