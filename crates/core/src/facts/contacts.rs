//! Numbers that belong to a person: telephone, identity card, bank account, contract; and numbers of orders and
//! petitions.
//!
//! A number is found at the start of a sequence of digits, letters and masks. Its length and its first digits give its
//! kind; if they do not, the label before it does (身份证号, 户号, 工单号). Digits of a mobile number may also be spelled (一三八…).

use super::literals::{Literals, literals};
use std::ops::Range;
use std::sync::LazyLock;

use super::chars::{Chars, is_gap, is_ideograph, is_mask, is_number};
use super::labels;
use super::numerals::digit;
use super::{FactKind, Found};

/// Kinds of numbers and the labels of each kind.
static LABELS: LazyLock<[(FactKind, Literals); 6]> = LazyLock::new(|| {
    [
        (
            FactKind::Phone,
            Literals::new(
                "电话 电话号码 电话号 手机 手机号 手机号码 联系方式 联系号码 来电号码 座机 固话 热线 传真 微信 微信号 qq \
            qq号 tel 号码",
            ),
        ),
        (FactKind::IdentityNumber, Literals::new("身份证 身份证号 身份证号码 证件号 证件号码 身份证件号码")),
        (FactKind::Email, Literals::new("邮箱 电子邮箱 电子邮件 email e-mail 邮件")),
        (
            FactKind::BankAccount,
            Literals::new("账号 帐号 卡号 账户 帐户 银行卡 银行卡号 银行账号 银行帐号 收款账号 收款账户"),
        ),
        (
            FactKind::ContractNumber,
            Literals::new(
                "合同 合同号 合同编号 协议号 协议编号 户号 缴费号 缴费户号 客户号 客户编号 用户号 用户编号 保单号 会员号 学号",
            ),
        ),
        (
            FactKind::OrderNumber,
            Literals::new(
                "工单 工单号 工单编号 单号 编号 订单号 订单编号 快递单号 运单号 信访编号 信访件编号 信访号 受理号 受理编号 \
            受理单号 诉求号 诉求编号 信件编号 来信编号 信件号 查询号 查询码 查询编号 案号 案件编号 事件编号 流水号 登记号 \
            登记编号 回执号 回执编号 投诉编号 投诉单号 投诉号 举报编号 办件编号 转办单号 交办单号",
            ),
        ),
    ]
});

literals! {
    /// Words before a label that name the owner of the number.
    OWNERS,
    "联系 我的 本人 固定 移动 办公 个人 家庭 他的 她的 妈妈的 爸爸的"
}

literals! {
    /// Remarks after a telephone number.
    REMARKS,
    "(微信同号) (同微信) (微信同步) 微信同号 同微信 (微信) (手机)"
}

literals! {
    /// Words between a label and its number.
    COPULAS,
    "为 是 号为 号是"
}

literals! {
    /// Units after an amount, which is no telephone number.
    UNITS,
    "元 块 万元 万块 万人 万吨 万平 亿 吨 米 公里 平米 平方 度 斤 人次 %"
}

literals! {
    /// Words after a number of several parts, or a spelled number, that is no telephone number.
    COUNTERS,
    "室 号 路 期 条 栋 楼 房 人 户"
}

literals! {
    /// Words before a number that is no telephone number.
    MEASURED,
    "¥ ￥ $ 价 款 余额 预算 坐标 经度 纬度 东经 北纬 读数 版本 运单 人口 号"
}

/// Codes of the provinces in the numbers of identity cards.
const REGIONS: [u32; 35] = [
    11, 12, 13, 14, 15, 21, 22, 23, 31, 32, 33, 34, 35, 36, 37, 41, 42, 43, 44, 45, 46, 50, 51, 52, 53, 54, 61, 62, 63,
    64, 65, 71, 81, 82, 83,
];

/// Maximum number of groups of digits in one number: 6222 0000 0000 0000 000.
const MAX_GROUPS: usize = 5;
/// Maximum length of a number, in characters. The longest ones are numbers of contracts, with letters and hyphens.
const MAX_NUMBER: usize = 32;
/// Minimum number of digits other than zero in a number that identifies something.
const MIN_SHOWN: usize = 3;
/// Minimum number of digits in the number of an order or a contract. Four digits are a year.
const MIN_CODE: usize = 5;
/// Minimum number of digits in a telephone number without its area code.
const MIN_PHONE: usize = 7;
/// Number of digits of a mobile number.
const MOBILE_DIGITS: usize = 11;
/// Minimum number of digits in a telephone number with its area code.
const MIN_WITH_AREA: usize = 10;
/// Number of digits in a telephone number with its area code, without the zero before the area code.
const WITHOUT_TRUNK_ZERO: std::ops::RangeInclusive<usize> = 9..=11;

/// True for a digit, a mask, or the letter x, which may hide a digit.
fn is_digit_or_mask(c: char) -> bool {
    c.is_ascii_digit() || is_mask(c) || c == 'x'
}

fn is_run(c: char) -> bool {
    c.is_ascii_alphanumeric() || is_mask(c)
}

fn is_long_run(c: char) -> bool {
    is_run(c) || matches!(c, '-' | '_')
}

/// Reads the sequence of letters, digits and masks that begins at `at`. Returns the position where reading continues.
pub(super) fn read_run(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let end = text.skip(at, usize::MAX, is_run);
    if !has_digits(text, at..end, 1) {
        // Letters may begin a longer number: xf-2024-00123.
        let long = if matches!(text.at(end), '-' | '_') { text.skip(at, MAX_NUMBER, is_long_run) } else { end };
        if !has_digits(text, end..long, 1) {
            return Some(end);
        }
    }
    let label = label_before(text, text.ends(at, "+").unwrap_or(at));
    let read = labelled(text, at, end, label.as_ref()).or_else(|| unlabelled(text, at, end));
    let Some((kind, mut number)) = read else { return read_spelled(found, at).or(Some(end)) };
    let canonical: String = text.string(number.clone()).chars().filter(|&c| !is_gap(c) || c == '_').collect();
    let next = number.end;
    // A hidden number, or a number of zeros, identifies nothing.
    let identifies = canonical.chars().filter(|c| matches!(c, '1'..='9')).count() >= MIN_SHOWN;
    if !identifies && kind == FactKind::OrderNumber {
        return Some(next);
    }
    let mut canonical =
        if identifies || canonical.contains(|c: char| c.is_ascii_lowercase()) { canonical } else { String::new() };
    if kind == FactKind::OrderNumber {
        found.add(kind, number, canonical);
        return Some(next);
    }
    if kind == FactKind::Phone {
        number = whole_phone(text, number);
        canonical = national_number(canonical);
    }
    Some(add_contact(found, kind, number, canonical, label))
}

/// Adds a contact with its label. Returns its end.
fn add_contact(
    found: &mut Found<'_>,
    kind: FactKind,
    mut number: Range<usize>,
    canonical: String,
    label: Option<Label>,
) -> usize {
    match label {
        Some(label) => number.start = number.start.min(label.span.start),
        None if kind == FactKind::Phone => labels::read_name_before(found, number.start),
        None => {}
    }
    let end = number.end;
    found.add(kind, number, canonical);
    end
}

/// Returns the span of a telephone number with the signs before it, its extension and its remark.
fn whole_phone(text: &Chars, mut number: Range<usize>) -> Range<usize> {
    number.start = text.ends_any(number.start, &["+", "(", "(+"]).unwrap_or(number.start);
    let extension =
        text.starts_any(number.end, &["转", "-", "分机"]).map(|at| text.skip(at, 6, |c| c.is_ascii_digit()));
    number.end = extension.filter(|&end| text.before(end).is_ascii_digit()).unwrap_or(number.end);
    number.end = REMARKS.at(text, number.end).unwrap_or(number.end);
    if text.at(number.end) == ')' && text.at(number.start) == '(' {
        number.end += 1;
    }
    number
}

/// Returns the digits of a telephone number without the code of the country. A mobile number also loses a leading zero,
/// which was once dialled for a call to another city.
fn national_number(digits: String) -> String {
    let national = digits.strip_prefix("0086").or_else(|| digits.strip_prefix("86")).unwrap_or(&digits);
    let mobile = national.strip_prefix('0').unwrap_or(national);
    match mobile.as_bytes() {
        [b'1', b'3'..=b'9', ..] if mobile.chars().count() == MOBILE_DIGITS => mobile.to_owned(),
        _ if national.starts_with('0') && national.len() >= MIN_WITH_AREA => national.to_owned(),
        _ if national.len() < digits.len() && WITHOUT_TRUNK_ZERO.contains(&national.len()) => format!("0{national}"),
        _ => digits,
    }
}

/// Reads the mobile number that begins at `at` if at least one of its digits is spelled: 一三八…, 幺三八…, 138零零零零1234. A sign may stand
/// between its groups of 3, 4 and 4 digits. Returns its end.
pub(super) fn read_spelled(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let mut canonical = String::with_capacity(MOBILE_DIGITS);
    let mut end = at;
    while canonical.len() < MOBILE_DIGITS {
        let is_between_groups = matches!(canonical.len(), 3 | 7);
        if is_between_groups && (is_hyphen_or_blank(text.at(end)) || is_dot_or_dash(text.at(end))) {
            end += 1;
        }
        canonical.push(spelled_digit(text.at(end))?);
        end += 1;
    }
    let number = at..end;
    // In 全国统一4008001234, the first numeral is a part of a word.
    let is_word = text.at(at).is_ascii() != text.at(at + 1).is_ascii();
    let is_mobile = !is_word && canonical.starts_with('1') && matches!(canonical.as_bytes()[1], b'3'..=b'9');
    let is_spelled = text.as_slice()[number.clone()].iter().any(|&c| !c.is_ascii() && spelled_digit(c).is_some());
    let is_longer = spelled_digit(text.before(at)).is_some() || is_number(text.at(end));
    if !is_mobile || !is_spelled || is_longer || is_quantity(text, &number, true) {
        return None;
    }
    let label = label_before(text, at).filter(|label| label.kind == FactKind::Phone);
    let number = whole_phone(text, number);
    Some(add_contact(found, FactKind::Phone, number, canonical, label))
}

/// Returns the digit for a digit or a numeral, for 幺 and 么, which stand for 1 in telephone numbers, and for circles, which stand for 0.
fn spelled_digit(c: char) -> Option<char> {
    match c {
        '幺' | '么' => Some('1'),
        '○' | '◯' => Some('0'),
        _ => char::from_digit(digit(c)?, 10),
    }
}

/// A label and its position.
struct Label {
    kind: FactKind,
    span: Range<usize>,
}

/// Returns the label before a number that begins at `at`.
fn label_before(text: &Chars, at: usize) -> Option<Label> {
    let end = skip_gap_back(text, at);
    let last = text.before(end);
    if !is_ideograph(last) && !last.is_ascii_lowercase() {
        return None;
    }
    let end = COPULAS.before(text, end).map_or(end, |start| skip_gap_back(text, start));
    let labels = LABELS.iter().filter_map(|(kind, labels)| Some((labels.before(text, end)?, *kind)));
    let (mut start, kind) = labels.min_by_key(|(start, _)| *start)?;
    for _ in 0..2 {
        start = OWNERS.before(text, start).unwrap_or(start);
    }
    Some(Label { kind, span: start..end })
}

fn skip_gap_back(text: &Chars, end: usize) -> usize {
    text.skip_back(end, 2, |c| matches!(c, ':' | ' ' | '('))
}

/// Returns the number at `at` if its label gives its kind.
fn labelled(text: &Chars, at: usize, end: usize, label: Option<&Label>) -> Option<(FactKind, Range<usize>)> {
    let kind = label?.kind;
    let long = text.skip(at, MAX_NUMBER, is_long_run);
    let whole = text.as_slice()[at..end].iter().all(|&c| is_digit_or_mask(c));
    let number = match kind {
        FactKind::Phone if text.ends_any(label?.span.end, &["微信", "微信号", "qq", "qq号"]).is_some() => {
            ((5..=24).contains(&(long - at)) && has_digits(text, at..long, 1)).then_some(at..long)
        }
        FactKind::Phone => {
            let bare = whole && (MIN_PHONE..=16).contains(&(end - at)) && has_digits(text, at..end, MIN_PHONE);
            let hidden = text.as_slice()[at..end].iter().all(|&c| is_mask(c)) && end - at >= 3;
            if let Some(phone) = phone(text, at) { Some(phone) } else { (bare || hidden).then_some(at..end) }
        }
        FactKind::IdentityNumber => (whole && (6..=18).contains(&(end - at))).then_some(at..end),
        FactKind::BankAccount => bank_account(text, at)
            .or_else(|| (whole && (8..=24).contains(&(end - at)) && has_digits(text, at..end, 8)).then_some(at..end)),
        FactKind::ContractNumber => has_digits(text, at..long, MIN_CODE).then_some(at..long),
        FactKind::OrderNumber => has_digits(text, at..long, MIN_CODE).then_some(at..long),
        _ => None,
    };
    number.map(|number| (kind, number))
}

/// True if there are at least `least` digits or signs that hide a digit.
fn has_digits(text: &Chars, range: Range<usize>, least: usize) -> bool {
    text.as_slice()[range].iter().filter(|&&c| c.is_ascii_digit() || is_mask(c)).count() >= least
}

/// Returns the number at `at` if its shape gives its kind.
fn unlabelled(text: &Chars, at: usize, end: usize) -> Option<(FactKind, Range<usize>)> {
    let run = &text.as_slice()[at..end];
    if is_identity_number(run) {
        return Some((FactKind::IdentityNumber, at..end));
    }
    if let Some(phone) = phone(text, at) {
        let is_other = is_quantity(text, &phone, phone.end > end) || is_measured(text, at) || is_decimal(text, &phone);
        return (!is_other).then_some((FactKind::Phone, phone));
    }
    if is_dated(run) {
        return Some((FactKind::OrderNumber, at..end));
    }
    bank_account(text, at).map(|account| (FactKind::BankAccount, account))
}

/// True if a unit follows a number, or a counter a number that `has_parts` or is spelled.
fn is_quantity(text: &Chars, number: &Range<usize>, has_parts: bool) -> bool {
    let behind = text.skip(number.end, 1, |c| c == ' ');
    let counter = COUNTERS.at(text, behind).filter(|&end| has_parts && text.at(end) != '码');
    UNITS.at(text, behind).is_some() || counter.is_some()
}

/// True if the words before a number that begins at `at` name something other than a telephone.
fn is_measured(text: &Chars, at: usize) -> bool {
    let end = skip_gap_back(text, at);
    MEASURED.before(text, end).is_some() && text.ends(end, "同号").is_none()
}

/// True for digits with one dot between them: 028.22821234.
fn is_decimal(text: &Chars, number: &Range<usize>) -> bool {
    text.as_slice()[number.clone()].iter().filter(|&&c| c == '.').count() == 1
}

fn number(run: &[char]) -> Option<u32> {
    run.iter().try_fold(0_u32, |sum, &c| sum.checked_mul(10)?.checked_add(c.to_digit(10)?))
}

/// True for two digits of a month and two digits of a day. A hidden digit may be any digit.
fn is_month_and_day(run: &[char]) -> bool {
    let [month, day] = [number(&run[..2]), number(&run[2..4])];
    month.is_none_or(|month| (1..=12).contains(&month)) && day.is_none_or(|day| (1..=31).contains(&day))
}

/// True for 18 or 15 characters of the number of an identity card. Some characters may be hidden.
fn is_identity_number(run: &[char]) -> bool {
    let digits = run.iter().filter(|c| c.is_ascii_digit()).count();
    if !run.iter().all(|&c| is_digit_or_mask(c)) || digits < 4 || !matches!(run[0], '1'..='8') {
        return false;
    }
    let region = number(&run[..2]).is_none_or(|region| REGIONS.contains(&region));
    match run.len() {
        18 => {
            let year = number(&run[6..10]).is_none_or(|year| (1900..2100).contains(&year));
            let hidden = !run[..17].iter().all(char::is_ascii_digit);
            region && year && is_month_and_day(&run[10..14]) && (hidden || run[17].is_ascii_digit() || run[17] == 'x')
        }
        15 => region && run.iter().all(char::is_ascii_digit) && is_month_and_day(&run[8..12]),
        _ => false,
    }
}

/// True for the number of an order: 12 to 20 digits that begin with a date.
fn is_dated(run: &[char]) -> bool {
    (12..=20).contains(&run.len())
        && run.iter().all(|c| c.is_ascii_digit())
        && run.starts_with(&['2', '0'])
        && is_month_and_day(&run[4..8])
}

/// Returns the groups of digits and masks from `at` on between which stand signs that `separates` accepts, and the number of groups.
fn groups(text: &Chars, at: usize, separates: impl Fn(char) -> bool) -> ([Range<usize>; MAX_GROUPS], usize) {
    let mut groups: [Range<usize>; MAX_GROUPS] = Default::default();
    let mut count = 0;
    let mut start = at;
    while count < MAX_GROUPS {
        let end = text.skip(start, MAX_NUMBER, is_digit_or_mask);
        if end == start || text.at(end).is_ascii_alphabetic() {
            break;
        }
        groups[count] = start..end;
        count += 1;
        let joined = separates(text.at(end)) || (text.at(end) == ')' && count == 1);
        if !joined {
            break;
        }
        start = end + 1;
    }
    (groups, count)
}

/// True for the usual signs between two groups of digits of one number.
fn is_hyphen_or_blank(c: char) -> bool {
    matches!(c, ' ' | '-')
}

/// True for signs that also stand between a number and other text: a decimal point, a dash between two numbers, or a slash.
fn is_dot_or_dash(c: char) -> bool {
    matches!(c, '.' | '·' | '•' | '・' | '‐' | '‑' | '–' | '—' | '―' | '−' | '/')
}

/// Returns the telephone number at `at`, with the code of the country.
fn phone(text: &Chars, at: usize) -> Option<Range<usize>> {
    if !matches!(text.at(at), '0' | '1' | '4' | '8') {
        return None;
    }
    let abroad = after_country_code(text, at)
        .and_then(|start| national_phone(text, start).or_else(|| phone_without_trunk_zero(text, start)));
    abroad.map(|phone| at..phone.end).or_else(|| national_phone(text, at))
}

/// Returns the telephone number at `at` whose area code has no leading zero, as usual after the code of the country: +86 731 88886666.
fn phone_without_trunk_zero(text: &Chars, at: usize) -> Option<Range<usize>> {
    let (groups, count) = groups(text, at, |c| is_hyphen_or_blank(c) || c == ')');
    let lengths: [usize; 3] = std::array::from_fn(|group| groups[group].len());
    let used = match lengths {
        [2 | 3, 7 | 8, _] => 2,
        [2, 4, 4] | [3, 3 | 4, 4] => 3,
        [single, ..] if WITHOUT_TRUNK_ZERO.contains(&single) => 1,
        _ => return None,
    };
    (used <= count && matches!(text.at(at), '1'..='9')).then(|| at..groups[used - 1].end)
}

/// Returns the position after the code of China at `at`.
fn after_country_code(text: &Chars, at: usize) -> Option<usize> {
    let code = text.starts_any(at, &["86", "0086"])?;
    let start = text.skip(code, 2, |c| is_hyphen_or_blank(c) || matches!(c, '(' | ')'));
    // In 雁坪路86 13800001234 and 雁坪路86-13800001234, the first number belongs to the road.
    let is_joined = text.at(code) == '1' || text.at(code) == '-' && !is_ideograph(text.before(at));
    let is_marked = matches!(text.before(at), '+' | '(') || text.at(at) == '0' || is_joined;
    let is_marked = is_marked || label_before(text, at).is_some();
    // Only a sign before the code shows that an area code without its zero follows.
    let is_trunk_zero_optional = matches!(text.before(at), '+') || text.at(at) == '0';
    let starts_number =
        matches!(text.at(start), '0' | '1') || is_trunk_zero_optional && text.at(start).is_ascii_digit();
    (is_marked && starts_number).then_some(start)
}

/// Returns the telephone number at `at` without the code of the country.
fn national_phone(text: &Chars, at: usize) -> Option<Range<usize>> {
    let (usual, count) = groups(text, at, is_hyphen_or_blank);
    let phone = (1..=count.min(4)).rev().find_map(|count| {
        let groups = &usual[..count];
        is_phone(text, groups).then(|| groups[0].start..groups[count - 1].end)
    });
    phone.or_else(|| {
        let (dotted, count) = groups(text, at, is_dot_or_dash);
        // A decimal has two groups, too: 1350000.0000元, 131.12345678. An area code cannot begin a decimal.
        let parts = if text.at(at) == '0' { 2 } else { 3 };
        let groups = &dotted[..parts];
        (count >= parts && is_phone(text, groups)).then(|| groups[0].start..groups[parts - 1].end)
    })
}

/// True if these groups of digits form a telephone number.
fn is_phone(text: &Chars, groups: &[Range<usize>]) -> bool {
    let chars = text.as_slice();
    let first = &chars[groups[0].clone()];
    let lengths: [usize; 4] = std::array::from_fn(|at| groups.get(at).map_or(0, |group| group.len()));
    let digits = groups.iter().flat_map(|group| &chars[group.clone()]).filter(|c| c.is_ascii_digit()).count();
    let hidden = lengths.iter().sum::<usize>() - digits;
    match (first[0], lengths) {
        ('1', [11, 0, 0, 0] | [3, 4, 4, 0] | [3, 8, 0, 0] | [7, 4, 0, 0]) => {
            (first[1].is_ascii_digit() && first[1] >= '3' || !first[1].is_ascii_digit()) && digits >= 2
        }
        // The number is 138****, with no further digits after it.
        ('1', [7..=14, 0, 0, 0]) => first[1] >= '3' && first[1].is_ascii_digit() && digits >= 3 && hidden >= 3,
        ('8', [4, 6, 2, 0]) => false,
        ('0', [3 | 4, 7 | 8, 0, 0] | [3 | 4, 7 | 8, 1..=5, 0] | [3, 4, 4, 0] | [4, 3 | 4, 4, 0]) => first[1] != '0',
        ('0', [10..=12, 0, 0, 0]) => first[1] != '0' && hidden < 8,
        ('4' | '8', [10, 0, 0, 0] | [3, 3, 4, 0] | [3, 4, 3, 0] | [3, 7, 0, 0]) => {
            matches!(first, ['4' | '8', '0', '0', ..])
        }
        _ => false,
    }
}

/// Returns the number of a bank account at `at`: 16 to 19 digits, with or without a blank after each group of four
/// digits.
fn bank_account(text: &Chars, at: usize) -> Option<Range<usize>> {
    let (groups, count) = groups(text, at, is_hyphen_or_blank);
    let groups = &groups[..count];
    let first = text.as_slice().get(groups.first()?.clone())?;
    let fours = groups.len() >= 4 && groups[..4].iter().all(|group| group.len() == 4);
    if fours && matches!(first[0], '3'..='6' | '9') {
        let last = groups.get(4).filter(|group| group.len() <= 3).unwrap_or(&groups[3]);
        return Some(groups[0].start..last.end);
    }
    ((16..=19).contains(&first.len()) && first.starts_with(&['6', '2'])).then(|| groups[0].clone())
}
