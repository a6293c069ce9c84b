//! Numbers within names, in digits or words.

/// Chinese numerals in names; the position is the value.
const NUMERALS: &str = "〇一二三四五六七八九十";

/// True if numbers are written with the character.
pub fn is_numeral(c: char) -> bool {
    c.is_ascii_digit() || NUMERALS.contains(c)
}

/// Returns the value of a sequence of numerals, the same for "12", "十二" and "一二". A value beyond 64 bits is the largest
/// 64-bit number.
pub fn value(numerals: &str) -> u64 {
    match numerals.split_once('十') {
        Some(("", ones)) => digits(ones).saturating_add(10),
        Some((tens, ones)) => digits(tens).saturating_mul(10).saturating_add(digits(ones)),
        None => digits(numerals),
    }
}

/// Returns the value of digits and signs for digits one after the other.
fn digits(numerals: &str) -> u64 {
    numerals.chars().filter_map(digit).fold(0, |value, digit| value.saturating_mul(10).saturating_add(digit))
}

fn digit(c: char) -> Option<u64> {
    c.to_digit(10)
        .map(u64::from)
        .or_else(|| NUMERALS.chars().zip(0..).find(|(numeral, _)| *numeral == c).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_digits_and_words() {
        let read = ["7", "12", "〇", "七", "十", "十二", "一二", "二十", "二十一", "3十"].map(value);
        assert_eq!(read, [7, 12, 0, 7, 10, 12, 12, 20, 21, 30]);
        assert_eq!(value(&"9".repeat(40)), u64::MAX);
        assert!("0九十".chars().all(is_numeral) && !"a百第".chars().any(is_numeral));
    }
}
