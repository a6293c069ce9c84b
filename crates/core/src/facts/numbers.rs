//! Numbers of places: house, building, unit, room, phase, group of villagers; and licence plates of vehicles.
//!
//! A number is found from the character behind it (号, 栋, 室). Its canonical form is its value in digits. A letter before
//! the number and a second number after a hyphen are part of the form: a12, 23-1.

use super::chars::{Chars, is_gap, is_ideograph, is_number};
use super::literals::literals;
use super::numerals::value;
use super::{FactKind, Found, lines};

/// Characters that stand before a house number: endings of roads, lanes and villages.
const ROAD_ENDINGS: &str = "路街道巷弄里同村庄坊条段侧镇乡坪湾大";
literals! {
    /// Words after a number with 号 that make it a house number without a road before it.
    HOUSE_WORDS,
    "院 大院 门面 商铺 铺面 店面 院子 宅"
}
/// Characters before a number that counts things.
const COUNTING: &str = "共有建约近达余了这那每各几第前后个着过多";
/// Characters after a count of rooms, as in 三室两厅.
const LAYOUT: &str = "厅卫";
/// Maximum number of items in one list of numbers: 5、6、7号楼.
const MAX_LIST: usize = 16;
/// Largest house number. Larger numbers belong to vehicles.
const MAX_HOUSE: u32 = 9999;
/// Largest number of a construction phase. Larger numbers are instalments or issues.
const MAX_PHASE: u32 = 12;
/// Largest number of a section of an estate.
const MAX_SECTION: u32 = 30;

/// A number and its start.
#[derive(Debug)]
pub(super) struct Number {
    pub(super) start: usize,
    pub(super) canonical: String,
    /// The value of the number; `None` if the number has only letters or a second part.
    pub(super) value: Option<u32>,
    pub(super) in_words: bool,
}

/// Returns the number that ends at `end`.
pub(super) fn number_before(text: &Chars, end: usize) -> Option<Number> {
    let last = text.before(end);
    let start = if last.is_ascii_digit() {
        text.skip_back(end, 6, |c| c.is_ascii_digit())
    } else {
        text.skip_back(end, 7, super::numerals::is_numeral)
    };
    let in_words = !last.is_ascii_digit();
    if start == end {
        return letter_before(text, end);
    }
    let value = value(&text.as_slice()[start..end])?;
    if in_words && text.before(start).is_ascii_digit() {
        return None;
    }
    let number = Number { start, canonical: value.to_string(), value: Some(value), in_words };
    Some(if in_words { number } else { with_first_part(text, number) })
}

/// Returns a letter, or one of 甲乙丙丁戊, that is used as a number.
fn letter_before(text: &Chars, end: usize) -> Option<Number> {
    let c = text.before(end);
    let single = c.is_ascii_lowercase() && !text.before(end - 1).is_ascii_alphanumeric();
    let named = "甲乙丙丁戊".contains(c) && c != '\0';
    (single || named).then(|| Number { start: end - 1, canonical: c.to_string(), value: None, in_words: false })
}

/// Returns the number with the part before it that belongs to it: a letter, or a number and a hyphen.
fn with_first_part(text: &Chars, number: Number) -> Number {
    let before = text.before(number.start);
    if before.is_ascii_lowercase() || "甲乙丙丁".contains(before) && before != '\0' {
        let start = text.skip_back(number.start, 2, |c| c.is_ascii_lowercase());
        let start = if start == number.start { start - 1 } else { start };
        if text.before(start).is_ascii_alphanumeric() {
            return number;
        }
        let canonical = text.string(start..number.start) + &number.canonical;
        return Number { start, canonical, value: number.value, in_words: false };
    }
    if before == '-' {
        let end = number.start - 1;
        let start = text.skip_back(end, 4, |c| c.is_ascii_digit());
        let first = value(&text.as_slice()[start..end]);
        if let Some(first) =
            first.filter(|_| !matches!(text.before(start), '-' | '.') && !text.before(start).is_ascii_alphanumeric())
        {
            let canonical = format!("{first}-{}", number.canonical);
            return Number { start, canonical, value: Some(first), in_words: false };
        }
    }
    number
}

/// Reads the number before the character at `at`. Returns the position where reading continues.
pub(super) fn read(found: &mut Found<'_>, at: usize) -> Option<usize> {
    match found.text.at(at) {
        '号' => read_numbered(found, at),
        '弄' => add_before(found, at, at + 1, FactKind::HouseNumber, |number| number.value.is_some(), "弄"),
        '#' => read_hash(found, at),
        '栋' | '幢' => read_building(found, at, at + 1),
        '座' => read_block(found, at),
        '单' => read_unit(found, at),
        '室' | '房' => read_room(found, at),
        '期' => read_phase(found, at),
        '区' => read_section(found, at),
        _ => read_group(found, at),
    }
}

/// Adds the number before `at`, with the other numbers of its list, if `fits` accepts the number.
fn add_before(
    found: &mut Found<'_>,
    at: usize,
    end: usize,
    kind: FactKind,
    fits: impl Fn(&Number) -> bool,
    suffix: &str,
) -> Option<usize> {
    let text = found.text;
    let number = number_before(text, text.skip_back(at, 1, |c| c == ' ')).filter(|number| fits(number))?;
    let mut start = number.start;
    found.add(kind, start..end, format!("{}{suffix}", number.canonical));
    for _ in 0..MAX_LIST {
        let Some(other) = listed_before(text, start).filter(|other| !found.begins(kind, other.start)) else { break };
        let stop = text.skip_back(start, 2, |c| !is_number(c) && !c.is_ascii_alphanumeric());
        start = other.start;
        found.add(kind, start..stop, format!("{}{suffix}", other.canonical));
    }
    Some(end)
}

/// Returns the number before the number that begins at `start`, if both are parts of one list: 5、6号楼, 5号、6号楼, 1和2号楼.
pub(super) fn listed_before(text: &Chars, start: usize) -> Option<Number> {
    let sign = text.before(start);
    if !matches!(sign, '、' | '/' | '和' | '与' | '及' | ',') {
        return None;
    }
    let end = text.ends_any(start - 1, &["号", "栋", "幢", "路", "#", "号楼"]).unwrap_or(start - 1);
    let other = number_before(text, end)?;
    let before = text.before(other.start);
    let separate =
        !before.is_ascii_alphanumeric() && !matches!(before, '.' | '年' | '月' | '栋' | '幢' | '楼' | '元' | '座');
    // A comma also ends a sentence.
    (separate && (sign != ',' || !other.in_words)).then_some(other)
}

fn read_numbered(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    if let Some(end) = text.starts_any(at + 1, &["楼", "栋", "幢", "公寓楼", "宿舍楼", "住宅楼"]) {
        return add_before(found, at, end, FactKind::Building, |_| true, "");
    }
    if let Some(end) = text.starts_any(at + 1, &["房", "室"]) {
        return add_before(found, at, end, FactKind::Room, |number| number.value.is_some_and(|value| value >= 100), "");
    }
    if text.at(at + 1) == '路' && !matches!(text.at(at + 2), '公') {
        let number = number_before(text, at)?;
        found.add(FactKind::Road, number.start..at + 2, format!("{}号路", number.canonical));
        return Some(at + 2);
    }
    if text.at(at + 1) == '线' {
        return lines::read_metro(found, at);
    }
    let number = number_before(text, text.skip_back(at, 1, |c| c == ' '))?;
    let before = text.skip_back(number.start, 1, |c| c == ' ');
    let before = text.ends_any(before, &["附", "门牌"]).unwrap_or(before);
    let previous = text.before(before);
    let vehicle = number.value.is_some_and(|value| value > MAX_HOUSE) || text.at(at + 1) == '车';
    let on_road = ROAD_ENDINGS.contains(previous) && previous != '\0' && before > 1;
    let in_lane =
        found.facts.last().is_some_and(|fact| fact.kind == FactKind::HouseNumber && fact.span.end as usize == before);
    let house = HOUSE_WORDS.at(text, at + 1).is_some();
    let other = text.starts_any(at + 1, &["码", "文", "线", "路", "桥", "令", "公告", "召", "称"]).is_some();
    if previous == '月' || other || vehicle || !(on_road || in_lane || house) {
        return None;
    }
    if in_lane {
        return add_before(found, at, at + 1, FactKind::Building, |_| true, "");
    }
    // Reads 23号附1号, 23号之一, 23号-1.
    let hyphen =
        (text.at(at + 1) == '-').then(|| text.skip(at + 2, 4, |c| c.is_ascii_digit())).filter(|&end| end > at + 2);
    if let Some(end) = hyphen {
        let second = value(&text.as_slice()[at + 2..end])?;
        return add_before(found, at, end, FactKind::HouseNumber, |_| true, &format!("-{second}"));
    }
    add_before(found, at, at + 1, FactKind::HouseNumber, |_| true, "")
}

/// Reads 12#, 12#楼.
fn read_hash(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let end = text.starts_any(at + 1, &["号楼", "楼", "栋", "幢", "座"]).unwrap_or(at + 1);
    let followed =
        end > at + 1 || text.at(end).is_ascii_digit() || text.at(end) == '-' || text.starts(end, "单元").is_some();
    if !followed && !is_gap(text.at(end)) {
        return None;
    }
    add_before(found, at, end, FactKind::Building, is_below_thousand, "")
}

fn is_below_thousand(number: &Number) -> bool {
    number.value.is_some_and(|value| value < 1000) && !number.in_words
}

/// True if the character before the number says that it counts things: 共3栋.
fn is_count(text: &Chars, number: &Number) -> bool {
    let before = text.before(number.start);
    COUNTING.contains(before) && before != '\0'
}

literals! {
    /// Characters between an estate and the number of a building.
    SECTION_ENDINGS,
    "期 区 号 院 村 寓 舍 厦 居 轩 馆 墅 路 街 巷 处"
}

fn read_building(found: &mut Found<'_>, at: usize, end: usize) -> Option<usize> {
    let text = found.text;
    add_before(found, at, end, FactKind::Building, |number| is_building(text, number, end), "")
}

/// True if the number is the number of a building. The word behind it ends at `end`.
fn is_building(text: &Chars, number: &Number, end: usize) -> bool {
    let counted = text.starts_any(end, &["楼房", "高楼", "居民楼", "别墅", "楼", "房", "住宅楼", "建筑"]).is_some();
    // A number in words also counts things, unless an estate stands before the number or an entrance after it.
    let named = ESTATE_ENDINGS.before(text, number.start).is_some()
        || SECTION_ENDINGS.before(text, number.start).is_some()
        || is_number(text.at(end));
    !(is_count(text, number) || (counted && !named) || (number.in_words && !named) || number.value == Some(0))
}

literals! {
    /// Things that are counted with 座, and words that begin with 座.
    NO_BLOCKS,
    "位 桥 车 城 山 谈 机 大 隧 充 立 高 变 加 水 坟 墓 庙 商 客 新 公 雕 塔 房 标"
}

fn read_block(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    if NO_BLOCKS.at(text, at + 1).is_some() {
        return None;
    }
    add_before(found, at, at + 1, FactKind::Building, |number| is_block(text, number), "")
}

fn is_block(text: &Chars, number: &Number) -> bool {
    !number.in_words && !is_count(text, number) && number.value.is_none_or(|value| value < 100)
}

fn read_unit(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let end = text.starts(at, "单元")?;
    if text.before(at) == '两' {
        return None;
    }
    add_before(found, at, end, FactKind::Unit, is_up_to_thirty, "")?;
    // Reads 3单元1203.
    let digits = text.skip(end, 5, |c| c.is_ascii_digit());
    let measured =
        text.starts_any(digits, &["室", "房", "户", "元", "块", "米", "平", "天", "个", "年", "人", "%"]).is_some();
    if (3..=4).contains(&(digits - end)) && (!measured || text.at(digits) == '户') {
        found.add(FactKind::Room, end..digits, value(&text.as_slice()[end..digits])?.to_string());
        return Some(digits);
    }
    Some(end)
}

fn is_up_to_thirty(number: &Number) -> bool {
    number.value.is_none_or(|value| (1..=30).contains(&value))
}

fn read_room(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let number = number_before(text, at)?;
    let layout = text.at(at + 2) != '\0' && LAYOUT.contains(text.at(at + 2));
    let long = number.value.is_some_and(|value| (100..10_000).contains(&value)) && !number.in_words;
    let in_building = found.facts.last().is_some_and(|fact| {
        matches!(fact.kind, FactKind::Unit | FactKind::Building) && fact.span.end as usize == number.start
    });
    if layout || !(long || in_building || (number.in_words && at - number.start >= 3)) {
        return None;
    }
    found.add(FactKind::Room, number.start..at + 1, number.canonical);
    Some(at + 1)
}

fn read_phase(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let number = number_before(text, at)?;
    let start = text.ends(number.start, "第").unwrap_or(number.start);
    let instalment = "分学周".contains(text.before(start)) && text.before(start) != '\0';
    let other =
        text.starts_any(at + 1, &["间", "限", "待", "望", "房贷", "款", "培训", "节目", "公示", "女职工"]).is_some();
    let fits = number.value.is_some_and(|value| (1..=MAX_PHASE).contains(&value)) && !instalment && !other;
    // The text 一二期 names two phases.
    if fits && number.in_words && at - number.start == 2 && text.string(number.start..at).find('十').is_none() {
        for at in number.start..at {
            let Some(phase) = value(&text.as_slice()[at..=at]) else { continue };
            found.add(FactKind::Phase, at..at + 1, format!("{phase}期"));
        }
        return Some(at + 1);
    }
    fits.then(|| {
        found.add(FactKind::Phase, start..at + 1, format!("{}期", number.canonical));
        at + 1
    })
}

literals! {
    /// Endings of estates whose sections are numbered: 鸣翠苑三区.
    ESTATE_ENDINGS,
    "小区 花园 家园 苑 园 府 城 庭 湾 里 新村 公寓 社区 郡"
}

fn read_section(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    if text.at(at + 1) == '间' {
        return lines::read_short_turn(found, at);
    }
    let number = number_before(text, at)?;
    let estate = ESTATE_ENDINGS.before(text, number.start).is_some();
    let fits = estate && number.value.is_none_or(|value| (1..=MAX_SECTION).contains(&value));
    fits.then(|| {
        found.add(FactKind::Phase, number.start..at + 1, format!("{}区", number.canonical));
        at + 1
    })
}

fn read_group(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    // Reads 第三村民小组, 3组.
    let end = text.ends_any(at, &["村民小", "居民小", "村小", "小"]).unwrap_or(at);
    let number = number_before(text, end)?;
    let ordinal = text.ends(number.start, "第");
    let start = ordinal.unwrap_or(number.start);
    let previous = text.before(start);
    let placed = "村区屯庄寨湾社坪冲".contains(previous) && previous != '\0';
    let counted =
        text.starts_any(at + 1, &["数据", "照片", "图", "人", "号", "数", "家庭", "织", "成", "合", "别"]).is_some();
    let digits = !number.in_words && is_ideograph(previous) && !COUNTING.contains(previous);
    let fits =
        (placed || ordinal.is_some() || end < at || digits) && !counted && number.value.is_some_and(|value| value > 0);
    (fits && text.before(end) != '两').then(|| {
        found.add(FactKind::VillageGroup, start..at + 1, number.canonical);
        at + 1
    })
}

/// Reads the licence plate that begins at `at`: province, letter, five or six letters and digits. Returns the position
/// where reading continues.
pub(super) fn read_plate(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    if !text.at(at + 1).is_ascii_lowercase() {
        return None;
    }
    let start = text.skip(at + 2, 1, |c| matches!(c, ' ' | '·' | '•' | '・' | '‧' | '∙' | '.' | '-' | '—'));
    let end = text.skip(start, 7, |c| c.is_ascii_alphanumeric() || super::chars::is_mask(c));
    let last = text.starts_any(end, &["挂", "学", "警", "港", "澳"]).unwrap_or(end);
    let number = &text.as_slice()[start..end];
    let digits = number.iter().filter(|c| c.is_ascii_digit()).count();
    let hidden = number.iter().filter(|&&c| super::chars::is_mask(c)).count();
    let whole = (5..=6).contains(&(last - start)) && (digits >= 2 || hidden >= 2);
    whole.then(|| {
        let canonical = text.string(at..at + 2) + &text.string(start..last);
        // If more than two characters of a plate are hidden, the plate identifies no vehicle.
        found.add(FactKind::Plate, at..last, if hidden > 2 { String::new() } else { canonical });
        last
    })
}
