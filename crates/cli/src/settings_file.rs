//! Reads the settings of a collection from a file.

use std::path::Path;

use anyhow::{Context as _, anyhow};

use doppel_core::collection::{Preset, Settings};

/// Reads settings from a file in the format of PUT of a collection; without a file, returns the settings of the preset.
pub fn read_settings(file: Option<&Path>, preset: Preset) -> anyhow::Result<Settings> {
    let Some(file) = file else { return Ok(Settings::preset(preset)) };
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    doppel_http::routes::settings::read(&bytes).map_err(|problem| {
        let body = problem.body("");
        let errors = body.errors.iter().map(|one| match one.pointer.as_str() {
            "" => one.detail.clone(),
            pointer => format!("{pointer}: {}", one.detail),
        });
        let mut said: Vec<String> = errors.collect();
        if said.len() != 1 {
            said.insert(0, body.detail.to_owned());
        }
        anyhow!(said.join("\n  ")).context(file.display().to_string())
    })
}
