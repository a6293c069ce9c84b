//! The places that an office knows, with their aliases.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::chars::Chars;
use super::literals::Filter;
use super::{FactGroup, FactKind, FactSource, Found, endings, names};
use crate::text::normalise::Normaliser;

/// Maximum number of places of a collection: a district has some thousand roads, estates and organisations.
pub const MAX_PLACES: usize = 20_000;
/// Maximum number of aliases of a place.
pub const MAX_ALIASES: usize = 64;
/// Minimum length of a name, in characters. A single character is part of too many words.
pub const MIN_PLACE_CHARS: usize = 2;
/// Maximum length of a name, in characters.
pub const MAX_PLACE_CHARS: usize = 64;

/// A place that the office knows. In a text, each of its aliases counts as its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The name under which the place is compared, 2 to 64 characters.
    pub name: String,
    /// The kind of the place.
    #[serde(default)]
    pub kind: PlaceKind,
    /// Other names of the place, each of 2 to 64 characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false, max_items = 64))]
    pub aliases: Vec<String>,
    /// The name of the place that contains it. It is kept for the office and not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// A square, a park, a market, a station, or a building with a name.
    #[default]
    Place,
    /// A province, a city, a district or a county.
    District,
    /// A town, a township or a street office.
    Town,
    /// A village or an urban community.
    Village,
    /// A road, a street, a lane or a bridge.
    Road,
    /// A housing estate.
    Estate,
    /// A school or a kindergarten.
    School,
    /// A company, a hospital, an authority or another organisation.
    Organisation,
    /// A brand or a service with a name.
    Product,
}

impl PlaceKind {
    /// All kinds with their words in a list. The first word is the one that doppel writes.
    const WORDS: [(Self, &[&str]); 9] = [
        (Self::Place, &["place", "公共场所", "场所", "地点", "站点", "大厦", "楼栋", "公园", ""]),
        (Self::District, &["district", "区县", "行政区", "区划"]),
        (Self::Town, &["town", "街道", "乡镇", "镇街"]),
        (Self::Village, &["village", "社区", "村", "村居"]),
        (Self::Road, &["road", "道路", "路", "街巷"]),
        (Self::Estate, &["estate", "小区", "楼盘"]),
        (Self::School, &["school", "学校"]),
        (Self::Organisation, &["organisation", "organization", "单位", "企业", "公司", "机构"]),
        (Self::Product, &["product", "产品", "品牌"]),
    ];

    /// Returns the kind with this word; `None` if no kind has it.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, words)| words.contains(&word)).map(|(kind, _)| *kind)
    }

    /// Returns the word that doppel writes.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(kind, _)| *kind == self).map_or("place", |(_, words)| words[0])
    }

    /// Returns the kind of the facts that name such a place.
    fn fact_kind(self) -> FactKind {
        match self {
            Self::Place => FactKind::PublicPlace,
            Self::District => FactKind::District,
            Self::Town => FactKind::Town,
            Self::Village => FactKind::Village,
            Self::Road => FactKind::Road,
            Self::Estate => FactKind::Estate,
            Self::School => FactKind::School,
            Self::Organisation => FactKind::Organisation,
            Self::Product => FactKind::Product,
        }
    }
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
    /// A name has too few or too many characters, or is a formula.
    #[error(
        "line {line}: a name has {MIN_PLACE_CHARS} to {MAX_PLACE_CHARS} characters and does not begin with =, +, - or @"
    )]
    Name {
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

fn kind_names() -> String {
    PlaceKind::WORDS.iter().map(|(_, words)| words[0]).collect::<Vec<_>>().join(", ")
}

/// Reads places as CSV (RFC 4180) with the columns `name`, `kind`, `aliases` and `parent`, in any order; only `name` is
/// required. Several aliases are separated by `|`, `;` or `、`. Rows without a name are skipped. O(length).
///
/// # Errors
/// The first error of the list.
pub fn parse_places(text: &str) -> Result<Vec<Place>, PlaceListError> {
    let mut rows = rows(text.trim_start_matches('\u{feff}'))?.into_iter();
    let header = rows.next().map(|(_, row)| row).unwrap_or_default();
    let name_column = column(&header, &["name", "名称", "地名", "规范名称"]).ok_or(PlaceListError::NoNameColumn)?;
    let kind_column = column(&header, &["kind", "类型", "类别"]);
    let alias_column = column(&header, &["aliases", "alias", "别名", "简称"]);
    let parent_column = column(&header, &["parent", "上级", "所属"]);
    let mut places = Vec::new();
    for (line, row) in rows {
        let name = cell(&row, Some(name_column)).trim().to_owned();
        if name.is_empty() {
            continue;
        }
        let word = cell(&row, kind_column).trim().to_lowercase();
        let kind = PlaceKind::of_word(&word).ok_or(PlaceListError::Kind { line })?;
        let aliases = cell(&row, alias_column).split(['|', ';', '；', '、']).map(str::trim);
        let aliases: Vec<String> = aliases.filter(|alias| !alias.is_empty()).map(str::to_owned).collect();
        if !is_place_name(&name) || !aliases.iter().all(|alias| is_place_name(alias)) {
            return Err(PlaceListError::Name { line });
        }
        if aliases.len() > MAX_ALIASES {
            return Err(PlaceListError::TooManyAliases { line });
        }
        if places.len() == MAX_PLACES {
            return Err(PlaceListError::TooMany);
        }
        let parent = Some(cell(&row, parent_column).trim().to_owned()).filter(|parent| !parent.is_empty());
        places.push(Place { name, kind, aliases, parent });
    }
    Ok(places)
}

/// Writes places as CSV, which [`parse_places`] reads.
pub fn places_to_csv(places: &[Place]) -> String {
    let mut csv = String::from("name,kind,aliases,parent\n");
    for place in places {
        let aliases = place.aliases.join("|");
        let cells = [&*place.name, place.kind.word(), &aliases, place.parent.as_deref().unwrap_or_default()];
        csv += &cells.map(quoted).join(",");
        csv.push('\n');
    }
    csv
}

/// True if a text can be the name of a place, an alias or a parent. A spreadsheet would run a formula.
pub fn is_place_name(name: &str) -> bool {
    (MIN_PLACE_CHARS..=MAX_PLACE_CHARS).contains(&name.chars().count())
        && !name.starts_with(['=', '+', '-', '@'])
        && !name.contains(char::is_control)
        && !name.contains(['|', ';', '；', '、'])
        && name.trim() == name
}

/// Returns the position of the column that has one of these names.
fn column(header: &[String], names: &[&str]) -> Option<usize> {
    header.iter().position(|cell| names.contains(&cell.trim().to_lowercase().as_str()))
}

/// Returns a cell of a row, or an empty text if the row does not have the column.
fn cell(row: &[String], column: Option<usize>) -> &str {
    column.and_then(|at| row.get(at)).map_or("", String::as_str)
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
    pub(super) fn new(places: &[Place], normaliser: Normaliser) -> Self {
        let mut names = Self::default();
        for (index, place) in (0_u32..).zip(places) {
            let chars: Vec<char> = normaliser.normalise(&place.name).chars().collect();
            let kind = place.kind.fact_kind();
            names.places.push((kind, names::canonical(kind, &chars).into()));
            for name in std::iter::once(&place.name).chain(&place.aliases) {
                let chars: Vec<char> = normaliser.normalise(name).chars().collect();
                let [first, second, ..] = chars[..] else { continue };
                names.first.add(first);
                names.by_start.entry((first, second)).or_default().push((chars, index));
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
        let reader = FactReader::new(&parse_places(LIST).unwrap(), Normaliser::new(true));
        let facts = reader.read(text, &[]);
        facts
            .iter()
            .map(|fact| format!("{:?} {} {:?}", fact.kind, fact.canonical, fact.source))
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn a_list_is_read_and_written() {
        let list = parse_places(LIST).unwrap();
        assert_eq!(list.len(), 3);
        let first = &list[0];
        assert_eq!((first.kind, first.parent.as_deref()), (PlaceKind::Estate, Some("雁江区")));
        assert_eq!(first.aliases, ["翠湖", "翠湖,一期"]);
        assert_eq!(parse_places(&places_to_csv(&list)).unwrap(), list);
        let columns = "\u{feff}上级,名称,类别\r\n雁江区,翠湖学校,学校\r\n";
        assert_eq!(parse_places(columns).unwrap()[0].kind, PlaceKind::School);
    }

    #[test]
    fn an_error_says_where_and_what_to_write() {
        assert_eq!(error("kind\nroad\n"), PlaceListError::NoNameColumn);
        assert_eq!(error("name\n\"翠湖\n"), PlaceListError::OpenQuote { line: 2 });
        assert_eq!(error("name,kind\n翠湖,road\n红石,?\n"), PlaceListError::Kind { line: 3 });
        assert_eq!(error("name\n湖\n"), PlaceListError::Name { line: 2 });
        assert_eq!(error("name\n=1+2\n"), PlaceListError::Name { line: 2 });
        assert!(error("name,kind\n翠湖,?\n").to_string().contains("estate"));
    }

    fn error(csv: &str) -> PlaceListError {
        parse_places(csv).unwrap_err()
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
