//! Ports of the loopback interface for servers that take a port number and no open listener.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port. The ports are below the ports that the system gives to outgoing connections (from 32768 on Linux), so that no connection
/// can take a port between this call and the start of the server.
const FIRST: u16 = 20_000;
const NUMBER: u16 = 12_000;

/// Returns a free port that no other call has returned. Different processes and different users of this module begin at different ports.
pub(super) fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let user = module_path!()
        .bytes()
        .fold(std::process::id(), |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let begin = (user.wrapping_mul(7_919) % u32::from(NUMBER)) as u16;
    loop {
        let port = FIRST + (begin + TAKEN.fetch_add(1, Ordering::Relaxed)) % NUMBER;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
