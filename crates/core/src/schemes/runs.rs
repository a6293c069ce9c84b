//! Shingles: runs of consecutive units (see [`units`](crate::text::units)) within one field, or the whole field if it has fewer units. The hash
//! of a run is CityHash64 of its units, joined by U+001F. The schemes `shingle`, `super_shingle` and `minhash` sample these hashes.

use std::ops::Range;

use super::hash::city64_bytes;
use crate::text::units::for_each_unit;

/// The units of several fields in one buffer, each followed by U+001F, so that every run is a slice of the buffer.
#[derive(Default)]
pub(super) struct ShingleRuns {
    bytes: Vec<u8>,
    /// The range of each unit in `bytes`, without its separator.
    units: Vec<(u32, u32)>,
    /// The end of each field in `units`.
    ends: Vec<usize>,
}

impl ShingleRuns {
    /// Cuts `fields` into units.
    pub(super) fn of<'a>(fields: impl Iterator<Item = &'a str>) -> Self {
        let mut runs = Self::default();
        fields.for_each(|text| runs.push(text));
        runs
    }

    /// Number of units.
    pub(super) fn units(&self) -> usize {
        self.units.len()
    }

    fn push(&mut self, text: &str) {
        self.bytes.reserve(text.len() + text.len() / 2);
        self.units.reserve(text.len() / 3);
        for_each_unit(text, |unit| {
            let at = self.bytes.len() as u32;
            self.units.push((at, at + unit.len() as u32));
            // Nearly every unit is one Han character of three bytes. Copying a fixed number of bytes needs no function call.
            if let &[a, b, c] = unit {
                self.bytes.extend_from_slice(&[a, b, c, 0x1F]);
            } else {
                self.bytes.extend_from_slice(unit);
                self.bytes.push(0x1F);
            }
        });
        self.ends.push(self.units.len());
    }

    /// Calls `hash` with the hash of every run of `run` units, in order, repetitions included.
    pub(super) fn for_each(&self, run: usize, mut hash: impl FnMut(u64)) {
        self.for_each_at(run, |value, _| hash(value));
    }

    /// Returns the text of a run, with U+001F between the units.
    pub(super) fn text(&self, run: Range<u32>) -> &str {
        std::str::from_utf8(&self.bytes[run.start as usize..run.end as usize]).unwrap_or_default()
    }

    /// Calls `hash` with the hash of every run of `run` units, in order, and with the range of the run for [`ShingleRuns::text`].
    pub(super) fn for_each_at(&self, run: usize, mut hash: impl FnMut(u64, Range<u32>)) {
        let mut start = 0;
        for &end in &self.ends {
            let field = &self.units[start..end];
            if !field.is_empty() {
                let run = run.min(field.len());
                for (&(from, _), &(_, to)) in field.iter().zip(&field[run - 1..]) {
                    hash(city64_bytes(&self.bytes[from as usize..to as usize]), from..to);
                }
            }
            start = end;
        }
    }
}
