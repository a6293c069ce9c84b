//! Character shingles: sequences of letters, digits and Han characters; all other characters between them are ignored
//! (Broder 1997).

/// Number of characters that fit exactly into a 64-bit shingle: three with 21 bits each. Longer shingles are hashed.
const PACKED_CHARS: usize = 3;
const BITS_PER_CHAR: u32 = 21;
/// The leading 1 bit of three packed characters.
const LEADING: u64 = 1 << 63;
/// The odd multiplier of the polynomial hash of longer shingles (2^64 divided by the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// True if `c` is a letter, a digit or a Han character. Nearly all characters belong to one block in which every
/// character counts. A lookup in the table of the others costs more than all other work for a character.
#[inline]
pub fn counts(c: char) -> bool {
    matches!(c, '\u{4E00}'..='\u{9FFF}') || c.is_alphanumeric()
}

/// Returns the number of characters of a text that [`counts`] accepts. O(length).
pub fn counted(text: &str) -> usize {
    text.chars().filter(|&c| counts(c)).count()
}

/// Returns the form in which a character is compared. A Chinese numeral becomes a digit, so that 三号 and 3号 are the
/// same. Numerals from ten on are no single digit and do not change.
#[inline]
pub fn digit_form(c: char) -> char {
    match c {
        '〇' | '零' => '0',
        '一' => '1',
        '二' | '两' => '2',
        '三' => '3',
        '四' => '4',
        '五' => '5',
        '六' => '6',
        '七' => '7',
        '八' => '8',
        '九' => '9',
        other => other,
    }
}

/// Returns the codes of all sequences of `width` characters of a text, in order, with repetitions. Only characters that
/// [`counts`] accepts are read, in their [`digit_form`]. A text with fewer characters is one sequence. A text without
/// any has none.
///
/// A sequence of up to three characters is its own code. A longer sequence gets a 64-bit hash; a collision within n
/// sequences has a probability of about n²/2^65.
pub fn codes(text: &str, width: u8) -> Vec<u64> {
    let width = usize::from(width.max(1));
    if width == PACKED_CHARS {
        // A text of Han characters only has a third as many characters as bytes.
        let mut codes = Vec::with_capacity(text.len() / 3);
        for_each_of_three(text, |code| codes.push(code));
        if !codes.is_empty() {
            return codes;
        }
    }
    let chars: Vec<u64> = text.chars().filter(|&c| counts(c)).map(|c| u64::from(digit_form(c))).collect();
    match chars.len() {
        0 => Vec::new(),
        n if n < width => vec![code(&chars)],
        _ => chars.windows(width).map(code).collect(),
    }
}

/// Calls `each` with the result of [`codes`] for a width of three, without allocation, if the text has at least three
/// characters that count. For a shorter text, `each` is not called.
#[inline]
pub fn for_each_of_three(text: &str, mut each: impl FnMut(u64)) {
    let mut code = 0;
    let mut seen = 0;
    for c in text.chars().filter(|&c| counts(c)) {
        code = (code << BITS_PER_CHAR | u64::from(digit_form(c))) & !LEADING;
        seen += 1;
        if seen >= PACKED_CHARS {
            each(code | LEADING);
        }
    }
}

fn code(chars: &[u64]) -> u64 {
    if chars.len() <= PACKED_CHARS {
        // A leading 1 bit distinguishes sequences of different lengths.
        return chars.iter().fold(1, |code, char| (code << BITS_PER_CHAR) | char);
    }
    chars.iter().fold(0, |code, char| (code ^ char).wrapping_mul(MULTIPLIER).rotate_left(29))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn threes_are_the_codes_of_width_three(text in "[一二三四ab1 ,。\u{20000}]{0,20}") {
            let mut found = Vec::new();
            for_each_of_three(&text, |code| found.push(code));
            let short = text.chars().filter(|&c| counts(c)).count() < 3;
            let chars: Vec<u64> = text.chars().filter(|&c| counts(c)).map(|c| u64::from(digit_form(c))).collect();
            let expected: Vec<u64> = chars.windows(3).map(code).collect();
            prop_assert_eq!((&found, short), (&expected, expected.is_empty()));
            prop_assert_eq!(codes(&text, 3), if short && !chars.is_empty() { vec![code(&chars)] } else { expected });
        }
    }
}
