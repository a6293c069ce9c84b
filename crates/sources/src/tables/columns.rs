//! Maps the columns of a table to the members of records.

use doppel_core::collection::{Role, Settings};
use doppel_core::columns::{ColumnKind, ContentMissing, check_content, kind_of, kinds_of, plain};

/// The member of a record that a column becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnTarget {
    Id,
    Field(String),
    /// A field with the name of the column, which is stored and not compared.
    Own,
    /// No member: the column is left out.
    Unused,
}

impl ColumnTarget {
    /// Returns the name that the value of a column with the name `column` has in a record.
    pub fn name<'a>(&'a self, column: &'a str) -> Option<&'a str> {
        match self {
            Self::Id => Some("id"),
            Self::Field(name) => Some(name),
            Self::Own => Some(column),
            Self::Unused => None,
        }
    }
}

/// Returns the target of each column of `header`. A column whose name is one of `fields` becomes this field. Of the other columns, the
/// column whose name fits a meaning best becomes the field of this meaning; the rest keep their own names. No two columns become the same
/// member.
pub fn guess(header: &[String], settings: &Settings, fields: &[String]) -> Vec<ColumnTarget> {
    let mut targets: Vec<ColumnTarget> = header.iter().map(|name| own(name, header)).collect();
    let mut taken = vec![false; header.len()];
    for (at, name) in header.iter().enumerate() {
        let same = fields.iter().find(|field| plain(field) == plain(name) && !has(&targets, field));
        if let Some(field) = same {
            targets[at] = ColumnTarget::Field(field.clone());
            taken[at] = true;
        }
    }
    // A column with exactly this name becomes the id, whatever names the other columns have.
    if let Some(at) = header.iter().position(|name| name == "id" && has_once(name, header)) {
        targets[at] = ColumnTarget::Id;
        taken[at] = true;
    }
    let free: Vec<&str> =
        header.iter().zip(&taken).map(|(name, taken)| if *taken { "" } else { name.as_str() }).collect();
    for (at, kind) in kinds_of(free).into_iter().enumerate() {
        let Some(kind) = kind else { continue };
        let target = match kind {
            ColumnKind::Id => Some(ColumnTarget::Id).filter(|id| !targets.contains(id)),
            kind => field_of(kind, settings, fields).filter(|field| !has(&targets, field)).map(ColumnTarget::Field),
        };
        if let Some(target) = target {
            targets[at] = target;
        }
    }
    targets
}

/// Checks that a column contains the text of a letter.
///
/// # Errors
/// [`ContentMissing`], with the names of all columns.
pub fn check_columns(header: &[String], targets: &[ColumnTarget], settings: &Settings) -> Result<(), ContentMissing> {
    let named = targets.iter().zip(header).filter_map(|(target, column)| target.name(column));
    check_content(named.filter(|name| *name != "id"), settings)
        .map_err(|_| ContentMissing { names: header.iter().filter(|name| !name.is_empty()).cloned().collect() })
}

fn has(targets: &[ColumnTarget], field: &str) -> bool {
    targets.iter().any(|target| matches!(target, ColumnTarget::Field(taken) if taken == field))
}

/// Returns the target of a column that keeps its name. The name must be possible for a field, and only one column may have it.
fn own(name: &str, header: &[String]) -> ColumnTarget {
    if name.is_empty() || name == "id" || name.contains('\0') || !has_once(name, header) {
        ColumnTarget::Unused
    } else {
        ColumnTarget::Own
    }
}

fn has_once(name: &str, header: &[String]) -> bool {
    header.iter().filter(|other| *other == name).count() == 1
}

/// Returns the field for a column of this kind: the first field whose name belongs to the kind, otherwise the first field with the role.
fn field_of(kind: ColumnKind, settings: &Settings, fields: &[String]) -> Option<String> {
    let titles = settings.titles();
    let offered = settings.fields.iter().zip(titles).filter(|(field, _)| fields.contains(&field.name));
    let mut takers =
        offered.filter(|(field, is_title)| takes_role(field.role, *is_title, &kind)).map(|(field, _)| &field.name);
    let first = takers.next()?;
    let named = std::iter::once(first).chain(takers).find(|name| kind_of(name) == Some(kind));
    Some(named.unwrap_or(first).clone())
}

fn takes_role(role: Role, is_title: bool, kind: &ColumnKind) -> bool {
    match *kind {
        ColumnKind::Title => is_title && matches!(role, Role::Text | Role::Whole),
        ColumnKind::Content => role == Role::Text && !is_title,
        kind => kind.role() == Some(role),
    }
}
