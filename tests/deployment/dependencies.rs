//! The exact version is fixed for each dependency that changes fingerprints. `cargo deny` checks licences and sources, see `deny.toml`.

#[test]
fn dependencies_that_change_fingerprints_have_exact_versions() {
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().expect("Cargo.toml is TOML");
    for name in ["jieba-rs", "unicode-normalization", "fast2s", "html5gum", "cityhasher", "murmur3"] {
        let dependency = &manifest["workspace"]["dependencies"][name];
        let version = dependency.as_str().or_else(|| dependency["version"].as_str()).expect("a version");
        assert!(version.starts_with('='), "{name} {version} is not pinned with =");
    }
}
