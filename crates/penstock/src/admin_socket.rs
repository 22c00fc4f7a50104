//! Opening the socket of the admin listener.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use penstock_config::{Admin, AdminAddress};
use penstock_console::AdminSocket;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens at the address of the admin listener.
///
/// # Errors
/// What the system says. A path that is no socket stays as it is.
pub(crate) fn bind(admin: &Admin) -> io::Result<AdminSocket> {
    match &admin.address {
        AdminAddress::Tcp(address) => TcpListener::bind(address).map(AdminSocket::Tcp),
        AdminAddress::Unix(path) => bind_path(path, admin.mode).map(AdminSocket::Unix),
    }
}

/// Makes a socket anew. No client connects to it before it has its permissions.
fn bind_path(path: &Path, mode: u32) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_made_anew_with_its_permissions_and_no_other_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let first = bind_path(&path, 0o660).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o660);
        // Left behind by a process that has ended, or of one that runs.
        let second = bind_path(&path, 0o600).unwrap();
        assert_eq!(mode(&path), 0o600);
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        second.set_nonblocking(true).unwrap();
        first.set_nonblocking(true).unwrap();
        assert!(second.accept().is_ok() && first.accept().is_err());
        let file = directory.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert_eq!(bind_path(&file, 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        assert!(bind_path(&directory.path().join("none/admin.sock"), 0o600).is_err());
    }
}
