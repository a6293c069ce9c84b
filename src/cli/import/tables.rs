//! Which column of a table is what: as was said, else guessed by its name, else what it is called.

use std::collections::HashSet;

use crate::cli::usage;
use doppel_core::collection::{Role, Settings};
use doppel_sources::tables::columns::{Target, guess};
use doppel_sources::tables::mapping::Mapping;
use doppel_sources::tables::{Kind, Layout, Stream, TableError, Workbook};

/// What was said of columns.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Choice {
    /// Columns and the fields that they are; an empty one is none.
    pub(in crate::cli) map: Vec<(String, String)>,
    /// Whether columns that nothing was said of keep their names.
    pub(in crate::cli) no_guess: bool,
}

impl Choice {
    /// From `--map` and `--id-field`.
    pub(in crate::cli) fn new(map: &[(String, String)], id_field: Option<&str>, no_guess: bool) -> Self {
        let id = id_field.map(|column| (column.to_owned(), "id".to_owned()));
        Self { map: map.iter().cloned().chain(id).collect(), no_guess }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Whether every column that something was said of is in one of the tables, of which `named` says which were found.
    pub(super) fn check_columns(&self, named: u64) -> Result<(), String> {
        match (0..).zip(&self.map).find(|(at, _)| named & (1 << at) == 0) {
            None => Ok(()),
            Some((_, (column, _))) => {
                Err(format!("--map {column}: no file has a column of this name; the names are listed above"))
            }
        }
    }
}

/// Most columns of which something may be said.
pub(in crate::cli) const MOST_CHOSEN: usize = 64;

/// Reads a value of `--map`.
pub(in crate::cli) fn pair(text: &str) -> Result<(String, String), String> {
    let (column, field) = text.split_once('=').ok_or("give COLUMN=FIELD, or COLUMN= to leave a column out")?;
    if column.trim().is_empty() {
        return Err("name a column before the \"=\"".into());
    }
    Ok((column.trim().to_owned(), field.trim().to_owned()))
}

/// What becomes of the columns of one table.
pub(super) struct Plan {
    targets: Vec<Target>,
    /// The roles of fields, as far as the settings are known.
    roles: Vec<(String, Role)>,
    /// A bit for each of the choices that was found.
    pub(super) chosen: u64,
}

impl Plan {
    /// For a table.
    ///
    /// # Errors
    /// What is wrong with its columns or what was said of them, and what to do.
    pub(super) fn new(table: &Stream, choice: &Choice, settings: Option<&Settings>) -> Result<Self, String> {
        let header = &table.header;
        check_header(header, &table.kind)?;
        let fields = settings.map(|settings| settings.fields.as_slice()).unwrap_or_default();
        let roles: Vec<(String, Role)> = fields.iter().map(|field| (field.name.clone(), field.role)).collect();
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        let mut targets = match settings.filter(|_| !choice.no_guess) {
            Some(settings) => guess(header, settings, &names),
            None => header.iter().map(|name| own(name)).collect(),
        };
        let mut chosen = 0;
        for (number, (column, field)) in choice.map.iter().enumerate() {
            if settings.is_some() && !field.is_empty() && field != "id" && !names.contains(field) {
                let names = names.join(", ");
                return Err(format!(
                    "cannot be read with --map {column}={field}: the collection has no field {field:?}; it has {names}, and id"
                ));
            }
            let Some(at) = header.iter().position(|name| name == column) else { continue };
            chosen |= 1 << number;
            let target = match field.as_str() {
                "" => Target::Unused,
                "id" => Target::Id,
                field => Target::Field(field.to_owned()),
            };
            // What was said comes before what was guessed: another column goes back to its own name.
            for (other, name) in targets.iter_mut().zip(header).filter(|(other, _)| **other == target) {
                *other = own(name);
            }
            targets[at] = target;
        }
        let plan = Self { targets, roles, chosen };
        plan.check_twice(header).map(|()| plan)
    }

    fn check_twice(&self, header: &[String]) -> Result<(), String> {
        let mut seen = HashSet::new();
        let names = self.targets.iter().zip(header).filter_map(|(target, column)| target.name(column));
        match names.into_iter().find(|name| !seen.insert(*name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "has two columns that would be {name:?}; leave one out with --map COLUMN= or name another field"
            )),
        }
    }

    /// Whether rows get ids.
    pub(super) fn with_id(&self, makes_ids: bool) -> Result<(), String> {
        if makes_ids || self.targets.contains(&Target::Id) {
            return Ok(());
        }
        Err("has no column \"id\"; add one, name one with --id-field COLUMN, or give --make-ids to make ids".into())
    }

    pub(super) fn mapping(&self, table: &Stream, nulls: &[String], max: usize) -> Mapping {
        let times = self.roles.iter().filter(|(_, role)| *role == Role::Time).map(|(name, _)| name.as_str());
        Mapping::new((&table.header, &self.targets), &table.kind, &times.collect::<Vec<_>>(), nulls, max)
    }

    /// How the table is read and what its columns become, for people.
    pub(super) fn lines(&self, table: &Stream) -> Vec<String> {
        let mut how = match &table.kind {
            Kind::Text(Layout::Csv { encoding, separator }) => {
                let separator = if *separator == b'\t' { "tab".to_owned() } else { char::from(*separator).to_string() };
                format!("read as {}, delimiter {separator}", encoding.name())
            }
            Kind::Text(Layout::Xlsx { sheet }) => format!("read as a workbook, sheet {sheet}"),
            Kind::Sheet(kind, sheet) => {
                let held = match kind {
                    Workbook::Xlsx => "its shared texts are held in memory",
                    Workbook::Xls | Workbook::Ods => "all of it is held in memory",
                };
                format!("read as a workbook, sheet {sheet}; {held}")
            }
        };
        if table.above > 0 {
            how +=
                &format!("; line {} names the columns, the {} above it are left out", table.header_line, table.above);
        }
        let (mut used, mut kept, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (column, target)) in (1..).zip(table.header.iter().zip(&self.targets)) {
            let name = target.name(column);
            let role =
                self.roles.iter().find(|(field, _)| Some(field.as_str()) == name).map(|(_, role)| role_name(*role));
            match (target, name, role) {
                (Target::Unused, _, _) if column.is_empty() => left.push(format!("column {number}, which has no name")),
                (Target::Unused, _, _) | (_, None, _) => left.push(column.clone()),
                (Target::Id, _, _) => used.push(format!("{column} (id)")),
                (_, Some(name), Some(role)) if name == column => used.push(format!("{column} ({role})")),
                (_, Some(name), Some(role)) => used.push(format!("{column} as {name} ({role})")),
                (_, Some(_), None) => kept.push(column.clone()),
            }
        }
        let mut lines = vec![how];
        let mut list = |what: &str, names: &[String]| {
            if !names.is_empty() {
                lines.push(format!("{what}: {}", names.join(", ")));
            }
        };
        list("columns used", &used);
        list(if self.roles.is_empty() { "columns" } else { "columns stored and not compared" }, &kept);
        list("columns left out", &left);
        lines
    }
}

fn role_name(role: Role) -> String {
    serde_json::to_value(role).ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default()
}

fn own(name: &str) -> Target {
    match name {
        "" => Target::Unused,
        "id" => Target::Id,
        _ => Target::Own,
    }
}

fn check_header(header: &[String], kind: &Kind) -> Result<(), String> {
    for (number, name) in (1..).zip(header) {
        // In a workbook there often is a column of remarks, or of nothing.
        if name.is_empty() && matches!(kind, Kind::Text(_)) {
            return Err(format!("has no name for column {number} in its header; name or remove the column"));
        }
        let earlier = header[..number - 1].iter().position(|other| other == name && !name.is_empty());
        if let Some(earlier) = earlier {
            return Err(format!("has two columns named {name:?} ({} and {number}); rename one", earlier + 1));
        }
    }
    Ok(())
}

/// Says of a file why it cannot be read.
pub(super) fn open_table(name: &str, opened: Result<Stream, TableError>) -> anyhow::Result<Stream> {
    opened.map_err(|error| match error {
        TableError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {name}")),
        TableError::NoHeader => usage(format!("{name} is empty: its first row must name the columns")),
        TableError::Unknown => usage(format!(
            "{name} is neither text nor a workbook; if it is text in UTF-16 without a mark, give --encoding utf-16le"
        )),
        TableError::Damaged => usage(format!("{name}: the workbook is damaged or cut off; save it again, or as CSV")),
        other => usage(format!("{name}: {other}")),
    })
}
