//! Facts: the typed objects that a text names.
//!
//! A [`FactReader`] finds the facts in a normalised text. Facts of the group [`Object`](FactGroup::Object) say what a
//! report is about. Facts of the group [`Reference`](FactGroup::Reference) name an earlier order or petition. Facts of
//! the groups [`Contact`](FactGroup::Contact) and [`Noise`](FactGroup::Noise) belong to the writer or to the form of
//! the letter; they are removed before texts are compared ([`contact_and_noise_spans`]). `similarity::contrast` decides
//! which facts of two texts agree and which contradict each other.
//!
//! Facts with a shape are found by characters only (`contacts`, `labels`, `links`, `noise`, `numbers`, `lines`,
//! `divisions`): one pass over the text finds the characters with which such a fact can begin or end, and the rest of
//! the work happens at these places. Then `places` finds the places that the office knows, `names` finds names by their
//! endings and the classes of the words before them, and `letter` finds the greeting and the closing phrases.

mod canonical;
mod chars;
mod contacts;
mod divisions;
mod endings;
mod labels;
mod letter;
mod lines;
mod links;
mod literals;
mod names;
mod noise;
mod numbers;
mod numerals;
mod place_lists;
mod places;
mod vocabulary;

use std::ops::Range;
use std::sync::LazyLock;

use self::chars::Chars;
use self::places::PlaceNames;
pub use self::places::{
    MAX_ALIASES, MAX_PLACE_CHARS, MAX_PLACES, MIN_PLACE_CHARS, Place, PlaceKind, PlaceListError, parse_places,
    places_to_csv, repeated_place, spellings,
};
use crate::schemes::hash::city64;
use crate::text::normalise::Normaliser;

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FactKind {
    /// A province, a city, a district or a county.
    District,
    /// A town, a township or a street office.
    Town,
    /// A village or an urban community.
    Village,
    /// A road, a street, a lane, a bridge, a tunnel or a crossing.
    Road,
    /// A number on a road or in a village.
    HouseNumber,
    /// A housing estate.
    Estate,
    /// A building of an estate or of a house number.
    Building,
    /// An entrance of a building.
    Unit,
    /// A flat or a room.
    Room,
    /// A construction phase or a section of an estate: 一期, 三区.
    Phase,
    /// A group of villagers: 3组.
    VillageGroup,
    /// A square, a park, a market, a station, a body of water, or a building with a name.
    PublicPlace,
    /// A school or a kindergarten.
    School,
    /// A company, a hospital, an authority or another organisation.
    Organisation,
    /// A brand or a service with a name.
    Product,
    /// The number plate of a vehicle.
    Plate,
    /// A bus line or a metro line.
    TransitLine,
    /// The number of an earlier order or petition.
    OrderNumber,
    /// A telephone number, or an account by which the writer can be reached.
    Phone,
    /// The number of an identity card.
    IdentityNumber,
    /// An e-mail address.
    Email,
    /// The number of a bank account.
    BankAccount,
    /// The number of a contract or of a customer.
    ContractNumber,
    /// The name of a person after a label such as 反映人 or 联系人.
    PersonName,
    /// The home of the writer, as the last sentence of a letter about another place.
    Residence,
    /// An address of a web page.
    Url,
    /// The name of an attached file.
    AttachmentName,
    /// A hashtag.
    Hashtag,
    /// A signature of an account, of a group of writers, or of a mail.
    Signature,
    /// The date when the letter was written.
    WritingDate,
    /// A greeting at the start.
    Greeting,
    /// The words with which an operator begins an order: 市民来电反映:.
    Intake,
    /// A polite phrase at the end.
    Closing,
    /// An instruction that an office adds.
    Footer,
    /// An earlier letter below the writer's own text.
    Quotation,
}

/// The meaning of a fact for a pair of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FactGroup {
    /// An equal value is evidence for the same matter, a different value is evidence against it.
    Object,
    /// An equal value is strong evidence for the same matter; a different value is no evidence.
    Reference,
    /// An equal value is evidence for the same writer; a different value is no evidence.
    Contact,
    /// The value is no evidence.
    Noise,
}

impl FactKind {
    /// True for contacts and noise, which are removed before texts are compared.
    pub fn is_removed(self) -> bool {
        matches!(self.group(), FactGroup::Contact | FactGroup::Noise)
    }

    /// Returns the group of the kind.
    pub fn group(self) -> FactGroup {
        match self {
            Self::OrderNumber => FactGroup::Reference,
            Self::Phone
            | Self::IdentityNumber
            | Self::Email
            | Self::BankAccount
            | Self::ContractNumber
            | Self::PersonName
            | Self::Residence => FactGroup::Contact,
            Self::Url
            | Self::AttachmentName
            | Self::Hashtag
            | Self::Signature
            | Self::WritingDate
            | Self::Greeting
            | Self::Intake
            | Self::Closing
            | Self::Footer
            | Self::Quotation => FactGroup::Noise,
            _ => FactGroup::Object,
        }
    }
}

/// The way in which a fact was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FactSource {
    /// By its shape.
    Pattern,
    /// By the list of administrative divisions.
    DivisionList,
    /// By the place list of the collection.
    PlaceList,
    /// By the ending of the name.
    Ending,
    /// By the dictionary of words, which contains the name.
    Dictionary,
    /// By a list of places in the text that contains the name.
    List,
    /// By the list of offices and well-known organisations.
    Office,
}

/// A typed object that a text names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fact {
    /// The kind of the fact.
    pub kind: FactKind,
    /// The form in which facts are compared: numbers in digits, without white space and labels. Empty if the value
    /// identifies nothing (反映人:匿名).
    pub canonical: Box<str>,
    /// Position in the normalised text, in characters. Facts of the groups contact and noise include their label (联系电话:).
    pub span: Range<u32>,
    /// The way in which the fact was recognised.
    pub source: FactSource,
}

/// A word of the text with its word class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordSpan<'a> {
    /// Position in the normalised text, in characters.
    pub span: Range<u32>,
    /// Word class, as in jieba.
    pub tag: &'a str,
}

/// Finds the facts of texts. Each collection needs one reader, which never changes.
#[derive(Clone, Debug)]
pub struct FactReader {
    places: PlaceNames,
}

impl FactReader {
    /// Creates a reader that knows `places`, for texts that `normaliser` normalises.
    pub fn new(places: &[Place], normaliser: Normaliser) -> Self {
        Self { places: PlaceNames::new(places, normaliser) }
    }

    /// Returns a reader that knows no places of an office.
    pub fn without_places() -> &'static Self {
        static READER: LazyLock<FactReader> = LazyLock::new(|| FactReader { places: PlaceNames::default() });
        &READER
    }

    /// Returns the contacts and the noise of a text, and other facts that have a shape. It does not search for names.
    /// O(length).
    pub fn shapes(&self, text: &str) -> Vec<Fact> {
        let chars = Chars::new(text);
        let mut found = Found::new(&chars);
        found.shapes();
        letter::read(&mut found);
        found.finish()
    }

    /// Returns the facts of `text` in the order of their spans. `text` must be normalised: NFKC, lower case, simplified
    /// characters; a line break may be kept as one U+000A. `words` are the words of the text. Without them, only names
    /// in lists are found. O(length).
    pub fn read(&self, text: &str, words: &[WordSpan<'_>]) -> Vec<Fact> {
        let chars = Chars::new(text);
        let mut found = Found::new(&chars);
        found.shapes();
        self.places.read(&mut found, words);
        names::read(&mut found, words);
        place_lists::read(&mut found);
        letter::read(&mut found);
        found.finish()
    }
}

/// Number of the last facts that are searched for a fact just before a position. More than one list has items there.
const NEAR_FACTS: usize = 32;

/// The facts found so far in one text.
#[derive(Debug)]
struct Found<'t> {
    text: &'t Chars,
    facts: Vec<Fact>,
    /// Between the last signature of a mail that was read and this position there is no row of hyphens. So no part of
    /// the text is searched twice.
    no_rule_before: usize,
    /// Between the last signature of a mail that was read and this position there is no mark of a signature.
    no_mark_before: usize,
}

impl<'t> Found<'t> {
    fn new(text: &'t Chars) -> Self {
        Self { text, facts: Vec::new(), no_rule_before: 0, no_mark_before: 0 }
    }

    fn add(&mut self, kind: FactKind, span: Range<usize>, canonical: impl Into<Box<str>>) {
        self.add_from(kind, span, canonical, FactSource::Pattern);
    }

    fn add_from(&mut self, kind: FactKind, span: Range<usize>, canonical: impl Into<Box<str>>, source: FactSource) {
        let span = span.start as u32..span.end as u32;
        self.facts.push(Fact { kind, canonical: canonical.into(), span, source });
    }

    /// True if one of the last facts has this kind and begins at `at`.
    fn begins(&self, kind: FactKind, at: usize) -> bool {
        self.facts.iter().rev().take(NEAR_FACTS).any(|fact| fact.kind == kind && fact.span.start as usize == at)
    }

    /// Finds the facts that have a shape, in one pass over the characters.
    fn shapes(&mut self) {
        let text = self.text;
        let mut at = 0;
        while at < text.len() {
            let c = text.as_slice()[at];
            if let Some(end) = noise::read_intake(self, at) {
                at = end;
                continue;
            }
            let end = if c.is_ascii_alphanumeric() {
                contacts::read_run(self, at)
            } else {
                match c {
                    '*' | '×' | '●' | '■' | '█' | '○' => contacts::read_run(self, at),
                    '一' | '壹' | '幺' | '么' => contacts::read_spelled(self, at),
                    '@' | '.' | ':' => links::read(self, at),
                    '#' | '-' | '(' => noise::read(self, at),
                    '号' | '栋' | '幢' | '座' | '单' | '室' | '房' | '期' | '组' | '弄' => {
                        numbers::read(self, at)
                    }
                    '区' => numbers::read(self, at).or_else(|| divisions::read(self, at)),
                    '省' | '市' | '县' | '旗' | '州' | '盟' | '镇' | '乡' | '道' | '木' => {
                        divisions::read(self, at)
                    }
                    '路' | '线' | '公' => lines::read(self, at),
                    '人' | '名' | '者' => labels::read(self, at),
                    '来' | '发' | '附' | '本' | '展' | '网' => noise::read(self, at),
                    // The first characters of licence plates.
                    '京' | '津' | '沪' | '渝' | '冀' | '豫' | '云' | '辽' | '黑' | '湘' | '皖' | '鲁' | '新' | '苏'
                    | '浙' | '赣' | '鄂' | '桂' | '甘' | '晋' | '蒙' | '陕' | '吉' | '闽' | '贵' | '粤' | '青'
                    | '藏' | '川' | '宁' | '琼' | '使' => numbers::read_plate(self, at),
                    _ => None,
                }
            };
            at = end.unwrap_or(at + 1).max(at + 1);
        }
    }

    /// Removes facts that lie within other facts, and sorts the rest.
    fn finish(mut self) -> Vec<Fact> {
        // Among facts with the same start the longest one comes first. The order is total, so that the result does not
        // depend on the algorithm.
        self.facts.sort_by_key(|fact| (fact.span.start, std::cmp::Reverse(fact.span.end), fact.kind));
        let mut covered = 0;
        let mut hidden: Vec<Range<u32>> = Vec::new();
        let mut facts = self.facts;
        facts.retain(|fact| {
            if !fact.kind.is_removed() {
                return true;
            }
            let inside = fact.span.end <= covered;
            covered = covered.max(fact.span.end);
            if !inside && fact.kind != FactKind::Hashtag {
                hidden.push(fact.span.clone());
            }
            !inside
        });
        let mut next = 0;
        facts.retain(|fact| {
            if fact.kind.is_removed() {
                return true;
            }
            while hidden.get(next).is_some_and(|span| span.end <= fact.span.start) {
                next += 1;
            }
            hidden.get(next).is_none_or(|span| span.start >= fact.span.end)
        });
        facts.dedup();
        facts
    }
}

/// Returns the number of bytes of a canonical name before its ending; the length of the name if it has no ending.
/// O(length).
pub fn core_bytes(name: &str) -> usize {
    let chars: Vec<char> = name.chars().collect();
    endings::core(&chars).iter().map(|c| c.len_utf8()).sum()
}

/// Minimum number of characters of a contact that identifies its owner. The numbers of hotlines are shorter.
const MIN_CONTACT_CHARS: usize = 7;
/// Minimum number of these characters that are not masked.
const MIN_SHOWN_CHARS: usize = 5;

/// Returns the codes of the numbers and addresses at which one person can be reached or is known: phones, identity
/// numbers, e-mail addresses, accounts, contracts. Ascending, each once. O(facts).
pub fn contact_codes(facts: &[Fact]) -> Vec<u64> {
    let personal = facts.iter().filter(|fact| is_personal(fact));
    let mut codes: Vec<u64> = personal.map(|fact| city64(&fact.canonical)).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn is_personal(fact: &Fact) -> bool {
    use FactKind::{BankAccount, ContractNumber, Email, IdentityNumber, Phone};
    matches!(fact.kind, Phone | IdentityNumber | Email | BankAccount | ContractNumber)
        && fact.canonical.chars().count() >= MIN_CONTACT_CHARS
        && fact.canonical.chars().filter(char::is_ascii_alphanumeric).count() >= MIN_SHOWN_CHARS
}

/// Returns the spans of the facts that are removed before texts are compared, merged and in order. O(facts).
pub fn contact_and_noise_spans(facts: &[Fact]) -> Vec<Range<u32>> {
    let mut merged: Vec<Range<u32>> = Vec::new();
    for fact in facts.iter().filter(|fact| fact.kind.is_removed()) {
        match merged.last_mut() {
            Some(last) if fact.span.start <= last.end => last.end = last.end.max(fact.span.end),
            _ => merged.push(fact.span.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
