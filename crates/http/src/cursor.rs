//! Cursors: positions in lists, encoded for clients. A cursor contains the version of its format. A text that is not a cursor of this
//! service is refused.

use doppel_store::Seq;

/// The version of the format. By this number, a later version of the program can recognise and refuse old cursors.
const VERSION: u8 = 1;

/// Returns the cursor that continues after `seq`.
pub fn encode(seq: Seq) -> String {
    format!("{VERSION:02x}{:016x}", seq.0)
}

/// True if a text consists of the digits of cursors.
fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the seq in a cursor; `None` if it is not a cursor of this service.
pub fn decode(text: &str) -> Option<Seq> {
    let digits = text.len() == 18 && is_hex(text);
    let version = digits.then(|| u8::from_str_radix(&text[..2], 16).ok()).flatten()?;
    (version == VERSION).then(|| u64::from_str_radix(&text[2..], 16).map(Seq).ok()).flatten()
}

pub fn encode_numbers<const N: usize>(numbers: [u64; N]) -> String {
    let hex = numbers.iter().map(|number| format!("{number:016x}")).collect::<String>();
    format!("{VERSION:02x}{hex}")
}

/// Returns the numbers in a cursor of [`encode_numbers`].
pub fn decode_numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let is_whole = text.len() == 2 + 16 * N && is_hex(text) && text[..2] == format!("{VERSION:02x}");
    let numbers = is_whole.then(|| std::array::from_fn(|at| u64::from_str_radix(&text[2 + 16 * at..18 + 16 * at], 16)));
    let numbers: [Result<u64, _>; N] = numbers?;
    numbers.iter().all(Result::is_ok).then(|| numbers.map(|number| number.unwrap_or_default()))
}

/// Makes the cursor that continues after two texts. Neither may be empty.
pub fn encode_texts(first: &str, second: &str) -> String {
    format!("{VERSION:02x}{}00{}", hex_digits(first), hex_digits(second))
}

fn hex_digits(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()
}

/// Returns the texts in a cursor of [`encode_texts`].
pub fn decode_texts(text: &str) -> Option<(String, String)> {
    if !is_hex(text) {
        return None;
    }
    let bytes = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    let (version, rest) = bytes.split_first()?;
    let texts = (*version == VERSION).then(|| String::from_utf8(rest.to_vec()).ok()).flatten()?;
    let (first, second) = texts.split_once('\0')?;
    Some((first.to_owned(), second.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place_and_nothing_else_is_one() {
        for seq in [Seq(0), Seq(1), Seq::MAX] {
            assert_eq!(decode(&encode(seq)), Some(seq));
        }
        assert_eq!(decode_numbers(&encode_numbers([7, 0, u64::MAX])), Some([7, 0, u64::MAX]));
        assert_eq!(decode_numbers::<2>(&encode_numbers([7, 0, u64::MAX])), None);
        assert_eq!(decode_texts(&encode_texts("甲/1", "b")), Some(("甲/1".into(), "b".into())));
        for text in ["", "7", "01", "0161", "016A0062", "01+10062", "中文"] {
            assert_eq!((decode_numbers::<2>(text), decode_texts(text)), (None, None), "{text}");
        }
        for text in [
            "",
            "7",
            "020000000000000001",
            "01000000000000000g",
            "0100000000000000001",
            "01000000000000000A",
            "中文中文中文",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
