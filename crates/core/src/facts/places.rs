//! The places that an office knows, with their aliases.

use std::collections::HashMap;

use super::chars::Chars;
use super::literals::Filter;
use super::{FactGroup, FactKind, FactSource, Found, endings, names};
use crate::text::normalise::Normaliser;

/// Maximum number of places in a list: a large city has this number of roads, estates and organisations.
pub const MAX_PLACES: usize = 100_000;
/// Maximum number of aliases of a place.
pub const MAX_ALIASES: usize = 64;
/// Minimum length of a name, in characters. A single character is part of too many words.
const MIN_NAME: usize = 2;
/// Maximum length of a name, in characters.
const MAX_NAME: usize = 64;

/// A place of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name under which the place is compared.
    pub name: String,
    /// The kind of the place: one of the kinds of objects.
    pub kind: FactKind,
    /// Other names of the place.
    pub aliases: Vec<String>,
    /// The name of the place that contains it.
    pub parent: Option<String>,
}

/// The places that an office knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceList {
    places: Vec<Place>,
}

/// An error in a list of places.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceListError {
    /// The first row has no column `name`.
    #[error("the first row names no column \"name\"; the columns are name, kind, aliases, parent")]
    NoNameColumn,
    /// A quoted value has no closing quote.
    #[error("line {line}: a quoted value does not end; write \"\" for a quotation mark in a value")]
    OpenQuote {
        /// Line where the value begins, from 1.
        line: usize,
    },
    /// A name has too few or too many characters.
    #[error("line {line}: a name must have {MIN_NAME} to {MAX_NAME} characters")]
    Length {
        /// Line of the row, from 1.
        line: usize,
    },
    /// The kind is unknown.
    #[error("line {line}: the kind is not known; write one of {}", kind_names())]
    Kind {
        /// Line of the row, from 1.
        line: usize,
    },
    /// The list is too long.
    #[error("the list has more than {MAX_PLACES} places; leave out those that no report names")]
    TooMany,
    /// A place has too many aliases.
    #[error("line {line}: a place may have {MAX_ALIASES} aliases at most")]
    TooManyAliases {
        /// Line of the row, from 1.
        line: usize,
    },
}

/// The names of kinds in a list; the first word is the usual one.
const KINDS: [(FactKind, &[&str]); 12] = [
    (FactKind::PublicPlace, &["place", "公共场所", "场所", "地点", "站点", "大厦", "公园", ""]),
    (FactKind::District, &["district", "区县", "行政区", "区划"]),
    (FactKind::Town, &["town", "街道", "乡镇", "镇街"]),
    (FactKind::Village, &["village", "社区", "村", "村居"]),
    (FactKind::Road, &["road", "道路", "路", "街巷"]),
    (FactKind::Estate, &["estate", "小区", "楼盘"]),
    (FactKind::Building, &["building", "楼栋"]),
    (FactKind::School, &["school", "学校"]),
    (FactKind::Organisation, &["organisation", "organization", "单位", "企业", "公司", "机构"]),
    (FactKind::TransitLine, &["line", "线路", "公交线路", "地铁线路"]),
    (FactKind::Product, &["product", "产品", "品牌"]),
    (FactKind::VillageGroup, &["group", "村民小组"]),
];

fn kind_names() -> String {
    KINDS.iter().map(|(_, words)| words[0]).collect::<Vec<_>>().join(", ")
}

impl PlaceList {
    /// Reads a list as CSV (RFC 4180) with the columns `name`, `kind`, `aliases` and `parent`, in any order; only
    /// `name` is required. Several aliases are separated by `|`, `;` or `、`. Names are normalised. Rows without a name
    /// are skipped. O(length).
    pub fn parse_csv(text: &str) -> Result<Self, PlaceListError> {
        let mut rows = rows(text.trim_start_matches('\u{feff}'))?.into_iter();
        let header = rows.next().map(|(_, row)| row).unwrap_or_default();
        let name_column = column(&header, &["name", "名称", "地名", "规范名称"]).ok_or(PlaceListError::NoNameColumn)?;
        let kind_column = column(&header, &["kind", "类型", "类别"]);
        let alias_column = column(&header, &["aliases", "alias", "别名", "简称"]);
        let parent_column = column(&header, &["parent", "上级", "所属"]);
        let normaliser = Normaliser::new(true);
        let mut places = Vec::new();
        for (line, row) in rows {
            let name = normaliser.normalise(cell(&row, Some(name_column)));
            if name.is_empty() {
                continue;
            }
            let kind = normaliser.normalise(cell(&row, kind_column));
            let known = KINDS.iter().find(|(_, words)| words.contains(&kind.as_str()));
            let (kind, _) = known.ok_or(PlaceListError::Kind { line })?;
            let aliases: Vec<String> = cell(&row, alias_column)
                .split(['|', ';', '；', '、'])
                .map(|alias| normaliser.normalise(alias))
                .filter(|alias| !alias.is_empty())
                .collect();
            if !has_valid_length(&name) || !aliases.iter().all(|alias| has_valid_length(alias)) {
                return Err(PlaceListError::Length { line });
            }
            if aliases.len() > MAX_ALIASES {
                return Err(PlaceListError::TooManyAliases { line });
            }
            if places.len() == MAX_PLACES {
                return Err(PlaceListError::TooMany);
            }
            let parent = Some(normaliser.normalise(cell(&row, parent_column))).filter(|parent| !parent.is_empty());
            places.push(Place { name, kind: *kind, aliases, parent });
        }
        Ok(Self { places })
    }

    /// Returns the places in the order of the list.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns the list as CSV, which [`PlaceList::parse_csv`] reads.
    pub fn to_csv(&self) -> String {
        let mut csv = String::from("name,kind,aliases,parent\n");
        for place in &self.places {
            let kind = KINDS.iter().find(|(kind, _)| *kind == place.kind).map_or("place", |(_, words)| words[0]);
            let cells = [&place.name, kind, &place.aliases.join("|"), place.parent.as_deref().unwrap_or_default()];
            csv += &cells.map(quoted).join(",");
            csv.push('\n');
        }
        csv
    }
}

/// Returns the position of the column that has one of these names.
fn column(header: &[String], names: &[&str]) -> Option<usize> {
    header.iter().position(|cell| names.contains(&cell.trim().to_lowercase().as_str()))
}

/// Returns a cell of a row, or an empty text if the row does not have the column.
fn cell(row: &[String], column: Option<usize>) -> &str {
    column.and_then(|at| row.get(at)).map_or("", String::as_str)
}

fn has_valid_length(name: &str) -> bool {
    (MIN_NAME..=MAX_NAME).contains(&name.chars().count())
}

/// Returns a value in the form of CSV.
fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

/// Returns the rows of a CSV text with the lines where they begin, from 1. Empty rows are left out.
fn rows(text: &str) -> Result<Vec<(usize, Vec<String>)>, PlaceListError> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut line = 1;
    let mut begins = 1;
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match (c, quote) {
            ('"', Some(_)) if chars.next_if_eq(&'"').is_some() => cell.push('"'),
            ('"', Some(_)) => quote = None,
            (c, Some(_)) => cell.push(c),
            ('"', None) if cell.is_empty() => quote = Some(line),
            (',', None) => row.push(std::mem::take(&mut cell)),
            ('\n', None) => {
                row.push(std::mem::take(&mut cell));
                rows.push((begins, std::mem::take(&mut row)));
                begins = line;
            }
            ('\r', None) => {}
            (c, None) => cell.push(c),
        }
    }
    if let Some(line) = quote {
        return Err(PlaceListError::OpenQuote { line });
    }
    row.push(cell);
    rows.push((begins, row));
    rows.retain(|(_, row)| row.iter().any(|cell| !cell.trim().is_empty()));
    Ok(rows)
}

/// A name and the index of its place.
type PlaceName = (Vec<char>, u32);

/// The names of a list, prepared for the search in a text.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceNames {
    /// Names by their first two characters: the name, and the index of its place.
    by_start: HashMap<(char, char), Vec<PlaceName>>,
    first: Filter,
    /// Kind and canonical form of each place.
    places: Vec<(FactKind, Box<str>)>,
}

impl PlaceNames {
    pub(super) fn new(list: &PlaceList) -> Self {
        let mut names = Self::default();
        for (index, place) in (0_u32..).zip(&list.places) {
            let chars: Vec<char> = place.name.chars().collect();
            names.places.push((place.kind, names::canonical(place.kind, &chars).into()));
            for name in std::iter::once(&place.name).chain(&place.aliases) {
                let chars: Vec<char> = name.chars().collect();
                names.first.add(chars[0]);
                names.by_start.entry((chars[0], chars[1])).or_default().push((chars, index));
            }
        }
        names
    }

    /// Returns the end and the place of the longest name that `text` has at `at`.
    fn at(&self, text: &Chars, at: usize) -> Option<(usize, u32)> {
        let rest = &text.as_slice()[at..];
        let names = self.by_start.get(&(*rest.first()?, *rest.get(1)?))?;
        let found = names.iter().filter(|(name, _)| rest.starts_with(name));
        // If two places have the same name, the earlier place of the list counts.
        found.map(|(name, place)| (at + name.len(), *place)).max_by_key(|&(end, place)| (end, std::cmp::Reverse(place)))
    }

    /// Adds the places that the text names. Facts within them that other lists have found are removed.
    pub(super) fn read(&self, found: &mut Found<'_>) {
        if self.places.is_empty() {
            return;
        }
        let text = found.text;
        let mut at = 0;
        while at < text.len() {
            let c = text.as_slice()[at];
            let place = if self.first.may_contain(c) { self.at(text, at) } else { None };
            let Some((end, place)) = place.filter(|&(end, _)| !endings::is_continued(text, end)) else {
                at += 1;
                continue;
            };
            let (kind, canonical) = &self.places[place as usize];
            found.facts.retain(|fact| {
                let is_within = fact.span.start as usize >= at && fact.span.end as usize <= end;
                fact.kind.group() != FactGroup::Object || !is_within
            });
            found.add_from(*kind, at..end, canonical.clone(), FactSource::PlaceList);
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FactReader;
    use super::*;

    const LIST: &str = "name,kind,aliases,parent\n翠湖花园,小区,\"翠湖|翠湖,一期\",雁江区\n\n红石滩,place,石滩;红滩,\n学府一路,road,,\n";

    fn shown(text: &str) -> String {
        let reader = FactReader::new(&PlaceList::parse_csv(LIST).unwrap());
        let facts = reader.read(text, &[]);
        facts
            .iter()
            .map(|fact| format!("{:?} {} {:?}", fact.kind, fact.canonical, fact.source))
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn a_list_is_read_and_written() {
        let list = PlaceList::parse_csv(LIST).unwrap();
        assert_eq!(list.places().len(), 3);
        let first = &list.places()[0];
        assert_eq!((first.kind, first.parent.as_deref()), (FactKind::Estate, Some("雁江区")));
        assert_eq!(first.aliases, ["翠湖", "翠湖,一期"]);
        assert_eq!(PlaceList::parse_csv(&list.to_csv()).unwrap(), list);
        let columns = "\u{feff}上级,名称,类别\r\n雁江区,翠湖学校,学校\r\n";
        assert_eq!(PlaceList::parse_csv(columns).unwrap().places()[0].kind, FactKind::School);
    }

    #[test]
    fn an_error_says_where_and_what_to_write() {
        assert_eq!(error("kind\nroad\n"), PlaceListError::NoNameColumn);
        assert_eq!(error("name\n\"翠湖\n"), PlaceListError::OpenQuote { line: 2 });
        assert_eq!(error("name,kind\n翠湖,road\n红石,?\n"), PlaceListError::Kind { line: 3 });
        assert_eq!(error("name\n湖\n"), PlaceListError::Length { line: 2 });
        assert!(error("name,kind\n翠湖,?\n").to_string().contains("estate"));
    }

    fn error(csv: &str) -> PlaceListError {
        PlaceList::parse_csv(csv).unwrap_err()
    }

    #[test]
    fn aliases_have_the_canonical_form_of_their_place() {
        assert_eq!(shown("翠湖漏水"), "Estate 翠湖花园 PlaceList");
        assert_eq!(shown("翠湖花园漏水"), "Estate 翠湖花园 PlaceList");
        assert_eq!(shown("红滩停水,石滩停水"), "PublicPlace 红石滩 PlaceList; PublicPlace 红石滩 PlaceList");
        assert_eq!(shown("学府一路"), "Road 学府1路 PlaceList");
        assert_eq!(shown("翠湖学校停水"), "", "a longer name that the list does not have");
    }
}
