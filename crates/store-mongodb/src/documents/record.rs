//! Encoding and decoding of records.

use mongodb::bson::{Document, RawBsonRef, RawDocument, doc, serialize_to_bson};

use super::{damaged, digest_of, digest_value, fingerprint_of, generation_of, optional_i64, seq_of, seq_value};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::{Fingerprint, Verdict};
use doppel_store::content::RecordContent;
use doppel_store::{GenerationId, Result, Seq, StoredRecord};

/// Returns the fields of a record that change when it is registered again, except seq and verdict.
pub(in super::super) fn record_content(
    generation: GenerationId,
    signed: &Signed,
    content: &RecordContent,
    now: &str,
) -> Result<Document> {
    let (row, hashes) = match content {
        RecordContent::Row(row) => (&**row, None),
        RecordContent::Hashes(hashes) => ("", Some(hashes)),
    };
    let mut content = doc! {
        "g": generation.0 as i32, "digest": digest_value(&signed.digest), "row": row, "stored_at": now,
    };
    if let Some(hashes) = hashes {
        content.insert("hashes", serialize_to_bson(hashes).map_err(damaged)?);
    }
    if let Some(fingerprint) = signed.fingerprint() {
        content.insert("fingerprint", fingerprint.0 as i64);
    }
    Ok(content)
}

/// Returns the fields of a verdict, with the seq of the record that the verdict names.
pub(in super::super) fn verdict_content(seq: Seq, verdict: &Verdict, original: Option<Seq>) -> Result<Document> {
    let mut content = doc! { "seq": seq_value(seq), "verdict": serialize_to_bson(verdict).map_err(damaged)? };
    if let Some(original) = original {
        content.insert("duplicate_of_seq", seq_value(original));
    }
    Ok(content)
}

/// A record, and the fingerprint in the generation of its digest.
#[derive(Clone, Debug)]
pub(in super::super) struct RecordDocument {
    pub(in super::super) record: StoredRecord,
    pub(in super::super) fingerprint: Option<Fingerprint>,
}

impl RecordDocument {
    /// Decodes a record. The verdict is blank if the projection excluded it.
    pub(in super::super) fn decode(raw: &RawDocument) -> Result<Self> {
        let verdict = match raw.get("verdict").map_err(damaged)? {
            Some(RawBsonRef::Document(verdict)) => {
                mongodb::bson::deserialize_from_slice(verdict.as_bytes()).map_err(damaged)?
            }
            _ => Verdict::blank(),
        };
        let id = raw.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
        let record = StoredRecord {
            id: RecordId::new(id).map_err(damaged)?,
            seq: seq_of(raw.get_i64("seq").map_err(damaged)?),
            content: match raw.get("hashes").map_err(damaged)? {
                Some(RawBsonRef::Document(hashes)) => {
                    RecordContent::Hashes(mongodb::bson::deserialize_from_slice(hashes.as_bytes()).map_err(damaged)?)
                }
                _ => RecordContent::Row(raw.get_str("row").map_err(damaged)?.into()),
            },
            digest: digest_of(raw)?,
            digest_generation: generation_of(raw.get_i32("g").map_err(damaged)?),
            verdict,
            duplicate_of_seq: optional_i64(raw, "duplicate_of_seq")?.map(seq_of),
            stored_at: raw.get_str("stored_at").map_err(damaged)?.to_owned(),
        };
        Ok(Self { record, fingerprint: fingerprint_of(raw)? })
    }

    /// Replaces the digest and the fingerprint by the digest and the fingerprint of the signature `filed` of another generation.
    pub(in super::super) fn see_as(&mut self, generation: GenerationId, filed: &RawDocument) -> Result<()> {
        (self.record.digest, self.record.digest_generation) = (digest_of(filed)?, generation);
        self.fingerprint = fingerprint_of(filed)?;
        Ok(())
    }
}
