//! The commands by which a transaction changes the index.

use std::collections::{BTreeMap, HashMap};

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};

use super::Shared;
use super::documents::{self, BLOCKS, BucketNumber, Number, PAGE_ENTRIES, Page, SIGNATURES, SignatureDocument};
use super::read::Place;
use super::retry::{Trouble, check_reply};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::Fingerprint;
use doppel_store::Seq;

/// A record to be filed in a generation.
pub(super) struct Filing<'a> {
    pub(super) id: &'a RecordId,
    pub(super) seq: Seq,
    pub(super) signed: &'a Signed,
}

impl Shared {
    /// Takes entries of records off pages. One command.
    pub(super) async fn take_entries(
        &self,
        session: &mut ClientSession,
        number: Number,
        from: &[(Page, RecordId)],
    ) -> Result<(), Trouble> {
        let pulls = from.iter().map(|(page, id)| documents::pull_statement(number, *page, id));
        self.update(session, BLOCKS, pulls.collect()).await
    }

    /// Removes those of the pages that hold nothing any more. One command. A page after a removed one keeps its number; where the
    /// highest goes, its number is given again.
    pub(super) async fn remove_empty_pages(
        &self,
        session: &mut ClientSession,
        number: Number,
        pages: &[(Page, RecordId)],
    ) -> Result<(), Trouble> {
        if pages.is_empty() {
            return Ok(());
        }
        let deletes = pages.iter().map(|(page, _)| {
            let mut filter = documents::page_key(number, *page);
            filter.insert("info", Vec::<Bson>::new());
            doc! { "q": filter, "limit": 1 }
        });
        let command = doc! { "delete": BLOCKS, "deletes": deletes.collect::<Vec<_>>() };
        check_reply(&self.database.run_command(command).session(&mut *session).await?)
    }

    /// The signatures of records for a generation, with the pages that their entries will go to. No two of the records share a
    /// bucket. One round trip.
    pub(super) async fn lay_out(
        &self,
        session: &mut ClientSession,
        place: Place,
        filings: &[Filing<'_>],
    ) -> Result<Vec<SignatureDocument>, Trouble> {
        let fingerprints = filings.iter().filter_map(|filing| filing.signed.fingerprint());
        let buckets: Vec<BucketNumber> = fingerprints.flat_map(documents::buckets).collect();
        let highest =
            if buckets.is_empty() { Highest::new() } else { self.highest_pages(session, place, buckets).await? };
        let laid_out = filings.iter().map(|Filing { id, seq, signed }| {
            let pages = signed.fingerprint().map(|fingerprint| pages_for(fingerprint, &highest));
            SignatureDocument::of(id, place.generation, *seq, signed, pages)
        });
        Ok(laid_out.collect())
    }

    /// Files entries on pages, several on one page at once. One command.
    pub(super) async fn push_entries(
        &self,
        session: &mut ClientSession,
        number: Number,
        entries: &BTreeMap<Page, Vec<(Fingerprint, RecordId)>>,
    ) -> Result<(), Trouble> {
        let statements = entries.iter().map(|(page, entries)| documents::push_statement(number, *page, entries));
        self.update(session, BLOCKS, statements.collect()).await
    }

    /// The signatures of a record, one for each generation, in place of earlier ones if there are any. One command.
    pub(super) async fn put_signatures(
        &self,
        session: &mut ClientSession,
        number: Number,
        signatures: &[SignatureDocument],
        replace: bool,
    ) -> Result<(), Trouble> {
        let documents = signatures.iter().map(|signature| signature.encode(number));
        if replace {
            let statements = documents.map(|document| {
                let key = document.get("_id").cloned();
                doc! { "q": { "_id": key }, "u": document, "upsert": true }
            });
            return self.update(session, SIGNATURES, statements.collect()).await;
        }
        self.insert(session, SIGNATURES, &documents.collect::<Vec<_>>()).await
    }

    /// Inserts documents; a duplicate key is a conflict. One command.
    pub(super) async fn insert(
        &self,
        session: &mut ClientSession,
        collection: &str,
        documents: &[Document],
    ) -> Result<(), Trouble> {
        match self.documents(collection).insert_many(documents).session(&mut *session).await {
            Ok(_) => Ok(()),
            Err(error) if super::retry::is_duplicate_key(&error) => Err(Trouble::Changed),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes documents by their keys. One command, if there are any.
    pub(super) async fn delete(
        &self,
        session: &mut ClientSession,
        collection: &str,
        keys: Vec<Bson>,
    ) -> Result<(), Trouble> {
        if !keys.is_empty() {
            let filter = doc! { "_id": { "$in": keys } };
            self.documents(collection).delete_many(filter).session(&mut *session).await?;
        }
        Ok(())
    }

    /// Updates documents, in order; a duplicate key is a conflict. One command.
    pub(super) async fn update(
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

/// The highest page of each bucket that has one, and how often it was pushed to.
pub(super) type Highest = HashMap<BucketNumber, (i32, i32)>;

/// The pages that a fingerprint's entries go to, see [`next_page`].
pub(super) fn pages_for(fingerprint: Fingerprint, highest: &Highest) -> [i32; 4] {
    documents::buckets(fingerprint).map(|bucket| next_page(highest.get(&bucket)))
}

/// The page that the next entry of a bucket goes to: the highest, or the one after it when that has been pushed to often enough.
/// An older page is never reopened, whatever room it has.
fn next_page(highest: Option<&(i32, i32)>) -> i32 {
    match highest {
        None => 0,
        Some(&(page, pushed)) if pushed >= PAGE_ENTRIES => page + 1,
        Some(&(page, _)) => page,
    }
}

/// As [`pages_for`], and counts the entries as pushed: for several records in one transaction.
pub(super) fn take_pages(fingerprint: Fingerprint, highest: &mut Highest) -> [i32; 4] {
    documents::buckets(fingerprint).map(|bucket| {
        let page = next_page(highest.get(&bucket));
        let pushed = highest.get(&bucket).filter(|(highest, _)| *highest == page).map_or(0, |(_, pushed)| *pushed);
        highest.insert(bucket, (page, pushed + 1));
        page
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_page_gives_way_to_the_next_and_no_older_one_is_used_again() {
        let fingerprint = Fingerprint(0x0001_0002_0003_0004);
        let [first, second, third, fourth] = documents::buckets(fingerprint);
        let mut highest = Highest::from([(first, (0, 1)), (second, (4, PAGE_ENTRIES - 1)), (third, (4, PAGE_ENTRIES))]);
        assert_eq!(pages_for(fingerprint, &highest), [0, 4, 5, 0]);
        assert!(![first, second, third].contains(&fourth));
        assert_eq!(take_pages(fingerprint, &mut highest), [0, 4, 5, 0]);
        assert_eq!(take_pages(fingerprint, &mut highest), [0, 5, 5, 0]);
        assert_eq!((highest[&first], highest[&third], highest[&fourth]), ((0, 3), (5, 2), (0, 2)));
    }
}
