//! Numbers in the form that people write.

/// Returns a count with separators between the thousands: 12,345.
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

/// Returns a number of bytes in a unit for which the value is at least 1 and below 1,024, with one decimal: 12.3 MiB.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut size = number as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    format!("{size:.1} {}", UNITS[unit])
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
    fn sizes_are_in_a_unit_that_leaves_few_digits() {
        let table = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_048_575, "1.0 MiB"), (3 << 29, "1.5 GiB")];
        for (number, text) in table {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }
}
