//! The exact stage: a digest that is equal exactly when the content is.
//!
//! SHA-256 over the `text`, `whole` and `url` fields in settings order, each as name and normalised value, both preceded by
//! their length in bytes (64 bits, little endian), so that no two different lists of fields give the same bytes. Empty
//! fields are left out. A document without any content has the digest of nothing: it must never be matched nor registered
//! (see [`Document::is_empty`]).

use sha2::{Digest as _, Sha256};

use super::profile::Digest;
use crate::collection::Field;
use crate::text::Document;

/// The digest of `document`, read under the settings' `fields`. O(length).
pub fn digest(document: &Document, fields: &[Field]) -> Digest {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    for field in &document.fields {
        part(fields.get(usize::from(field.position)).map_or("", |named| &named.name));
        part(field.whole());
    }
    Digest(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;
    use crate::collection::Role;

    fn fields(names: &[&str]) -> Vec<Field> {
        names.iter().map(|name| Field::new(*name, Role::Text)).collect()
    }

    #[test]
    fn the_bytes_that_are_hashed_are_those_documented() {
        let document = document(&[(Role::Text, "噪音")]);
        let mut bytes = 1_u64.to_le_bytes().to_vec();
        bytes.extend(b"t");
        bytes.extend(6_u64.to_le_bytes());
        bytes.extend("噪音".as_bytes());
        assert_eq!(digest(&document, &fields(&["t"])).0, <[u8; 32]>::from(Sha256::digest(bytes)));
    }

    #[test]
    fn text_that_moves_from_one_field_to_another_changes_the_digest() {
        let names = fields(&["a", "b"]);
        let digests = [
            document(&[(Role::Text, "噪"), (Role::Text, "音")]),
            document(&[(Role::Text, "噪音")]),
            document(&[(Role::Text, "音"), (Role::Text, "噪")]),
        ]
        .map(|document| digest(&document, &names));
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
    }
}
