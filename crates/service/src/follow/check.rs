//! Checks a source before it is followed: finds properties that make rows be missed or rounds slow, and gives a remedy for each.

use super::opened::ReadableSource;
use doppel_config as config;
use doppel_core::collection::Settings;
use doppel_sources::database::{ColumnKind, RowOrigin, SqlDialect, SqlValue, Watermark, sql};

/// Largest difference between the clocks of the service and of the database, in seconds, without a warning.
const CLOCKS_S: f64 = 5.0;
/// Largest number of seconds by which a watermark may be later than the clock of the database.
const AHEAD_S: f64 = 60.0;
/// Largest size of a row that is read, in bytes.
const MAX_ROW_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingSeverity {
    /// There is no problem.
    Fine,
    /// The source works with a disadvantage.
    Warning,
    /// Rows would be missed, or the source does not work at all.
    Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFinding {
    pub weight: FindingSeverity,
    /// The problem and its remedy.
    pub text: String,
}

fn fine(text: impl Into<String>) -> SourceFinding {
    SourceFinding { weight: FindingSeverity::Fine, text: text.into() }
}

fn warning(text: impl Into<String>) -> SourceFinding {
    SourceFinding { weight: FindingSeverity::Warning, text: text.into() }
}

fn wrong(text: impl Into<String>) -> SourceFinding {
    SourceFinding { weight: FindingSeverity::Wrong, text: text.into() }
}

/// Converts a record id to a value of the id column.
pub(super) fn id_cell(kind: ColumnKind, id: &str) -> Option<SqlValue> {
    match kind {
        ColumnKind::Number => id.parse().map(SqlValue::Int).ok().or_else(|| id.parse().map(SqlValue::Unsigned).ok()),
        ColumnKind::Decimal => Some(SqlValue::Decimal(id.to_owned())),
        ColumnKind::Boolean | ColumnKind::Binary => None,
        ColumnKind::Text | ColumnKind::Date | ColumnKind::Civil | ColumnKind::Instant => {
            Some(SqlValue::Text(id.to_owned()))
        }
    }
}

/// The names of options in the findings, as their reader writes them: keys of the configuration or options of the command line.
#[derive(Clone, Copy, Debug)]
pub struct OptionNames {
    id: &'static str,
    time_zone: &'static str,
    /// The name of the interval between comparisons of all ids, in brackets; empty if the reader has no such option.
    sweep: &'static str,
}

impl OptionNames {
    /// The keys of a source in the configuration.
    pub const KEYS: Self = Self { id: "id", time_zone: "time_zone", sweep: " (sweep_s)" };
    /// The options of the command line.
    pub const OPTIONS: Self = Self { id: "--id-field", time_zone: "--time-zone", sweep: "" };
}

/// Checks a source. `settings` are the settings of its collection.
///
/// # Errors
/// The database cannot be reached or refuses a query.
pub async fn check(
    config: &config::SourceConfig,
    password: Option<&str>,
    settings: &Settings,
    names: &OptionNames,
) -> anyhow::Result<Vec<SourceFinding>> {
    let mut opened = ReadableSource::open(config, password, settings, MAX_ROW_BYTES).await?;
    let header: Vec<String> = opened.columns.iter().map(|column| column.name.clone()).collect();
    let mut findings: Vec<SourceFinding> = opened.plan.lines(&header).into_iter().map(fine).collect();
    for column in opened.columns.iter().filter(|column| column.kind == ColumnKind::Binary) {
        findings.push(fine(format!("column {} is binary ({}), and so left out", column.name, column.declared)));
    }
    if opened.connection.dialect() == SqlDialect::Odbc {
        findings.push(fine("doppel can import this ODBC source once, but cannot follow it"));
        opened.connection.close().await;
        return Ok(findings);
    }
    let now = opened.now().await?;
    if let Some(own) = i64::try_from(crate::clock::micros()).ok().and_then(Watermark::of_micros) {
        let apart = own.seconds_before(now);
        findings.push(match apart.abs() <= CLOCKS_S {
            true => fine(format!("the clocks of this machine and of the database differ by {:.1} s", apart.abs())),
            false => warning(format!(
                "the clock of the database is {:.0} s {} the clock of this machine; doppel uses the clock of the \
                    database, but set both by NTP",
                apart.abs(),
                if apart > 0.0 { "ahead of" } else { "behind" }
            )),
        });
    }
    check_ids(&mut opened, names, &mut findings).await?;
    if opened.watermark.is_some() {
        check_watermark(config, names, &mut opened, now, &mut findings).await?;
        check_index(&mut opened, &mut findings).await?;
    } else {
        findings.push(fine("no watermark: doppel can import this source once, but cannot follow it"));
    }
    opened.connection.close().await;
    Ok(findings)
}

async fn count(opened: &mut ReadableSource, select: String) -> anyhow::Result<i64> {
    match opened.connection.value(select).await? {
        SqlValue::Int(count) => Ok(count),
        SqlValue::Text(text) | SqlValue::Decimal(text) => Ok(text.parse().unwrap_or(0)),
        _ => Ok(0),
    }
}

async fn check_ids(
    opened: &mut ReadableSource,
    names: &OptionNames,
    findings: &mut Vec<SourceFinding>,
) -> anyhow::Result<()> {
    let dialect = opened.connection.dialect();
    let id = opened.id.clone();
    let nulls = count(opened, sql::nulls(dialect, &opened.origin, &id)).await?;
    if nulls > 0 {
        findings.push(wrong(format!("{nulls} rows have no {id}, and cannot be registered; give them one")));
    }
    let repeated = count(opened, sql::repeated(dialect, &opened.origin, &id)).await?;
    findings.push(match repeated {
        0 => fine(format!("every {id} belongs to one row")),
        _ => wrong(format!(
            "{repeated} values of {id} belong to several rows each, which would become one record; name a column that \
                is unique ({})",
            names.id
        )),
    });
    Ok(())
}

async fn check_watermark(
    config: &config::SourceConfig,
    names: &OptionNames,
    opened: &mut ReadableSource,
    now: Watermark,
    findings: &mut Vec<SourceFinding>,
) -> anyhow::Result<()> {
    let Some(watermark) = &opened.watermark else { return Ok(()) };
    let name = watermark.name.clone();
    let shape = watermark.shape.clone();
    let at = watermark.at;
    let dialect = opened.connection.dialect();
    let declared = &opened.columns[at].declared;
    findings.push(fine(format!("the watermark {name} has the type {declared}")));
    let nulls = count(opened, sql::nulls(dialect, &opened.origin, &name)).await?;
    if nulls > 0 {
        findings.push(wrong(format!(
            "{nulls} rows have no {name}, so that only the comparison of ids reads them{}; fill it, and make it NOT \
                NULL",
            names.sweep
        )));
    }
    let highest = opened.connection.value(sql::highest(dialect, &opened.origin, &name)).await?;
    if highest != SqlValue::Null {
        let Ok(newest) = shape.read(&highest) else {
            findings.push(wrong(format!(
                "the highest {name} is not a real time (such as 9999-12-31, infinity or other text), so that only the \
                    comparison of ids reads its row{}; set it to the time of the last change of the row",
                names.sweep
            )));
            return Ok(());
        };
        let ahead = now.seconds_before(newest);
        if ahead > AHEAD_S {
            findings.push(wrong(format!(
                "the newest {name} is {:.1} hours ahead of the clock of the database, so that rows are read late; its \
                    times are of another zone than {}: set {}",
                ahead / 3600.0,
                if config.time_zone.is_empty() { "the collection's" } else { &config.time_zone },
                names.time_zone
            )));
        }
    }
    Ok(())
}

async fn check_index(opened: &mut ReadableSource, findings: &mut Vec<SourceFinding>) -> anyhow::Result<()> {
    let RowOrigin::Table(table) = &opened.origin else {
        findings.push(warning("the source is a query: EXPLAIN shows whether an index serves its watermark and id"));
        return Ok(());
    };
    let Some(watermark) = &opened.watermark else { return Ok(()) };
    let dialect = opened.connection.dialect();
    let rows = opened.connection.all(sql::indexes(dialect, table)).await?;
    let mut indexes: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
    for row in &rows {
        if let [index, column, ..] = row.as_slice() {
            indexes.entry(cell_text(index)).or_default().push(cell_text(column));
        }
    }
    let name = &watermark.name;
    let id = &opened.id;
    findings.push(match (has_index_on(&[name, id], &indexes), has_index_on(&[name], &indexes)) {
        (true, _) => fine(format!("an index serves ({name}, {id})")),
        (false, true) => warning(format!("an index serves {name}, not ({name}, {id}): slow where many rows are changed at once")),
        (false, false) => wrong(format!(
            "no index serves ({name}, {id}), so that every round reads the whole table; CREATE INDEX doppel_follow ON {} ({}, {})",
            sql::table(dialect, table),
            quoted_column(name, dialect),
            quoted_column(id, dialect)
        )),
    });
    Ok(())
}

fn quoted_column(column: &str, dialect: SqlDialect) -> String {
    sql::name(dialect, column)
}

fn has_index_on(wanted: &[&String], indexes: &std::collections::BTreeMap<String, Vec<String>>) -> bool {
    indexes.values().any(|columns| columns.len() >= wanted.len() && columns.iter().zip(wanted).all(|(a, b)| a == *b))
}

fn cell_text(cell: &SqlValue) -> String {
    doppel_sources::database::text_of(cell).unwrap_or_default()
}
