//! Converts traditional into simplified characters, one by one.
//!
//! The context of a character is ignored on purpose: two copies of a text are then converted alike at every position.
//! And a function of one character fits into the table of [`normalise`](super::normalise). If a character is mapped to
//! another traditional one, the chain is followed to its end: a second conversion changes nothing.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The blocks that contain traditional characters: the main block of unified ideographs and extension A.
const BLOCKS: [std::ops::RangeInclusive<char>; 2] = ['\u{3400}'..='\u{4DBF}', '\u{4E00}'..='\u{9FFF}'];

static SIMPLIFIED: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let mut buffer = [0; 4];
    let pairs = BLOCKS.into_iter().flatten().filter_map(|from| {
        let to = fast2s::convert(from.encode_utf8(&mut buffer)).chars().next()?;
        (to != from).then_some((from, to))
    });
    let direct: HashMap<char, char> = pairs.collect();
    let mut closed = HashMap::with_capacity(direct.len());
    for &from in direct.keys() {
        let mut to = from;
        // The number of steps is bounded because of cycles. Longer chains do not occur.
        for _ in 0..4 {
            to = direct.get(&to).copied().unwrap_or(to);
        }
        if !direct.contains_key(&to) {
            closed.insert(from, to);
        }
    }
    closed
});

/// Returns the simplified form of `c`, or `c` if it has none. One hash lookup; the first call builds the map.
pub fn simplify(c: char) -> char {
    if BLOCKS.iter().any(|block| block.contains(&c)) { SIMPLIFIED.get(&c).copied().unwrap_or(c) } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traditional_characters_become_simplified_and_others_stay() {
        let text: String = "請有關部門給予解決，謝謝！abc 解决".chars().map(simplify).collect();
        assert_eq!(text, "请有关部门给予解决，谢谢！abc 解决");
    }

    #[test]
    fn simplifying_twice_changes_nothing() {
        for c in BLOCKS.into_iter().flatten() {
            assert_eq!(simplify(simplify(c)), simplify(c), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn the_map_is_not_empty() {
        let changed = BLOCKS.into_iter().flatten().filter(|&c| simplify(c) != c).count();
        assert!(changed > 2000, "{changed}");
    }
}
