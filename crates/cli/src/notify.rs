//! Reports the state of the service to the service manager, with one datagram to the socket that systemd names for a service of `Type=notify`.
//! Without a socket, nothing is sent. A failure to send does not stop the service.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;

/// The service accepts requests.
pub(crate) const READY: &str = "READY=1";
/// The service is stopping.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// Sends `state` to the service manager, if there is a socket.
pub(crate) fn tell(state: &str) {
    if let Some(socket) = doppel_config::notify_socket()
        && let Err(error) = send(&socket, state)
    {
        tracing::warn!(%error, "the service manager could not be told (NOTIFY_SOCKET)");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let datagram = UnixDatagram::unbound()?;
    // A name that begins with @ is in the abstract namespace.
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return datagram.send_to_addr(state.as_bytes(), &address).map(drop);
    }
    datagram.send_to(state.as_bytes(), socket).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_arrives_at_a_socket_with_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), READY).unwrap();
        let mut received = [0; 64];
        let length = manager.recv(&mut received).unwrap();
        assert_eq!(&received[..length], READY.as_bytes());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_state_arrives_at_an_abstract_socket() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("doppel-notify-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), STOPPING).unwrap();
        let mut received = [0; 64];
        let length = manager.recv(&mut received).unwrap();
        assert_eq!(&received[..length], STOPPING.as_bytes());
    }
}
