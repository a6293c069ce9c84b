//! Reads the input like an import and checks the rows like the collection, but sends nothing.

use super::deliver::DeliveryEnd;
use super::input::RecordInput;
use super::lines::{LineRefusal, check};
use super::report::{ImportReport, RejectionReason};
use doppel_core::collection::Settings;
use doppel_engine::replay::Replay;
use doppel_service::shutdown::{Phase, Shutdown};

/// Counts the lines that would be sent and the lines that would be rejected. `settings` are the settings of the collection.
pub(super) async fn run(
    input: RecordInput,
    settings: &Settings,
    stop: &Shutdown,
    report: &mut ImportReport,
) -> anyhow::Result<DeliveryEnd> {
    let rules = Replay::new(settings.clone(), None, 0)?;
    let mut batches = input.start();
    loop {
        let batch = tokio::select! {
            biased;
            () = stop.reached(Phase::Grace) => return Ok(DeliveryEnd::Stopped),
            batch = batches.recv() => batch,
        };
        let Some(batch) = batch.transpose()? else { return Ok(DeliveryEnd::Done) };
        if !batch.new_columns.is_empty() {
            report.columns(&batch.new_columns, Some(settings.fields.clone()));
        }
        for line in &batch.lines {
            let at = (line.file, line.number);
            match check(&rules, line) {
                Ok(checked) => report.would_send(at, &checked.document.warnings, batch.read_bytes),
                Err(LineRefusal { code, pointer, detail, text }) => {
                    let why = RejectionReason { code, pointer: &pointer, detail: &detail, text: text.as_deref() };
                    report.would_reject(at, why, batch.read_bytes)?;
                }
            }
        }
    }
}
