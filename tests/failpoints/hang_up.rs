//! Checks that a record is stored completely if its client closes the connection while the record is being written:
//!
//! ```text
//! cargo test --features failpoints --test failpoints hang_up
//! ```
#![cfg(feature = "failpoints")]

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use crate::faults::{gate, open};
use doppel_config::Config;
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_engine::{Engine, Options};
use doppel_http::server;
use doppel_http::state::{App, OptionalParts};
use doppel_service::shutdown::{Phase, Shutdown};
use fail::FailScenario;

const ROW: &str = r#"{"content":"幸福小区东门外的路灯从上个月初开始就全部不亮了，晚上老人和孩子出行十分不便"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_record_whose_client_hangs_up_between_append_and_sync_is_there_afterwards_and_whole() {
    let _scenario = FailScenario::setup();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options { auto_create: true, automatic_reindex: false, ..doppel_cli::store::engine_options() };
    let engine = Engine::new(open(folder.path()), options);
    let desk = CollectionName::new("desk").expect("a name");
    let settings = doppel_core::collection::Settings::default();
    engine.put_collection(&desk, settings).await.expect("a collection");
    let config = Config::default();
    let shutdown = Shutdown::default();
    let metrics = doppel_service::observe::start_metrics().expect("metrics");
    let app = App::new(engine.clone(), OptionalParts::default(), &config, shutdown.clone(), metrics);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let serving = tokio::spawn(async move { server::serve(app, listener, &config).await });

    fail::cfg("store::split_append_and_sync", "return").expect("a failpoint");
    let (arrived, go) = gate("store::between_append_and_sync");
    let mut client = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "PUT /v1/collections/desk/records/r1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        ROW.len()
    );
    client.write_all((head + ROW).as_bytes()).expect("sent");
    tokio::task::block_in_place(|| arrived.recv().expect("the writer comes between append and sync"));
    drop(client);
    // Gives the service time to notice the end of the connection.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let id = RecordId::new("r1").expect("an id");
    assert!(engine.record(&desk, &id).await.is_err(), "nobody sees what is not yet durable");
    fail::remove("store::between_append_and_sync");
    drop(go);

    let mut shown = engine.record(&desk, &id).await;
    for _ in 0..200 {
        if shown.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        shown = engine.record(&desk, &id).await;
    }
    assert_eq!(shown.expect("the record is there").row.map(|row| row.get().to_owned()).as_deref(), Some(ROW));
    let row = || Row::parse(ROW.as_bytes()).expect("a row");
    assert!(engine.check(&desk, row(), true).await.expect("an answer").duplicate, "and in the index");
    assert_eq!(engine.collection(&desk).await.expect("the collection").records, 1);
    shutdown.enter(Phase::Draining);
    serving.await.expect("no panic").expect("it ends in order");
    engine.close().await.expect("it closes");
}
