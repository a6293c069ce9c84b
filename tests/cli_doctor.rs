//! `doppel doctor` on a directory of the embedded store.

mod support;

use serde_json::json;
use support::TestServer;

#[test]
fn a_directory_in_order_is_said_to_be_so_and_one_that_is_in_use_is_not_touched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for number in 0..5 {
        let row = json!({ "title": "路灯不亮", "content": format!("小区东门第{number}盏路灯坏了，晚上老人小孩出行很不安全") });
        assert_eq!(server.send("PUT", &format!("/v1/collections/lamps/records/r{number}"), &row).status, 201);
    }
    let doctor = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
        let output = command.args(["doctor", "--data"]).arg(folder.path()).output().expect("doppel runs");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (text, output.status.code())
    };
    let (text, code) = doctor();
    assert!(code == Some(1) && text.contains("in use"), "{text}");
    server.stop();
    let (text, code) = doctor();
    assert_eq!((text.contains("5 records") && text.contains("0 faults"), code), (true, Some(0)), "{text}");
}
