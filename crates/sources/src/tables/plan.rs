//! Which column of a table is what: as was said, else guessed by its name, else what it is called.

use std::collections::HashSet;

use super::columns::{Target, guess};
use doppel_core::collection::{Role, Settings};

/// What was said of columns.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Columns and the fields that they are; an empty one is none.
    pub map: Vec<(String, String)>,
    /// Whether columns that nothing was said of keep their names.
    pub no_guess: bool,
}

impl Choice {
    /// `map`, and the column that is the id.
    pub fn new(map: &[(String, String)], id_field: Option<&str>, no_guess: bool) -> Self {
        let id = id_field.map(|column| (column.to_owned(), "id".to_owned()));
        Self { map: map.iter().cloned().chain(id).collect(), no_guess }
    }

    /// Whether nothing was said of any column.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

/// Most columns of which something may be said.
pub const MOST_CHOSEN: usize = 64;

/// What becomes of the columns of one table.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By column.
    pub targets: Vec<Target>,
    /// The roles of fields, as far as the settings are known.
    pub roles: Vec<(String, Role)>,
    /// A bit for each of the choices that was found.
    pub chosen: u64,
}

impl Plan {
    /// For a table with these columns; without `settings` they keep their names.
    ///
    /// # Errors
    /// What is wrong with what was said of them, and what to do.
    pub fn new(header: &[String], choice: &Choice, settings: Option<&Settings>) -> Result<Self, String> {
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

    /// The column that is the id.
    pub fn id<'a>(&self, header: &'a [String]) -> Option<&'a str> {
        let at = self.targets.iter().position(|target| *target == Target::Id)?;
        header.get(at).map(String::as_str)
    }

    /// The first choice of a column that is not there.
    pub fn not_found<'a>(&self, choice: &'a Choice) -> Option<&'a str> {
        let missing = (0..).zip(&choice.map).find(|(at, _)| self.chosen & (1 << at) == 0);
        missing.map(|(_, (column, _))| column.as_str())
    }

    /// What the columns become, for people.
    pub fn lines(&self, header: &[String]) -> Vec<String> {
        let (mut used, mut kept, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (column, target)) in (1..).zip(header.iter().zip(&self.targets)) {
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
        let mut lines = Vec::new();
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
