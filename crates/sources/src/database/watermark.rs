//! Watermarks: the time at which a row was written, in a form that can be compared with its column.
//!
//! A column without a time zone contains times of day in the zone of its writer, which the configuration gives. Bounds are instants that
//! are written in the form of the column, because SQLite compares texts.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::{ColumnKind, SqlDialect, SqlValue};

/// The form in which the column of a watermark contains its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatermarkFormat {
    dialect: SqlDialect,
    /// True if a value is an instant; false if it is a time of day in `zone`.
    is_instant: bool,
    /// The character between day and time.
    separator: char,
    zone: TimeZone,
}

/// The instant at which a row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watermark(pub Timestamp);

/// The reason why a column cannot be a watermark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatermarkError {
    /// The column has an unsuitable type.
    #[error(
        "the watermark {column:?} has the type {declared}; a watermark is the time of the last change of a row: TIMESTAMP, DATETIME, \
         timestamptz, in SQLite text as YYYY-MM-DD HH:MM:SS"
    )]
    Kind {
        column: String,
        /// The type of the column.
        declared: String,
    },
    /// A value of the column is not a time.
    #[error("a value of the watermark is not a time as YYYY-MM-DD HH:MM:SS")]
    Value,
}

impl WatermarkFormat {
    /// Returns the form of a column of this kind. For SQLite, `sample` is a value of the column. `zone` is the zone of times without a
    /// zone.
    ///
    /// # Errors
    /// See [`WatermarkError`].
    pub fn new(
        dialect: SqlDialect,
        column: &str,
        declared: &str,
        kind: ColumnKind,
        sample: &SqlValue,
        zone: TimeZone,
    ) -> Result<Self, WatermarkError> {
        let is_time = match dialect {
            SqlDialect::Sqlite => {
                !matches!(sample, SqlValue::Int(_) | SqlValue::Float(_) | SqlValue::Bool(_))
                    && kind != ColumnKind::Binary
            }
            SqlDialect::MySql | SqlDialect::Postgres | SqlDialect::Odbc => {
                matches!(kind, ColumnKind::Civil | ColumnKind::Instant)
            }
        };
        if !is_time {
            return Err(WatermarkError::Kind { column: column.into(), declared: declared.into() });
        }
        let text = match sample {
            SqlValue::Text(text) => text.as_str(),
            _ => "",
        };
        let in_text = dialect == SqlDialect::Sqlite && text.ends_with('Z');
        let separator = if dialect == SqlDialect::Sqlite && text.contains('T') { 'T' } else { ' ' };
        // The check does not require a valid instant, because a row may have 9999-12-31 for "never" while other rows have times.
        let is_written = text.is_empty() || text.parse::<Timestamp>().is_ok() || text.parse::<DateTime>().is_ok();
        if dialect == SqlDialect::Sqlite && !is_written {
            return Err(WatermarkError::Value);
        }
        Ok(Self { dialect, is_instant: kind == ColumnKind::Instant || in_text, separator, zone })
    }

    /// Returns the instant of a value.
    ///
    /// # Errors
    /// The value is not a time.
    pub fn read(&self, cell: &SqlValue) -> Result<Watermark, WatermarkError> {
        let SqlValue::Text(text) = cell else { return Err(WatermarkError::Value) };
        if let Ok(instant) = text.parse::<Timestamp>() {
            return Ok(Watermark(instant));
        }
        let civil: DateTime = text.parse().map_err(|_| WatermarkError::Value)?;
        let zone = if self.is_instant { TimeZone::UTC } else { self.zone.clone() };
        let zoned = civil.to_zoned(zone).map_err(|_| WatermarkError::Value)?;
        Ok(Watermark(zoned.timestamp()))
    }

    /// Returns an instant as a value of the column.
    pub fn write(&self, Watermark(instant): Watermark) -> SqlValue {
        let zone = if self.is_instant { TimeZone::UTC } else { self.zone.clone() };
        let civil = instant.to_zoned(zone).datetime();
        let zulu = if self.is_instant && self.dialect != SqlDialect::MySql { "Z" } else { "" };
        // Texts are compared in whole seconds, because "12:00:00" comes before "12:00:00.0".
        let digits = if self.dialect == SqlDialect::Sqlite { "" } else { "%.6f" };
        let separator = self.separator;
        SqlValue::Text(format!("{}{zulu}", civil.strftime(&format!("%Y-%m-%d{separator}%H:%M:%S{digits}"))))
    }

    /// Returns a value that was read, in a form that the database considers equal to exactly this value.
    pub fn same(&self, cell: &SqlValue) -> SqlValue {
        match (self.dialect, cell) {
            (SqlDialect::MySql, SqlValue::Text(text)) => SqlValue::Text(text.trim_end_matches('Z').replace('T', " ")),
            _ => cell.clone(),
        }
    }
}

impl Watermark {
    /// Returns the watermark for microseconds since 1970.
    pub fn of_micros(micros: i64) -> Option<Self> {
        Timestamp::from_microsecond(micros).ok().map(Self)
    }

    /// Returns the watermark this number of seconds earlier.
    #[must_use]
    pub fn earlier(self, seconds: u64) -> Self {
        let span = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        Self(self.0.checked_sub(span).unwrap_or(Timestamp::MIN))
    }

    /// Returns the number of seconds from this watermark to `other`. Negative if `other` is earlier.
    pub fn seconds_before(self, other: Self) -> f64 {
        other.0.duration_since(self.0).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dialect: SqlDialect, kind: ColumnKind, sample: &str) -> WatermarkFormat {
        let zone = TimeZone::get("Asia/Shanghai").unwrap();
        WatermarkFormat::new(dialect, "m", "TEXT", kind, &SqlValue::Text(sample.into()), zone).unwrap()
    }

    #[test]
    fn bounds_are_written_as_the_column_is() {
        let bound = Watermark("2024-03-05T02:11:12.5Z".parse().unwrap());
        let civil = ColumnKind::Civil;
        let instant = ColumnKind::Instant;
        assert_eq!(
            written_bound(&shape(SqlDialect::MySql, civil, "2024-03-05 10:11:12"), &bound),
            "2024-03-05 10:11:12.500000"
        );
        assert_eq!(
            written_bound(&shape(SqlDialect::MySql, instant, "2024-03-05T02:11:12Z"), &bound),
            "2024-03-05 02:11:12.500000"
        );
        assert_eq!(
            written_bound(&shape(SqlDialect::Postgres, instant, "2024-03-05T02:11:12Z"), &bound),
            "2024-03-05 02:11:12.500000Z"
        );
        assert_eq!(
            written_bound(&shape(SqlDialect::Sqlite, ColumnKind::Text, "2024-03-05T10:00:00"), &bound),
            "2024-03-05T10:11:12"
        );
        assert_eq!(
            written_bound(&shape(SqlDialect::Sqlite, ColumnKind::Text, "2024-03-05T10:00:00Z"), &bound),
            "2024-03-05T02:11:12Z"
        );
    }

    fn written_bound(shape: &WatermarkFormat, bound: &Watermark) -> String {
        match shape.write(*bound) {
            SqlValue::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_value_means_the_same_instant_whichever_way_it_is_written() {
        let civil = shape(SqlDialect::Postgres, ColumnKind::Civil, "2024-03-05 10:11:12");
        let instant = shape(SqlDialect::Postgres, ColumnKind::Instant, "2024-03-05T02:11:12Z");
        assert_eq!(read_text(&civil, "2024-03-05 10:11:12"), read_text(&instant, "2024-03-05T02:11:12Z"));
    }

    fn read_text(shape: &WatermarkFormat, text: &str) -> Watermark {
        shape.read(&SqlValue::Text(text.into())).unwrap()
    }

    #[test]
    fn a_watermark_that_is_not_a_time_is_refused_with_its_type() {
        let error = format_of(SqlDialect::MySql, ColumnKind::Number, &SqlValue::Int(5)).unwrap_err();
        assert!(error.to_string().contains("BIGINT"));
        assert!(format_of(SqlDialect::Postgres, ColumnKind::Date, &SqlValue::Null).is_err());
        assert!(format_of(SqlDialect::Sqlite, ColumnKind::Text, &SqlValue::Text("gestern".into())).is_err());
    }

    fn format_of(dialect: SqlDialect, kind: ColumnKind, sample: &SqlValue) -> Result<WatermarkFormat, WatermarkError> {
        WatermarkFormat::new(dialect, "bh", "BIGINT", kind, sample, TimeZone::UTC)
    }
}
