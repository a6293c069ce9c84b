//! After SIGHUP the service reads its configuration again; if the new configuration is wrong, nothing changes.

use serde_json::json;

use crate::support::keyed::KeyedServer;
use crate::support::{TestServer, expect_no_parts, expect_parts, expect_problem, new_key, until};

/// Sends the signal and waits until the log reports the result.
fn hang_up(server: &TestServer, said: &str) {
    let before = server.log().matches(said).count();
    server.signal("HUP");
    until(said, || server.log().matches(said).count() > before);
}

const READ: &str = "configuration read again";
const REFUSED: &str = "nothing has changed";

#[test]
fn keys_limits_and_the_level_of_the_log_follow_the_file() {
    let keyed = KeyedServer::start(&[]);
    let server = &keyed.server;
    let before = std::fs::read_to_string(keyed.file()).expect("read");
    let (section, key) = new_key("new", "read,write");
    assert_eq!((status_for(keyed.key("reader"), server), status_for(&key, server)), (200, 401));
    let office = before.split("[[auth.keys]]").find(|part| part.contains("\"office\"")).expect("its section");
    let limits =
        "[limits]\nmax_body_bytes = 100\nmax_in_flight = 3\nmax_connections = 50\n[log]\nlevel = \"warn,audit=info\"\n";
    std::fs::write(keyed.file(), format!("{limits}[[auth.keys]]{office}\n{section}")).expect("written");
    // The log does not report the success here, because the new level does not include this line.
    server.signal("HUP");
    until("the new key", || status_for(&key, server) == 200);
    assert_eq!((status_for(keyed.key("reader"), server), status_for(keyed.key("office"), server)), (401, 200));
    let long = json!({ "content": "字".repeat(100) });
    expect_problem(&server.send_as(&key, "PUT", "/v1/collections/letters/records/a", &long), 413, "body_too_large");
    let lines = server.log().lines().count();
    assert_eq!(status_for(&key, server), 200);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(server.log().lines().count(), lines, "requests are lines of the level info");
    // The earlier configuration is restored.
    std::fs::write(keyed.file(), before).expect("written");
    hang_up(server, READ);
    assert_eq!((status_for(keyed.key("reader"), server), status_for(&key, server)), (200, 401));
    server.send_as(keyed.key("desk"), "PUT", "/v1/collections/letters/records/a", &long).expect_status(201);
}

fn status_for(key: &str, server: &TestServer) -> u16 {
    server.get_as(key, "/v1/collections").status
}

#[test]
fn a_file_with_a_mistake_changes_nothing_and_is_reported() {
    let keyed = KeyedServer::start(&[]);
    let server = &keyed.server;
    let before = std::fs::read_to_string(keyed.file()).expect("read");
    for (text, said) in [
        ("[limits]\nmax_in_flite = 1\n", "max_in_flite"),
        ("[limits]\nmax_in_flight = 0\n", "limits.max_in_flight is 0"),
        ("[log]\nlevel = \"inof\"\n", "did you mean"),
        ("not TOML", "is not TOML"),
        // The file is half written, or it was emptied before it is written again.
        ("", "no [[auth.keys]] any more"),
        ("[limits]\nmax_in_flight = 3\n", "no [[auth.keys]] any more"),
        ("[[auth.keys]]\nname = \"reader\"\nsha256 = \"ab\"\nscopes = [\"read\"]\n", "64 hexadecimal digits"),
    ] {
        std::fs::write(keyed.file(), text).expect("written");
        hang_up(server, REFUSED);
        assert!(server.log().contains(said), "{said}: {}", server.log());
        assert_eq!(keyed.get("reader", "/v1/collections").status, 200, "{said}");
    }
    std::fs::remove_file(keyed.file()).expect("removed");
    hang_up(server, REFUSED);
    assert!(server.log().contains("does not exist"));
    std::fs::write(keyed.file(), before).expect("written");
    hang_up(server, READ);
    assert_eq!(keyed.get("reader", "/v1/collections").status, 200);
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn settings_that_need_a_restart_are_named_and_unchanged() {
    let keyed = KeyedServer::start(&[]);
    let before = std::fs::read_to_string(keyed.file()).expect("read");
    let more = "[server]\norigins = [\"https://desk.example\"]\n[collections]\nauto_create = false\n[search]\nenabled = false\n";
    std::fs::write(keyed.file(), format!("{more}{before}")).expect("written");
    hang_up(&keyed.server, READ);
    until("the keys", || {
        ["server.origins", "\"collections\"", "\"search\""].iter().all(|key| keyed.server.log().contains(key))
    });
    let log = keyed.server.log();
    expect_parts(&log, &["takes a restart"]);
    expect_no_parts(&log, &["key=\"store\""]);
    keyed.put("a", "第三号院的路灯坏了很久没有人来修理，请尽快安排");
}

#[test]
fn without_keys_and_without_a_file_it_goes_on() {
    let server = TestServer::start(&[]);
    hang_up(&server, READ);
    server.get("/v1/collections").expect_status(200);
    server.stop();
}
