//! A message: its id, its body and its signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::NumberedCollection;
use doppel_config::MessageKind;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_engine::events::EventView;
use doppel_store::Seq;

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessageData {
    Repeat { id: RecordId, verdict: VerdictKind, duplicate_of: Option<RecordId> },
    Event { event: Box<EventView> },
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct WebhookMessage {
    /// A message keeps its id when it is sent again, so that the receiver recognises a repetition.
    #[serde(skip)]
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: MessageKind,
    pub(super) collection: CollectionName,
    /// The change of the collection that caused the message.
    pub(super) number: Seq,
    pub(super) data: MessageData,
}

impl WebhookMessage {
    /// Creates a message. `what` is the record or the event.
    pub(super) fn new(
        kind: MessageKind,
        collection: &NumberedCollection,
        number: Seq,
        what: &RecordId,
        data: MessageData,
    ) -> Self {
        // Ids of records have characters that no header may have.
        let (name, created_as) = collection;
        let digest = Sha256::digest(format!("{name}\0{created_as}\0{number}\0{}\0{what}", kind.name()));
        let id = digest[..16].iter().fold("msg_".to_owned(), |id, byte| format!("{id}{byte:02x}"));
        Self { id, kind, collection: name.clone(), number, data }
    }
}

/// Returns the value of the header `webhook-signature`: `v1,` and the HMAC-SHA256 of `id.time.body` in base64 (Standard Webhooks). `secret` is
/// the bytes of the secret, or, if it begins with `whsec_`, base64 of them.
pub(super) fn signature(secret: &[u8], id: &str, time: u64, body: &[u8]) -> String {
    let decoded = secret.strip_prefix(b"whsec_").and_then(|encoded| STANDARD.decode(encoded).ok());
    let key = decoded.as_deref().unwrap_or(secret);
    let mut signed = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    signed.update(format!("{id}.{time}.").as_bytes());
    signed.update(body);
    format!("v1,{}", STANDARD.encode(signed.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_standard_webhooks() {
        // Computed with Python: hmac.new(key, b"msg_1.1700000000.{}", sha256).
        let expected = "v1,Lpy/ZxnwlWc6oNFd52vpP4Cg+tl+3ZmwrQylxgLrVg4=";
        assert_eq!(signature(b"a secret of the office", "msg_1", 1_700_000_000, b"{}"), expected);
        let encoded = format!("whsec_{}", STANDARD.encode(b"a secret of the office"));
        assert_eq!(signature(encoded.as_bytes(), "msg_1", 1_700_000_000, b"{}"), expected);
    }
}
