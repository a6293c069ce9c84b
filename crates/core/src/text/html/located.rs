//! Positions of the visible text within the HTML.
//!
//! The tokenizer passes the text on in pieces and says how far it has read. A piece is a sequence of characters as
//! written, or the replacement of one character reference. The source of each piece is the part of the HTML that was
//! read since the last piece or the last markup.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;

use html5gum::{DefaultEmitter, Emitter, ForwardingEmitter, Token};

/// Pieces of text that were read and not taken yet, in their order.
#[derive(Default)]
pub(super) struct Pieces(RefCell<VecDeque<Piece>>);

/// A piece of text that was read in one step.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Length of the text, in bytes.
    length: usize,
    /// Source of the text, in bytes of the HTML.
    from: Range<usize>,
    /// True if the text is equal to its source. If false, the whole text comes from the whole source.
    is_literal: bool,
}

impl Pieces {
    /// Returns an emitter that acts as `inner` does, and records here the pieces that are read of `html`.
    pub(super) fn noted_from<'a>(&'a self, html: &'a str, inner: DefaultEmitter) -> impl Emitter<Token = Token> + 'a {
        Located { inner, html: html.as_bytes(), read: 0, ended: 0, pieces: self }
    }

    /// Returns the pieces of the next `bytes` bytes of text.
    pub(super) fn take(&self, bytes: usize) -> Vec<Piece> {
        let mut pieces = self.0.borrow_mut();
        let mut left = bytes;
        let mut taken = Vec::new();
        while left > 0
            && let Some(piece) = pieces.pop_front()
        {
            left = left.saturating_sub(piece.length);
            taken.push(piece);
        }
        taken
    }
}

struct Located<'a> {
    inner: DefaultEmitter,
    html: &'a [u8],
    /// Number of bytes that were read.
    read: usize,
    /// End of the last piece or of the last markup, in bytes.
    ended: usize,
    pieces: &'a Pieces,
}

impl ForwardingEmitter for Located<'_> {
    type Token = Token;

    fn inner(&mut self) -> &mut impl Emitter<Token = Token> {
        &mut self.inner
    }

    fn move_position(&mut self, offset: isize) {
        self.read = self.read.saturating_add_signed(offset);
        Emitter::move_position(&mut self.inner, offset);
    }

    fn init_string(&mut self) {
        self.ended = self.ended.max(self.read);
        Emitter::init_string(&mut self.inner);
    }

    fn emit_string(&mut self, text: &[u8]) {
        let end = self.read.min(self.html.len());
        let from = self.ended.min(end)..end;
        let read = &self.html[from.clone()];
        let mut pieces = self.pieces.0.borrow_mut();
        let last = pieces.back().map(|piece| piece.from.clone());
        let (from, is_literal) = match last {
            // The text of one reference is passed on in two parts.
            Some(last) if read.is_empty() => (last, false),
            _ if read == text => (from, true),
            // The second character of a line end is skipped.
            _ if read.ends_with(text) && !read.starts_with(b"&") => (end - text.len()..end, true),
            _ => (from, false),
        };
        pieces.push_back(Piece { length: text.len(), from, is_literal });
        self.ended = self.ended.max(end);
        drop(pieces);
        Emitter::emit_string(&mut self.inner, text);
    }
}

/// The sources of the characters of a text with these pieces. The characters are requested in their order.
pub(super) struct Sources<'p> {
    pieces: std::slice::Iter<'p, Piece>,
    piece: Option<&'p Piece>,
    /// Start of the piece in the text.
    begin: usize,
}

impl<'p> Sources<'p> {
    pub(super) fn of(pieces: &'p [Piece]) -> Self {
        let mut pieces = pieces.iter();
        let piece = pieces.next();
        Self { pieces, piece, begin: 0 }
    }

    /// Returns the bytes of `html` that are the source of the character at byte `at` of the text.
    pub(super) fn at(&mut self, html: &str, at: usize) -> Range<usize> {
        while let Some(piece) = self.piece
            && self.begin + piece.length <= at
        {
            self.begin += piece.length;
            self.piece = self.pieces.next();
        }
        let Some(piece) = self.piece else { return html.len()..html.len() };
        if !piece.is_literal {
            return piece.from.clone();
        }
        // A piece may end within a character.
        let start = piece.from.start + (at - self.begin);
        let length = html.get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        start..start + length
    }
}

/// Counts characters before positions that come in their order.
pub(super) struct Chars<'a> {
    html: &'a [u8],
    /// The last position, and the number of characters before it.
    at: (usize, usize),
    /// The last range, in bytes and in characters.
    last: (Range<usize>, Range<usize>),
}

impl<'a> Chars<'a> {
    pub(super) fn of(html: &'a str) -> Self {
        Self { html: html.as_bytes(), at: (0, 0), last: (0..0, 0..0) }
    }

    /// Converts a range of bytes into a range of characters. The range must be the last one, or lie after it.
    pub(super) fn of_bytes(&mut self, bytes: Range<usize>) -> Range<usize> {
        if self.last.0 != bytes {
            let start = self.before(bytes.start);
            self.last = (bytes.clone(), start..self.before(bytes.end));
        }
        self.last.1.clone()
    }

    fn before(&mut self, byte: usize) -> usize {
        let (at, chars) = self.at;
        let passed = self.html.get(at..byte).unwrap_or_default();
        let begins = passed.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        self.at = (at.max(byte), chars + begins);
        self.at.1
    }
}
