//! Where text that was read of HTML stands in it.
//!
//! The tokenizer hands text on in pieces - characters as they stand, or what one character reference stands for - and says how far it has
//! read. Each piece comes from what was read since the last one, or since the last markup.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;

use html5gum::{DefaultEmitter, Emitter, ForwardingEmitter, Token};

/// Pieces of text that were read and not taken yet, in their order.
#[derive(Default)]
pub(super) struct Pieces(RefCell<VecDeque<Piece>>);

/// Text that was read at once.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Its length as text, in bytes.
    length: usize,
    /// Where it comes from, in bytes of the HTML.
    from: Range<usize>,
    /// Whether it is as it stands there: otherwise all of it comes from all of that.
    is_literal: bool,
}

impl Pieces {
    /// An emitter that does what `inner` does, and notes the pieces that are read of `html` here.
    pub(super) fn noted_from<'a>(&'a self, html: &'a str, inner: DefaultEmitter) -> impl Emitter<Token = Token> + 'a {
        Located { inner, html: html.as_bytes(), read: 0, ended: 0, pieces: self }
    }

    /// The pieces of the next `bytes` bytes of text.
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
    /// Bytes that were read.
    read: usize,
    /// Where the last piece ended, or the last markup.
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
        let piece = |from, is_literal| Piece { length: text.len(), from, is_literal };
        pieces.push_back(match last {
            // Handed on by halves.
            Some(last) if read.is_empty() => piece(last, false),
            _ if read == text => piece(from, true),
            // The second half of a line end is passed over.
            _ if read.ends_with(text) && !read.starts_with(b"&") => piece(end - text.len()..end, true),
            _ => piece(from, false),
        });
        self.ended = self.ended.max(end);
        drop(pieces);
        Emitter::emit_string(&mut self.inner, text);
    }
}

/// Where characters of a text come from whose pieces these are, asked for in their order.
pub(super) struct Sources<'p> {
    pieces: std::slice::Iter<'p, Piece>,
    piece: Option<&'p Piece>,
    /// Where the piece begins in the text.
    begin: usize,
}

impl<'p> Sources<'p> {
    pub(super) fn of(pieces: &'p [Piece]) -> Self {
        let mut pieces = pieces.iter();
        let piece = pieces.next();
        Self { pieces, piece, begin: 0 }
    }

    /// Bytes of `html` from which the character at byte `at` of the text comes.
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

/// Counts characters up to places that come in their order.
pub(super) struct Chars<'a> {
    html: &'a [u8],
    /// The last place, and the characters before it.
    at: (usize, usize),
    /// The last range, in bytes and characters.
    last: (Range<usize>, Range<usize>),
}

impl<'a> Chars<'a> {
    pub(super) fn of(html: &'a str) -> Self {
        Self { html: html.as_bytes(), at: (0, 0), last: (0..0, 0..0) }
    }

    /// A range of bytes, which is the last one or lies behind it, in characters.
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
