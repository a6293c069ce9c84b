//! A source with an open connection to its database and known columns.

use anyhow::{Context, bail};
use futures_util::StreamExt;
use jiff::tz::TimeZone;

use super::state::CheckpointValue;
use doppel_config as config;
use doppel_core::collection::Settings;
use doppel_sources::database::sql::{self, RowOrder, RowPosition};
use doppel_sources::database::{
    ColumnKind, ConnectionAccess, DatabaseConnection, DatabaseError, ResultColumn, RowMapping, RowOrigin, SqlDialect,
    SqlValue, Watermark, WatermarkFormat, text_of,
};
use doppel_sources::tables::columns::ColumnTarget;
use doppel_sources::tables::plan::{ColumnChoice, ColumnPlan};

/// Number of rows in a page. With this number a query costs little compared with registering the rows.
pub(super) const PAGE: usize = 500;
/// Size in bytes at which a page ends, so that long rows do not fill the memory.
const PAGE_BYTES: usize = 8 << 20;

/// A source that can be read.
pub(super) struct ReadableSource {
    pub(super) connection: DatabaseConnection,
    pub(super) origin: RowOrigin,
    pub(super) columns: Vec<ResultColumn>,
    pub(super) plan: ColumnPlan,
    pub(super) mapping: RowMapping,
    /// The name of the id column.
    pub(super) id: String,
    id_at: usize,
    /// The watermark column; `None` if the source is only imported.
    pub(super) watermark: Option<WatermarkColumn>,
}

pub(super) struct WatermarkColumn {
    pub(super) name: String,
    pub(super) at: usize,
    pub(super) shape: WatermarkFormat,
}

/// A page of rows, and whether more rows may follow.
pub(super) struct SourcePage {
    pub(super) rows: Vec<Vec<SqlValue>>,
    pub(super) is_last: bool,
}

impl ReadableSource {
    /// Connects and reads the columns.
    pub(super) async fn open(
        config: &config::SourceConfig,
        password: Option<&str>,
        settings: &Settings,
        max_row: usize,
    ) -> anyhow::Result<Self> {
        let mut connection =
            DatabaseConnection::open(&config.location()?, password, ConnectionAccess::ReadOnly).await?;
        let origin = config.origin();
        let columns = connection.columns(&origin).await?;
        let header: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let map: Vec<_> = config.map.iter().map(|(column, field)| (column.clone(), field.clone())).collect();
        let choice = ColumnChoice::new(&map, Some(config.id.as_str()).filter(|id| !id.is_empty()), false);
        let plan = ColumnPlan::new(&header, &choice, Some(settings))
            .map_err(|detail| anyhow::anyhow!("it {}", detail.replace("--map ", "map ")))?;
        if let Some(column) = plan.not_found(&choice) {
            bail!("there is no column {column:?}; there are {}", header.join(", "));
        }
        let id = plan.id(&header).context("no column is the id; name it: id = \"COLUMN\"")?.to_owned();
        let id_at = header.iter().position(|name| *name == id).unwrap_or_default();
        for (column, target) in columns.iter().zip(&plan.targets) {
            if column.kind == ColumnKind::Binary && matches!(target, ColumnTarget::Id | ColumnTarget::Field(_)) {
                bail!(
                    "the column {:?} is binary ({}) and no text; leave it out of map, or convert it in a query",
                    column.name,
                    column.declared
                );
            }
        }
        if let Some(reason) = orders_nothing(&columns[id_at]) {
            bail!(
                "the column {id:?} cannot be the id, since {reason} ({}); name another, or convert it in a query",
                columns[id_at].declared
            );
        }
        let mapping = RowMapping::new(&columns, &plan.targets, max_row);
        let mut opened = Self { connection, origin, columns, plan, mapping, id, id_at, watermark: None };
        if !config.watermark.is_empty() {
            opened.watermark = Some(opened.watermark_column(config, settings).await?);
        }
        Ok(opened)
    }

    async fn watermark_column(
        &mut self,
        config: &config::SourceConfig,
        settings: &Settings,
    ) -> anyhow::Result<WatermarkColumn> {
        let name = config.watermark.clone();
        let at = self.columns.iter().position(|column| column.name == name);
        let at = at.with_context(|| format!("there is no column {name:?}, which is named as the watermark"))?;
        let dialect = self.connection.dialect();
        let sample = match dialect {
            SqlDialect::Sqlite => self.connection.value(sql::written_time(&self.origin, &name)).await?,
            SqlDialect::MySql | SqlDialect::Postgres | SqlDialect::Odbc => SqlValue::Null,
        };
        let zone = if config.time_zone.is_empty() { &settings.time_zone } else { &config.time_zone };
        let zone = TimeZone::get(zone).with_context(|| format!("the time zone {zone} is not known"))?;
        let ResultColumn { declared, kind, .. } = &self.columns[at];
        let shape = WatermarkFormat::new(dialect, &name, declared, *kind, &sample, zone)?;
        Ok(WatermarkColumn { name, at, shape })
    }

    /// Returns the order in which rows are read.
    pub(super) fn order(&self, by_watermark: bool) -> RowOrder<'_> {
        let watermark = self.watermark.as_ref().filter(|_| by_watermark);
        RowOrder { watermark: watermark.map(|watermark| watermark.name.as_str()), id: &self.id }
    }

    /// Returns the value of the id column of a row.
    pub(super) fn id_of<'a>(&self, row: &'a [SqlValue]) -> &'a SqlValue {
        row.get(self.id_at).unwrap_or(&SqlValue::Null)
    }

    /// Returns the position after a row. It must differ from the position before.
    ///
    /// # Errors
    /// Both positions are equal, so that the same rows would be read forever.
    pub(super) fn behind(
        &self,
        row: &[SqlValue],
        watermark: Option<SqlValue>,
        before: Option<&RowPosition>,
    ) -> anyhow::Result<RowPosition> {
        let next = RowPosition { watermark, id: self.ordered(self.id_of(row))? };
        anyhow::ensure!(
            before != Some(&next),
            "reading makes no progress: the database returns rows that are not after the last row in the order of {}",
            self.id
        );
        Ok(next)
    }

    /// Returns the id as a value by which rows can be ordered.
    pub(super) fn ordered(&self, id: &SqlValue) -> anyhow::Result<SqlValue> {
        let kept = CheckpointValue::of(id).with_context(|| {
            format!(
                "a value of {} is no whole number, decimal number or text, so that rows cannot be read in its order",
                self.id
            )
        })?;
        Ok(kept.cell())
    }

    /// Returns the id of a row as the text of a record id.
    pub(super) fn id_text(&self, row: &[SqlValue]) -> String {
        text_of(self.id_of(row)).map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    /// Returns the time of the clock of the database.
    pub(super) async fn now(&mut self) -> anyhow::Result<Watermark> {
        let micros = self.connection.now().await?;
        Watermark::of_micros(micros).context("the clock of the database is out of range")
    }

    /// Reads the rows of a `SELECT`, up to the size of a page.
    pub(super) async fn page(&mut self, select: String) -> Result<SourcePage, DatabaseError> {
        let mut stream = self.connection.rows_of(select, &self.columns);
        let mut rows = Vec::new();
        let mut bytes = 0;
        while let Some(row) = stream.next().await {
            let row = row?;
            bytes +=
                row.iter().map(|cell| if let SqlValue::Text(text) = cell { text.len() } else { 16 }).sum::<usize>();
            rows.push(row);
            if bytes >= PAGE_BYTES {
                return Ok(SourcePage { rows, is_last: false });
            }
        }
        let is_last = rows.len() < PAGE;
        Ok(SourcePage { rows, is_last })
    }
}

/// Returns the reason why a column cannot order rows; `None` if it can.
fn orders_nothing(column: &ResultColumn) -> Option<&'static str> {
    let declared = column.declared.to_ascii_uppercase();
    let floating = ["FLOAT", "DOUBLE", "REAL"].iter().any(|name| declared.starts_with(name));
    match column.kind {
        ColumnKind::Number if floating => Some("floating-point numbers are not compared exactly"),
        ColumnKind::Boolean => Some("it has two values at most"),
        _ => None,
    }
}
