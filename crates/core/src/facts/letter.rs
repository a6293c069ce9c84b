//! The frame of a letter: the greeting at its start; polite phrases, the writer's group and the date of writing at its
//! end.
//!
//! The frame is recognised from the ends of the text inwards, so that thanks or a date in the body are kept.

use super::literals::literals;
use std::ops::Range;
use std::sync::LazyLock;

use super::chars::{Chars, ends_sentence, is_gap, is_ideograph, is_number};
use super::labels::is_surname;
use super::numerals::value;
use super::vocabulary::Vocabulary;
use super::{FactKind, Found, noise};

literals! {
    /// Words that begin a greeting.
    HONOURS,
    "尊敬的 敬爱的 亲爱的 尊敬"
}
literals! {
    /// Words that end a greeting.
    WELCOMES,
    "您好 你好 您们好 你们好 大家好 各位好 领导好 上午好 下午好 早上好 晚上好 中午好 新年好 节日好 好"
}
/// First characters of a sentence that may follow a greeting without a sign between them.
const OPENINGS: &str = "我请想本现关反咨投这政领因由";
literals! {
    /// Forms of address.
    TITLES,
    "领导 领导们 各位领导 书记 市长 县长 区长 省长 州长 局长 处长 科长 主任 镇长 乡长 部长 厅长 院长 校长 站长 所长 \
        主席 同志 同志们 先生 女士 老师 工作人员 客服 政府 人民政府 市委 市政府 县委 县政府 区政府 纪委 信访局 编辑 记者 \
        网信办 父母官 青天 小编 部门 单位"
}
/// Maximum length of a name before a form of address, in characters: the name of an office with its city.
const MAX_ADDRESSEE: usize = 14;
/// Maximum number of greetings in a row: 尊敬的领导:您好!各位领导好!
const MAX_GREETINGS: usize = 4;
/// Maximum number of parts that are removed from the end of a letter, one after the other: thanks, names, dates, links.
const MAX_ENDINGS: usize = 24;
/// Maximum length of a closing phrase, in characters.
const MAX_CLOSING: usize = 60;

const CLOSING_WORDS: &str = "谢谢 谢谢了 谢谢您 谢谢你 谢谢你们 谢谢大家 多谢 感谢 感激 感激不尽 跪谢 叩谢 拜谢 万分叩谢 谢 盼 盼复 盼望 急盼 望 希望 望请 恳请 \
    恳求 请 请求 敬请 烦请 还请 还望 万望 拜托 拜托了 此致 敬礼 致敬 祝 祝好 祝您 祝愿 特此 静候 静候佳音 期待 期盼 等待 急 急急急 急急 在线等 \
    领导 领导们 各位 各位领导 上级 贵 部门 相关 有关 相关部门 有关部门 主管部门 职能部门 政府 政府部门 市长 书记 局长 县长 区长 局 单位 职能 主管 相关单位 \
    你们 您们 您 你 贵局 贵单位 贵部门 党 党和政府 大家 好心人 \
    能 能够 能否 可以 尽快 尽早 早日 及早 及时 立即 马上 赶快 抓紧 给予 予以 给 给与 高度 认真 切实 加以 一下 为 对此 此事 此 该 问题 该问题 此问题 \
    这个 上述 以上 我们 我 百姓 老百姓 群众 业主 居民 村民 市民 一个 个 满意 满意的 合理 合理的 明确 明确的 的 并 和 与 及 依法 从速 百忙之中 百忙中 \
    处理 解决 答复 回复 回应 反馈 核实 核查 查处 查实 调查 整改 重视 关注 落实 协调 帮助 帮忙 关心 支持 理解 配合 工作 告知 办理 督促 监督 监管 管管 管一管 \
    为盼 是盼 为谢 为感 为荷 是感 处置 改善 说法 答案 结果 交代 交待 公道 救救 转发 扩散 帮转 求转发 介入 出面 过问 \
    顺利 身体 健康 身体健康 万事如意 愉快 工作顺利 工作愉快 生活愉快 阖家幸福 幸福 辛苦 辛苦了 冒昧 打扰 打扰了 非常 万分 十分 不胜 衷心 由衷 表示 \
    致以 耐心 阅读 谢意 敬意 崇高 诚挚 再次 先 在此 于此 表示感谢 为民做主 做主 谅解 批示 指示 阅 安好 顺祝 商祺 谨此 上报 报告 反映 以上情况 望能 \
    了 吧 啊 哈 呀 呢";
literals! {
    /// Words of which a closing phrase must contain at least one.
    CLOSING_MARKS,
    "谢 感激 盼 望 恳请 恳求 请 拜托 此致 敬礼 致敬 祝 特此 静候 期待 期盼 等待 急 辛苦 打扰 重视 处理 解决 答复 \
        回复 帮忙 转发 扩散 为民做主 做主 监管 救救 求转发 管管 敬意"
}
literals! {
    /// Words with which a closing phrase can begin if no sign separates the phrase from the sentence before it.
    STRONG_STARTS,
    "盼回复 盼答复 盼解决 谢谢 万分感谢 非常感谢 十分感谢 感激不尽 盼复 急盼 望尽快 望领导 望相关 望有关 望政府 望予以 望解决 望处理 望回复 \
        希望领导 希望上级 希望相关 希望有关 希望政府 希望部门 希望能 望上级 望部门 望能 请领导 请上级 请有关 请相关 请职能 请部门 请政府 请尽快 请及时 请处理 请核实 再次感谢 万分叩谢 万分谢谢 \
        恳请上级 恳请领导 恳请相关 恳请有关 恳请政府 恳请尽快 此致敬礼 希望尽快 为盼"
}

const SIGNER_WORDS: &str = "一 名 个 位 群 一名 一个 一位 一群 普通 普通的 热心 热心的 广大 全体 部分 众多 本 的 市民 网友 业主 居民 村民 群众 百姓 老百姓 \
    家长 学生 职工 员工 住户 租户 商户 司机 乘客 消费者 受害者 购房者 人民 及 和 代表 匿名 公民 老人 投诉人 反映人 写信人 \
    此致 敬上 敬呈 敬启 呈上 上 留";
literals! {
    SIGNER_MARKS,
    "市民 网友 业主 居民 村民 群众 百姓 家长 学生 职工 员工 住户 租户 商户 司机 乘客 消费者 受害者 购房者 匿名 公民 \
        人民"
}

literals! {
    /// Labels of the date of writing.
    DATE_LABELS,
    "日期 写信时间 写信日期 来信时间 反映时间 投诉时间 发布时间 提交时间 落款日期 发帖时间"
}

literals! {
    /// Words that begin a sentence about the writer's home.
    RESIDENCE_STARTS,
    "本人住 本人家住 本人现住 本人居住 本人住址 我住 我家住 我家在 我现住 我居住 我们住 我们家住 家住 现住 现居 住址 家庭住址 家庭地址 联系地址 通讯地址 \
        通信地址 本人地址 居住地址 现住址 现住地址"
}
literals! {
    /// Ends of an address.
    RESIDENCE_ENDS,
    "室 号 栋 幢 座 单元 户 房 村 组 队 社区 小区 花园 家园 苑 庄 屯"
}
literals! {
    /// Words that name a place other than a home. A letter with such a word before the writer's home is about that place.
    PLACE_MARKS,
    "交叉口 路口 路段 大道 大街 小学 中学 幼儿园 医院 菜市场 农贸市场 公园 广场 火车站 汽车站 地铁站 号路 一路 二路 三路 南路 北路 东路 西路 中路 路与"
}
/// Maximum length of a sentence about the writer's home, in characters.
const MAX_RESIDENCE: usize = 40;

static CLOSING: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(&[CLOSING_WORDS]));
static SIGNERS: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(&[SIGNER_WORDS]));

/// Adds the frame of the letter.
pub(super) fn read(found: &mut Found<'_>) {
    read_greetings(found);
    read_endings(found);
}

/// Returns the last end of a contact or noise fact that begins within `starts`; 0 if there is none. O(facts).
fn behind_fact(found: &Found<'_>, starts: Range<usize>) -> usize {
    let removed = found.facts.iter().filter(|fact| fact.kind.is_removed());
    let begun = removed.filter(|fact| starts.contains(&(fact.span.start as usize)));
    begun.map(|fact| fact.span.end as usize).max().unwrap_or(0)
}

/// Returns the start of the contact or noise fact that ends at `end`, or `end` if there is none.
fn before_fact(found: &Found<'_>, end: usize) -> usize {
    let removed = found.facts.iter().filter(|fact| fact.kind.is_removed());
    let ended = removed.filter(|fact| fact.span.end as usize == end);
    ended.map(|fact| fact.span.start as usize).min().unwrap_or(end)
}

fn read_greetings(found: &mut Found<'_>) {
    let text = found.text;
    let mut at = 0;
    for _ in 0..MAX_GREETINGS + MAX_ENDINGS {
        let start = text.skip(at, usize::MAX, is_gap);
        let behind = behind_fact(found, start..start + 1);
        // A hashtag may begin with a gap.
        let hashtag = Some(behind_fact(found, at..start)).filter(|&end| end > start);
        if let Some(end) = hashtag {
            at = end;
        } else if behind > start {
            at = behind;
        } else if let Some(end) = greeting(text, start) {
            found.add(FactKind::Greeting, start..end, "");
            at = end;
        } else {
            break;
        }
    }
    // A title or a summary may stand on a separate line before the letter.
    let lines = (at..text.len()).filter(|&at| text.before(at) == '\n');
    let starts: Vec<usize> = lines.take(2).filter(|&at| HONOURS.at(text, at).is_some()).collect();
    for start in starts {
        if let Some(end) = greeting(text, start) {
            found.add(FactKind::Greeting, start..end, "");
        }
    }
}

/// Returns the end of the greeting at `at`, including the sign after it.
fn greeting(text: &Chars, at: usize) -> Option<usize> {
    let honour = HONOURS.at(text, at);
    let start = honour.unwrap_or(at);
    let welcome = WELCOMES.at(text, start).filter(|&end| end - start >= 2);
    // The characters 你好 are also the start of names.
    if let Some(end) =
        welcome.filter(|&end| text.at(start) != '你' || !is_ideograph(text.at(end)) || OPENINGS.contains(text.at(end)))
    {
        return Some(end);
    }
    let most = if honour.is_some() { MAX_ADDRESSEE } else { 6 };
    let last = text.skip(start, most + 4, |c| is_ideograph(c) || c.is_ascii_alphanumeric());
    let titled = (start..last).filter_map(|at| TITLES.at(text, at)).filter(|&end| end <= last && end - start <= most);
    let ends: Vec<usize> = titled.collect();
    let welcomed = ends.iter().find_map(|&end| {
        let gap = text.skip(end, 3, is_gap);
        WELCOMES.at(text, gap).filter(|&welcome| {
            let next = text.at(welcome);
            welcome - gap >= 2 || (gap == end && (is_gap(next) || next == '\0' || OPENINGS.contains(next)))
        })
    });
    if welcomed.is_some() {
        return welcomed;
    }
    let addressed = ends.iter().rev().find(|&&end| text.at(end) == ':');
    if let Some(&end) = addressed {
        return Some(end);
    }
    honour?;
    ends.iter().rev().find(|&&end| is_gap(text.at(end))).or(ends.first()).copied()
}

fn read_endings(found: &mut Found<'_>) {
    let text = found.text;
    let mut end = text.len();
    let mut dated = false;
    let mut facts: Vec<(FactKind, Range<usize>)> = Vec::new();
    for _ in 0..MAX_ENDINGS {
        // A fact may end with a gap: a footer in parentheses, a hashtag.
        let last =
            (0..=8.min(end)).map(|back| end - back).find(|&at| before_fact(found, at) < at || !is_gap(text.before(at)));
        end = match last {
            Some(at) if before_fact(found, at) < at => {
                end = before_fact(found, at);
                continue;
            }
            Some(at) => at,
            None => text.skip_back(end, end, is_gap),
        };
        if end == 0 {
            break;
        }
        let Some((kind, start)) = ending(found, end, dated) else { break };
        dated |= kind == FactKind::WritingDate;
        facts.push((kind, start..end));
        end = start;
    }
    for (kind, span) in facts {
        let valued = matches!(kind, FactKind::WritingDate | FactKind::PersonName | FactKind::Residence);
        let canonical = if valued { text.string(span.clone()) } else { String::new() };
        found.add(kind, span, canonical);
    }
}

/// Returns the kind and the start of the part of a letter's frame that ends at `end`, if there is one. `dated` is true
/// if a date of writing follows.
fn ending(found: &Found<'_>, end: usize, dated: bool) -> Option<(FactKind, usize)> {
    let text = found.text;
    if let Some(start) = writing_date(found, end) {
        return Some((FactKind::WritingDate, start));
    }
    let clause = clause_start(found, end);
    let mut widest = None;
    // A closing phrase may contain commas: 望尽快处理,谢谢.
    let mut start = clause;
    for _ in 0..4 {
        if end - start > MAX_CLOSING {
            break;
        }
        if noise::is_footer(text, start, end) {
            widest = Some((FactKind::Footer, start));
        } else if is_closing(text, start, end) {
            widest = Some((FactKind::Closing, start));
        } else if widest.is_some() {
            break;
        }
        let gap = text.skip_back(start, 4, |c| is_gap(c) && !ends_sentence(c));
        if gap == start || gap == 0 {
            break;
        }
        start = clause_start(found, gap);
    }
    if widest.is_some() {
        return widest;
    }
    let signed = SIGNERS.covers(text, clause..end) && SIGNER_MARKS.occur(text, clause, end);
    if signed && end - clause <= 16 && clause > 0 {
        return Some((FactKind::Signature, clause));
    }
    if is_signed_name(found, clause, end, dated) {
        return Some((FactKind::PersonName, clause));
    }
    if let Some(start) = residence_start(text, end) {
        return Some((FactKind::Residence, start));
    }
    // No sign separates the phrase from the sentence before it.
    (end.saturating_sub(MAX_CLOSING).max(clause)..end).find_map(|start| {
        STRONG_STARTS.at(text, start).filter(|&mark| mark <= end)?;
        if noise::is_footer(text, start, end) {
            return Some((FactKind::Footer, start));
        }
        is_closing(text, start, end).then_some((FactKind::Closing, start))
    })
}

/// Returns the start of the sentence about the writer's home that ends at `end`. A letter about the home itself keeps the sentence: the text
/// before the sentence must contain a word for a road, a crossing or a public place. The address may contain spaces and commas.
fn residence_start(text: &Chars, end: usize) -> Option<usize> {
    let start = text.skip_back(end, MAX_RESIDENCE + 1, |c| !ends_sentence(c));
    let is_whole = start > 0 && end - start <= MAX_RESIDENCE;
    let begins = RESIDENCE_STARTS.at(text, start)?;
    let is_address = begins < end && (RESIDENCE_ENDS.before(text, end).is_some() || is_number(text.before(end)));
    (is_whole && is_address && PLACE_MARKS.occur(text, 0, start)).then_some(start)
}

fn is_closing(text: &Chars, start: usize, end: usize) -> bool {
    CLOSING.covers(text, start..end) && CLOSING_MARKS.occur(text, start, end)
}

/// Returns the start of the clause that ends at `end`: the end of the last gap, or of the last contact or noise fact.
fn clause_start(found: &Found<'_>, end: usize) -> usize {
    let start = found.text.skip_back(end, end, |c| !is_gap(c));
    let facts = found.facts.iter().filter(|fact| fact.kind.is_removed()).map(|fact| fact.span.end as usize);
    facts.filter(|&at| at < end).fold(start, usize::max)
}

/// True if the characters from `start` to `end` are the name of the writer: after a closing phrase, or before a date.
fn is_signed_name(found: &Found<'_>, start: usize, end: usize, dated: bool) -> bool {
    let text = found.text;
    let name = &text.as_slice()[start..end];
    let is_name = (2..=3).contains(&name.len()) && is_surname(name[0]) && name.iter().all(|&c| is_ideograph(c));
    if !is_name || start == 0 {
        return false;
    }
    let gap = text.skip_back(start, 8, is_gap);
    if gap == start || gap == 0 {
        return false;
    }
    let before = clause_start(found, gap);
    let after_closing = is_closing(text, before, gap) || text.ends_any(gap, &["敬礼", "谢谢", "此致"]).is_some();
    after_closing || (dated && ends_sentence(text.before(start)))
}

/// Returns the start of the date of writing that ends at `end`. A date within a sentence is no date of writing.
fn writing_date(found: &Found<'_>, end: usize) -> Option<usize> {
    let text = found.text;
    // Skips the time of day.
    let clock = text.skip_back(end, 8, |c| c.is_ascii_digit() || c == ':');
    let timed = (end - clock >= 4 && text.as_slice()[clock..end].contains(&':'))
        .then(|| text.skip_back(clock, 1, |c| c == ' '));
    let day_end = timed.unwrap_or(end);
    let start = date_start(text, day_end)?;
    let label = text.skip_back(start, 2, |c| matches!(c, ':' | ' '));
    if let Some(label) = DATE_LABELS.before(text, label) {
        return Some(label);
    }
    let before = text.before(start);
    let behind_noise =
        before_fact(found, start) < start || before_fact(found, text.skip_back(start, 4, is_gap)) < start;
    let separate = ends_sentence(before) || before == ' ' || behind_noise;
    // At the start of the text, the date is the whole text.
    (separate && start > 0).then_some(start)
}

/// Returns the start of the date that ends at `end`: 2024年3月5日, 2024-3-5, 2024.03.05, 二〇二四年三月五日, 3月5日.
fn date_start(text: &Chars, end: usize) -> Option<usize> {
    if let Some(day) = text.ends_any(end, &["日", "号"]) {
        let (start, value) = number_before(text, day, 3).filter(|&(_, day)| (1..=31).contains(&day))?;
        let month = text.ends(start, "月")?;
        let (start, _) = number_before(text, month, 2).filter(|&(_, month)| (1..=12).contains(&month) && value > 0)?;
        let year = text.ends(start, "年").and_then(|year| number_before(text, year, 4));
        return Some(
            year.filter(|&(_, year)| (1950..2100).contains(&year) || year < 100).map_or(start, |(start, _)| start),
        );
    }
    let (start, _) = digits_before(text, end, 2).filter(|&(_, day)| (1..=31).contains(&day))?;
    let sign = text.before(start);
    if !matches!(sign, '-' | '.' | '/') {
        return None;
    }
    let (start, _) = digits_before(text, start - 1, 2).filter(|&(_, month)| (1..=12).contains(&month))?;
    if text.before(start) != sign {
        return None;
    }
    let (start, _) = digits_before(text, start - 1, 4).filter(|&(_, year)| (1950..2100).contains(&year))?;
    (!text.before(start).is_ascii_alphanumeric()).then_some(start)
}

/// Returns the start and the value of the number, in digits or in words, that ends at `end`.
fn number_before(text: &Chars, end: usize, most: usize) -> Option<(usize, u32)> {
    let start = text.skip_back(end, most, is_number);
    Some((start, value(text.as_slice().get(start..end)?)?))
}

/// Returns the start and the value of the digits that end at `end`.
fn digits_before(text: &Chars, end: usize, most: usize) -> Option<(usize, u32)> {
    let start = text.skip_back(end, most, |c| c.is_ascii_digit());
    Some((start, value(text.as_slice().get(start..end)?)?))
}
