//! Values of numbers in digits and in Chinese numerals.

/// Maximum length of a number whose value is computed, in characters. Longer numbers are codes, and their value would
/// overflow.
const MAX_CHARS: usize = 9;

/// Returns the value of a digit in words, also in the form of bank notes.
pub(super) fn digit(c: char) -> Option<u32> {
    Some(match c {
        '〇' | '零' => 0,
        '一' | '壹' => 1,
        '二' | '两' | '贰' => 2,
        '三' | '叁' => 3,
        '四' | '肆' => 4,
        '五' | '伍' => 5,
        '六' | '陆' => 6,
        '七' | '柒' => 7,
        '八' | '捌' => 8,
        '九' | '玖' => 9,
        _ => return c.to_digit(10),
    })
}

/// Returns the value of a power of ten in words.
fn power(c: char) -> Option<u32> {
    Some(match c {
        '十' | '拾' => 10,
        '百' | '佰' => 100,
        '千' | '仟' => 1000,
        _ => return None,
    })
}

/// True for a Chinese numeral below ten thousand.
#[inline]
pub(super) fn is_numeral(c: char) -> bool {
    c >= '〇' && !c.is_ascii() && (digit(c).is_some() || power(c).is_some() || matches!(c, '廿' | '卅'))
}

/// Returns the value of a number in digits, in words (二十三), or in a sequence of digits as words (二三). `None` if
/// `number` is no number, or has more than nine characters.
pub(super) fn value(number: &[char]) -> Option<u32> {
    if number.is_empty() || number.len() > MAX_CHARS {
        return None;
    }
    if number.iter().all(|&c| digit(c).is_some()) {
        return number.iter().try_fold(0_u32, |sum, &c| Some(sum * 10 + digit(c)?));
    }
    let mut sum = 0;
    let mut last = None;
    for &c in number {
        if let Some(power) = power(c) {
            sum += last.take().unwrap_or(1) * power;
        } else if matches!(c, '廿' | '卅') {
            sum += if c == '廿' { 20 } else { 30 };
        } else {
            // A zero only marks a power that is left out.
            last = Some(last.filter(|&last| last > 0).map_or(0, |last: u32| last * 10) + digit(c)?);
        }
    }
    Some(sum + last.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_words_have_one_value() {
        let table = [
            ("3", 3),
            ("三", 3),
            ("叁", 3),
            ("十", 10),
            ("十二", 12),
            ("二十", 20),
            ("二十三", 23),
            ("二三", 23),
            ("一百零五", 105),
            ("三百二十", 320),
            ("一千二百", 1200),
            ("廿三", 23),
            ("一二〇三", 1203),
            ("1203", 1203),
        ];
        for (number, expected) in table {
            assert_eq!(value(&number.chars().collect::<Vec<_>>()), Some(expected), "{number}");
        }
        assert_eq!(value(&[]), None);
        assert_eq!(value(&"三楼".chars().collect::<Vec<_>>()), None);
        assert_eq!(value(&['9'; 10]), None);
    }
}
