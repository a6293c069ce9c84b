//! The commands with which a transaction changes the index.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};

use super::SharedStore;
use super::documents::{
    self, BLOCKS, BucketNumber, PAGE_ENTRIES, PageKey, SIGNATURES, SignatureDocument, StoredNumber,
};
use super::retry::{TxnError, check_reply};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::Fingerprint;
use doppel_store::{GenerationId, Seq};

/// The signatures and page entries that a transaction adds.
#[derive(Default)]
pub(super) struct IndexWrites {
    pub(super) signatures: Vec<SignatureDocument>,
    entries: BTreeMap<PageKey, PageEntries>,
}

/// The entries that a transaction adds to a page.
#[derive(Default)]
struct PageEntries {
    /// True if the page does not exist yet.
    is_new: bool,
    entries: Vec<(Fingerprint, RecordId)>,
}

/// Number of pages from which on new pages are inserted with a separate command. For each update, the server looks for the page in vain
/// and plans a query, which costs more than an insert. For fewer pages, another round trip costs more.
const MANY_PAGES: usize = 64;

impl IndexWrites {
    /// Adds a record to a generation, on the next pages after `highest`, and updates `highest`.
    pub(super) fn file(
        &mut self,
        id: &RecordId,
        seq: Seq,
        signed: &Signed,
        generation: GenerationId,
        pairs: Vec<Seq>,
        highest: &mut HighestPages,
    ) {
        let pages = signed.fingerprint().map(|fingerprint| take_pages(fingerprint, highest));
        let signature = SignatureDocument { pairs, ..SignatureDocument::of(id, generation, seq, signed, pages) };
        if let Some(fingerprint) = signed.fingerprint() {
            for page in signature.places() {
                let (_, bucket, number) = page;
                let added = self.entries.entry(page).or_default();
                // This is the first entry that is ever added to the page.
                added.is_new |= highest.get(&bucket) == Some(&(number, 1));
                added.entries.push((fingerprint, id.clone()));
            }
        }
        self.signatures.push(signature);
    }
}

impl SharedStore {
    /// Removes entries of records from pages. One command.
    pub(super) async fn take_entries(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        from: &[(PageKey, RecordId)],
    ) -> Result<(), TxnError> {
        let pulls = from.iter().map(|(page, id)| documents::pull_statement(number, *page, id));
        self.update(session, BLOCKS, pulls.collect()).await
    }

    /// Removes the empty pages among `pages`. One command. The pages after a removed page keep their numbers; if the highest page is
    /// removed, its number is used again.
    pub(super) async fn remove_empty_pages(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        pages: &[(PageKey, RecordId)],
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

    /// Adds entries to pages, all entries of a page at once. One command, or two for many pages.
    pub(super) async fn push_entries(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        layout: &IndexWrites,
    ) -> Result<(), TxnError> {
        let inserts = layout.entries.len() >= MANY_PAGES;
        let mut pages = Vec::new();
        let mut statements = Vec::new();
        for (page, PageEntries { is_new, entries }) in &layout.entries {
            if inserts && *is_new {
                let entries = entries.iter().map(|(fingerprint, id)| (*fingerprint, id.as_str().to_owned()));
                pages.push(documents::page(number, *page, entries));
            } else {
                statements.push(documents::push_statement(number, *page, entries));
            }
        }
        if !pages.is_empty() {
            self.insert(session, BLOCKS, &pages).await?;
        }
        self.update(session, BLOCKS, statements).await
    }

    /// Stores the signatures of a record, one for each generation. Replaces earlier signatures if `replace` is true. One command.
    pub(super) async fn put_signatures(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
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

    /// Inserts documents. A duplicate key is a conflict. One command.
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

    /// Deletes documents by their keys. One command if there are keys, otherwise none.
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

    /// Updates documents in order. A duplicate key is a conflict. One command.
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

/// The highest page of each bucket that has pages, and the number of entries that were added to it.
pub(super) type HighestPages = HashMap<BucketNumber, (i32, i32)>;

/// Returns the page for the next entry of a bucket: the highest page, or a new page if [`PAGE_ENTRIES`] entries were added to the
/// highest. An older page gets no more entries, even if it has room.
fn next_page(highest: Option<&(i32, i32)>) -> i32 {
    match highest {
        None => 0,
        Some(&(page, pushed)) if pushed >= PAGE_ENTRIES => page + 1,
        Some(&(page, _)) => page,
    }
}

/// Returns the pages for the entries of a fingerprint (see [`next_page`]) and counts the entries in `highest`, so that one
/// transaction can add several records.
pub(super) fn take_pages(fingerprint: Fingerprint, highest: &mut HighestPages) -> [i32; 4] {
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
    fn entries_go_to_the_highest_page_or_to_a_new_page_if_it_is_full() {
        let fingerprint = Fingerprint(0x0001_0002_0003_0004);
        let [first, second, third, fourth] = documents::buckets(fingerprint);
        let mut highest =
            HighestPages::from([(first, (0, 1)), (second, (4, PAGE_ENTRIES - 1)), (third, (4, PAGE_ENTRIES))]);
        assert!(![first, second, third].contains(&fourth));
        assert_eq!(take_pages(fingerprint, &mut highest), [0, 4, 5, 0]);
        assert_eq!(take_pages(fingerprint, &mut highest), [0, 5, 5, 0]);
        assert_eq!((highest[&first], highest[&third], highest[&fourth]), ((0, 3), (5, 2), (0, 2)));
    }
}
