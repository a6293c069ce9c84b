//! The Dockerfile and the compose files agree with the documentation, and everything that they name exists.

use serde_norway::Value;

fn compose(text: &str) -> Value {
    let mut value: Value = serde_norway::from_str(text).expect("YAML");
    value.apply_merge().expect("merge keys");
    value
}

fn files() -> [(&'static str, Value); 2] {
    [
        ("docker-compose.yml", compose(include_str!("../../docker-compose.yml"))),
        ("docker-compose.sharded.yml", compose(include_str!("../../docker-compose.sharded.yml"))),
    ]
}

fn keys(value: &Value) -> Vec<String> {
    let Some(map) = value.as_mapping() else { return Vec::new() };
    map.keys().map(|key| key.as_str().expect("a text key").to_owned()).collect()
}

fn texts(value: &Value) -> Vec<String> {
    let Some(list) = value.as_sequence() else { return Vec::new() };
    list.iter().map(|item| item.as_str().expect("a text").to_owned()).collect()
}

#[test]
fn everything_a_service_refers_to_is_defined() {
    for (name, file) in files() {
        for service in keys(&file["services"]) {
            let at = &file["services"][service.as_str()];
            for needed in keys(&at["depends_on"]) {
                let other = &file["services"][needed.as_str()];
                assert!(other.is_mapping(), "{name}: {service} depends on {needed}");
                // The image of doppel contains its own health check.
                let healthy = at["depends_on"][needed.as_str()]["condition"] == "service_healthy";
                assert!(
                    !healthy || other["healthcheck"].is_mapping() || other["image"] == "doppel",
                    "{name}: {needed}"
                );
            }
            for (kind, used) in [("secrets", texts(&at["secrets"])), ("networks", texts(&at["networks"]))] {
                assert!(used.iter().all(|used| keys(&file[kind]).contains(used)), "{name}: {kind} of {service}");
            }
            for volume in texts(&at["volumes"]) {
                let volume = volume.split(':').next().unwrap_or_default().to_owned();
                assert!(keys(&file["volumes"]).contains(&volume), "{name}: volume {volume}");
            }
        }
    }
}

#[test]
fn two_instances_stand_behind_one_loopback_port_and_take_their_secrets_from_files() {
    for (name, file) in files() {
        let doppels: Vec<String> =
            keys(&file["services"]).into_iter().filter(|service| service.starts_with("doppel-")).collect();
        assert_eq!(doppels.len(), 2, "{name}");
        for doppel in &doppels {
            let at = &file["services"][doppel.as_str()];
            assert!(at["ports"].is_null(), "{name}: only the front is reached from outside");
            assert!(texts(&file["services"]["front"]["command"]).contains(&format!("{doppel}:8080")), "{name}");
            assert!(at["environment"]["DOPPEL_STORE__URI"].is_null());
            assert_eq!(at["environment"]["DOPPEL_STORE__URI_FILE"], "/run/secrets/doppel_uri");
        }
        for service in keys(&file["services"]) {
            let ports = texts(&file["services"][service.as_str()]["ports"]);
            assert!(ports.iter().all(|port| port.starts_with("127.0.0.1:")), "{name}: {service} is on loopback only");
        }
    }
}

#[test]
fn the_replica_set_has_a_volume_a_health_check_and_a_short_transaction_lifetime() {
    let (_, file) = &files()[0];
    let mongo = &file["services"]["mongo"];
    let command = texts(&mongo["command"]);
    assert!(command.contains(&"--replSet".to_owned()));
    assert!(command.contains(&"transactionLifetimeLimitSeconds=10".to_owned()));
    assert!(!texts(&mongo["volumes"]).is_empty() && mongo["healthcheck"].is_mapping());
}

#[test]
fn the_environment_given_to_doppel_is_a_valid_configuration() {
    for (name, file) in files() {
        let environment = &file["services"]["doppel-1"]["environment"];
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("doppel.toml");
        let key = format!("[[auth.keys]]\nname = \"a\"\nsha256 = \"{}\"\nscopes = [\"read\"]\n", "0".repeat(64));
        std::fs::write(&config, key).expect("a file");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
        command.args(["config", "check"]);
        for variable in keys(environment) {
            command.env(&variable, environment[variable.as_str()].as_str().expect("a text"));
        }
        let output = command.env("DOPPEL_CONFIG", &config).output().expect("doppel runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_image_is_small_runs_as_nobody_and_checks_its_own_health() {
    let file = include_str!("../../Dockerfile");
    let last = file.rsplit("FROM ").next().expect("a stage");
    assert!(file.matches("FROM ").count() >= 2 && last.starts_with("gcr.io/distroless/"));
    for line in ["USER 65532:65532", "\"healthcheck\"", "HEALTHCHECK"] {
        assert!(last.contains(line), "{line}");
    }
    let toolchain: toml::Table = include_str!("../../rust-toolchain.toml").parse().expect("TOML");
    let channel = toolchain["toolchain"]["channel"].as_str().expect("a text");
    let image = file.split("FROM rust:").nth(1).and_then(|rest| rest.split('-').next()).expect("a Rust image");
    assert!(channel.starts_with(image), "the image builds with {image}, the project with {channel}");
}
