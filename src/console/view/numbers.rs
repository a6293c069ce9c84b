//! Numbers as people write them.

/// A count, its thousands set apart: 12,345.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share from 0 to 1 in whole per cent. Only all is 100 and only nothing is 0: what is nearly so is not called so.
pub fn percent(share: f64) -> u8 {
    match share {
        share if share >= 1.0 => 100,
        share if share <= 0.0 || share.is_nan() => 0,
        share => ((share * 100.0).round() as u8).clamp(1, 99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let table = [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")];
        for (number, text) in table {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn what_is_nearly_all_is_not_all() {
        let table = [(1.0, 100), (0.999, 99), (0.854, 85), (0.002, 1), (0.0, 0), (f64::NAN, 0)];
        for (share, per_cent) in table {
            assert_eq!(percent(share), per_cent, "{share}");
        }
    }
}
