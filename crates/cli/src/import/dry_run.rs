//! Reads the input like an import and checks the rows like the collection, but sends nothing.

use super::deliver::DeliveryEnd;
use super::input::{LineBatch, RecordInput, next_batch};
use super::lines::check;
use super::report::ImportReport;
use doppel_core::collection::Settings;
use doppel_core::columns::settings_for;
use doppel_core::record::Row;
use doppel_engine::replay::Replay;
use doppel_service::shutdown::Shutdown;

/// Counts the lines that would be sent and the lines that would be rejected. `settings` are the settings of the collection. For a missing
/// collection (`None`) the members of the first row give the fields, as in a service.
pub(super) async fn run(
    input: RecordInput,
    mut settings: Option<Settings>,
    stop: &Shutdown,
    report: &mut ImportReport,
) -> anyhow::Result<DeliveryEnd> {
    let mut rules = None;
    let mut batches = input.start();
    loop {
        let Some(batch) = next_batch(&mut batches, stop).await else { return Ok(DeliveryEnd::Stopped) };
        let Some(batch) = batch? else { return Ok(DeliveryEnd::Done) };
        let settings = settings.get_or_insert_with(|| settings_of_first_row(&batch));
        let rules = match &mut rules {
            Some(rules) => rules,
            none => none.insert(Replay::new(settings.clone(), None, 0)?),
        };
        if !batch.new_columns.is_empty() {
            report.lines.columns(&batch.new_columns, Some(&settings.fields));
        }
        let to_send = &mut report.to_send;
        report.lines.take_batch(
            &batch,
            |line| check(rules, line).map(|checked| checked.document.warnings),
            |_, warnings| {
                *to_send += u64::from(warnings.is_ok());
                Ok(warnings)
            },
        )?;
        report.checked(&batch);
    }
}

/// Returns the settings of a collection that the first row of a batch creates; the preset `default` without a row.
fn settings_of_first_row(batch: &LineBatch) -> Settings {
    let mut rows = batch.lines.iter().filter_map(|line| Row::parse(line.content.as_ref().ok()?.as_bytes()).ok());
    rows.next().map(|row| settings_for(row.names())).unwrap_or_default()
}
