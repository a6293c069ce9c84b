//! Reads the validity period of a certificate, which the TLS library does not return.
//!
//! A certificate consists of nested DER elements, each with a tag, a length and its bytes. The two times are at a fixed position (RFC 5280,
//! 4.1). Any error gives `None`.

use jiff::Timestamp;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The period in which a certificate is valid. Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValidityPeriod {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

/// Returns the tag of the first element of `bytes`, its content, and the bytes after it.
fn piece(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (held, behind) = rest.split_at_checked(length)?;
    Some((tag, held, behind))
}

/// Returns the content of the first element, which must have this tag, and the bytes after it.
fn expect(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    piece(bytes).filter(|(tag, ..)| *tag == wanted).map(|(_, held, behind)| (held, behind))
}

/// Returns the validity of a certificate in DER.
pub(super) fn of(certificate: &[u8]) -> Option<ValidityPeriod> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (signed, _) = expect(certificate, SEQUENCE)?;
    // Certificates of version 1 contain no version.
    let fields = expect(signed, VERSION).map_or(signed, |(_, behind)| behind);
    let (_serial, fields) = expect(fields, INTEGER)?;
    let (_algorithm, fields) = expect(fields, SEQUENCE)?;
    let (_issuer, fields) = expect(fields, SEQUENCE)?;
    let (validity, _) = expect(fields, SEQUENCE)?;
    let (not_before, behind) = time(validity)?;
    let (not_after, _) = time(behind)?;
    Some(ValidityPeriod { not_before, not_after })
}

fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (tag, digits, behind) = piece(bytes)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let full = match tag {
        // Years with two digits mean 1950 to 2049.
        UTC_TIME => format!("{}{digits}", if digits.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" }),
        GENERALIZED_TIME => digits.to_owned(),
        _ => return None,
    };
    let full = full.strip_suffix('Z').filter(|full| full.len() == 14 && full.bytes().all(|b| b.is_ascii_digit()))?;
    let [date, clock] = [full.get(..8)?, full.get(8..)?];
    let text =
        format!("{}-{}-{}T{}:{}:{}Z", &date[..4], &date[4..6], &date[6..], &clock[..2], &clock[2..4], &clock[4..]);
    Some((text.parse().ok()?, behind))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn the_times_of_a_certificate_are_found_in_both_spellings() {
        for (from, to) in [((1999, 1, 2), (2049, 12, 31)), ((2026, 5, 6), (2150, 7, 8))] {
            let mut params = CertificateParams::new(["desk.example".to_owned()]).unwrap();
            params.not_before = date_time_ymd(from.0, from.1, from.2);
            params.not_after = date_time_ymd(to.0, to.1, to.2);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let found = of(certificate.der()).unwrap();
            assert_eq!(
                (found.not_before.to_string(), found.not_after.to_string()),
                (start_of_day(from.0, from.1, from.2), start_of_day(to.0, to.1, to.2))
            );
        }
    }

    fn start_of_day(year: i32, month: u8, day: u8) -> String {
        format!("{year:04}-{month:02}-{day:02}T00:00:00Z")
    }

    #[test]
    fn text_that_is_not_a_certificate_has_no_validity() {
        let certificate = CertificateParams::new(["a".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let whole = certificate.der();
        for cut in [0, 1, 2, 5, 40, whole.len() / 2, whole.len() - 1] {
            assert_eq!(of(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(of(b"not a certificate"), None);
    }
}
