//! Reads the input like an import and checks the rows like the collection, but sends nothing.

use super::deliver::DeliveryEnd;
use super::input::{RecordInput, next_batch};
use super::lines::check;
use super::report::ImportReport;
use doppel_core::collection::Settings;
use doppel_engine::replay::Replay;
use doppel_service::shutdown::Shutdown;

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
        let Some(batch) = next_batch(&mut batches, stop).await else { return Ok(DeliveryEnd::Stopped) };
        let Some(batch) = batch? else { return Ok(DeliveryEnd::Done) };
        if !batch.new_columns.is_empty() {
            report.lines.columns(&batch.new_columns, Some(&settings.fields));
        }
        let to_send = &mut report.to_send;
        report.lines.take_batch(
            &batch,
            |line| check(&rules, line).map(|checked| checked.document.warnings),
            |_, warnings| {
                *to_send += u64::from(warnings.is_ok());
                Ok(warnings)
            },
        )?;
        report.checked(&batch);
    }
}
