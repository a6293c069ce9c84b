//! Texts that platforms, mail programs and offices add anywhere in a letter: hashtags, signatures of accounts, footers,
//! mail headers.

use super::literals::literals;
use std::sync::LazyLock;

use super::chars::{Chars, is_gap, is_ideograph};
use super::numbers;
use super::vocabulary::Vocabulary;
use super::{FactKind, Found};

/// Maximum length of a hashtag, in characters.
const MAX_HASHTAG: usize = 30;
/// Maximum length of a hashtag without a closing sign, in characters.
const MAX_OPEN_HASHTAG: usize = 20;
/// Maximum length of a footer in parentheses, in characters.
const MAX_FOOTER: usize = 62;
/// Maximum length of the signature of a mail, in characters.
const MAX_MAIL_SIGNATURE: usize = 400;
/// Minimum length of a writer's text before a quoted letter, in characters. With a shorter text, the writer only
/// forwards the letter.
const MIN_OWN_TEXT: usize = 16;

/// Words of the instructions that an office adds for the unit that handles the matter.
const FOOTER_WORDS: &str = "请 承办单位 承办部门 承办 主办单位 协办单位 责任单位 责任部门 职能局 职能部门 相关单位 相关部门 有关部门 有关单位 贵单位 \
    各单位 按 按照 依照 依据 规定 要求 流程 程序 时限 限时 期限 在 于 之 内 以内 之内 前 个 工作日 自然日 日 天 小时 分钟 分 秒 联系 来件人 来电人 \
    来信人 诉求人 反映人 信访人 当事人 市民 群众 写信人 投诉人 本人 并 及时 尽快 立即 将 对 进行 办理 处理 处置 核实 核查 调查 响应 反馈 回复 回访 \
    答复 情况 结果 意见 办件 办结 办毕 紧急 加急 特急 督办 转办 交办 阅处 阅办 做好 解释 工作 的 和 与 及 给 向 书面 电话 系统 平台 热线 12345 办";

literals! {
    /// Words of which a footer must contain at least one. The other words are also usual in letters.
    FOOTER_MARKS,
    "承办 主办单位 协办 责任单位 责任部门 职能局 职能部门 工作日 分钟 办件 时限 阅处 阅办 办结"
}

literals! {
    /// Actions that a footer asks for.
    FOOTER_ACTS,
    "处理 处置 响应 办理 反馈 办件 联系 核实 回复 答复 办结 办毕 阅处 阅办 督办 转办 交办"
}

/// Words with which an operator begins an order: the person who reported the matter, the channel, and the manner.
const INTAKE_WORDS: &str = "市民 群众 居民 村民 网民 网友 来电人 来信人 来件人 来访人 诉求人 反映人 投诉人 信访人 热心 匿名 一位 一名 某 该 来电 来信 来访 来函 \
    致电 电话 微信 公众号 公众 号 短信 邮件 邮箱 网站 网络 网上 网页 手机 app 小程序 客户端 平台 热线 12345 工作号 通过 拨打 再次 又 多次 继续 第 次 \
    反映 咨询 投诉 举报 求助 建议 反馈 表扬 诉求 称";

literals! {
    /// Channels. The beginning of an order must contain one of them if no colon ends it.
    INTAKE_CHANNELS,
    "来电 来信 来访 来函 致电 电话 微信 公众号 短信 邮件 邮箱 网站 网络 网上 网页 app 小程序 客户端 平台 热线 12345 工作号"
}

literals! {
    /// Words with which the beginning of an order ends.
    INTAKE_ACTS,
    "反映 咨询 投诉 举报 求助 建议 反馈 表扬 诉求 称"
}

/// First characters of the beginning of an order.
const INTAKE_OPENINGS: &str = "市群居村网来诉反投信热匿一";
/// Maximum length of the beginning of an order, in characters.
const MAX_INTAKE: usize = 16;
const MIN_INTAKE: usize = 4;

static INTAKE: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(&[INTAKE_WORDS]).with_numbers());

/// Reads the words with which an operator begins an order, at the start of a text or of a sentence: 市民来电反映:. They name
/// the channel and contain nothing about the matter.
pub(super) fn read_intake(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let is_start = at == 0 || is_gap(text.before(at));
    if !is_start || !INTAKE_OPENINGS.contains(text.at(at)) {
        return None;
    }
    let mut ends = (at + MIN_INTAKE..=(at + MAX_INTAKE).min(text.len())).rev();
    let end = ends.find(|end| is_intake(text, at, *end))?;
    found.add(FactKind::Intake, at..end, "");
    Some(end)
}

fn is_intake(text: &Chars, at: usize, end: usize) -> bool {
    INTAKE_ACTS.before(text, end).is_some_and(|start| start > at)
        && (text.at(end) == ':' || INTAKE_CHANNELS.occur(text, at, end))
        && INTAKE.covers(text, at..end)
}

static FOOTER: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(&[FOOTER_WORDS]).with_numbers());

/// True if the characters from `start` to `end` are only an instruction of an office.
pub(super) fn is_footer(text: &Chars, start: usize, end: usize) -> bool {
    FOOTER.covers(text, start..end) && FOOTER_MARKS.occur(text, start, end) && FOOTER_ACTS.occur(text, start, end)
}

/// Reads the noise that begins with the character at `at`. Returns the position where reading continues.
pub(super) fn read(found: &mut Found<'_>, at: usize) -> Option<usize> {
    match found.text.at(at) {
        '#' => read_hashtag(found, at).or_else(|| numbers::read(found, at)),
        '-' => read_mail(found, at),
        '(' => read_footer(found, at),
        _ => read_platform(found, at),
    }
}

fn read_hashtag(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let close = text.skip(at + 1, MAX_HASHTAG + 1, |c| {
        c != '#' && (!is_gap(c) || matches!(c, ' ' | '·' | '-' | '_' | '、' | ',' | '!' | '?' | ':' | '"'))
    });
    let building =
        text.before(at).is_ascii_digit() && text.starts_any(at + 1, &["楼", "栋", "幢", "单元", "座", "室"]).is_some();
    if building || close == at + 1 {
        return None;
    }
    if text.at(close) == '#' && is_name(text, at + 1, close) && !text.before(close).is_ascii_digit() {
        let canonical = text.string(at + 1..close);
        found.add(FactKind::Hashtag, at..close + 1, canonical);
        return Some(close + 1);
    }
    // Some platforms end a hashtag with a blank.
    let end = text.skip(at + 1, MAX_OPEN_HASHTAG + 1, |c| !is_gap(c));
    let opened = at == 0 || matches!(text.before(at), ' ' | '\n') || is_gap(text.before(at));
    let closed = matches!(text.at(end), '\0' | ' ' | '\n' | '#');
    if opened
        && closed
        && end - at <= MAX_OPEN_HASHTAG
        && is_name(text, at + 1, end)
        && !text.at(at + 1).is_ascii_digit()
    {
        let canonical = text.string(at + 1..end);
        found.add(FactKind::Hashtag, at..end, canonical);
        return Some(end);
    }
    None
}

fn is_name(text: &Chars, start: usize, end: usize) -> bool {
    text.as_slice()[start..end].iter().any(|&c| is_ideograph(c))
}

fn read_footer(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let close = text.skip(at + 1, MAX_FOOTER + 1, |c| c != ')' && c != '(');
    if text.at(close) != ')' || !is_footer(text, at + 1, close) {
        return None;
    }
    let canonical = text.string(at + 1..close);
    found.add(FactKind::Footer, at..close + 1, canonical);
    Some(close + 1)
}

/// Reads phrases of platforms: 来自…的帖子, 发布于…, 展开全文.
fn read_platform(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    if let Some(start) = text.starts(at, "来自") {
        let name = text.skip(start, 16, |c| !is_gap(c) && c != '的');
        let tail = [
            "的帖子",
            "的微博",
            "的留言",
            "的投诉",
            "的提问",
            "的微博视频",
            "的抖音",
            "的爆料",
            "客户端",
            "微博网页版",
        ];
        let end = text.starts_any(name, &tail).or_else(|| text.ends_any(name, &tail).map(|_| name))?;
        found.add(FactKind::Signature, at..end, text.string(start..end));
        return Some(end);
    }
    if let Some(start) = text.starts(at, "发布于") {
        let start = text.skip(start, 2, |c| matches!(c, ' ' | ':'));
        let timed = text
            .skip(start, 24, |c| c.is_ascii_digit() || matches!(c, '-' | '/' | '.' | ':' | ' ' | '年' | '月' | '日'));
        let place = text.skip(timed, 4, is_ideograph);
        let end = if is_gap(text.at(place)) || text.at(place) == '\0' { place } else { timed };
        if end == start {
            return None;
        }
        found.add(FactKind::Signature, at..end, text.string(start..end));
        return Some(end);
    }
    if let Some(end) = text.starts_any(at, &["展开全文", "网页链接"]) {
        let start = text.ends_any(at, &["o", "0", "..."]).unwrap_or(at);
        found.add(FactKind::Signature, start..end, "");
        return Some(end);
    }
    if text.starts_any(at, &["本邮件及", "本邮件包含", "本邮件含", "本邮件可能"]).is_some() {
        let end = mail_end(found, at);
        found.add(FactKind::Footer, at..end, "");
        return Some(end);
    }
    None
}

/// The marks of mail programs before a quoted letter.
const QUOTE_MARKS: [&str; 8] = [
    "原始邮件",
    "原邮件",
    "original message",
    "转发邮件信息",
    "转发的邮件",
    "回复的原邮件",
    "forwarded message",
    "回复邮件",
];

/// The labels of a mail's header.
const HEADER_WORDS: &str = "发件人 发送时间 收件人 抄送 主题 发送日期 时间 日期 from sent to cc subject date 附件";

static HEADERS: LazyLock<Vec<&str>> = LazyLock::new(|| HEADER_WORDS.split_whitespace().collect());

/// Returns the end of the signature of a mail: the start of a quoted letter, or the end of the text.
fn mail_end(found: &mut Found<'_>, at: usize) -> usize {
    let text = found.text;
    let last = text.len().min(at + MAX_MAIL_SIGNATURE);
    let end = (at.max(found.no_rule_before)..last).find(|&at| text.starts(at, "---").is_some()).unwrap_or(last);
    found.no_rule_before = end;
    end
}

/// Reads a part that begins with hyphens: the signature of a mail, or the header of a quoted letter.
fn read_mail(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let opened = at == 0 || matches!(text.before(at), ' ' | '\n');
    let dashes = text.skip(at, 64, |c| c == '-');
    if !opened || dashes - at < 2 {
        return None;
    }
    if dashes - at == 2 && matches!(text.at(dashes), ' ' | '\n') {
        let end = mail_end(found, dashes);
        let marks = ["电话", "手机", "地址", "邮编", "邮箱", "公司", "本邮件", "tel", "mobile"];
        let marked = (dashes.max(found.no_mark_before)..end).any(|at| text.starts_any(at, &marks).is_some());
        if marked {
            found.add(FactKind::Signature, at..end, "");
        } else {
            found.no_mark_before = end;
        }
        return marked.then_some(end);
    }
    let mark = text.skip(dashes, 2, |c| c == ' ');
    let mark = text.starts_any(mark, &QUOTE_MARKS)?;
    let end = header_end(text, text.skip(mark, 64, |c| matches!(c, '-' | ' ' | '\n')));
    let own = text.as_slice()[..at].iter().filter(|&&c| !is_gap(c)).count();
    if own >= MIN_OWN_TEXT {
        found.add(FactKind::Quotation, at..text.len(), "");
        return Some(text.len());
    }
    found.add(FactKind::Quotation, at..end, "");
    Some(end)
}

/// Returns the end of the header of a mail from `at` on.
fn header_end(text: &Chars, mut at: usize) -> usize {
    while let Some(label) = text.starts_any(at, &HEADERS)
        && matches!(text.at(label), ':' | ' ')
    {
        let value = text.skip(label, 4, |c| matches!(c, ':' | ' '));
        let line = text.skip(value, 200, |c| c != '\n');
        let next = (value..line)
            .find(|&at| text.before(at) == ' ' && text.starts_any(at, &HEADERS).is_some_and(|end| text.at(end) == ':'));
        let last = text.skip(value, 200, |c| !matches!(c, '\n' | ' '));
        let end = next.unwrap_or(if text.at(line) == '\n' { line } else { last });
        at = text.skip(end, 8, |c| matches!(c, ' ' | '\n'));
    }
    at
}
