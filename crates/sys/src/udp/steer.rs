//! Which socket of a group gets a datagram.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The first two bytes of the destination connection id behind a long header (RFC 8999 §5.1): flags, version, length.
const LONG_OFFSET: u32 = 6;

/// The same behind a short header: flags.
const SHORT_OFFSET: u32 = 1;

const LONG_HEADER: u32 = 0x80;

/// Has the kernel give each datagram to one of the `sockets` sockets that share the address of `socket`, in the order in which
/// they were bound: the first two bytes of the destination connection id, as a number in network order, modulo `sockets`.
///
/// A client chooses the id of its first packets at random. They spread over the sockets, and all of one client reach the same
/// one. Needs no privilege.
///
/// # Errors
/// What the system said.
pub fn steer_by_connection_id(socket: impl AsFd, sockets: u16) -> io::Result<()> {
    let code = |class: u32| u16::try_from(class).unwrap_or(0);
    let load = |class: u32, offset: u32| filter(code(libc::BPF_LD | class | libc::BPF_ABS), (0, 0), offset);
    let mut program = [
        load(libc::BPF_B, 0),
        filter(code(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K), (0, 2), LONG_HEADER),
        load(libc::BPF_H, LONG_OFFSET),
        filter(code(libc::BPF_JMP | libc::BPF_JA), (0, 0), 1),
        load(libc::BPF_H, SHORT_OFFSET),
        filter(code(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K), (0, 0), u32::from(sockets.max(1))),
        filter(code(libc::BPF_RET | libc::BPF_A), (0, 0), 0),
    ];
    let program =
        libc::sock_fprog { len: u16::try_from(program.len()).unwrap_or(0), filter: program.as_mut_ptr() };
    let length = libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).unwrap_or(0);
    // SAFETY: the descriptor is open; the pointers are valid for the lengths given, and the kernel copies the program.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn filter(code: u16, (jt, jf): (u8, u8), k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}
