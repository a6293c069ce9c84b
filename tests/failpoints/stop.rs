//! A write that waits for its turn at the end of the drain is not begun.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use crate::faults::{gate, open};
use doppel_config::Config;
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::record::RecordId;
use doppel_engine::{Engine, Options};
use doppel_http::server;
use doppel_http::state::{App, OptionalParts};
use doppel_service::shutdown::{Phase, Shutdown};
use fail::FailScenario;

const RECORDS: &str = "/v1/collections/desk/records";

/// Sends a request without its body of `length` bytes.
fn send_head(address: std::net::SocketAddr, request: &str, media: &str, length: usize) -> TcpStream {
    let mut client = TcpStream::connect(address).expect("a connection");
    let head =
        format!("{request} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("sent");
    client
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it comes to that");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_line_that_waits_for_its_turn_when_the_service_has_drained_is_not_begun() {
    let _scenario = FailScenario::setup();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options { auto_create: true, automatic_reindex: false, ..doppel_cli::store::engine_options() };
    let engine = Engine::new(open(folder.path()), options);
    let desk = CollectionName::new("desk").expect("a name");
    engine.put_collection(&desk, Settings::default()).await.expect("a collection");
    let mut config = Config::default();
    let shutdown = Shutdown::default();
    config.limits.max_in_flight = 1;
    config.server.shutdown_drain_ms = 500;
    let streams = config.limits.max_streams;
    let metrics = doppel_service::observe::start_metrics().expect("metrics");
    let app = App::new(engine.clone(), OptionalParts::default(), &config, shutdown.clone(), metrics);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let serving = tokio::spawn({
        let app = app.clone();
        async move { server::serve(app, listener, &config).await }
    });

    let row = r#"{"id":"begun","content":"幸福小区东门外的路灯从上个月初开始就全部不亮了，晚上出行十分不便"}"#;
    let line = row.replace("begun", "waiting") + "\n";
    let mut waiting = send_head(address, &format!("POST {RECORDS}/_bulk"), "application/x-ndjson", line.len());
    until(|| app.streams.free() < streams && app.permits.free() == 1).await;
    let (arrived, go) = gate("store::before_append");
    let mut begun = send_head(address, &format!("PUT {RECORDS}/begun"), "application/json", row.len());
    begun.write_all(row.as_bytes()).expect("sent");
    tokio::task::block_in_place(|| arrived.recv().expect("a write begins"));
    until(|| app.permits.free() == 0).await;
    // Another write occupies the only permit.
    waiting.write_all(line.as_bytes()).expect("sent");
    tokio::time::sleep(Duration::from_millis(200)).await;
    shutdown.enter(Phase::Draining);
    until(|| app.permits.is_closed()).await;
    fail::remove("store::before_append");
    drop(go);
    serving.await.expect("no panic").expect("it ends in order");
    app.writes.wait().await;
    let record = async |id: &str| engine.record(&desk, &RecordId::new(id).expect("an id")).await;
    assert!(record("begun").await.is_ok(), "what was begun is finished");
    assert!(record("waiting").await.is_err(), "what waited is not begun");
    engine.close().await.expect("it closes");
}
