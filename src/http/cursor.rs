//! Places in lists, as clients see them: opaque, versioned, and refused when they are not ours.

use crate::store::Seq;

/// The version of the format; a later one can tell old cursors and refuse them with a reason.
const VERSION: u8 = 1;

/// The cursor that continues after `seq`.
pub fn encode(seq: Seq) -> String {
    format!("{VERSION:02x}{seq:016x}")
}

/// The seq in a cursor, if it is one of ours.
pub fn decode(text: &str) -> Option<Seq> {
    let digits = text.len() == 18 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let version = digits.then(|| u8::from_str_radix(&text[..2], 16).ok()).flatten()?;
    (version == VERSION).then(|| Seq::from_str_radix(&text[2..], 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place_and_nothing_else_is_one() {
        for seq in [0, 1, 0xffff_ffff_ffff_ffff] {
            assert_eq!(decode(&encode(seq)), Some(seq));
        }
        for text in ["", "7", "020000000000000001", "01000000000000000g", "0100000000000000001", "中文中文中文"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
