//! The open connections, and the choice of the connection that is closed if there are too many.
//!
//! At the limit, a new connection takes the place of an idle connection, which has no request in progress. A host that opens connections
//! and sends nothing can therefore not block other clients. Idle connections are closed in this order: first connections without
//! authentication; among these, the connections of the address with the most connections; among these, the connection that has been idle
//! for the longest time.
//!
//! If keys are configured, connections without authentication may take seven eighths of the places. The rest is a reserve for clients that
//! have authenticated.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The reserve for clients that have authenticated is one place in this number of places.
const RESERVE: usize = 8;

#[derive(Debug)]
pub struct OpenConnections(Mutex<ConnectionTable>);

#[derive(Debug)]
struct ConnectionTable {
    most: usize,
    next: u64,
    open: HashMap<u64, ConnectionEntry>,
}

#[derive(Debug)]
struct ConnectionEntry {
    peer: Option<IpAddr>,
    /// The token that is cancelled when another connection takes the place.
    lost: CancellationToken,
    /// Number of requests in progress. A request is in progress from its head to the end of its response.
    requests: usize,
    /// End of the last request, or the time at which the connection was opened.
    idle_since: Instant,
    is_authenticated: bool,
}

impl OpenConnections {
    /// Creates `most` places, at least one.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ConnectionTable { most: most.max(1), next: 0, open: HashMap::new() })))
    }

    /// Changes the number of places. Connections beyond a lower number stay open until they end or another connection takes their place.
    pub fn set_most(&self, most: usize) {
        self.0.lock().most = most.max(1);
    }

    /// Takes a place for a new connection. If all places are taken, an idle connection loses its place. Returns `None` if all connections
    /// are busy. `are_keys_there` is true if clients can authenticate. Takes O(connections) at the limit.
    pub fn enter(self: &Arc<Self>, peer: Option<IpAddr>, are_keys_there: bool) -> Option<ConnectionPlace> {
        let mut table = self.0.lock();
        let is_full = table.open.len() >= table.most;
        let reserve = if are_keys_there { table.most / RESERVE } else { 0 };
        let strangers = table.open.values().filter(|entry| !entry.is_authenticated).count();
        if is_full || strangers >= table.most - reserve {
            let strangers_alone = !is_full;
            let idle = table.longest_idle(strangers_alone)?;
            if let Some(entry) = table.open.remove(&idle) {
                entry.lost.cancel();
            }
        }
        let number = table.next;
        let lost = CancellationToken::new();
        table.next += 1;
        let entry = ConnectionEntry {
            peer,
            lost: lost.clone(),
            requests: 0,
            idle_since: Instant::now(),
            is_authenticated: false,
        };
        table.open.insert(number, entry);
        let mark = ConnectionMark { connections: Arc::clone(self), number };
        Some(ConnectionPlace { mark, lost })
    }

    pub fn count(&self) -> usize {
        self.0.lock().open.len()
    }
}

impl ConnectionTable {
    /// Returns the number of the idle connection that is closed next. If `strangers_alone` is true, only connections without authentication
    /// are considered.
    fn longest_idle(&self, strangers_alone: bool) -> Option<u64> {
        let mut of_peer: HashMap<Option<IpAddr>, usize> = HashMap::new();
        self.open.values().for_each(|entry| *of_peer.entry(entry.peer).or_default() += 1);
        let idle = self.open.iter().filter(|(_, entry)| entry.requests == 0);
        let idle = idle.filter(|(_, entry)| !(strangers_alone && entry.is_authenticated));
        idle.min_by_key(|(number, entry): &(&u64, &ConnectionEntry)| {
            let of_peer = of_peer.get(&entry.peer).copied().unwrap_or(0);
            // The number decides between connections with the same time.
            (entry.is_authenticated, usize::MAX - of_peer, entry.idle_since, **number)
        })
        .map(|(number, _)| *number)
    }
}

/// The place of a connection. Dropping this value gives the place back.
#[derive(Debug)]
pub struct ConnectionPlace {
    mark: ConnectionMark,
    lost: CancellationToken,
}

impl ConnectionPlace {
    /// Returns the mark for the requests of the connection.
    pub fn mark(&self) -> ConnectionMark {
        self.mark.clone()
    }

    /// Waits until another connection takes the place.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.mark.connections.0.lock().open.remove(&self.mark.number);
    }
}

/// The connection of a request, in the extensions of the request.
#[derive(Clone, Debug)]
pub struct ConnectionMark {
    connections: Arc<OpenConnections>,
    number: u64,
}

impl ConnectionMark {
    fn change(&self, change: impl FnOnce(&mut ConnectionEntry)) {
        if let Some(connection) = self.connections.0.lock().open.get_mut(&self.number) {
            change(connection);
        }
    }

    /// Records that the client has authenticated.
    pub fn authenticated(&self) {
        self.change(|entry| entry.is_authenticated = true);
    }

    /// Records a request in progress until the returned value is dropped.
    pub fn begin_request(&self) -> BusyRequest {
        self.change(|entry| entry.requests += 1);
        BusyRequest(self.clone())
    }
}

/// A request in progress.
#[derive(Debug)]
pub struct BusyRequest(ConnectionMark);

impl Drop for BusyRequest {
    fn drop(&mut self) {
        self.0.change(|entry| {
            entry.requests -= 1;
            entry.idle_since = Instant::now();
        });
    }
}

/// The body of a response. The request is in progress until the body has been sent.
pub struct BusyBody {
    body: Body,
    _busy: Option<BusyRequest>,
}

impl BusyBody {
    /// Wraps `body`, and keeps `busy` until the end of the body.
    pub fn new(body: Body, busy: Option<BusyRequest>) -> Self {
        Self { body, _busy: busy }
    }
}

impl HttpBody for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    fn is_lost(place: &ConnectionPlace) -> bool {
        place.lost.is_cancelled()
    }

    #[test]
    fn at_the_limit_the_longest_idle_connection_of_the_busiest_address_is_closed() {
        let connections = OpenConnections::new(4);
        let first = enter_from(1, &connections).unwrap();
        let mut others = Vec::new();
        for _ in 0..3 {
            others.push(enter_from(2, &connections).unwrap());
        }
        let busy = others[0].mark().begin_request();
        let new = enter_from(3, &connections).unwrap();
        assert!(!is_lost(&first) && !is_lost(&others[0]) && is_lost(&others[1]) && !is_lost(&new));
        assert_eq!(connections.count(), 4);
        drop(busy);
        drop(others.remove(1));
        assert_eq!(connections.count(), 4, "a place that was lost is not given back twice");
        others.remove(0);
        assert_eq!(connections.count(), 3);
    }

    fn enter_from(last: u8, connections: &Arc<OpenConnections>) -> Option<ConnectionPlace> {
        connections.enter(address(last), false)
    }

    #[test]
    fn authenticated_connections_are_closed_last_and_have_a_reserve() {
        let connections = OpenConnections::new(8);
        let clerk = enter_authenticated(1, &connections).unwrap();
        clerk.mark().authenticated();
        let strangers: Vec<_> = (0..20).filter_map(|_| enter_authenticated(2, &connections)).collect();
        assert_eq!((connections.count(), strangers.iter().filter(|place| !is_lost(place)).count()), (8, 7));
        assert!(!is_lost(&clerk));
        let busy: Vec<_> = strangers.iter().map(|place| place.mark().begin_request()).collect();
        let late = enter_authenticated(3, &connections);
        assert!(late.is_some() && is_lost(&clerk), "where all strangers are busy an idle connection must do");
        let _late = late.unwrap().mark().begin_request();
        drop(busy);
    }

    fn enter_authenticated(last: u8, connections: &Arc<OpenConnections>) -> Option<ConnectionPlace> {
        connections.enter(address(last), true)
    }

    #[test]
    fn if_all_connections_are_busy_a_new_connection_gets_no_place() {
        let connections = OpenConnections::new(1);
        let only = connections.enter(None, false).unwrap();
        let busy = only.mark().begin_request();
        assert!(connections.enter(None, false).is_none());
        drop(busy);
        assert!(connections.enter(None, false).is_some() && is_lost(&only));
    }
}
