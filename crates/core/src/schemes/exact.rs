//! The exact stage: a digest that is equal for two documents exactly if their contents are equal.
//!
//! The digest is the SHA-256 of the `text`, `whole` and `url` fields in the order of the settings. Each field gives its name and its normalised
//! value, both with their length in bytes before them (64 bits, little endian), so that different lists of fields never give the same bytes.
//! Empty fields are left out. All documents without content have the same digest, so that they must not be matched or registered (see
//! [`Document::is_empty`]).

use sha2::{Digest as _, Sha256};

use super::profile::Digest;
use crate::collection::Field;
use crate::text::Document;

/// Computes the digest of `document`, which was read under the settings with these `fields`. O(length).
pub fn digest(document: &Document, fields: &[Field]) -> Digest {
    let mut hasher = Sha256::new();
    for field in &document.fields {
        add(&mut hasher, fields.get(usize::from(field.position)).map_or("", |named| &named.name));
        add(&mut hasher, field.whole());
    }
    Digest(hasher.finalize().into())
}

/// Adds a text after its length.
fn add(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text);
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
    fn the_digest_is_the_documented_one() {
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
