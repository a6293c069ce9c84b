//! A profile: every parameter that changes a signature, compiled and ready to sign.

use crate::schemes::Signature;
use crate::verdict::Fingerprint;

/// SHA-256 over the content fields, see the exact stage in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The first eight bytes: the key under which the index files the digest.
    pub fn key(&self) -> u64 {
        u64::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5], self.0[6], self.0[7]])
    }
}

/// A posting key and the channel that made it (its position in the settings).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostingKey {
    /// Position of the channel in the settings.
    pub channel: u8,
    /// The key, channel already mixed in, so that keys of two channels never meet.
    pub key: u64,
}

/// Everything the index and the stores need of a signed record.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    /// The exact stage's digest.
    pub digest: Digest,
    /// Number of distinct features.
    pub features: u32,
    /// Fewer than `min_features`: no channel signed.
    pub too_short: bool,
    /// One per channel, in settings order; `None` where the channel has nothing to say.
    pub signatures: Vec<Option<Signature>>,
    /// All posting keys of all channels.
    pub keys: Vec<PostingKey>,
}

impl Signed {
    /// The Simhash fingerprint, if the profile has a `simhash` channel and the record enough features.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.signatures.iter().flatten().find_map(|signature| match signature {
            Signature::Fingerprint(fingerprint) => Some(*fingerprint),
            Signature::Hashes(_) => None,
        })
    }
}
