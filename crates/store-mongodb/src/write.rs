//! The commands by which a transaction changes the index.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};

use super::Shared;
use super::documents::{self, BLOCKS, BucketNumber, Number, PAGE_ENTRIES, Page, SIGNATURES, SignatureDocument};
use super::retry::{TxnError, check_reply};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::Fingerprint;
use doppel_store::{GenerationId, Seq};

/// What is to be filed of records: their signatures, and entries on pages.
#[derive(Default)]
pub(super) struct IndexWrites {
    pub(super) signatures: Vec<SignatureDocument>,
    entries: BTreeMap<Page, Vec<(Fingerprint, RecordId)>>,
}

impl IndexWrites {
    /// Files a record in a generation, on the pages after those of `highest`, which is kept up to date.
    pub(super) fn file(
        &mut self,
        (id, seq, signed): (&RecordId, Seq, &Signed),
        generation: GenerationId,
        pairs: Vec<Seq>,
        highest: &mut Highest,
    ) {
        let pages = signed.fingerprint().map(|fingerprint| take_pages(fingerprint, highest));
        let signature = SignatureDocument { pairs, ..SignatureDocument::of(id, generation, seq, signed, pages) };
        if let Some(fingerprint) = signed.fingerprint() {
            for page in signature.places() {
                self.entries.entry(page).or_default().push((fingerprint, id.clone()));
            }
        }
        self.signatures.push(signature);
    }
}

impl Shared {
    /// Takes entries of records off pages. One command.
    pub(super) async fn take_entries(
        &self,
        session: &mut ClientSession,
        number: Number,
        from: &[(Page, RecordId)],
    ) -> Result<(), TxnError> {
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
    ) -> Result<(), TxnError> {
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

    /// Files entries on pages, several on one page at once. One command.
    pub(super) async fn push_entries(
        &self,
        session: &mut ClientSession,
        number: Number,
        layout: &IndexWrites,
    ) -> Result<(), TxnError> {
        let entries = layout.entries.iter();
        let statements = entries.map(|(page, entries)| documents::push_statement(number, *page, entries));
        self.update(session, BLOCKS, statements.collect()).await
    }

    /// The signatures of a record, one for each generation, in place of earlier ones if there are any. One command.
    pub(super) async fn put_signatures(
        &self,
        session: &mut ClientSession,
        number: Number,
        signatures: &[SignatureDocument],
        replace: bool,
    ) -> Result<(), TxnError> {
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
    ) -> Result<(), TxnError> {
        match self.documents(collection).insert_many(documents).session(&mut *session).await {
            Ok(_) => Ok(()),
            Err(error) if super::retry::is_duplicate_key(&error) => Err(TxnError::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes documents by their keys. One command, if there are any.
    pub(super) async fn delete(
        &self,
        session: &mut ClientSession,
        collection: &str,
        keys: Vec<Bson>,
    ) -> Result<(), TxnError> {
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
    ) -> Result<(), TxnError> {
        if statements.is_empty() {
            return Ok(());
        }
        let command = doc! { "update": collection, "updates": statements, "ordered": true };
        check_reply(&self.database.run_command(command).session(&mut *session).await?)
    }
}

/// The highest page of each bucket that has one, and how often it was pushed to.
pub(super) type Highest = HashMap<BucketNumber, (i32, i32)>;

/// The page that the next entry of a bucket goes to: the highest, or the one after it when that has been pushed to often enough.
/// An older page is never reopened, whatever room it has.
fn next_page(highest: Option<&(i32, i32)>) -> i32 {
    match highest {
        None => 0,
        Some(&(page, pushed)) if pushed >= PAGE_ENTRIES => page + 1,
        Some(&(page, _)) => page,
    }
}

/// The pages that a fingerprint's entries go to, see [`next_page`]; counts them as pushed, for several records in one transaction.
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
        assert!(![first, second, third].contains(&fourth));
        assert_eq!(take_pages(fingerprint, &mut highest), [0, 4, 5, 0]);
        assert_eq!(take_pages(fingerprint, &mut highest), [0, 5, 5, 0]);
        assert_eq!((highest[&first], highest[&third], highest[&fourth]), ((0, 3), (5, 2), (0, 2)));
    }
}
