//! Decides the target of each column of a table: the choice of the caller, otherwise a guess from the name, otherwise the name itself.

use std::collections::HashMap;

use super::columns::{ColumnTarget, check_columns, guess};
use doppel_core::collection::{Role, Settings};
use doppel_core::columns::shown_role;

/// The choices of the caller about columns.
#[derive(Clone, Debug, Default)]
pub struct ColumnChoice {
    /// Pairs of a column and the field that it becomes. An empty field means that the column is left out.
    pub map: Vec<(String, String)>,
    /// True if columns without a choice keep their names.
    pub no_guess: bool,
}

impl ColumnChoice {
    /// Creates the choices from `map` and the column of the id.
    pub fn new(map: &[(String, String)], id_field: Option<&str>, no_guess: bool) -> Self {
        let id = id_field.map(|column| (column.to_owned(), "id".to_owned()));
        Self { map: map.iter().cloned().chain(id).collect(), no_guess }
    }
}

/// The largest number of columns with a choice.
pub const MOST_CHOSEN: usize = 64;

/// The targets of the columns of one table.
#[derive(Clone, Debug)]
pub struct ColumnPlan {
    pub targets: Vec<ColumnTarget>,
    /// The roles of the fields, as far as the settings are known.
    pub roles: Vec<(String, Role)>,
    /// A bit for each choice whose column was found.
    pub chosen: u64,
}

impl ColumnPlan {
    /// Creates the plan for a table with these columns. Without `settings` the columns keep their names.
    ///
    /// # Errors
    /// The mistake in the choices, and the remedy.
    pub fn new(header: &[String], choice: &ColumnChoice, settings: Option<&Settings>) -> Result<Self, String> {
        let fields = settings.map(|settings| settings.fields.as_slice()).unwrap_or_default();
        let roles: Vec<(String, Role)> = fields.iter().map(|field| (field.name.clone(), field.role)).collect();
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        let mut chosen = 0;
        let mut said: Vec<Option<ColumnTarget>> = vec![None; header.len()];
        for (number, (column, field)) in choice.map.iter().enumerate() {
            // A field for the handling of a matter needs no settings.
            let is_known = field.is_empty() || field == "id" || names.contains(field) || shown_role(field).is_some();
            if settings.is_some() && !is_known {
                let names = names.join(", ");
                return Err(format!(
                    "cannot be read with --map {column}={field}: the collection has no field {field:?}; it has {names}, and id"
                ));
            }
            let Some(at) = place(header, column)? else { continue };
            chosen |= 1 << number;
            let target = match field.as_str() {
                "" => ColumnTarget::Unused,
                "id" => ColumnTarget::Id,
                field => ColumnTarget::Field(field.to_owned()),
            };
            if said[at].replace(target.clone()).is_some_and(|earlier| earlier != target) {
                return Err(format!(
                    "has two choices for the column {:?}; give --map or --id-field once for each column",
                    header[at]
                ));
            }
        }
        // Only columns without a choice are guessed.
        let free: Vec<String> = header
            .iter()
            .zip(&said)
            .map(|(name, said)| if said.is_none() { name.clone() } else { String::new() })
            .collect();
        check_names(&free)?;
        let guessed = match settings.filter(|_| !choice.no_guess) {
            Some(settings) => guess(&free, settings, &names),
            None => free.iter().map(|name| own(name)).collect(),
        };
        let mut targets = Vec::with_capacity(header.len());
        for ((said_here, guessed), name) in said.iter().zip(guessed).zip(header) {
            // A choice takes precedence over a guess: the guessed column gets its own name back.
            let is_taken = guessed != ColumnTarget::Unused && said.iter().flatten().any(|said| *said == guessed);
            targets.push(match said_here {
                Some(said) => said.clone(),
                None if is_taken => own(name),
                None => guessed,
            });
        }
        let plan = Self { targets, roles, chosen };
        plan.check_twice(header)?;
        if let Some(settings) = settings {
            check_columns(header, &plan.targets, settings).map_err(|missing| {
                format!(
                    "has no column that is known to hold the text of a letter; its columns are {}; name the column with --map COLUMN=FIELD, \
                     or name it in the fields of the collection with role text",
                    missing.list()
                )
            })?;
        }
        Ok(plan)
    }

    fn check_twice(&self, header: &[String]) -> Result<(), String> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (at, (target, column)) in self.targets.iter().zip(header).enumerate() {
            let Some(name) = target.name(column) else { continue };
            let Some(earlier) = seen.insert(name, at) else { continue };
            return Err(format!(
                "has two columns that would be {name:?} ({} and {}); leave one out with --map COLUMN= or name another field",
                earlier + 1,
                at + 1
            ));
        }
        Ok(())
    }

    /// Returns the name of the column that is the id.
    pub fn id<'a>(&self, header: &'a [String]) -> Option<&'a str> {
        let at = self.targets.iter().position(|target| *target == ColumnTarget::Id)?;
        header.get(at).map(String::as_str)
    }

    /// True if a column gets another name or is left out.
    pub fn renames(&self, header: &[String]) -> bool {
        self.targets.iter().zip(header).any(|(target, column)| target.name(column) != Some(column))
    }

    /// Returns the first choice whose column does not exist.
    pub fn not_found<'a>(&self, choice: &'a ColumnChoice) -> Option<&'a str> {
        let missing = (0..).zip(&choice.map).find(|(at, _)| self.chosen & (1 << at) == 0);
        missing.map(|(_, (column, _))| column.as_str())
    }

    /// Describes the targets of the columns for people. Columns without a role are left out if other columns have roles, because the reader
    /// of the records reports the members that no field names.
    pub fn lines(&self, header: &[String]) -> Vec<String> {
        let mut used = Vec::new();
        let mut kept = Vec::new();
        let mut left = Vec::new();
        for (number, (column, target)) in (1..).zip(header.iter().zip(&self.targets)) {
            let name = target.name(column);
            let planned = self.roles.iter().find(|(field, _)| Some(field.as_str()) == name).map(|(_, role)| *role);
            let role = planned.or_else(|| shown_role(name?)).map(role_name);
            match (target, name, role) {
                (ColumnTarget::Unused, _, _) if column.is_empty() => {
                    left.push(format!("column {number}, which has no name"));
                }
                (ColumnTarget::Unused, _, _) | (_, None, _) => left.push(column.clone()),
                (ColumnTarget::Id, _, _) => used.push(format!("{column} (id)")),
                (_, Some(name), Some(role)) if name == column => used.push(format!("{column} ({role})")),
                (_, Some(name), Some(role)) => used.push(format!("{column} as {name} ({role})")),
                (_, Some(_), None) => kept.push(column.clone()),
            }
        }
        let mut lines = Vec::new();
        lines.extend(list_line("columns used", &used));
        if self.roles.is_empty() {
            lines.extend(list_line("columns", &kept));
        }
        lines.extend(list_line("columns left out", &left));
        lines
    }
}

fn list_line(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
}

/// Checks that no two columns have the same name.
fn check_names(header: &[String]) -> Result<(), String> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (at, name) in header.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        if let Some(earlier) = seen.insert(name, at) {
            return Err(same_name(name, earlier, at));
        }
    }
    Ok(())
}

fn same_name(name: &str, first: usize, second: usize) -> String {
    let [first, second] = [first + 1, second + 1];
    format!(
        "has two columns named {name:?} ({first} and {second}); rename one, or tell them apart by their numbers: --map {second}=FIELD, or \
         --map {second}= to leave the column out"
    )
}

/// Returns the index of the column with this name. If no column has the name, it is read as a number of a column, from 1.
fn place(header: &[String], column: &str) -> Result<Option<usize>, String> {
    let mut named = (0..).zip(header).filter(|(_, name)| *name == column).map(|(at, _)| at);
    match (named.next(), named.next()) {
        (Some(first), Some(second)) => Err(same_name(column, first, second)),
        (Some(at), None) => Ok(Some(at)),
        (None, _) => {
            Ok(column.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).filter(|at| *at < header.len()))
        }
    }
}

fn role_name(role: Role) -> String {
    serde_json::to_value(role).ok().and_then(|role| role.as_str().map(str::to_owned)).unwrap_or_default()
}

fn own(name: &str) -> ColumnTarget {
    match name {
        "" => ColumnTarget::Unused,
        "id" => ColumnTarget::Id,
        _ => ColumnTarget::Own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(header: &[&str], map: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
        let map: Vec<(String, String)> = map.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let plan = ColumnPlan::new(&header, &ColumnChoice::new(&map, None, false), Some(&Settings::default()))?;
        Ok(plan.targets.iter().zip(&header).map(|(target, name)| target.name(name).unwrap_or("").to_owned()).collect())
    }

    #[test]
    fn columns_with_one_name_are_distinguished_by_their_numbers() {
        let header = ["编号", "投诉内容", "投诉内容"];
        let error = plan(&header, &[]).unwrap_err();
        assert!(error.contains("(2 and 3)") && error.contains("--map 3=FIELD"), "{error}");
        assert_eq!(plan(&header, &[("3", "content")]).unwrap(), ["id", "投诉内容", "content"]);
        assert_eq!(plan(&header, &[("2", "")]).unwrap(), ["id", "", "content"]);
        assert!(plan(&header, &[("投诉内容", "content")]).is_err(), "the name says not which one");
        assert_eq!(
            plan(&["2", "事"], &[("2", "id"), ("事", "content")]).unwrap(),
            ["id", "content"],
            "a name comes first"
        );
    }

    /// Returns the target of the first of two columns with `--map COLUMN=FIELD --id-field 件号`.
    fn first_target(column: &str, field: &str) -> Result<ColumnTarget, String> {
        let header = ["件号", "事由"].map(str::to_owned);
        let choice = ColumnChoice::new(&[(column.to_owned(), field.to_owned())], Some("件号"), false);
        ColumnPlan::new(&header, &choice, Some(&Settings::default())).map(|plan| plan.targets[0].clone())
    }

    #[test]
    fn a_column_with_two_choices_is_refused() {
        for (column, field) in [("件号", "content"), ("1", "content"), ("件号", "")] {
            let error = first_target(column, field).unwrap_err();
            assert!(error.contains("two choices for the column \"件号\""), "{error}");
        }
        assert_eq!(first_target("件号", "id"), Ok(ColumnTarget::Id), "both say the same");
        assert_eq!(first_target("事由", "content"), Ok(ColumnTarget::Id));
    }

    #[test]
    fn a_table_without_a_text_is_refused_with_its_columns() {
        let error = plan(&["编号", "标题", "材料"], &[]).unwrap_err();
        assert!(error.contains("编号, 标题, 材料") && error.contains("--map COLUMN=FIELD"), "{error}");
        assert_eq!(plan(&["编号", "标题", "材料"], &[("材料", "content")]).unwrap(), ["id", "标题", "content"]);
        assert!(plan(&["编号", "标题"], &[]).is_ok());
    }
}
