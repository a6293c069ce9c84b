//! Encoding and decoding of signatures. A generation stores one signature document for each record.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, RawBsonRef, RawDocument, doc};

use super::{
    PageKey, StoredNumber, buckets, damaged, digest_of, digest_value, fingerprint_of, generation_of, seq_of, seq_value,
    signature_key,
};
use doppel_core::collection::ChannelPosition;
use doppel_core::index::Entry;
use doppel_core::record::RecordId;
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::{Digest, PostingKey, Signed};
use doppel_core::verdict::Fingerprint;
use doppel_store::generations::RecordMatches;
use doppel_store::{GenerationId, Result, Seq};

#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct SignatureDocument {
    pub(in super::super) id: RecordId,
    pub(in super::super) generation: GenerationId,
    pub(in super::super) seq: Seq,
    pub(in super::super) digest: Digest,
    pub(in super::super) fingerprint: Option<Fingerprint>,
    /// The posting keys, in the order of channels.
    pub(in super::super) keys: Vec<PostingKey>,
    /// The page in each of the four buckets of the fingerprint.
    pub(in super::super) pages: Option<[i32; 4]>,
    /// The seqs of the earlier records that the record matches, in ascending order.
    pub(in super::super) pairs: Vec<Seq>,
    /// The signatures of all channels. After decoding, its list of keys is empty.
    pub(in super::super) signed: Option<Signed>,
}

impl SignatureDocument {
    /// Makes the document of a record with the signatures `signed`, whose entries are on `pages`.
    pub(in super::super) fn of(
        id: &RecordId,
        generation: GenerationId,
        seq: Seq,
        signed: &Signed,
        pages: Option<[i32; 4]>,
    ) -> Self {
        Self {
            id: id.clone(),
            generation,
            seq,
            digest: signed.digest,
            fingerprint: signed.fingerprint(),
            keys: signed.keys.clone(),
            pages,
            pairs: Vec::new(),
            signed: Some(signed.clone()),
        }
    }

    pub(in super::super) fn encode(&self, number: StoredNumber) -> Document {
        let Self { id, generation, seq, digest, fingerprint, keys, pages, pairs, signed } = self;
        let mut keys = keys.clone();
        // The keys are sorted by channel, as profiles make them, so that the counts assign each key to a channel.
        keys.sort_by_key(|key| key.channel);
        let channels = keys.last().map_or(0, |key| key.channel.index() + 1);
        let mut counts = vec![0_i32; channels];
        keys.iter().for_each(|key| counts[key.channel.index()] += 1);
        let mut document = doc! {
            "_id": signature_key(number, *generation, id), "seq": seq_value(*seq), "digest": digest_value(digest),
            "keys": keys.iter().map(|key| Bson::Int64(key.key as i64)).collect::<Vec<_>>(), "key_counts": counts,
        };
        if let Some(fingerprint) = fingerprint {
            document.insert("fingerprint", fingerprint.0 as i64);
        }
        if let Some(pages) = pages {
            document.insert("pages", pages.to_vec());
        }
        if !pairs.is_empty() {
            document.insert("pairs", seqs_value(pairs));
        }
        if let Some(signed) = signed {
            document.insert("signed", Binary { subtype: BinarySubtype::Generic, bytes: signed.encode() });
        }
        document
    }

    pub(in super::super) fn decode(raw: &RawDocument) -> Result<Self> {
        let key = raw.get_document("_id").map_err(damaged)?;
        let signed = signed_of(raw)?;
        Ok(Self {
            id: RecordId::new(key.get_str("id").map_err(damaged)?).map_err(damaged)?,
            generation: generation_of(key.get_i32("g").map_err(damaged)?),
            seq: seq_of(raw.get_i64("seq").map_err(damaged)?),
            digest: digest_of(raw)?,
            fingerprint: fingerprint_of(raw)?,
            keys: keys_of(raw, signed.as_ref())?,
            pages: pages_of(raw)?,
            pairs: seqs_of(raw, "pairs")?,
            signed,
        })
    }

    /// Returns the pages that contain entries of the record, in the order of buckets. Empty without a fingerprint.
    pub(in super::super) fn places(&self) -> Vec<PageKey> {
        match (self.fingerprint, self.pages) {
            (Some(fingerprint), Some(pages)) => {
                let pages = buckets(fingerprint).into_iter().zip(pages);
                pages.map(|(bucket, page)| (self.generation, bucket, page)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn pages_of(raw: &RawDocument) -> Result<Option<[i32; 4]>> {
    let Some(RawBsonRef::Array(array)) = raw.get("pages").map_err(damaged)? else { return Ok(None) };
    let pages = array.into_iter().map(|item| item.ok().and_then(|item| item.as_i32())).collect::<Option<Vec<_>>>();
    let pages = pages.and_then(|pages| <[i32; 4]>::try_from(pages).ok());
    pages.map(Some).ok_or_else(|| damaged("a signature does not name four pages"))
}

/// Decodes the signatures in a signature document, for judges that compare them.
pub(in super::super) fn signed_of(raw: &RawDocument) -> Result<Option<Signed>> {
    let Some(RawBsonRef::Binary(binary)) = raw.get("signed").map_err(damaged)? else { return Ok(None) };
    Signed::decode(binary.bytes).map(Some).ok_or_else(|| damaged("the signatures of a record cannot be read"))
}

/// Returns the projection of the fields that [`filed_of`] reads.
pub(in super::super) fn filed_projection() -> Document {
    // Signature documents without `key_counts` come from an older version; their signatures show which channel has the keys.
    let without_counts = doc! { "$cond": [{ "$ifNull": ["$key_counts", false] }, "$$REMOVE", "$signed"] };
    doc! { "_id": 0, "seq": 1, "digest": 1, "fingerprint": 1, "keys": 1, "key_counts": 1, "signed": without_counts }
}

pub(in super::super) fn filed_of(raw: &RawDocument) -> Result<Entry> {
    Ok(Entry {
        seq: seq_of(raw.get_i64("seq").map_err(damaged)?),
        digest_key: digest_of(raw)?.key(),
        fingerprint: fingerprint_of(raw)?,
        keys: keys_of(raw, signed_of(raw)?.as_ref())?,
    })
}

/// Decodes the matches that a signature document contains.
pub(in super::super) fn pairs_of(raw: &RawDocument) -> Result<RecordMatches> {
    Ok(RecordMatches { seq: seq_of(raw.get_i64("seq").map_err(damaged)?), earlier: seqs_of(raw, "pairs")? })
}

/// Encodes seqs.
pub(in super::super) fn seqs_value(seqs: &[Seq]) -> Bson {
    Bson::Array(seqs.iter().map(|seq| Bson::Int64(seq_value(*seq))).collect())
}

fn keys_of(raw: &RawDocument, signed: Option<&Signed>) -> Result<Vec<PostingKey>> {
    let keys = numbers_of(raw, "keys")?;
    let counts: Vec<usize> = match raw.get("key_counts").map_err(damaged)? {
        Some(RawBsonRef::Array(counts)) => {
            let counts = counts.into_iter().map(|count| count.ok().and_then(|count| count.as_i32()));
            let counts = counts.map(|count| count.and_then(|count| usize::try_from(count).ok()));
            counts.collect::<Option<_>>().ok_or_else(|| damaged("a count of posting keys is not a number"))?
        }
        _ => {
            let signatures = signed.map_or(&[][..], |signed| signed.signatures.as_slice());
            let channel = signatures.iter().position(|own| matches!(own, Some(Signature::Hashes(_)))).unwrap_or(0);
            let mut counts = vec![0; channel];
            counts.push(keys.len());
            counts
        }
    };
    let channels = counts
        .iter()
        .enumerate()
        .flat_map(|(channel, count)| std::iter::repeat_n(ChannelPosition(channel as u8), *count));
    let keys: Vec<_> = channels.zip(&keys).map(|(channel, key)| PostingKey { channel, key: *key }).collect();
    if keys.len() == counts.iter().sum::<usize>() { Ok(keys) } else { Err(damaged("posting keys are missing")) }
}

fn seqs_of(raw: &RawDocument, name: &str) -> Result<Vec<Seq>> {
    Ok(numbers_of(raw, name)?.into_iter().map(Seq).collect())
}

/// Decodes an array of Int64. Empty if the field is absent.
fn numbers_of(raw: &RawDocument, name: &str) -> Result<Vec<u64>> {
    let Some(RawBsonRef::Array(array)) = raw.get(name).map_err(damaged)? else { return Ok(Vec::new()) };
    let numbers = array.into_iter().map(|item| match item.map_err(damaged)? {
        RawBsonRef::Int64(number) => Ok(number as u64),
        _ => Err(damaged(format!("{name} holds something that is not an Int64"))),
    });
    numbers.collect()
}
