//! Writes numbers of workbooks as text, with all digits that the file has.
//!
//! A workbook contains the digits of a number that the writing program has printed. Excel keeps 15 digits: if a person types an identity
//! number of 18 digits as a number, Excel drops three digits. Other programs write all digits. A floating-point number has 15 to 17 digits.

use std::collections::HashMap;

/// From this number on, digits may be missing.
const EXACT: f64 = 1e15;
/// The largest number of zeros of a format.
const MOST_ZEROS: usize = 32;

/// The whole numbers of a sheet that are written with all digits and are too long for a floating-point number. The key is row and column,
/// from 0.
pub(super) type LongNumbers = HashMap<(u32, u32), Box<str>>;

/// True for a number that may have more digits than a floating-point number keeps.
pub(super) fn is_long(value: f64) -> bool {
    value.abs() >= EXACT
}

/// Returns a number as text. A number that may have lost digits has a form that no reader takes for an exact number: `3.30106E+17`.
pub(super) fn number_text(value: f64) -> String {
    if is_long(value) && value.is_finite() { format!("{value:E}").replace('E', "E+") } else { value.to_string() }
}

/// A format that shows a whole number with a fixed number of digits, such as `000000`. It may contain other characters: `"信"0000-000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZeroFormat {
    /// The characters of the format; `None` for a digit.
    signs: Vec<Option<char>>,
}

impl ZeroFormat {
    /// Parses the code of a number format. Returns `None` for formats of other kinds.
    pub(super) fn parse(code: &str) -> Option<Self> {
        let mut signs = Vec::new();
        let mut rest = code.split(';').next()?.chars();
        while let Some(sign) = rest.next() {
            match sign {
                '0' => signs.push(None),
                '"' => signs.extend(rest.by_ref().take_while(|sign| *sign != '"').map(Some)),
                '\\' => signs.push(Some(rest.next()?)),
                '-' | ' ' | '(' | ')' => signs.push(Some(sign)),
                _ => return None,
            }
        }
        let zeros = signs.iter().filter(|sign| sign.is_none()).count();
        // A single zero is the format of any whole number.
        ((2..=MOST_ZEROS).contains(&zeros)).then_some(Self { signs })
    }

    /// Returns a whole number in this format. Returns `None` for other numbers.
    pub(super) fn show(&self, value: f64) -> Option<String> {
        if value < 0.0 || value.fract() != 0.0 || is_long(value) {
            return None;
        }
        let zeros = self.signs.iter().filter(|sign| sign.is_none()).count();
        let digits = format!("{value:0zeros$.0}");
        // Digits beyond the number of zeros go to the place of the first zero.
        let mut rest = digits.chars();
        let mut text = String::new();
        let mut more = digits.len() - zeros;
        for sign in &self.signs {
            match sign {
                Some(sign) => text.push(*sign),
                None => {
                    text.extend(rest.by_ref().take(1 + std::mem::take(&mut more)));
                }
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_with_the_digits_that_it_has() {
        for (value, text) in [
            (7.0, "7"),
            (0.25, "0.25"),
            (13_900_001_111.0, "13900001111"),
            (999_999_999_999_999.0, "999999999999999"),
            (1e15, "1E+15"),
            (3.301061990010113e17, "3.301061990010113E+17"),
            (-2e18, "-2E+18"),
        ] {
            assert_eq!(number_text(value), text);
        }
    }

    #[test]
    fn a_format_of_zeros_keeps_leading_zeros() {
        assert_eq!(show_number("000000", 7.0).as_deref(), Some("000007"));
        assert_eq!(show_number("000000", 12_345_678.0).as_deref(), Some("12345678"));
        assert_eq!(show_number("\"信\"0000-000", 1234.0).as_deref(), Some("信0001-234"));
        assert_eq!(show_number("\\X00;-00", 5.0).as_deref(), Some("X05"));
        for (code, value) in
            [("0", 7.0), ("0.00", 7.0), ("General", 7.0), ("#,##0", 7.0), ("000", 7.5), ("000", -7.0), ("yyyy", 7.0)]
        {
            assert_eq!(show_number(code, value), None, "{code} {value}");
        }
    }

    fn show_number(code: &str, value: f64) -> Option<String> {
        ZeroFormat::parse(code).and_then(|format| format.show(value))
    }
}
