//! Character shingles: runs of letters, digits and Han characters, whatever stands between them (Broder 1997).

/// Characters packed exactly into a 64-bit shingle: three of 21 bits. Longer shingles are hashed.
const PACKED_CHARS: usize = 3;
const BITS_PER_CHAR: u32 = 21;
/// The leading one of three packed characters.
const LEADING: u64 = 1 << 63;
/// Odd multiplier of the polynomial hash of longer shingles (2^64 divided by the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether `c` is a letter, a digit or a Han character. Nearly all are of one block, every character of which is; the table
/// of the others costs more than all else that is done with a character.
#[inline]
pub fn counts(c: char) -> bool {
    matches!(c, '\u{4E00}'..='\u{9FFF}') || c.is_alphanumeric()
}

/// The form in which a character is compared: a digit for a Chinese numeral, so that 三号 and 3号 are the same. Ten and above are no
/// single digit and stay as they are.
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

/// The runs of `width` characters of a text, in order, repetitions included: those of all that [`counts`], in their [`digit_form`]. A text with fewer
/// is one run, one without any has none.
///
/// Up to three characters a run is its own code; above, it is a 64-bit hash and two different runs collide with probability
/// about n²/2^65.
pub fn codes(text: &str, width: u8) -> Vec<u64> {
    let width = usize::from(width.max(1));
    if width == PACKED_CHARS {
        // A third of the bytes where all is Han.
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

/// Calls `each` with what [`codes`] gives of a text of at least three characters that count, for a width of three, without
/// allocating; of a shorter one with nothing.
#[inline]
pub fn for_each_of_three(text: &str, mut each: impl FnMut(u64)) {
    let (mut code, mut seen) = (0, 0);
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
        // A leading one keeps runs of different lengths apart.
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
