//! The commands by which a transaction changes the index.

use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::Shared;
use super::documents::{self, BLOCKS, BucketNumber, LATCHES, PAGE_ENTRIES, SIGNATURES, SignatureDocument};
use super::read::{Buckets, Place};
use super::retry::{Trouble, check_reply};
use crate::record::RecordId;
use crate::verdict::Fingerprint;

impl Shared {
    /// Increments latches (ascending), creating what is missing. A transaction that did so since this one's snapshot makes
    /// it fail.
    pub(super) async fn take_latches(
        &self,
        session: &mut ClientSession,
        place: Place,
        latches: &[i32],
    ) -> Result<(), Trouble> {
        let statements = latches.iter().map(|&latch| {
            let key = documents::latch_key(place.number, place.generation, latch);
            doc! { "q": { "_id": key }, "u": { "$inc": { "n": 1_i64 } }, "upsert": true }
        });
        self.update(session, LATCHES, statements.collect()).await
    }

    /// Takes a record's entries off the pages `from` and files it on the pages `to`. One command.
    pub(super) async fn move_entries(
        &self,
        session: &mut ClientSession,
        place: Place,
        id: &RecordId,
        from: &[(BucketNumber, i32)],
        to: Option<(Fingerprint, [i32; 4])>,
    ) -> Result<(), Trouble> {
        let at = |(bucket, page)| (place.number, place.generation, bucket, page);
        let pulls = from.iter().map(|&page| documents::pull_statement(at(page), id));
        let pushes = to.into_iter().flat_map(|(fingerprint, pages)| {
            let places = documents::buckets(fingerprint).into_iter().zip(pages);
            places.map(move |page| documents::push_statement(at(page), fingerprint, id))
        });
        self.update(session, BLOCKS, pulls.chain(pushes).collect()).await
    }

    /// The signature of a record, in place of an earlier one if there is one.
    pub(super) async fn put_signature(
        &self,
        session: &mut ClientSession,
        place: Place,
        signature: &SignatureDocument,
        replaces: bool,
    ) -> Result<(), Trouble> {
        let signatures = self.documents(SIGNATURES);
        let document = signature.encode(place.number);
        if replaces {
            let key = documents::signature_key(place.number, place.generation, &signature.id);
            let put = signatures.replace_one(doc! { "_id": key }, document).upsert(true).session(&mut *session).await;
            put?;
            return Ok(());
        }
        match signatures.insert_one(document).session(&mut *session).await {
            Ok(_) => Ok(()),
            Err(error) if super::retry::is_duplicate_key(&error) => Err(Trouble::Changed),
            Err(error) => Err(error.into()),
        }
    }

    async fn update(
        &self,
        session: &mut ClientSession,
        collection: &str,
        statements: Vec<Document>,
    ) -> Result<(), Trouble> {
        if statements.is_empty() {
            return Ok(());
        }
        let command = doc! { "update": collection, "updates": statements, "ordered": true };
        check_reply(&self.database.run_command(command).session(&mut *session).await?)
    }
}

/// The pages that a fingerprint's entries go to: the highest of each bucket, or the next when that has been pushed to often
/// enough. An older page is never reopened, whatever room it has.
pub(super) fn pages_for(fingerprint: Fingerprint, buckets: &Buckets) -> [i32; 4] {
    documents::buckets(fingerprint).map(|bucket| match buckets.highest.get(&bucket) {
        None => 0,
        Some(&(page, pushed)) if pushed >= PAGE_ENTRIES => page + 1,
        Some(&(page, _)) => page,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_page_gives_way_to_the_next_and_no_older_one_is_used_again() {
        let fingerprint = Fingerprint(0x0001_0002_0003_0004);
        let [first, second, third, fourth] = documents::buckets(fingerprint);
        let mut buckets = Buckets::default();
        buckets.highest.insert(first, (0, 1));
        buckets.highest.insert(second, (4, PAGE_ENTRIES - 1));
        buckets.highest.insert(third, (4, PAGE_ENTRIES));
        assert_eq!(pages_for(fingerprint, &buckets), [0, 4, 5, 0]);
        assert!(![first, second, third].contains(&fourth));
    }
}
