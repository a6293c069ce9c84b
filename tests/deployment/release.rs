//! The release: the archive and the Debian package contain the promised files, the unit and the image run the same program, and the
//! configuration in the package is valid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use doppel_config::Config;

const UNIT: &str = include_str!("../../ops/systemd/doppel.service");
const DOCKERFILE: &str = include_str!("../../Dockerfile");

/// Returns the settings of `[Service]`, each with all its values.
fn service() -> BTreeMap<&'static str, Vec<&'static str>> {
    let section = UNIT.split("[Service]").nth(1).and_then(|rest| rest.split("\n[").next()).expect("a section");
    let mut settings = BTreeMap::<_, Vec<_>>::new();
    for line in section.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("{line} sets nothing"));
        settings.entry(name).or_default().push(value);
    }
    settings
}

#[test]
fn the_unit_and_the_image_run_the_service_and_nothing_else() {
    let unit = service();
    let [start] = unit["ExecStart"][..] else { panic!("one command") };
    let words: Vec<&str> = start.split(' ').collect();
    assert_eq!(words, ["/usr/bin/doppel", "serve", "--config", "/etc/doppel/doppel.toml"]);
    let last = DOCKERFILE.rsplit("FROM ").next().expect("a stage");
    assert!(last.contains("ENTRYPOINT [\"/usr/local/bin/doppel\"]") && last.contains("CMD [\"serve\"]"), "{last}");
}

#[test]
fn the_unit_waits_for_the_service_to_be_ready_and_to_drain() {
    let unit = service();
    let config = Config::default();
    assert_eq!(unit["Type"], ["notify"]);
    let seconds = unit["TimeoutStopSec"][0].strip_suffix('s').and_then(|text| text.parse::<u64>().ok());
    // The running requests end first, and then the writes that last longer than their requests.
    let needed = config.server.shutdown_grace_ms + 2 * config.server.shutdown_drain_ms;
    assert!(seconds.expect("seconds") * 1000 > needed, "a drain may take {needed} ms");
    let files = unit["LimitNOFILE"][0].parse::<usize>().expect("a number");
    assert!(files > 10 * config.limits.max_connections);
}

#[test]
fn the_configuration_of_the_package_is_one_and_keeps_records_where_the_unit_may_write() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/debian/doppel.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_doppel")).args(["config", "check", "--config"]).arg(&file).output();
    let output = output.expect("doppel runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let config: toml::Table = std::fs::read_to_string(&file).expect("the file").parse().expect("TOML");
    let state = format!("/var/lib/{}", service()["StateDirectory"][0]);
    assert_eq!(config["store"]["data"].as_str(), Some(&*state));
    let listen = config["server"]["listen"].as_str().expect("an address");
    assert!(listen.starts_with("127.0.0.1:"), "no key is configured, so nobody else may call");
}

#[test]
fn the_unit_lets_snapshots_be_written_where_the_package_and_the_manual_have_them() {
    let unit = service();
    assert_eq!(unit["ReadWritePaths"], ["-/var/backups/doppel"]);
    assert_eq!(unit["SystemCallFilter"].last(), Some(&"setpriority"), "its thread lowers its priority");
    let mut allowed = unit["SystemCallFilter"].iter().rev().take_while(|calls| !calls.starts_with('~'));
    let is_limiting = allowed.any(|calls| calls.split(' ').any(|call| call == "prlimit64"));
    assert!(is_limiting, "the process that reads a workbook limits itself");
    assert!(include_str!("../../ops/debian/postinst").contains("-m 0700 /var/backups/doppel"));
    for named in [include_str!("../../ops/debian/doppel.toml"), include_str!("../../docs/operations.md")] {
        assert!(named.contains("dir = \"/var/backups/doppel\""));
    }
}

/// Packs a small program that only calls the tested program, which is large.
fn pack(folder: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let stub = folder.join("stub");
    std::fs::write(&stub, format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_doppel"))).expect("a file");
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/release");
    let mut command = Command::new(script);
    command.arg("--binary").arg(&stub).arg("--out").arg(folder.join("out")).env("SOURCE_DATE_EPOCH", "1700000000");
    let output = command.output().expect("scripts/release runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.join("out/SHA256SUMS")).expect("sums")
}

/// Returns the files that a command lists, without the leading `./`.
fn listed(command: &mut Command) -> BTreeSet<String> {
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

#[test]
fn the_archive_and_the_package_are_whole_and_packed_twice_the_same() {
    let one = tempfile::tempdir().expect("a folder");
    let two = tempfile::tempdir().expect("a folder");
    let sums = pack(one.path());
    assert_eq!(sums, pack(two.path()), "packed in two folders");
    let out = one.path().join("out");
    let version = env!("CARGO_PKG_VERSION");

    let name = format!("doppel-{version}-{}-linux", std::env::consts::ARCH);
    let files = listed(Command::new("tar").arg("-tzf").arg(out.join(format!("{name}.tar.gz"))));
    for file in [
        "doppel",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "THIRD-PARTY.txt",
        "README.md",
        "docs/operations.md",
        "config/doppel.example.toml",
        "man/man1/doppel.1",
        "man/man1/doppel-import.1",
        "completions/bash/doppel",
        "completions/zsh/_doppel",
        "completions/fish/doppel.fish",
        "ops/systemd/doppel.service",
    ] {
        assert!(files.contains(&format!("{name}/{file}")), "{file} is missing in {files:?}");
    }

    let contents: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(out.join(format!("doppel-{version}.cdx.json"))).expect("a list"))
            .expect("JSON");
    assert_eq!(contents["bomFormat"], "CycloneDX");
    let parts: BTreeSet<&str> =
        contents["components"].as_array().expect("a list").iter().filter_map(|part| part["name"].as_str()).collect();
    assert!(parts.contains("fjall") && parts.contains("jieba-rs"), "what it is made of");
    assert!(!parts.contains("proptest") && !parts.contains("assert_cmd"), "what only tests use is not in it");

    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return; // The script makes no package there either.
    }
    let package = sums.lines().find_map(|line| line.split_whitespace().nth(1).filter(|name| name.ends_with(".deb")));
    let package = out.join(package.expect("a package"));
    let list =
        Command::new("sh").arg("-c").arg("dpkg-deb --fsys-tarfile \"$1\" | tar -tf -").arg("sh").arg(&package).output();
    let list = String::from_utf8(list.expect("dpkg-deb runs").stdout).expect("UTF-8");
    let files: BTreeSet<&str> = list.lines().map(|line| line.trim_start_matches("./")).collect();
    let start = service()["ExecStart"][0].split(' ').next().expect("a program");
    for file in [
        start.trim_start_matches('/'),
        "etc/doppel/doppel.toml",
        "lib/systemd/system/doppel.service",
        "usr/share/man/man1/doppel.1.gz",
        "usr/share/bash-completion/completions/doppel",
        "usr/share/zsh/vendor-completions/_doppel",
        "usr/share/fish/vendor_completions.d/doppel.fish",
        "usr/share/doc/doppel/copyright",
        "usr/share/doc/doppel/THIRD-PARTY.txt.gz",
    ] {
        assert!(files.contains(file), "{file} is missing in {files:?}");
    }
    assert!(!files.iter().any(|file| file.starts_with("var/")), "the records are not the package's to remove");
    let control =
        Command::new("dpkg-deb").arg("--info").arg(&package).arg("conffiles").output().expect("dpkg-deb runs");
    assert_eq!(String::from_utf8_lossy(&control.stdout).trim(), "/etc/doppel/doppel.toml");
}
