//! `doppel eval --vectors`: asks the model of the configuration for the vectors of a set.

use std::time::Duration;

use anyhow::Context as _;

use super::EvalArgs;
use crate::load_config;
use crate::progress::CommandProgress;
use doppel_core::collection::Settings;
use doppel_eval::dataset::LabelledSet;
use doppel_eval::related::SetVectors;
use doppel_search::embedder::TextEmbedder as _;
use doppel_search::vectors::text::EmbeddingTexts;
use doppel_service::embedder::{EmbeddingClient, options};

/// The longest time for a batch of texts.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the vectors of the records of a set that have a text.
///
/// # Errors
/// The configuration names no model, or the model's server does not answer.
pub(super) fn of_set(args: &EvalArgs, set: &LabelledSet, settings: &Settings) -> anyhow::Result<SetVectors> {
    let embedder = load_config(args.config.as_deref())?.config.search.embedder;
    anyhow::ensure!(embedder.is_on(), "search.embedder names no model; give a configuration with one (--config)");
    let client = EmbeddingClient::new(&embedder)?;
    let options = options(&embedder);
    let texts = EmbeddingTexts::new(settings, options.max_chars);
    let texts: Vec<(u32, String)> = (0..)
        .zip(&set.records)
        .map(|(position, (_, row))| (position, format!("{}{}", options.prefix, texts.text(row))))
        .filter(|(_, text)| text.len() > options.prefix.len())
        .collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let progress = CommandProgress::new();
    progress.phase("embedding", Some(texts.len() as u64));
    let mut vectors = Vec::with_capacity(texts.len());
    for batch in texts.chunks(options.batch) {
        let sent: Vec<String> = batch.iter().map(|(_, text)| text.clone()).collect();
        let answered = runtime.block_on(client.embed(&sent, TIMEOUT))?;
        vectors.extend(batch.iter().map(|(position, _)| *position).zip(answered));
        progress.at(vectors.len() as u64);
    }
    progress.finish();
    Ok(vectors)
}
