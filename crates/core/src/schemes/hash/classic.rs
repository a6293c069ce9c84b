//! The multiplicative hash found in most public Simhash code.

/// Hashes the UTF-16 code units: x starts as the first unit shifted left by 7; for each unit c, x = x·1000003 ⊕ c; the result is x ⊕ length. The
/// empty text gives 0. Short words fill few bits, so that some values of a block are very frequent.
pub fn classic(text: &str) -> u64 {
    let mut units = text.encode_utf16().peekable();
    let Some(&first) = units.peek() else { return 0 };
    let mut hash = u64::from(first) << 7;
    let mut length = 0;
    for unit in units {
        hash = hash.wrapping_mul(1_000_003) ^ u64::from(unit);
        length += 1;
    }
    hash ^ length
}
