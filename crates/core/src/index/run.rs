//! A run is a contiguous list of fingerprints with the same block, which a lookup scans.
//!
//! Layout: one allocation of 32-bit words, a structure of arrays with room for `capacity` entries (an even number):
//!
//! ```text
//! tails  capacity words         32 of the 48 bits outside the block; a scan reads only these
//! slots  capacity words         the slot of the record
//! rests  capacity / 2 words     the other 16 bits, two in a word; read only for the few entries with a near tail
//! ```
//!
//! An entry takes 10 bytes, and a scan needs no other data. Entries have no order; a run never contains a slot twice. An insertion takes O(1)
//! amortised (the room grows by an eighth, at least by four), a removal O(length) to find the entry, a scan O(length).

/// The 48 bits of a fingerprint outside its block, in the order after a rotation that moves the block to the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRemainder(pub(super) u64);

impl BlockRemainder {
    fn tail(self) -> u32 {
        (self.0 >> 16) as u32
    }

    fn rest(self) -> u16 {
        self.0 as u16
    }
}

/// A contiguous list of fingerprints with the same block, and their slots.
#[derive(Default)]
pub(super) struct FingerprintRun {
    words: Box<[u32]>,
    len: u32,
}

/// Number of tails that are compared at once: enough to fill vector registers, and few enough that small runs benefit.
const LANES: usize = 16;

impl FingerprintRun {
    /// Makes a run with room for exactly `entries` entries.
    pub(super) fn with_room(entries: usize) -> Self {
        let capacity = entries.next_multiple_of(2);
        Self { words: vec![0; capacity / 2 * 5].into_boxed_slice(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn push(&mut self, remainder: BlockRemainder, slot: u32) {
        if self.len() == self.capacity() {
            self.resize(self.len() + (self.len() / 8).max(4));
        }
        let at = self.len();
        self.len += 1;
        self.put(at, remainder, slot);
    }

    /// Removes the entry of `slot`. Returns false if there was none.
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        let Some(at) = self.position(slot) else { return false };
        let last = self.len() - 1;
        let (remainder, moved) = self.entry(last);
        self.put(at, remainder, moved);
        self.len -= 1;
        if self.len() * 2 < self.capacity() {
            self.resize(self.len() + self.len() / 8);
        }
        true
    }

    /// Replaces `slot` with `new`. Returns false if there was no entry of `slot`.
    pub(super) fn replace(&mut self, slot: u32, new: u32) -> bool {
        let Some(at) = self.position(slot) else { return false };
        let (remainder, _) = self.entry(at);
        self.put(at, remainder, new);
        true
    }

    /// Returns all entries, in no particular order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (BlockRemainder, u32)> + '_ {
        (0..self.len()).map(|at| self.entry(at))
    }

    /// Calls `hit` with the slot of every entry within `budget` bits of `query`.
    #[inline]
    pub(super) fn scan(&self, query: BlockRemainder, budget: u32, hit: &mut impl FnMut(u32)) {
        match budget {
            0 => self.scan_by(query, budget, clear_lowest::<0>, hit),
            1 => self.scan_by(query, budget, clear_lowest::<1>, hit),
            2 => self.scan_by(query, budget, clear_lowest::<2>, hit),
            3 => self.scan_by(query, budget, clear_lowest::<3>, hit),
            _ => self.scan_by(query, budget, |bits| bits.count_ones().saturating_sub(budget), hit),
        }
    }

    /// Reads one word of every cache line of the tails.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.words[..self.len()].iter().step_by(LANES).fold(0_u32, |sum, &tail| sum.wrapping_add(tail)).into()
    }

    /// Reads the three words that a push will write.
    pub(super) fn touch_end(&self) -> u64 {
        let capacity = self.capacity();
        let at = self.len();
        [at, capacity + at, 2 * capacity + at / 2]
            .iter()
            .filter_map(|&at| self.words.get(at))
            .map(|&w| u64::from(w))
            .sum()
    }

    /// Reserves room for exactly `more` entries.
    pub(super) fn reserve(&mut self, more: usize) {
        if self.len() + more > self.capacity() {
            self.resize(self.len() + more);
        }
    }

    /// Memory in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Scans the tails. `excess` returns 0 for a difference within the budget. The inner loops have no branch, so that the compiler makes vector
    /// code of them.
    #[inline]
    fn scan_by(&self, query: BlockRemainder, budget: u32, excess: impl Fn(u32) -> u32, hit: &mut impl FnMut(u32)) {
        let tail = query.tail();
        let tails = &self.words[..self.len()];
        let mut chunks = tails.chunks_exact(LANES);
        for (number, chunk) in chunks.by_ref().enumerate() {
            let near: u32 = chunk.iter().map(|&other| u32::from(excess(other ^ tail) == 0)).sum();
            if near > 0 {
                self.examine(number * LANES, LANES, query, budget, hit);
            }
        }
        let rest = chunks.remainder();
        let near: u32 = rest.iter().map(|&other| u32::from(excess(other ^ tail) == 0)).sum();
        if near > 0 {
            self.examine(self.len() - rest.len(), rest.len(), query, budget, hit);
        }
    }

    #[cold]
    fn examine(&self, from: usize, count: usize, query: BlockRemainder, budget: u32, hit: &mut impl FnMut(u32)) {
        for at in from..from + count {
            let (remainder, slot) = self.entry(at);
            if (remainder.0 ^ query.0).count_ones() <= budget {
                hit(slot);
            }
        }
    }

    fn capacity(&self) -> usize {
        self.words.len() / 5 * 2
    }

    fn entry(&self, at: usize) -> (BlockRemainder, u32) {
        let capacity = self.capacity();
        let rest = self.words[2 * capacity + at / 2] >> (16 * (at % 2)) & 0xffff;
        (BlockRemainder(u64::from(self.words[at]) << 16 | u64::from(rest)), self.words[capacity + at])
    }

    fn put(&mut self, at: usize, remainder: BlockRemainder, slot: u32) {
        let capacity = self.capacity();
        self.words[at] = remainder.tail();
        self.words[capacity + at] = slot;
        let shift = 16 * (at % 2);
        let pair = &mut self.words[2 * capacity + at / 2];
        *pair = *pair & !(0xffff << shift) | u32::from(remainder.rest()) << shift;
    }

    fn position(&self, slot: u32) -> Option<usize> {
        let capacity = self.capacity();
        self.words[capacity..capacity + self.len()].iter().position(|&other| other == slot)
    }

    fn resize(&mut self, entries: usize) {
        let mut resized = Self::with_room(entries);
        let old = self.capacity();
        let new = resized.capacity();
        let len = self.len();
        resized.words[..len].copy_from_slice(&self.words[..len]);
        resized.words[new..new + len].copy_from_slice(&self.words[old..old + len]);
        let pairs = len.div_ceil(2);
        resized.words[2 * new..2 * new + pairs].copy_from_slice(&self.words[2 * old..2 * old + pairs]);
        resized.len = self.len;
        *self = resized;
    }
}

/// Clears the lowest `N` set bits, so that the result is 0 for at most `N` set bits. For small `N` this is cheaper than counting the bits on a
/// processor without a vector instruction for counting.
#[inline]
fn clear_lowest<const N: u32>(mut bits: u32) -> u32 {
    for _ in 0..N {
        bits &= bits.wrapping_sub(1);
    }
    bits
}
