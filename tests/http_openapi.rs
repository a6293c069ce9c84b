//! The description in the repository is the one the service gives.

#[test]
fn openapi_yaml_is_what_the_routes_say() {
    let committed = include_str!("../openapi.yaml");
    let made = doppel::http::openapi::yaml().unwrap();
    assert!(committed == made, "openapi.yaml is not current; run: cargo run -- openapi > openapi.yaml");
}

#[test]
fn every_operation_names_its_success_and_its_problems() {
    let document = serde_json::to_value(doppel::http::openapi::document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 14, "{} paths", paths.len());
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
            assert!(responses.contains_key("500"), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}

#[test]
fn who_reads_only_the_beginning_hears_no_complaint() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.arg("openapi").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("doppel runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
