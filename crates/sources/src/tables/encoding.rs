//! Finds the encoding of a file by its bytes, and decodes strictly.

use std::io::{self, Read};

use encoding_rs::{DecoderResult, GB18030, UTF_8};

/// Number of bytes that are examined together.
const PIECE: usize = 1 << 16;
/// A text has at most one NUL character in this number of bytes, and one more. Some programs export a few into cells. In UTF-16, each line
/// end contains one, and in a compressed file they are one byte in 256.
const BYTES_PER_NUL: usize = 1_000;
/// Replaces half of a character that UTF-16 writes in two halves. UTF-8 never contains this byte, so that the row is recognised as
/// undecodable.
const NO_CHARACTER: u8 = 0xff;

/// The encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum TextEncoding {
    /// UTF-8
    #[cfg_attr(feature = "clap", value(name = "utf-8"))]
    Utf8,
    /// UTF-8 with a byte order mark.
    #[cfg_attr(feature = "clap", value(skip))]
    Utf8Mark,
    /// UTF-16, the lower byte first
    #[cfg_attr(feature = "clap", value(name = "utf-16le"))]
    Utf16Le,
    /// UTF-16, the higher byte first
    #[cfg_attr(feature = "clap", value(name = "utf-16be"))]
    Utf16Be,
    /// GB18030 with GBK and GB2312: the encoding of Chinese files from Excel
    #[cfg_attr(feature = "clap", value(name = "gb18030", aliases = ["gbk", "gb2312"]))]
    Gb18030,
}

impl TextEncoding {
    /// Returns the name of the encoding for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 | Self::Utf8Mark => "UTF-8",
            Self::Utf16Le | Self::Utf16Be => "UTF-16",
            Self::Gb18030 => "GB18030",
        }
    }

    /// Finds the encoding of a whole file. A byte order mark decides; otherwise the file is UTF-8 if it is valid UTF-8, and otherwise UTF-8
    /// or GB18030, whichever has fewer places that cannot be decoded. Returns `None` if the file contains so many NUL characters that it is
    /// not text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(file: impl Read) -> io::Result<Option<Self>> {
        Self::found(file, true)
    }

    /// Finds the encoding from the beginning of a text. `is_all` says that `head` is the whole text.
    ///
    /// # Errors
    /// None, because only `head` is read.
    pub(super) fn of_head(head: &[u8], is_all: bool) -> io::Result<Option<Self>> {
        Self::found(head, is_all)
    }

    fn found(mut file: impl Read, is_all: bool) -> io::Result<Option<Self>> {
        let mut piece = vec![0; PIECE];
        let mut read = super::read_up_to(&mut file, &mut piece)?;
        match &piece[..read] {
            [0xef, 0xbb, 0xbf, ..] => return Ok(Some(Self::Utf8Mark)),
            [0xff, 0xfe, ..] => return Ok(Some(Self::Utf16Le)),
            [0xfe, 0xff, ..] => return Ok(Some(Self::Utf16Be)),
            _ => (),
        }
        let mut utf8 = EncodingFaults::of(UTF_8);
        let mut gb = EncodingFaults::of(GB18030);
        let mut bytes = 0;
        let mut nuls = 0;
        while read > 0 {
            bytes += read;
            nuls += piece[..read].iter().filter(|byte| **byte == 0).count();
            if nuls > 1 + bytes / BYTES_PER_NUL {
                return Ok(None);
            }
            utf8.look(&piece[..read], false);
            gb.look(&piece[..read], false);
            read = super::read_up_to(&mut file, &mut piece)?;
        }
        utf8.look(&[], is_all);
        gb.look(&[], is_all);
        Ok(Some(if utf8.count <= gb.count { Self::Utf8 } else { Self::Gb18030 }))
    }

    /// Returns the number of bytes of the byte order mark at the beginning of a file; 0 if there is no mark.
    pub(super) fn mark_of(self, head: &[u8]) -> u64 {
        let mark: &[u8] = match self {
            Self::Utf8 | Self::Utf8Mark => &[0xef, 0xbb, 0xbf],
            Self::Utf16Le => &[0xff, 0xfe],
            Self::Utf16Be => &[0xfe, 0xff],
            Self::Gb18030 => &[],
        };
        if head.starts_with(mark) { mark.len() as u64 } else { 0 }
    }

    /// Decodes a value from a file of this encoding; UTF-16 must be converted by [`Utf16Reader`] before. Returns the text, and true if all
    /// bytes were text.
    pub(super) fn decode(self, bytes: &[u8]) -> (String, bool) {
        let encoding = if self == Self::Gb18030 { GB18030 } else { UTF_8 };
        let (text, faulty) = encoding.decode_without_bom_handling(bytes);
        (text.into_owned(), !faulty)
    }
}

/// Counts the places in a file that cannot be decoded in an encoding.
struct EncodingFaults {
    decoder: encoding_rs::Decoder,
    count: u64,
    decoded: String,
}

impl EncodingFaults {
    fn of(encoding: &'static encoding_rs::Encoding) -> Self {
        Self {
            decoder: encoding.new_decoder_without_bom_handling(),
            count: 0,
            decoded: String::with_capacity(4 * PIECE),
        }
    }

    fn look(&mut self, mut bytes: &[u8], last: bool) {
        loop {
            self.decoded.clear();
            let (result, read) = self.decoder.decode_to_string_without_replacement(bytes, &mut self.decoded, last);
            bytes = &bytes[read..];
            match result {
                DecoderResult::InputEmpty => return,
                DecoderResult::OutputFull => (),
                DecoderResult::Malformed(..) => self.count += 1,
            }
        }
    }
}

/// Reads UTF-16 and returns UTF-8. Half a character becomes a byte that never occurs in UTF-8.
pub(super) struct Utf16Reader<R> {
    input: R,
    big: bool,
    /// The first half of a character whose second half has not been read.
    half: Option<u16>,
    out: Vec<u8>,
    given: usize,
}

impl<R: Read> Utf16Reader<R> {
    pub(super) fn new(input: R, big: bool) -> Self {
        Self { input, big, half: None, out: Vec::new(), given: 0 }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut piece = [0; 1 << 13];
        let read = super::read_up_to(&mut self.input, &mut piece)?;
        (self.given, self.out) = (0, Vec::with_capacity(2 * read));
        let units = piece[..read].chunks(2).map(|pair| match pair {
            [a, b] if self.big => u16::from_be_bytes([*a, *b]),
            [a, b] => u16::from_le_bytes([*a, *b]),
            // The file ends with half a unit.
            _ => 0xdfff,
        });
        let units: Vec<u16> = self.half.take().into_iter().chain(units).collect();
        let is_whole = read < piece.len();
        let mut units = units.as_slice();
        if let ([before @ .., 0xd800..=0xdbff], false) = (units, is_whole) {
            self.half = units.last().copied();
            units = before;
        }
        for unit in char::decode_utf16(units.iter().copied()) {
            match unit {
                Ok(sign) => self.out.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(_) => self.out.push(NO_CHARACTER),
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() {
            self.fill()?;
        }
        let rest = &self.out[self.given..];
        let count = rest.len().min(to.len());
        to[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}
