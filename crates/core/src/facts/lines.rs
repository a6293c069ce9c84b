//! Bus lines and metro lines: 86路, 专86路, 夜12路, b1路, 139区间, 地铁86号线.

use super::chars::{Chars, is_gap, is_ideograph};
use super::literals::literals;
use super::numbers::{Number, listed_before, number_before};
use super::{FactKind, Found};

literals! {
    /// Words before the number of a line that are part of its name.
    CLASSES,
    "专 夜 快 快速公交 brt 运通 特 快速直达专线"
}

literals! {
    /// Words that stand before the number of a bus line, but never before the number of a road.
    BEFORE_LINES,
    "公交 公交车 巴士 坐 乘坐 乘 转 换乘 转乘 改乘 搭乘 换 的 和 与 及 或 到 让 把 将 给 对 为 建议 增加 调整 \
        开通 取消 撤销 恢复 延长 缩短 希望 投诉 反映 关于 请 有 是 由 新开 等 等了 开 市 县 区 站 线路 优化 改 \
        替代 分流 请求 该 咨询 现 原 在 从 例如 比如 如 以及 同 跟 没有 只有 这趟 北京 城 车 如题"
}

literals! {
    /// Words after the number and 路 of a bus line.
    BEHIND_LINES,
    "公交 公交车 巴士 班车 车 线 站 首班 末班 首末班 班次 司机 发车 到站 进站 晚点 改线 停运 停开 加站 加车 换车 \
        延长 缩短 增设 调整 分段 改道 绕行 公共汽车 区间 快车 支线 外环 内环 总站 终点"
}

/// Characters after 路 that form a word about roads: 路口, 路段.
const ROAD_PARTS: &str = "口段灯边沿牌况障面";

/// Maximum number of digits of a line.
const MAX_DIGITS: usize = 4;

/// Reads the line before the character at `at`. Returns the position where reading continues.
pub(super) fn read(found: &mut Found<'_>, at: usize) -> Option<usize> {
    match found.text.at(at) {
        '路' => read_bus(found, at),
        '公' => read_bare(found, at),
        _ => read_track(found, at),
    }
}

/// Returns the start of a line's class before its number: 专 of 专86路.
fn class_start(text: &Chars, number: usize) -> usize {
    let blank = text.skip_back(number, 1, |c| c == ' ');
    CLASSES.before(text, blank).unwrap_or(number)
}

/// Adds a line with the number `number` and the end `end`, and the other lines of its list.
fn add(found: &mut Found<'_>, number: &Number, end: usize, suffix: &str) -> Option<usize> {
    let text = found.text;
    let mut start = number.start;
    let mut stop = end;
    let mut canonical = number.canonical.clone();
    for _ in 0..16 {
        let first = class_start(text, start);
        let class: String = text.string(first..start).trim().to_owned();
        // The forms "快速公交3线" and "brt3线" are compared in the short form "快3".
        let class = if matches!(class.as_str(), "快速公交" | "brt") { "快".to_owned() } else { class };
        found.add(FactKind::TransitLine, first..stop, format!("{class}{canonical}{suffix}"));
        let listed = listed_before(text, first).filter(|other| !other.in_words);
        let Some(other) = listed.filter(|other| !found.begins(FactKind::TransitLine, class_start(text, other.start)))
        else {
            break;
        };
        stop = text.skip_back(first, 2, |c| is_gap(c) || matches!(c, '和' | '与' | '及'));
        (start, canonical) = (other.start, other.canonical);
    }
    Some(end)
}

/// Reads 86路, but not 经三路, 科创5路 or 2路口.
fn read_bus(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let number = number_before(text, text.skip_back(at, 1, |c| c == ' '))?;
    let end = at + 1;
    let digits = number.canonical.chars().filter(char::is_ascii_digit).count();
    if digits == 0 || digits > MAX_DIGITS || number.value == Some(0) || number.canonical.contains('-') {
        return None;
    }
    let behind = BEHIND_LINES.at(text, end).is_some();
    let first = class_start(text, number.start);
    let previous = text.before(text.skip_back(first, 1, |c| c == ' '));
    let part = text.at(end) != '\0' && ROAD_PARTS.contains(text.at(end)) && text.starts(end, "口公交").is_none();
    if number.in_words {
        // A number in words belongs to a road, unless another word shows that a bus is meant.
        let bus = text.ends_any(number.start, &["公交", "乘坐", "乘", "坐", "公交车"]).is_some();
        let named = behind && text.starts_any(end, &["公交", "公共汽车", "巴士"]).is_some();
        let separate = !is_ideograph(previous) || BEFORE_LINES.before(text, number.start).is_some();
        return if (bus || named && separate) && !part { add(found, &number, end, "路") } else { None };
    }
    let coded = number.canonical.starts_with(|c: char| c.is_ascii_lowercase());
    let known = BEFORE_LINES.before(text, first).is_some() || first < number.start;
    let separate = !is_ideograph(previous) && previous != '号';
    let likely = digits >= 3 || coded || known || separate || behind && !is_ideograph(previous);
    (likely && !(part && digits < 3)).then(|| add(found, &number, end, "路"))?
}

/// Reads 86公交.
fn read_bare(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let end = text.starts(at, "公交")?;
    let stop = text.ends_any(at, &["号", "线"]).unwrap_or(at);
    let number = number_before(text, stop).filter(|number| !number.in_words && number.value.is_some())?;
    let digits = number.canonical.chars().filter(char::is_ascii_digit).count();
    (digits <= MAX_DIGITS && !number.canonical.contains('-')).then(|| add(found, &number, end, "路"))?
}

/// Reads 地铁86号线; `at` is the position of 号.
pub(super) fn read_metro(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let number = number_before(text, text.skip_back(at, 1, |c| c == ' '))?;
    let end = text.starts(at, "号线")?;
    let mut start = number.start;
    found.add(FactKind::TransitLine, start..end, format!("{}号线", number.canonical));
    for _ in 0..16 {
        let Some(other) = listed_before(text, start).filter(|other| !found.begins(FactKind::TransitLine, other.start))
        else {
            break;
        };
        let stop = text.skip_back(start, 2, |c| is_gap(c) || matches!(c, '和' | '与' | '及'));
        start = other.start;
        found.add(FactKind::TransitLine, start..stop, format!("{}号线", other.canonical));
    }
    Some(end)
}

/// Reads s1线, 运通101线, 快速公交3线, 139路区间线; `at` is the position of 线.
fn read_track(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let number = number_before(text, at).filter(|number| !number.in_words && number.value.is_some())?;
    let first = class_start(text, number.start);
    let coded = number.canonical.starts_with(|c: char| c.is_ascii_lowercase());
    // The names g107线 and s227线 are highways.
    let highway = number.canonical.len() >= 4 && number.canonical.starts_with(['g', 's', 'x', 'y']);
    if coded && highway {
        found.add(FactKind::Road, number.start..at + 1, number.canonical);
        return Some(at + 1);
    }
    if coded && first == number.start {
        return add(found, &number, at + 1, "号线");
    }
    let bus = first < number.start || text.ends_any(first, &["公交", "公交车", "巴士", "地铁"]).is_some();
    bus.then(|| add(found, &number, at + 1, "路"))?
}

/// Reads 139区间, 86路区间车: a line that serves only a part of the route; `at` is the position of 区.
pub(super) fn read_short_turn(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let stop = text.ends_any(at, &["路"]).unwrap_or(at);
    let number =
        number_before(text, stop).filter(|number| !number.in_words && number.value.is_some_and(|value| value > 0))?;
    let end = text.starts(at, "区间")?;
    if stop < at {
        // The line without 区间 was added when its 路 was read.
        found.facts.retain(|fact| !(fact.kind == FactKind::TransitLine && fact.span.end as usize == at));
    }
    add(found, &number, end, "路区间")
}
