//! Names of places and organisations, found by their endings and the word classes of the words before them.
//!
//! A name ends with an ending (路, 小区, 中学). To the left, the name extends as far as words can belong to it: to the start
//! of the clause, to another name, or to a word that is no part of names (a verb, a conjunction, a preposition, a
//! person).

use std::ops::Range;
use std::sync::LazyLock;

use super::canonical::canonical;
use super::chars::{Chars, is_gap, is_ideograph, is_number};
use super::endings::{
    self, BEHIND_ROAD, BOUNDARIES, COMMON_NOUNS, COMMON_ROADS, HEADS, JOINING, LEADING, LEADING_WORDS, NAMESAKES,
    SHOPS, SIDES, TAILS, VAGUE,
};
use super::numerals::is_numeral;
use super::vocabulary::Vocabulary;
use super::{Fact, FactKind, FactSource, Found, WordSpan};

/// Maximum number of characters of a name before its ending.
const MAX_CORE: usize = 8;
/// Maximum number of characters of the name of an organisation or a school before its ending.
const MAX_ORGANISATION: usize = 16;

/// Numbers of characters before the ending of a name that the dictionary does not have.
const UNKNOWN_CORE: std::ops::RangeInclusive<usize> = 2..=3;
/// Characters that are words of a sentence, and seldom part of a name.
const SENTENCE_CHARS: &str = "的了是有这那哪每各条些个我你他她们本该其与和及在从到几整全此某给把被却或";

/// Characters that stand behind a date or a time.
const AFTER_TIME: &str = "起后前内半";
/// Characters before 区, 县, 镇 or 乡 that form a common noun with it (园区, 城镇), besides [`SIDES`].
const NOT_DIVISIONS: &str =
    "社园校城市辖山地发业景片厂街灾专特住居活库矿学禁战郊该本我全各一某他她县区镇乡村返家故同集";

super::literals::literals! {
    /// Words before a place.
    PLACE_PREPOSITIONS,
    "到 至 从 往 去 在 由 途经 经 经过 住 位于 自 来 离 距 直达 前往 开往 连接 和 与"
}

super::literals::literals! {
    /// Words after a place.
    PLACE_SUFFIXES,
    "站 地区 方向 一带 附近 区域 片区 至 到 往返 北站 南站 东站 西站 路口"
}

/// Sequences of words that name nothing, not even together: 市政建设.
static VAGUE_CORES: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(&[endings::VAGUE_WORDS]).without_single());

/// Adds the names among `words`.
pub(super) fn read(found: &mut Found<'_>, words: &[WordSpan<'_>]) {
    let text = found.text;
    let mut taken: Vec<Range<usize>> = found
        .facts
        .iter()
        .filter(|fact| !is_division(fact))
        .map(|fact| fact.span.start as usize..fact.span.end as usize)
        .collect();
    taken.sort_by_key(|span| span.start);
    let mut divisions: Vec<Range<usize>> = found
        .facts
        .iter()
        .filter(|fact| is_division(fact))
        .map(|fact| fact.span.start as usize..fact.span.end as usize)
        .collect();
    divisions.sort_by_key(|span| span.start);
    let clauses = words.split(|word| text.as_slice()[range(word)].iter().all(|&c| is_gap(c)));
    for clause in clauses.filter(|clause| !clause.is_empty()) {
        let start = range(&clause[0]).start;
        let first = divisions.partition_point(|span| span.end <= start);
        let taken_from = taken.partition_point(|span| span.end <= start);
        Clause { text, words: clause, divisions: &divisions[first..], taken: &taken[taken_from..] }.read(found);
    }
}

fn is_division(fact: &Fact) -> bool {
    matches!(fact.kind, FactKind::District | FactKind::Town)
}

fn range(word: &WordSpan<'_>) -> Range<usize> {
    word.span.start as usize..word.span.end as usize
}

/// The words between two signs.
struct Clause<'c, 'w> {
    text: &'c Chars,
    words: &'c [WordSpan<'w>],
    /// Spans of divisions, from this clause on.
    divisions: &'c [Range<usize>],
    /// Spans of facts that have a shape, from this clause on.
    taken: &'c [Range<usize>],
}

/// The ending of a name within a clause.
struct Ending {
    kind: FactKind,
    /// Start and end of the ending.
    span: Range<usize>,
    /// Index of the word that contains the last character of the ending.
    word: usize,
}

impl Clause<'_, '_> {
    fn read(&self, found: &mut Found<'_>) {
        // Characters before this one belong to another name.
        let mut free = range(&self.words[0]).start;
        let mut short = Vec::new();
        for at in 0..self.words.len() {
            let word = range(&self.words[at]);
            let mut before = self.divisions.iter().take_while(|span| span.start < word.end);
            if let Some(division) = before.find(|span| word.start < span.end)
                && division.end >= word.end
            {
                free = free.max(division.end);
                continue;
            }
            let taken = self.taken.iter().take_while(|span| span.start < word.end);
            if let Some(end) = taken.map(|span| span.end).max() {
                free = free.max(end.min(word.end));
                if end >= word.end {
                    continue;
                }
            }
            if let Some((kind, name)) =
                self.name_at(free, at).filter(|(_, name)| *name != word || !self.is_short_division(at))
            {
                free = name.end;
                short.retain(|division: &Range<usize>| division.end <= name.start);
                found.add_from(kind, name.clone(), canonical(kind, &self.text.as_slice()[name]), FactSource::Ending);
            } else if word.start >= free && (self.is_short_division(at) || self.is_place(at)) {
                short.push(word);
            }
        }
        for place in short {
            let name = self.text.string(place.clone());
            if super::divisions::is_stem(self.text, place.start, place.end) {
                found.add_from(FactKind::District, place, name, FactSource::DivisionList);
            } else {
                found.add_from(FactKind::PublicPlace, place, name, FactSource::Dictionary);
            }
        }
    }

    fn word(&self, at: usize) -> &[char] {
        self.words.get(at).map_or(&[], |word| &self.text.as_slice()[range(word)])
    }

    fn string(&self, at: usize) -> String {
        self.word(at).iter().collect()
    }

    /// True if the word is a city or a district without its ending.
    fn is_short_division(&self, at: usize) -> bool {
        let word = range(&self.words[at]);
        matches!(self.words[at].tag, "ns" | "s" | "nr" | "nrt" | "n")
            && super::divisions::is_stem(self.text, word.start, word.end)
    }

    /// True if the dictionary has the word as the name of a place. A short word must also stand in a position where
    /// places are named.
    fn is_place(&self, at: usize) -> bool {
        if self.words[at].tag != "ns" {
            return false;
        }
        let word = self.word(at);
        let string = self.string(at);
        let span = range(&self.words[at]);
        let placed = joins_places(self.text.before(span.start))
            || joins_places(self.text.at(span.end))
            || PLACE_PREPOSITIONS.before(self.text, span.start).is_some()
            || PLACE_SUFFIXES.at(self.text, span.end).is_some();
        (word.len() >= 3 || word.len() == 2 && placed)
            && word.iter().all(|&c| is_ideograph(c))
            && !word
                .iter()
                .any(|&c| SIDES.contains(c) || is_numeral(c) || LEADING.contains(c) || c == '区' || c == '沿')
            && !COMMON_NOUNS.contains(&string)
            && !VAGUE.contains(&string)
            && !BOUNDARIES.contains(&string)
    }

    /// Returns the ending of the word at `at`.
    fn ending(&self, free: usize, at: usize) -> Option<Ending> {
        let span = range(&self.words[at]);
        let head = (span.start + 1..span.end).rev().find_map(|end| {
            let start = HEADS.before(self.text, end).filter(|&start| start + 1 >= span.start && start >= free)?;
            let known = TAILS.at(self.text, end) == Some(span.end);
            known.then(|| {
                endings::before(self.text, start, end).map(|(start, kind)| Ending { kind, span: start..end, word: at })
            })?
        });
        if head.is_some() {
            return head;
        }
        let (start, kind) = endings::before(self.text, free.min(span.start), span.end)?;
        // A sequence of two endings such as 花园别墅 is also an ending.
        let start = if start > span.start + 1 && kind != FactKind::Road {
            endings::before(self.text, span.start, start)
                .map_or(start, |(first, _)| if first == span.start { first } else { start })
        } else {
            start
        };
        Some(Ending { kind, span: start..span.end, word: at })
    }

    /// Returns the name that ends with the word at `at` and does not begin before `free`.
    fn name_at(&self, free: usize, at: usize) -> Option<(FactKind, Range<usize>)> {
        let ending = self.ending(free, at)?;
        let word = range(&self.words[at]);
        let own_core = ending.span.start > word.start;
        let core = &self.text.as_slice()[word.start..ending.span.start.max(word.start)];
        let number = !core.is_empty() && core.iter().all(|&c| is_numeral(c));
        let tail = self.text.string(word.end.saturating_sub(2).max(word.start)..word.end);
        let common = COMMON_NOUNS.contains(&self.string(at))
            || (!self.is_proper(at) && word.len() > 2 && COMMON_ROADS.contains(&tail));
        if own_core && !number && common {
            return None;
        }
        // The word 一路 can also mean "all the way".
        let way = number
            && core == ['一']
            && self.words[..at]
                .iter()
                .any(|word| matches!(self.text.string(range(word)).as_str(), "从" | "由" | "自" | "沿"));
        if way {
            return None;
        }
        if self.is_dance(ending.span.end) || self.is_joined(at, &ending) || self.goes_on(free, at, &ending) {
            return None;
        }
        let mut start = self.start(free, at, &ending);
        start = LEADING_WORDS
            .at(self.text, start)
            .filter(|&end| end + 1 < ending.span.start && self.begins_word(end))
            .unwrap_or(start);
        while ending.span.start - start > 2
            && self.begins_word(start + 1)
            && (LEADING.contains(self.text.at(start)) || self.is_after_time(start))
        {
            start += 1;
        }
        start = self.behind_unlisted_division(start, ending.span.start);
        let core = &self.text.as_slice()[start..ending.span.start];
        let mut before = self.divisions.iter().take_while(|span| span.start < start);
        let division = before.find(|span| span.end == start).cloned();
        let institution = matches!(ending.kind, FactKind::Organisation | FactKind::School);
        if institution
            && let Some(division) = &division
            && (!core.is_empty() || ending.span.len() > 2 || is_numeral(self.text.at(ending.span.start)))
        {
            return Some((ending.kind, division.start..ending.span.end));
        }
        if self.names(core, start, &ending) {
            return Some((ending.kind, start..ending.span.end));
        }
        self.start_of_unknown(free, &ending).map(|start| (ending.kind, start..ending.span.end))
    }

    /// Returns the start of a name that the dictionary does not have, and of which each character is a word by itself:
    /// 安集东路. It must stand where places are named.
    fn start_of_unknown(&self, free: usize, ending: &Ending) -> Option<usize> {
        use FactKind::{Estate, PublicPlace, Road, School, Village};
        if !matches!(ending.kind, Road | Village | Estate | School | PublicPlace) {
            return None;
        }
        let known = self.words[..=ending.word].iter().rposition(|word| {
            let word = range(word);
            let before_ending = word.end.min(ending.span.start).saturating_sub(word.start);
            before_ending > 1 || !self.text.as_slice()[word].iter().all(|&c| is_ideograph(c))
        });
        let first = range(self.words.get(known.map_or(0, |known| known + 1))?).start.max(free);
        let starts = UNKNOWN_CORE.rev().filter_map(|length| ending.span.start.checked_sub(length));
        starts.filter(|&start| start >= first && self.begins_word(start)).find(|&start| {
            let core = &self.text.as_slice()[start..ending.span.start];
            core.iter().all(|&c| !is_numeral(c) && !SENTENCE_CHARS.contains(c))
                && !VAGUE_CORES.covers(self.text, start..ending.span.start)
                && (self.follows_place_word(start) || self.begins_item(start) && !LEADING.contains(core[0]))
        })
    }

    /// True if a division or a word before places ends at `at`.
    fn follows_place_word(&self, at: usize) -> bool {
        self.divisions.iter().any(|span| span.end == at)
            || PLACE_PREPOSITIONS.before(self.text, at).is_some_and(|word| self.begins_word(word))
    }

    /// True if the text or an item of a list begins at `at`.
    fn begins_item(&self, at: usize) -> bool {
        at == 0 || joins_places(self.text.before(at))
    }

    /// True if the character at `at` belongs to a date or a time before it: 6月21日起.
    fn is_after_time(&self, at: usize) -> bool {
        let unit = at.saturating_sub(1);
        AFTER_TIME.contains(self.text.at(at))
            && "年月日号点分时".contains(self.text.at(unit))
            && is_number(self.text.before(unit))
    }

    /// Returns the end of a district or a town that the list of divisions does not have, if a name from `start` to
    /// `end` begins with it: 澄溪区义集. Otherwise returns `start`.
    fn behind_unlisted_division(&self, start: usize, end: usize) -> usize {
        let chars = self.text.as_slice();
        let mut ends = (start + 2..end.saturating_sub(1).min(start + 4)).filter(|&at| {
            matches!(chars[at], '区' | '县' | '镇' | '乡')
                && !NOT_DIVISIONS.contains(chars[at - 1])
                && !SIDES.contains(chars[at - 1])
                && self.begins_word(at + 1)
        });
        ends.next_back().map_or(start, |at| at + 1)
    }

    /// True if one of the words begins at `at`.
    fn begins_word(&self, at: usize) -> bool {
        self.words.binary_search_by_key(&at, |word| range(word).start).is_ok()
    }

    /// True if the ending is part of a longer name: 青石桥 of 青石桥小学.
    fn is_joined(&self, at: usize, ending: &Ending) -> bool {
        let end = range(&self.words[at]).end;
        if ending.span.end < end {
            return false;
        }
        let Some(joined) = JOINING.at(self.text, end).filter(|&joined| !self.is_dance(joined)) else { return false };
        let headed = joined - end >= 2 && TAILS.at(self.text, joined).is_some();
        let whole = headed || self.words[at + 1..].iter().take(3).any(|word| range(word).end == joined);
        let lamp = self.text.at(joined - 1) == '路'
            && BEHIND_ROAD.contains(self.text.at(joined))
            && self.text.at(joined) != '\0';
        let bridge = joined == end + 1
            && self.text.at(end) == '桥'
            && ending.kind != FactKind::PublicPlace
            && ending.kind != FactKind::School;
        whole && !lamp && !bridge && self.text.as_slice()[end..joined] != self.text.as_slice()[ending.span.clone()]
    }

    /// True if 广场 ends at `end` and belongs to 广场舞, a dance that many people complain about.
    fn is_dance(&self, end: usize) -> bool {
        self.text.at(end) == '舞' && self.text.ends(end, "广场").is_some()
    }

    /// True if a number or a side and another ending follow: 青石桥 of 青石桥北路.
    fn goes_on(&self, free: usize, at: usize, ending: &Ending) -> bool {
        if ending.span.end < range(&self.words[at]).end {
            return false;
        }
        let end = ending.span.end;
        let telling = self.text.skip(end, 3, |c| SIDES.contains(c) || is_numeral(c));
        telling > end
            && self.words[at + 1..].iter().take(3).any(|word| {
                let stop = range(word).end;
                stop > telling
                    && endings::before(self.text, free.max(end), stop).is_some_and(|(at, kind)| {
                        use FactKind::{PublicPlace, Road, School, Village};
                        at <= telling && matches!(kind, Road | Village | School | PublicPlace)
                    })
            })
    }

    /// Returns the start of the name with this ending.
    fn start(&self, free: usize, at: usize, ending: &Ending) -> usize {
        let most =
            if matches!(ending.kind, FactKind::Organisation | FactKind::School) { MAX_ORGANISATION } else { MAX_CORE };
        // The first word that is not entirely part of the ending.
        let mut first = ending.word;
        while range(&self.words[first]).start > ending.span.start {
            first -= 1;
        }
        let mut start = ending.span.start.min(range(&self.words[first]).start.max(free));
        let own = ending.span.start - start;
        // A name of the dictionary is complete: common nouns before it are no part of it.
        let mut complete = own >= 2 && self.is_proper(at);
        for left in (0..first).rev() {
            let word = range(&self.words[left]);
            let length = ending.span.start - word.start;
            if word.start < free || length > most || !self.belongs(left, start, ending, complete) {
                break;
            }
            start = word.start;
            complete |= word.len() >= 2 && self.is_proper(left);
        }
        start
    }

    /// True if the dictionary has the word as a name.
    fn is_proper(&self, at: usize) -> bool {
        ["ns", "nt", "nz", "nr"].iter().any(|class| self.words[at].tag.starts_with(class))
            || self.words[at].tag.is_empty()
    }

    /// True if the word at `left` can be part of a name whose other part begins at `start`.
    fn belongs(&self, left: usize, start: usize, ending: &Ending, complete: bool) -> bool {
        let word = self.word(left);
        let tag = self.words[left].tag;
        let string = self.string(left);
        if !word.iter().all(|&c| is_ideograph(c)) || BOUNDARIES.contains(&string) {
            return false;
        }
        let institution = matches!(ending.kind, FactKind::Organisation | FactKind::School)
            || SHOPS.at(self.text, ending.span.start).is_some();
        let rest = ending.span.start - start;
        if word.len() == 1 {
            // A verb or a particle before a known word is no part of the name. After another unknown character it may
            // be a part.
            let known = self
                .words
                .get(left + 1)
                .is_some_and(|next| range(next).len() > 1 && range(next).start < ending.span.start);
            let unknown = left > 0
                && self.word(left - 1).len() == 1
                && self.words[left - 1].tag.starts_with(['n', 'z', 'g', 'j']);
            let function =
                ["v", "u", "p", "c", "r", "y", "e", "d", "f", "q", "k"].iter().any(|class| tag.starts_with(class));
            let particle = function && known && !unknown && !is_numeral(word[0]);
            let complete = complete && !tag.starts_with('n') && !(unknown && known);
            return !particle && !complete;
        }
        if endings::before(self.text, range(&self.words[left]).start, range(&self.words[left]).end)
            .is_some_and(|(first, _)| first == range(&self.words[left]).start && rest <= 2 && word.len() == 2)
        {
            return true;
        }
        if NAMESAKES.contains(&string) {
            return true;
        }
        let ordinal = word[0] == '第' && institution;
        let number = word.iter().all(|&c| is_numeral(c)) && rest <= 1;
        let noun = tag.starts_with('n') || matches!(tag, "vn" | "an" | "j" | "x" | "eng" | "b" | "" | "g");
        let proper = self.is_proper(left);
        let vague = VAGUE.contains(&string) && rest > 0 && !institution && !proper;
        // The name 旅游投资公司 is accepted, 遭遇医院 is not.
        let company = matches!(self.text.before(ending.span.end), '司' | '团' | '厂' | '中' | '心');
        let nominal = !matches!(tag, "vn" | "an") || institution && company;
        let division = self.is_short_division(left);
        ordinal || number || division || (noun && !vague && nominal && (!complete || proper || institution))
    }

    /// True if the characters before an ending are a name.
    fn names(&self, core: &[char], start: usize, ending: &Ending) -> bool {
        let string: String = core.iter().collect();
        let road = ending.kind == FactKind::Road;
        if core.is_empty() || !core.iter().any(|&c| is_ideograph(c)) {
            return false;
        }
        let namesake =
            NAMESAKES.contains(&string) && (road || core.len() >= 2 && !matches!(ending.kind, FactKind::Organisation));
        let counted = core.iter().all(|&c| is_numeral(c) || "几多各每本该数单双整半全个条家座栋所间处片段".contains(c));
        let side = core.len() == 1 && SIDES.contains(core[0]);
        let leading = core.iter().all(|&c| LEADING.contains(c));
        if counted || side || leading || BOUNDARIES.contains(&string) {
            return false;
        }
        let single_word = self.words.iter().find(|word| range(word).start == start);
        let whole = single_word.is_some_and(|word| range(word).end == ending.span.end);
        let proper =
            single_word.is_some_and(|word| ["ns", "nt", "nz", "nr"].iter().any(|class| word.tag.starts_with(class)));
        if !namesake && core.len() == 1 && VAGUE.contains(&string) {
            return false;
        }
        let known = namesake || (whole && proper && ending.kind != FactKind::Organisation);
        if !known && VAGUE_CORES.covers(self.text, start..ending.span.start) {
            return false;
        }
        if core.len() == 1 {
            return whole && proper || road && !SIDES.contains(core[0]) && !whole && ending.span.len() > 1;
        }
        let place = matches!(ending.kind, FactKind::PublicPlace | FactKind::Estate) && core.len() >= 2;
        if whole {
            let noun = single_word.is_some_and(|word| word.tag.starts_with('n') || word.tag.is_empty());
            return proper || namesake || noun && (road && core.len() >= 2 || place);
        }
        // One common noun before a short ending is a separate word: 操场边的小河.
        let one_word = single_word.filter(|word| range(word).end == ending.span.start);
        let division =
            one_word.is_some_and(|word| super::divisions::is_stem(self.text, range(word).start, range(word).end));
        let tag = one_word.filter(|_| !division).map_or("", |word| word.tag);
        let short = ending.span.len() == 1
            && matches!(ending.kind, FactKind::Estate | FactKind::PublicPlace | FactKind::Organisation);
        let bridge = self.text.at(ending.span.start) == '桥';
        let placed = ending.kind == FactKind::PublicPlace
            && self.follows_place_word(start)
            && !COMMON_NOUNS.contains(&string)
            && !endings::is_part_of_name(self.text, ending.span.end);
        let common =
            (tag == "n" && short && !bridge && !placed) || matches!(tag, "v" | "vn" | "a" | "d" | "b" | "t" | "s");
        namesake || !common
    }
}

/// True for a sign between the names of a list or of a route.
fn joins_places(c: char) -> bool {
    matches!(c, '、' | '~' | '—' | '→' | '-' | '/')
}

#[cfg(test)]
mod tests;
