//! The places that an office knows, with their aliases.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::canonical::canonical;
use super::chars::{Chars, is_number};
use super::endings::SIDES;
use super::literals::{Filter, literals};
use super::{FactGroup, FactKind, FactSource, Found, WordSpan, endings, numerals};
use crate::text::normalise::Normaliser;

/// Maximum number of places of a collection: as many as fit into a request of the usual size of a megabyte. A district has
/// some thousand roads, estates and organisations.
pub const MAX_PLACES: usize = 10_000;
/// Maximum number of aliases of a place.
pub const MAX_ALIASES: usize = 64;
/// Minimum length of a name, in characters. A single character is part of too many words.
pub const MIN_PLACE_CHARS: usize = 2;
/// Maximum length of a name, in characters.
pub const MAX_PLACE_CHARS: usize = 64;

/// A place in the office's list of places. When names in texts are compared, each alias counts as the name of the
/// place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The name with which the place is compared, 2 to 64 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 2, max_length = 64))]
    pub name: String,
    /// The kind of the place.
    #[serde(default)]
    pub kind: PlaceKind,
    /// Other names of the place, each of 2 to 64 characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false, max_items = 64))]
    pub aliases: Vec<String>,
    /// The name of the place that contains this place, 2 to 64 characters. It is stored but not compared.
    #[cfg_attr(feature = "openapi", schema(min_length = 2, max_length = 64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl Place {
    /// Returns the name and the aliases.
    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(&self.aliases)
    }

    /// True if all names and the parent can be names of places.
    pub fn has_valid_names(&self) -> bool {
        self.names().chain(&self.parent).all(|name| is_place_name(name))
    }
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
    #[error(
        "the first row names no column \"name\"; the columns are name, kind, aliases, parent, or 名称, 类型, 别名, 上级"
    )]
    NoNameColumn,
    /// A column has another name, or a name that another column has, too.
    #[error(
        "column {number} is unknown or occurs twice; the columns are name, kind, aliases, parent, or 名称, 类型, 别名, \
        上级"
    )]
    UnknownColumn {
        /// Number of the column, from 1.
        number: usize,
    },
    /// A quoted value has no closing quote.
    #[error("line {line}: a quoted value does not end; write \"\" for a quotation mark in a value")]
    OpenQuote {
        /// Line where the value begins, from 1.
        line: usize,
    },
    /// A name cannot be the name of a place, see [`is_place_name`].
    #[error(
        "line {line}: a name of a place has {MIN_PLACE_CHARS} to {MAX_PLACE_CHARS} characters, no control characters and no | ; 、, and does \
         not begin with =, +, - or @"
    )]
    Name {
        /// Line of the row, from 1.
        line: usize,
    },
    /// Another place has one of the names.
    #[error("line {line}: an earlier line has one of these names")]
    Repeated {
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
/// required. Several aliases are separated by `|`, `;` or `、`. O(length).
///
/// # Errors
/// The first error of the list.
pub fn parse_places(text: &str) -> Result<Vec<Place>, PlaceListError> {
    let mut rows = rows(text.trim_start_matches('\u{feff}'))?.into_iter();
    let header = rows.next().map(|(_, row)| row).unwrap_or_default();
    let name_column = column(&header, &["name", "名称", "地名", "规范名称"]).ok_or(PlaceListError::NoNameColumn)?;
    let kind_column = column(&header, &["kind", "类型", "类别"]);
    let alias_column = column(&header, &["aliases", "alias", "别名", "简称", "曾用名"]);
    let parent_column = column(&header, &["parent", "上级", "所属"]);
    let known = [Some(name_column), kind_column, alias_column, parent_column];
    let unknown = (0..header.len()).find(|at| !header[*at].trim().is_empty() && !known.contains(&Some(*at)));
    if let Some(at) = unknown {
        return Err(PlaceListError::UnknownColumn { number: at + 1 });
    }
    let mut places = Vec::new();
    let mut lines = Vec::new();
    for (line, row) in rows {
        let name = cell(&row, Some(name_column)).trim().to_owned();
        let word = cell(&row, kind_column).trim().to_lowercase();
        let kind = PlaceKind::of_word(&word).ok_or(PlaceListError::Kind { line })?;
        let aliases = cell(&row, alias_column).split(['|', '｜', ';', '；', '、']).map(str::trim);
        let aliases: Vec<String> = aliases.filter(|alias| !alias.is_empty()).map(str::to_owned).collect();
        if aliases.len() > MAX_ALIASES {
            return Err(PlaceListError::TooManyAliases { line });
        }
        if places.len() == MAX_PLACES {
            return Err(PlaceListError::TooMany);
        }
        let parent = Some(cell(&row, parent_column).trim().to_owned()).filter(|parent| !parent.is_empty());
        let place = Place { name, kind, aliases, parent };
        if !place.has_valid_names() {
            return Err(PlaceListError::Name { line });
        }
        places.push(place);
        lines.push(line);
    }
    match repeated_place(&places) {
        Some(index) => Err(PlaceListError::Repeated { line: lines[index] }),
        None => Ok(places),
    }
}

/// Returns the index of the first place that has a name of an earlier place. O(names).
pub fn repeated_place(places: &[Place]) -> Option<usize> {
    let normaliser = Normaliser::new(true);
    let mut owners = HashMap::new();
    places.iter().enumerate().find_map(|(index, place)| {
        let mut spellings = place.names().flat_map(|name| spellings(name, normaliser));
        spellings.any(|name| *owners.entry(name).or_insert(index) != index).then_some(index)
    })
}

/// Returns the normal form of a name of a place, and the same name with its numbers in the other way of writing (翠湖一期, 翠湖1期). Both are
/// equal if the name has no such number.
pub fn spellings(name: &str, normaliser: Normaliser) -> [String; 2] {
    let normal: Vec<char> = normaliser.normalise(name).chars().collect();
    [&normal, &respelled(&normal)].map(|spelling| spelling.iter().collect())
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
fn is_place_name(name: &str) -> bool {
    let length = Normaliser::new(true).normalise(name).chars().count();
    (MIN_PLACE_CHARS..=MAX_PLACE_CHARS).contains(&length)
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
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
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

/// The names of a list, prepared for the search in a text.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceNames {
    /// Each name with the index of its place.
    by_name: HashMap<Box<[char]>, u32>,
    /// The lengths of the names that begin with two characters, in characters, the longest first.
    lengths: HashMap<(char, char), Vec<u8>>,
    first: Filter,
    /// Kind and canonical form of each place.
    places: Vec<(FactKind, Box<str>)>,
}

impl PlaceNames {
    pub(super) fn new(places: &[Place], normaliser: Normaliser) -> Self {
        let mut names = Self::default();
        let mut listed: Vec<(Vec<char>, u32)> = Vec::new();
        for (index, place) in (0_u32..).zip(places) {
            let chars: Vec<char> = normaliser.normalise(&place.name).chars().collect();
            let kind = place.kind.fact_kind();
            names.places.push((kind, canonical(kind, &chars).into()));
            listed.extend(place.names().map(|name| (normaliser.normalise(name).chars().collect(), index)));
        }
        for (name, index) in &listed {
            names.add(name.clone(), *index);
        }
        // A name as it is in the list counts before another spelling of its number.
        for (name, index) in &listed {
            names.add(respelled(name), *index);
        }
        for lengths in names.lengths.values_mut() {
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            lengths.dedup();
        }
        names
    }

    fn add(&mut self, name: Vec<char>, index: u32) {
        let [first, second, ..] = name[..] else { return };
        let Ok(length) = u8::try_from(name.len()) else { return };
        self.first.add(first);
        self.lengths.entry((first, second)).or_default().push(length);
        // Settings that another version accepted may have a name twice; the earlier place counts.
        self.by_name.entry(name.into()).or_insert(index);
    }

    /// Returns the end and the place of the longest name that `text` has at `at`. O([`MAX_PLACE_CHARS`]) lookups at most.
    fn at(&self, text: &Chars, at: usize) -> Option<(usize, u32)> {
        let rest = &text.as_slice()[at..];
        let lengths = self.lengths.get(&(*rest.first()?, *rest.get(1)?))?;
        let names = lengths.iter().filter_map(|&length| rest.get(..usize::from(length)));
        names.into_iter().find_map(|name| Some((at + name.len(), *self.by_name.get(name)?)))
    }

    /// Adds the places that the text names. Facts within them that other lists have found are removed. O(length), and
    /// O(log places of the text) for each fact.
    pub(super) fn read(&self, found: &mut Found<'_>, words: &[WordSpan<'_>]) {
        if self.places.is_empty() {
            return;
        }
        let named = self.named_in(found.text, words);
        found.facts.retain(|fact| {
            let next = named.partition_point(|(span, _)| span.start <= fact.span.start as usize);
            let is_within = next > 0 && fact.span.end as usize <= named[next - 1].0.end;
            fact.kind.group() != FactGroup::Object || !is_within
        });
        for (span, place) in named {
            let (kind, canonical) = &self.places[place as usize];
            found.add_from(*kind, span, canonical.clone(), FactSource::PlaceList);
        }
    }

    /// Returns the spans of the names in a text, ascending, with the indexes of their places. A name that is a part of
    /// a word (一小 in 一小时) or of another name (翠湖 in 北翠湖 and in 翠湖公园) is left out.
    fn named_in(&self, text: &Chars, words: &[WordSpan<'_>]) -> Vec<(Range<usize>, u32)> {
        let mut named = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let c = text.as_slice()[at];
            let Some((end, place)) = self.first.may_contain(c).then(|| self.at(text, at)).flatten() else {
                at += 1;
                continue;
            };
            if endings::is_part_of_name(text, end) {
                at = end;
            } else if cuts_word(words, at, end) || follows_side(text, words, at) {
                at += 1;
            } else {
                named.push((at..end, place));
                at = end;
            }
        }
        named
    }
}

literals! {
    /// Words before which a number distinguishes places with the same name.
    NUMBERED,
    "路 街 巷 弄 村 组 区 院 期 段 栋 幢 座 楼 单元 桥 站 线 中 小 队 环 支 横"
}

/// Returns a name with its numbers in the other way of writing: 三号桥 as 3号桥, 翠湖1期 as 翠湖一期. Only numbers from 1 to
/// 99 that number something have another way: 五一路 is not 51路.
fn respelled(name: &[char]) -> Vec<char> {
    let parts = name.chunk_by(|a, b| is_number(*a) == is_number(*b) && a.is_ascii_digit() == b.is_ascii_digit());
    let chars = Chars::new(&name.iter().collect::<String>());
    let mut other = Vec::with_capacity(name.len());
    let mut start = 0;
    for part in parts {
        let end = start + part.len();
        let is_counted = chars.at(end) == '号' || start > 0 && NUMBERED.at(&chars, end).is_some();
        let is_number = is_counted || chars.before(start) == '第';
        match respelled_number(part).filter(|_| is_number) {
            Some(number) => other.extend(number.chars()),
            None => other.extend(part),
        }
        start = end;
    }
    other
}

/// Returns a number from 1 to 99 in digits if it is in words, and in words if it is in digits. `None` for other forms: 五一, 两, 01.
fn respelled_number(number: &[char]) -> Option<String> {
    let value = numerals::value(number).filter(|value| (1..100).contains(value))?;
    let written: String = number.iter().collect();
    let [digits, words] = [value.to_string(), in_words(value)];
    if written == digits { Some(words) } else { (written == words).then_some(digits) }
}

/// Returns a number from 1 to 99 in words.
fn in_words(number: u32) -> String {
    const DIGITS: [&str; 10] = ["", "一", "二", "三", "四", "五", "六", "七", "八", "九"];
    let [tens, ones] = [number / 10, number % 10].map(|digit| DIGITS[digit as usize % DIGITS.len()]);
    match number {
        0..=9 => ones.to_owned(),
        10..=19 => format!("十{ones}"),
        _ => format!("{tens}十{ones}"),
    }
}

/// True if a name from `start` to `end` begins or ends inside a word. O(log words).
fn cuts_word(words: &[WordSpan<'_>], start: usize, end: usize) -> bool {
    [start as u32, end as u32].into_iter().any(|at| {
        let before = words.partition_point(|word| word.span.start < at);
        before > 0 && words[before - 1].span.end > at
    })
}

/// True if the word before `at` is one character that distinguishes names: 北 or 新. O(log words).
fn follows_side(text: &Chars, words: &[WordSpan<'_>], at: usize) -> bool {
    let side = at.checked_sub(1).filter(|side| SIDES.contains(text.at(*side)));
    side.is_some_and(|side| {
        let word = words.binary_search_by_key(&(side as u32), |word| word.span.start);
        word.is_ok_and(|word| words[word].span.len() == 1)
    })
}

#[cfg(test)]
mod tests {
    use super::super::FactReader;
    use super::*;

    const LIST: &str = "name,kind,aliases,parent\n翠湖花园,小区,\"翠湖|翠湖,一期|翠湖一期\",雁江区\n\n红石滩,place,石滩;红滩,\n学府一路,road,,\n";

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
        assert_eq!(first.aliases, ["翠湖", "翠湖,一期", "翠湖一期"]);
        assert_eq!(parse_places(&places_to_csv(&list)).unwrap(), list);
        let columns = "\u{feff}上级,名称,类别\r\n雁江区,翠湖学校,学校\r\n";
        assert_eq!(parse_places(columns).unwrap()[0].kind, PlaceKind::School);
    }

    /// Returns the number of listed places in a text with these words.
    fn listed(text: &str, words: &[(u32, u32)]) -> usize {
        let list = "name,kind,aliases\n第一小学,school,一小\n翠湖花园,estate,翠湖\n";
        let reader = FactReader::new(&parse_places(list).unwrap(), Normaliser::new(true));
        let words: Vec<_> = words.iter().map(|&(start, end)| WordSpan { span: start..end, tag: "n" }).collect();
        reader.read(text, &words).iter().filter(|fact| fact.source == FactSource::PlaceList).count()
    }

    #[test]
    fn a_name_inside_a_word_or_behind_a_side_is_another_name() {
        assert_eq!(listed("一小门口", &[(0, 1), (1, 2), (2, 4)]), 1);
        assert_eq!(listed("等一小时", &[(0, 1), (1, 4)]), 0);
        assert_eq!(listed("在翠湖", &[(0, 1), (1, 3)]), 1);
        assert_eq!(listed("北翠湖", &[(0, 1), (1, 3)]), 0);
        assert_eq!(listed("城北翠湖", &[(0, 2), (2, 4)]), 1);
    }

    #[test]
    fn a_number_that_numbers_something_has_two_spellings() {
        let both = [
            ("鹤鸣3区", "鹤鸣三区"),
            ("第11号桥", "第十一号桥"),
            ("学府20路", "学府二十路"),
            ("雁江99段", "雁江九十九段"),
        ];
        for (digits, words) in both {
            assert_eq!([other(digits), other(words)], [words, digits]);
        }
        // In these names, the number is a part of a word, or it has no other usual form.
        for name in
            ["五一路", "八一路", "一中", "三元", "百度", "三一", "两江", "伍家岭", "鹤鸣五一路", "雁江01栋", "第120段"]
        {
            assert_eq!(other(name), name);
        }
    }

    fn other(name: &str) -> String {
        respelled(&name.chars().collect::<Vec<_>>()).into_iter().collect()
    }

    #[test]
    fn an_error_says_where_and_what_to_write() {
        assert_eq!(error("kind\nroad\n"), PlaceListError::NoNameColumn);
        assert_eq!(error("name\n\"翠湖\n"), PlaceListError::OpenQuote { line: 2 });
        assert_eq!(error("name,曾用的名称\n翠湖,\n"), PlaceListError::UnknownColumn { number: 2 });
        assert_eq!(error("name,aliases\n,翠湖\n"), PlaceListError::Name { line: 2 });
        assert_eq!(error("name\r翠湖\r湖\r"), PlaceListError::Name { line: 3 }, "carriage returns end lines");
        assert_eq!(error("name,kind\n翠湖,road\n红石,?\n"), PlaceListError::Kind { line: 3 });
        assert_eq!(error("name\n湖\n"), PlaceListError::Name { line: 2 });
        assert_eq!(error("name\n=1+2\n"), PlaceListError::Name { line: 2 });
        assert_eq!(error("name\n翠\u{200b}\n"), PlaceListError::Name { line: 2 }, "one character remains");
        assert_eq!(error("name,parent\n翠湖,江\n"), PlaceListError::Name { line: 2 });
        assert_eq!(error("name,aliases\n翠湖,石滩\n红石滩,石灘\n"), PlaceListError::Repeated { line: 3 });
        assert_eq!(error("name\n翠湖1期\n翠湖一期\n"), PlaceListError::Repeated { line: 3 });
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
        assert_eq!(shown("学府一路,学府1路"), "Road 学府1路 PlaceList; Road 学府1路 PlaceList");
        assert_eq!(shown("翠湖1期漏水,翠湖一期漏水"), "Estate 翠湖花园 PlaceList; Estate 翠湖花园 PlaceList");
        for longer in ["翠湖学校停水", "翠湖公园停水", "翠湖大街停水", "翠湖村停水"] {
            assert!(!shown(longer).contains("PlaceList"), "{longer} is another name");
        }
    }
}
