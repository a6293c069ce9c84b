//! Cursors: positions in lists, encoded for clients. A cursor contains the version of its format and the list that it belongs to. A text
//! that is not a cursor of the same list is refused.

use doppel_store::Seq;

/// The version of the format. By this number, a later version of the program can recognise and refuse old cursors.
const VERSION: u8 = 2;

/// A list that has cursors. Its number is part of each cursor.
#[derive(Clone, Copy, Debug)]
pub enum CursorList {
    Records = 1,
    Arrivals = 2,
    Groups = 3,
    Events = 4,
    Tasks = 5,
    Decisions = 6,
    Collections = 7,
    Hits = 8,
    /// No list: the forms of the desk contain positions of records in the same form.
    DeskForms = 9,
}

impl CursorList {
    /// Returns the cursor that continues after these numbers.
    pub fn encode<const N: usize>(self, numbers: [u64; N]) -> String {
        let hex: String = numbers.iter().map(|number| format!("{number:016x}")).collect();
        format!("{}{hex}", self.prefix())
    }

    /// Returns the numbers in a cursor; `None` if the text is no cursor of this list.
    pub fn decode<const N: usize>(self, text: &str) -> Option<[u64; N]> {
        let digits = self.position(text).filter(|digits| digits.len() == 16 * N)?;
        let mut numbers = [0; N];
        for (at, number) in numbers.iter_mut().enumerate() {
            *number = u64::from_str_radix(&digits[16 * at..][..16], 16).ok()?;
        }
        Some(numbers)
    }

    /// Returns the cursor that continues after `seq`.
    pub fn encode_seq(self, seq: Seq) -> String {
        self.encode([seq.0])
    }

    /// Returns the seq in a cursor of [`encode_seq`](Self::encode_seq).
    pub fn decode_seq(self, text: &str) -> Option<Seq> {
        self.decode(text).map(|[seq]| Seq(seq))
    }

    /// Returns the cursor that continues after two texts. Neither may be empty.
    pub fn encode_texts(self, first: &str, second: &str) -> String {
        format!("{}{}00{}", self.prefix(), hex_digits(first), hex_digits(second))
    }

    /// Returns the texts in a cursor of [`encode_texts`](Self::encode_texts).
    pub fn decode_texts(self, text: &str) -> Option<(String, String)> {
        let digits = self.position(text)?;
        let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        let texts = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
        let (first, second) = texts.split_once('\0')?;
        Some((first.to_owned(), second.to_owned()))
    }

    fn prefix(self) -> String {
        format!("{VERSION:02x}{:02x}", self as u8)
    }

    /// Returns the digits of the position in a cursor of this list.
    fn position(self, text: &str) -> Option<&str> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| text.strip_prefix(&self.prefix())).flatten()
    }
}

fn hex_digits(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::CursorList::{Groups, Records, Tasks};
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        for seq in [Seq(0), Seq(1), Seq::MAX] {
            assert_eq!(Records.decode_seq(&Records.encode_seq(seq)), Some(seq));
        }
        assert_eq!(Groups.decode(&Groups.encode([7, 0, u64::MAX])), Some([7, 0, u64::MAX]));
        assert_eq!(Tasks.decode_texts(&Tasks.encode_texts("甲/1", "b")), Some(("甲/1".into(), "b".into())));
    }

    #[test]
    fn other_texts_and_cursors_of_other_lists_are_refused() {
        assert_eq!(Groups.decode::<2>(&Groups.encode([7, 0, u64::MAX])), None);
        assert_eq!(Groups.decode_seq(&Records.encode_seq(Seq(7))), None);
        assert_eq!(Groups.decode_texts(&Tasks.encode_texts("甲/1", "b")), None);
        for text in [
            "",
            "7",
            "0201",
            "020161",
            "0201A0062",
            "02+10062",
            "中文",
            "01010000000000000001",
            "0201000000000000000g",
            "02010000000000000000 1",
            "0201000000000000000A",
        ] {
            assert_eq!((Records.decode::<1>(text), Records.decode_texts(text)), (None, None), "{text}");
        }
    }
}
