//! The values that name a petitioner, in the form in which they are compared.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::units::is_han;

/// Values that are written instead of a name, normalised and without white space and punctuation.
const NOBODY_WORDS: &str = "匿名 匿名者 匿名人 匿名用户 匿名市民 匿名群众 匿名举报 匿名投诉 佚名 无 无名 无名氏 没有 \
    未知 未知姓名 不知 不详 不明 未详 暂无 空 空白 未填 未填写 未留 未留名 未提供 不提供 未登记 未透露 不透露 不愿透露 \
    不愿意透露 不愿透露姓名 不便透露 不愿提供 不方便透露 拒绝透露 拒绝提供 保密 要求保密 先生 女士 小姐 男士 同志 市民 \
    群众 居民 村民 业主 网友 来电人 来信人 来访人 信访人 投诉人 举报人 热心市民 none null nil na nan unknown anonymous \
    anon nobody secret";

static NOBODY: LazyLock<HashSet<&str>> = LazyLock::new(|| NOBODY_WORDS.split_whitespace().collect());

/// Forms of address. After a surname or 某 they identify no person: 某先生, 王女士.
const ADDRESSES: [&str; 5] = ["先生", "女士", "小姐", "男士", "同志"];
/// Maximum number of characters of a surname.
const SURNAME_CHARS: usize = 2;
/// Minimum number of digits of a telephone number.
const PHONE_DIGITS: usize = 7;
/// Number of digits of a mobile number in China, without the code of the country.
const MOBILE_DIGITS: usize = 11;

/// Returns the form in which a normalised value of an identity field is compared; `None` for a value that names no
/// person, built in or one of `placeholders`. The form of a telephone number is its digits without the code of China.
/// O(length).
pub fn identity_form(normal: &str, placeholders: &[String]) -> Option<String> {
    if let Some(digits) = phone_digits(normal) {
        return (!is_one_digit(&digits)).then_some(digits);
    }
    let joined = joined_name(normal);
    let normal = joined.as_deref().unwrap_or(normal);
    let is_placeholder = placeholders.iter().any(|placeholder| placeholder == normal);
    (!is_placeholder && !is_nobody(normal)).then(|| normal.to_owned())
}

/// Returns a Chinese name without blanks, which pad short names in tables, and with one sign for all middle dots. `None` for other values.
fn joined_name(normal: &str) -> Option<String> {
    let is_name = normal.chars().all(|sign| sign == ' ' || is_middle_dot(sign) || is_han(sign));
    is_name.then(|| {
        let signs = normal.chars().filter(|sign| *sign != ' ');
        signs.map(|sign| if is_middle_dot(sign) { '·' } else { sign }).collect()
    })
}

fn is_middle_dot(sign: char) -> bool {
    matches!(sign, '·' | '•' | '・' | '.')
}

/// Returns the digits of a value that is a telephone number in any of the usual forms. A spreadsheet may add `.0`.
fn phone_digits(value: &str) -> Option<String> {
    let value = value.strip_suffix(".0").unwrap_or(value);
    if !value.chars().all(|sign| sign.is_ascii_digit() || " +-()转.".contains(sign)) {
        return None;
    }
    let digits: String = value.chars().filter(char::is_ascii_digit).collect();
    if digits.len() < PHONE_DIGITS {
        return None;
    }
    let local = digits.strip_prefix("0086").or_else(|| digits.strip_prefix("86"));
    let mobile = local.filter(|local| local.len() == MOBILE_DIGITS && local.starts_with('1'));
    Some(mobile.map_or(digits.clone(), str::to_owned))
}

/// True for 0000000, 1111111 and the like, which are typed when a number is required.
fn is_one_digit(digits: &str) -> bool {
    let mut signs = digits.chars();
    let first = signs.next();
    signs.all(|sign| Some(sign) == first)
}

/// True for a value in which stars hide a part, as in 王**, 张*明 and 138****1234: many people have the same visible part.
/// A star between two ASCII letters or digits hides nothing.
fn is_masked(normal: &str) -> bool {
    let signs: Vec<char> = normal.chars().collect();
    (0..signs.len()).any(|position| signs[position] == '*' && !is_inside(&signs, position))
}

/// True if letters or digits stand before and behind the sign.
fn is_inside(signs: &[char], position: usize) -> bool {
    let before = position.checked_sub(1).and_then(|before| signs.get(before));
    [before, signs.get(position + 1)].into_iter().all(|sign| sign.is_some_and(char::is_ascii_alphanumeric))
}

fn is_nobody(normal: &str) -> bool {
    if is_masked(normal) {
        return true;
    }
    let word: String = normal.chars().filter(|sign| sign.is_alphanumeric()).collect();
    if word.is_empty() || word.chars().all(|sign| sign == '0') || NOBODY.contains(word.as_str()) {
        return true;
    }
    // The value is a number that a spreadsheet has rounded.
    if normal.contains("e+") && normal.chars().all(|sign| sign.is_ascii_digit() || ".e+".contains(sign)) {
        return true;
    }
    let addressed = ADDRESSES.iter().find_map(|address| word.strip_suffix(address));
    let has_surname_only = addressed.is_some_and(|surname| surname.chars().count() <= SURNAME_CHARS);
    has_surname_only || word.starts_with('某')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_name_nobody() {
        const VALUES: &str = "匿名 无 *** 王** 张*明 138****0001 不愿透露 不愿透露。 (匿名) 某先生 某女士 某某 王先生 \
            欧阳女士 - / 0 0000000 11111111111 n/a null 3.30106e+17 热心市民";
        for value in VALUES.split_whitespace() {
            assert_eq!(identity_form(value, &[]), None, "{value}");
        }
        assert_eq!(identity_form("来访群众", &["来访群众".into()]), None);
    }

    #[test]
    fn names_and_numbers_stay() {
        const VALUES: &str = "王芳 王某 司马先生生 无为县政府 330106199001011234 33010619900101123x a@b.cn 赵女士之子 \
            7 22 7*7";
        for value in VALUES.split_whitespace() {
            assert_eq!(identity_form(value, &[]).as_deref(), Some(value), "{value}");
        }
    }

    #[test]
    fn padding_and_kinds_of_middle_dots_are_no_other_person() {
        for (value, expected) in [
            ("张 伟", "张伟"),
            ("张  伟", "张伟"),
            ("买买提•艾力", "买买提·艾力"),
            ("买买提.艾力", "买买提·艾力"),
            ("13900001234.0", "13900001234"),
            ("john smith", "john smith"),
        ] {
            assert_eq!(identity_form(value, &[]).as_deref(), Some(expected), "{value}");
        }
    }

    #[test]
    fn telephone_numbers_are_compared_by_their_digits() {
        for value in [
            "13900001234",
            "139 0000 1234",
            "139-0000-1234",
            "+86 13900001234",
            "0086-139-0000-1234",
            "86(139)00001234",
        ] {
            assert_eq!(identity_form(value, &[]).as_deref(), Some("13900001234"), "{value}");
        }
        assert_eq!(identity_form("0571-8700 0000", &[]).as_deref(), Some("057187000000"));
        assert_eq!(identity_form("0571-87000000转8", &[]).as_deref(), Some("0571870000008"));
        assert_eq!(identity_form("861234567", &[]).as_deref(), Some("861234567"));
    }
}
