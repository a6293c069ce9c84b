//! Decompresses request bodies while they arrive.
//!
//! A piece of a body gives pieces of at most [`PIECE_BYTES`]. Each is decompressed when it is requested, so that a reader with a limit
//! decompresses no more than this limit. A body that is incomplete, has other bytes after its end, or does not match its checksum is
//! [`ExpandError::Malformed`]. Streams have no limit; a stream with an extreme compression ratio, or a stream that continues without giving
//! any bytes, is refused. The limit of a body that is read as a whole also applies to the compressed bytes ([`CompressedLimit`]).

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use hyper::body::Frame;
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

use super::{ContentCoding, of_body};
use crate::problem::Problem;

/// Largest number of bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// A body may always expand to this number of bytes. Only a stream may have so many bytes.
pub const FREE_BYTES: u64 = 16 << 20;
/// Beyond [`FREE_BYTES`], a body may expand to this multiple of its compressed size. Letters expand five to twenty times, and one letter
/// that is repeated expands about a hundred times.
pub const MOST_EXPANSION: u64 = 200;
/// This number of compressed bytes may give no content. A block of zstd has at most 128 KiB.
const MOST_EMPTY_BYTES: u64 = 1 << 20;
/// Each byte of content allows this number of compressed bytes without content. A gzip member with a line of two letters has about ten
/// bytes for each byte of content.
const LEAST_EXPANSION: u64 = 16;
/// After this number of steps without content, other tasks run. An empty gzip member is one step, and takes one or two microseconds.
const MOST_STEPS: usize = 64;
/// Binary logarithm of the window of zstd. The window is the memory that a body needs while it arrives: 2 MiB. It is small because every
/// request in progress may have one.
const WINDOW_LOG: u32 = 21;
/// Binary logarithm of the window for a stream: 8 MiB, as RFC 9659 requires for the web. Only few streams arrive at the same time.
const STREAM_WINDOW_LOG: u32 = 23;
/// Binary logarithm of the window of gzip: 32 KiB.
const GZIP_WINDOW_BITS: u8 = 15;

/// The reasons why a body cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The body is incomplete, or not valid in its coding.
    #[error("the body is not complete and valid {}", .0.name())]
    Malformed(ContentCoding),
    /// The body expands too much.
    #[error("the body expands to more than {MOST_EXPANSION} times its size")]
    Expands,
    /// Too many compressed bytes give no content.
    #[error("the body has more than {MOST_EMPTY_BYTES} bytes that expand to nothing")]
    Empty,
    /// The compressed body is longer than its limit.
    #[error("the compressed body is too large")]
    TooLong,
}

/// The largest number of compressed bytes of a body. The reader of the body sets it, and the extensions of the request contain it.
#[derive(Clone, Debug)]
pub struct CompressedLimit(Arc<AtomicU64>);

impl CompressedLimit {
    pub fn set(&self, max: u64) {
        self.0.store(max, Ordering::Relaxed);
    }
}

impl ExpandError {
    /// Returns the reason if it caused an error of a body.
    pub fn in_error(error: &(dyn Error + 'static)) -> Option<Self> {
        std::iter::successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref().copied())
    }
}

/// The way in which a route reads the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyReading {
    /// The route reads the body as a whole, within a limit.
    Whole,
    /// The route reads the body piece by piece, without a limit.
    Stream,
}

/// Returns the request with a body that is decompressed while it is read, if the body is compressed.
///
/// # Errors
/// 415 if the coding is not supported.
pub fn expanded(request: Request, reading: BodyReading) -> Result<Request, Problem> {
    let Some(coding) = of_body(request.headers())? else { return Ok(request) };
    // The reader of a body that is read as a whole lowers this limit.
    let limit = CompressedLimit(Arc::new(AtomicU64::new(u64::MAX)));
    let window = match reading {
        BodyReading::Whole => WINDOW_LOG,
        BodyReading::Stream => STREAM_WINDOW_LOG,
    };
    let mut request = request.map(|body| Body::new(ExpandingBody::new(body, coding, window, limit.clone())));
    request.extensions_mut().insert(limit);
    request.headers_mut().remove(header::CONTENT_ENCODING);
    request.headers_mut().remove(header::CONTENT_LENGTH);
    metrics::counter!("doppel_http_compressed_bodies_total", "encoding" => coding.name()).increment(1);
    Ok(request)
}

/// A body that is decompressed while it is read.
struct ExpandingBody {
    body: Body,
    coding: ContentCoding,
    decoder: BodyDecoder,
    /// The bytes that arrived and are not decompressed yet.
    input: Bytes,
    /// True if the decoder may return more bytes without more input.
    is_full: bool,
    /// The buffer for the next piece: empty, or of [`PIECE_BYTES`].
    room: Vec<u8>,
    limit: CompressedLimit,
    came: u64,
    gave: u64,
    /// Compressed bytes that have given no content, less an allowance for each byte of content ([`LEAST_EXPANSION`]).
    empty: u64,
    ended: bool,
}

/// The result of decompressing the bytes that have arrived.
enum ExpandStep {
    Piece(Bytes),
    /// More compressed bytes are needed.
    More,
    /// The decompression is not finished, but other tasks must run.
    Yield,
}

enum BodyDecoder {
    /// `is_between` is true before a gzip member. The body may end there.
    Gzip { state: Box<Decompress>, is_between: bool },
    /// `is_between` is true before a frame. The body may end there.
    Zstd { state: zstd::stream::raw::Decoder<'static>, is_between: bool },
    /// The decoder could not be created.
    Failed,
}

impl BodyDecoder {
    fn new(coding: ContentCoding, window: u32) -> Self {
        match coding {
            ContentCoding::Gzip => {
                Self::Gzip { state: Box::new(Decompress::new_gzip(GZIP_WINDOW_BITS)), is_between: true }
            }
            ContentCoding::Zstd => {
                let state = zstd::stream::raw::Decoder::new().and_then(|mut state| {
                    state.set_parameter(DParameter::WindowLogMax(window))?;
                    Ok(state)
                });
                state.map_or(Self::Failed, |state| Self::Zstd { state, is_between: true })
            }
        }
    }

    /// Decompresses a part of `input` into `output`. Returns the numbers of bytes that were read and written.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<(usize, usize)> {
        match self {
            Self::Gzip { state, is_between } => {
                let taken = state.total_in();
                let given = state.total_out();
                let status = state.decompress(input, output, FlushDecompress::None)?;
                let step = ((state.total_in() - taken) as usize, (state.total_out() - given) as usize);
                *is_between = status == Status::StreamEnd;
                if *is_between {
                    // Another member may follow (RFC 1952, 2.2).
                    state.reset(true);
                }
                Ok(step)
            }
            Self::Zstd { state, is_between } => {
                let mut from = InBuffer::around(input);
                let mut to = OutBuffer::around(output);
                *is_between = state.run(&mut from, &mut to)? == 0;
                Ok((from.pos(), to.pos()))
            }
            Self::Failed => Err(io::Error::other("no memory for a decoder")),
        }
    }

    fn is_between(&self) -> bool {
        match self {
            Self::Gzip { is_between, .. } | Self::Zstd { is_between, .. } => *is_between,
            Self::Failed => false,
        }
    }
}

impl ExpandingBody {
    fn new(body: Body, coding: ContentCoding, window: u32, limit: CompressedLimit) -> Self {
        let decoder = BodyDecoder::new(coding, window);
        let input = Bytes::new();
        let room = Vec::new();
        let came = 0;
        let gave = 0;
        let empty = 0;
        Self { body, coding, decoder, input, is_full: false, room, limit, came, gave, empty, ended: false }
    }

    /// Adds bytes that have arrived.
    fn take_in(&mut self, input: Bytes) -> Result<(), ExpandError> {
        self.came += input.len() as u64;
        self.input = input;
        if self.came > self.limit.0.load(Ordering::Relaxed) { Err(ExpandError::TooLong) } else { Ok(()) }
    }

    /// Decompresses the next piece of the bytes that have arrived.
    fn next_piece(&mut self) -> Result<ExpandStep, ExpandError> {
        for _ in 0..MOST_STEPS {
            if !self.is_full && self.input.is_empty() {
                return Ok(ExpandStep::More);
            }
            let given = self.step()?;
            // A short piece is copied, so that it does not keep a large buffer in memory.
            if given > PIECE_BYTES / 2 {
                let mut piece = std::mem::take(&mut self.room);
                piece.truncate(given);
                return Ok(ExpandStep::Piece(piece.into()));
            }
            if given > 0 {
                return Ok(ExpandStep::Piece(Bytes::copy_from_slice(&self.room[..given])));
            }
        }
        Ok(ExpandStep::Yield)
    }

    /// Decompresses a part of the input into `room`. Returns the number of bytes that were written.
    fn step(&mut self) -> Result<usize, ExpandError> {
        self.room.resize(PIECE_BYTES, 0);
        let step = self.decoder.step(&self.input, &mut self.room);
        let (taken, given) = step.map_err(|_| ExpandError::Malformed(self.coding))?;
        if taken == 0 && given == 0 && !self.input.is_empty() {
            return Err(ExpandError::Malformed(self.coding));
        }
        let _ = self.input.split_to(taken);
        self.is_full = given == PIECE_BYTES && !self.decoder.is_between();
        self.gave += given as u64;
        if self.gave > FREE_BYTES && self.gave / MOST_EXPANSION > self.came {
            return Err(ExpandError::Expands);
        }
        self.empty = (self.empty + taken as u64).saturating_sub(LEAST_EXPANSION * given as u64);
        if self.empty > MOST_EMPTY_BYTES { Err(ExpandError::Empty) } else { Ok(given) }
    }
}

impl HttpBody for ExpandingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            match self.next_piece() {
                Ok(ExpandStep::Piece(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Ok(ExpandStep::More) => (),
                Ok(ExpandStep::Yield) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(trouble) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(axum::Error::new(trouble))));
                }
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Err(trouble) = self.take_in(frame.into_data().unwrap_or_default()) {
                        self.ended = true;
                        return Poll::Ready(Some(Err(axum::Error::new(trouble))));
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.ended = true;
                    // A body without any bytes is an empty body.
                    if self.came > 0 && !self.decoder.is_between() {
                        return Poll::Ready(Some(Err(axum::Error::new(ExpandError::Malformed(self.coding)))));
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http_body_util::BodyExt as _;

    use super::*;

    fn compress(coding: ContentCoding, text: &[u8]) -> Vec<u8> {
        match coding {
            ContentCoding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            ContentCoding::Zstd => zstd::stream::encode_all(text, 1).unwrap(),
        }
    }

    async fn expand(coding: ContentCoding, bytes: &[u8], piece: usize) -> Result<Vec<u8>, Option<ExpandError>> {
        expand_within(u64::MAX, coding, bytes, piece).await
    }

    async fn expand_within(
        most: u64,
        coding: ContentCoding,
        bytes: &[u8],
        piece: usize,
    ) -> Result<Vec<u8>, Option<ExpandError>> {
        let pieces: Vec<io::Result<Bytes>> =
            bytes.chunks(piece.max(1)).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let limit = CompressedLimit(Arc::new(AtomicU64::new(most)));
        let body =
            Body::new(ExpandingBody::new(Body::from_stream(tokio_stream::iter(pieces)), coding, WINDOW_LOG, limit));
        match body.collect().await {
            Ok(whole) => Ok(whole.to_bytes().to_vec()),
            Err(error) => Err(ExpandError::in_error(&error)),
        }
    }

    /// Returns about 200 KB that hardly compress, followed by the same number of bytes that compress well.
    fn text() -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let mut text: Vec<u8> = (0..200_000).map(|_| next()).collect();
        text.resize(400_000, b'a');
        text
    }

    #[tokio::test]
    async fn a_compressed_body_in_any_pieces_gives_the_original_content() {
        for coding in [ContentCoding::Gzip, ContentCoding::Zstd] {
            for text in [text(), b"{}".to_vec(), Vec::new(), vec![b' '; PIECE_BYTES], vec![b' '; 3 * PIECE_BYTES]] {
                let bytes = compress(coding, &text);
                for piece in [7, 4096, usize::MAX] {
                    assert!(expand(coding, &bytes, piece).await.unwrap() == text, "{coding:?} by {piece}");
                }
                // Several members or frames are also one body.
                let twice = [bytes.clone(), bytes].concat();
                assert_eq!(expand(coding, &twice, 4096).await.unwrap().len(), text.len() * 2, "{coding:?}");
            }
            assert_eq!(expand(coding, b"", 1).await, Ok(Vec::new()));
        }
    }

    #[tokio::test]
    async fn an_incomplete_damaged_or_uncompressed_body_is_malformed() {
        for coding in [ContentCoding::Gzip, ContentCoding::Zstd] {
            let malformed = Err(Some(ExpandError::Malformed(coding)));
            let bytes = compress(coding, &text());
            for end in [1, bytes.len() / 2, bytes.len() - 1] {
                assert_eq!(expand(coding, &bytes[..end], 4096).await, malformed, "{coding:?} up to {end}");
            }
            assert_eq!(expand(coding, &[&bytes[..], b"more"].concat(), 4096).await, malformed);
            assert_eq!(expand(coding, b"{\"content\":\"plain\"}", 4096).await, malformed);
        }
        let mut gzip = compress(ContentCoding::Gzip, &text());
        let checksum = gzip.len() - 6;
        gzip[checksum] ^= 1;
        assert_eq!(
            expand(ContentCoding::Gzip, &gzip, 4096).await,
            Err(Some(ExpandError::Malformed(ContentCoding::Gzip)))
        );
        // The window has 4 MiB.
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(WINDOW_LOG + 1).unwrap();
        encoder.write_all(&vec![b'a'; 1 << 10]).unwrap();
        let wide = encoder.finish().unwrap();
        assert_eq!(
            expand(ContentCoding::Zstd, &wide, 4096).await,
            Err(Some(ExpandError::Malformed(ContentCoding::Zstd)))
        );
    }

    #[tokio::test]
    async fn a_body_that_expands_too_much_is_refused() {
        for coding in [ContentCoding::Gzip, ContentCoding::Zstd] {
            let bomb = compress(coding, &vec![b' '; 64 << 20]);
            assert!(bomb.len() < 1 << 17);
            assert_eq!(expand(coding, &bomb, 4096).await, Err(Some(ExpandError::Expands)), "{coding:?}");
        }
    }

    #[tokio::test]
    async fn bodies_without_content_are_refused_but_small_members_with_content_are_not() {
        for coding in [ContentCoding::Gzip, ContentCoding::Zstd] {
            let empty = compress(coding, b"").repeat(MOST_EMPTY_BYTES as usize / 8);
            assert!(empty.len() as u64 > MOST_EMPTY_BYTES);
            let few = &empty[..compress(coding, b"").len() * 1000];
            for piece in [4096, usize::MAX] {
                assert_eq!(expand(coding, &empty, piece).await, Err(Some(ExpandError::Empty)), "{coding:?}");
                assert_eq!(expand(coding, few, piece).await, Ok(Vec::new()));
            }
            let one = compress(coding, b"{}\n");
            let lines = one.repeat(2 * MOST_EMPTY_BYTES as usize / one.len());
            assert_eq!(expand(coding, &lines, 4096).await.unwrap().len(), lines.len() / one.len() * 3, "{coding:?}");
        }
    }

    #[tokio::test]
    async fn the_reader_of_a_body_limits_its_compressed_bytes() {
        for coding in [ContentCoding::Gzip, ContentCoding::Zstd] {
            let bytes = compress(coding, b"").repeat(10);
            let most = bytes.len() as u64;
            assert_eq!(expand_within(most, coding, &bytes, 7).await, Ok(Vec::new()));
            assert_eq!(expand_within(most - 1, coding, &bytes, 7).await, Err(Some(ExpandError::TooLong)), "{coding:?}");
        }
    }
}
