//! Names of persons: after a label, or before a telephone number.

use super::chars::{Chars, ends_sentence, is_gap, is_ideograph, is_mask};
use super::endings;
use super::literals::literals;
use super::{FactKind, Found};

literals! {
    /// Labels of the person who writes, or of a person who can be asked.
    LABELS,
    "反映人 反馈人 联系人 来电人 来信人 来访人 上访人 信访人 投诉人 诉求人 举报人 申请人 写信人 求助人 求救人 报料人 \
        爆料人 发帖人 留言人 咨询人 建议人 检举人 控告人 姓名 署名 求助者 反映者 投诉者 举报者 致信人 申诉人 落款人 签名"
}

literals! {
    /// First words of a label: 联系人姓名. They say whose name follows.
    PREFIXES,
    "联系人 反映人 来电人 投诉人 诉求人 举报人 来信人 本人 市民 我的"
}

literals! {
    /// Labels that need a first word which says that the name is the writer's.
    OWN_NAME,
    "姓名 署名 签名"
}

literals! {
    /// Words between a label and the name.
    INFIXES,
    "(签名) (签字) (签章) 签名 签字 姓名"
}

literals! {
    /// Forms of address after a surname or a name.
    TITLES,
    "先生 女士 小姐 同志 老师 师傅 阿姨 大爷 主任 书记 经理 医生 村长 队长"
}

literals! {
    /// Words that people write instead of a name.
    PLACEHOLDERS,
    "匿名 无 无名 不详 不愿透露 不愿透露姓名 不便透露 保密 全体业主 全体村民 全体居民 全体员工 全体家长 业主 村民 居民 \
        市民 群众 家长 网友 热心市民 广大业主 一名业主 一名村民 一名市民"
}

literals! {
    /// Words that follow a name and are no part of it.
    BEHIND,
    "电话 手机 联系 性别 身份证 住址 地址 年龄 微信 于 电联 男 女 敬上 敬呈 等"
}

/// Surnames of one character. The list has most surnames in use.
const SURNAMES: &str = "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦尤许何吕施张孔曹严华金魏陶姜戚谢邹喻柏水窦章云苏潘葛奚范彭郎鲁韦昌马苗\
    凤花方俞任袁柳鲍史唐费廉岑薛雷贺倪汤滕殷罗毕郝邬安常乐于时傅皮卞齐康伍余元卜顾孟平黄和穆萧尹姚邵湛汪祁毛禹狄米贝明臧计伏成戴谈宋茅庞\
    熊纪舒屈项祝董梁杜阮蓝闵席季麻强贾路娄危江童颜郭梅盛林刁钟徐邱骆高夏蔡田樊胡凌霍虞万支柯管卢莫经房裘缪干解应宗丁宣邓单杭洪包诸左石崔吉\
    钮龚程邢裴陆荣翁荀羊惠甄曲封储靳段富巫乌焦巴牧车侯宓蓬全班仰秋仲伊宫宁仇栾甘厉祖武符刘景詹束龙叶幸司韶黎薄印宿白怀蒲邰从鄂索咸籍赖卓\
    蔺屠蒙池乔阴胥能苍双闻莘党翟谭贡劳逄姬申扶堵冉宰郦雍桑桂濮牛寿通边扈燕冀浦尚农温别庄晏柴瞿阎充慕连茹习宦艾鱼容向古易慎戈廖庾终暨居衡步\
    都耿满弘匡国文寇广禄阙东欧沃利蔚越隆师巩厍聂晁勾敖融冷辛阚那简饶曾沙养鞠丰巢关相查后荆红游权逯盖益桓公肖付闫代邸佟苑税";

/// Characters that often continue a sentence after a label, and hardly ever occur in given names.
const NO_NAMES: &str = "在是的有说称要已不为了被对从向就来去到还也都没把与和";

/// True for a character that is a surname.
pub(super) fn is_surname(c: char) -> bool {
    SURNAMES.contains(c)
}

/// Reads the name after a label whose last character is at `at`. Returns the position where reading continues.
pub(super) fn read(found: &mut Found<'_>, at: usize) -> Option<usize> {
    let text = found.text;
    let label = LABELS.before(text, at + 1)?;
    let start = PREFIXES.before(text, label).unwrap_or(label);
    // 被投诉人 and 患者姓名 name a person whom the matter concerns.
    let before = text.before(start);
    let is_of_other_person = OWN_NAME.at(text, label) == Some(at + 1) && start == label && is_ideograph(before);
    if before == '被' || is_of_other_person {
        return None;
    }
    let after = INFIXES.at(text, at + 1).unwrap_or(at + 1);
    let name = text.skip(after, 3, |c| matches!(c, ':' | ' '));
    let labelled = text.as_slice()[after..name].contains(&':');
    let end = name_end(text, name, labelled)?;
    let value = text.string(name..end);
    let canonical = if identifies(&value) { value } else { String::new() };
    found.add(FactKind::PersonName, start..end, canonical);
    Some(end)
}

/// Returns the end of the name at `at`. Without a colon before it, a name must begin with a surname.
fn name_end(text: &Chars, at: usize, labelled: bool) -> Option<usize> {
    if labelled && let Some(end) = PLACEHOLDERS.at(text, at).filter(|&end| ends_name(text, end)) {
        return Some(end);
    }
    let begins = if labelled { is_part_of_name(text.at(at)) } else { is_surname(text.at(at)) };
    if !begins {
        return None;
    }
    let longest = if labelled { 4 } else { 3 };
    let mut end = at + 1;
    while end - at <= longest {
        if let Some(titled) = TITLES.at(text, end) {
            return Some(titled);
        }
        if ends_name(text, end) {
            return (end - at >= 2 || labelled).then_some(end);
        }
        if !is_part_of_name(text.at(end)) || (!labelled && NO_NAMES.contains(text.at(end))) {
            return None;
        }
        end += 1;
    }
    None
}

fn is_part_of_name(c: char) -> bool {
    is_ideograph(c) || is_mask(c) || c == '·'
}

/// True if a name can end before `at`.
fn ends_name(text: &Chars, at: usize) -> bool {
    let c = text.at(at);
    c == '\0' || is_gap(c) && c != '·' || c.is_ascii_alphanumeric() || BEHIND.at(text, at).is_some()
}

/// True if a name identifies one person.
fn identifies(name: &str) -> bool {
    let hidden = name.contains(|c| is_mask(c) || c == '某');
    let whole = name.chars().count() >= 2 && !PLACEHOLDERS.contains(name);
    let surname_only = TITLES.ends_single(name);
    whole && !hidden && !surname_only
}

/// Reads a name just before the telephone number that begins at `number`: 李女士 138…; or a signature of two or three characters after a
/// sentence (谢谢。王某某138…), unless it ends like a place (平安路,138…).
pub(super) fn read_name_before(found: &mut Found<'_>, number: usize) {
    let text = found.text;
    let end = text.skip_back(number, 2, |c| matches!(c, ' ' | ':' | '(' | ','));
    let start = if let Some(title) = TITLES.before(text, end) {
        let surname = (1..=3).map(|length| title.saturating_sub(length)).find(|&at| is_surname(text.at(at)));
        surname.filter(|&at| at < title)
    } else {
        let start = text.skip_back(end, 5, is_ideograph);
        let name = &text.as_slice()[start..end];
        let sentence = text.before(text.skip_back(start, 2, |c| c == ' '));
        let is_signature = sentence != '\0' && ends_sentence(sentence);
        let is_place = endings::before(text, start, end).is_some() || endings::core(name).len() < name.len();
        let is_name = (2..=3).contains(&name.len()) && is_surname(name[0]) && is_signature && !is_place;
        is_name.then_some(start)
    };
    let Some(start) = start else { return };
    let value = text.string(start..end);
    let canonical = if identifies(&value) { value } else { String::new() };
    found.add(FactKind::PersonName, start..end, canonical);
}
