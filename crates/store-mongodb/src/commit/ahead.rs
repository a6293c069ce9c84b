//! Reading ahead: while a batch is judged and written, the posting lists of the waiting changes are read.
//!
//! Otherwise the next batch would begin with these reads, while the database has little other work. The lists are read in a snapshot. They
//! enter the posting cache if the snapshot is the state just before or just after the running batch; otherwise they are dropped, because
//! nothing depends on them. Reading also stops if the task is dropped.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::{BatchMember, SharedStore};
use crate::full_lists::KnownLists;
use crate::posting_cache::{ListsAsOf, ReadAheadTask};
use crate::postings::PostingQuery;
use crate::read::{CollectionPointer, GenerationKey};
use crate::retry::TxnError;
use doppel_core::collection::CollectionName;
use doppel_store::StoreError;

/// Starts a task that reads the lists in `question` that the waiting changes need.
pub(super) fn start(
    shared: &Arc<SharedStore>,
    name: &CollectionName,
    place: GenerationKey,
    waiting: Vec<Arc<BatchMember>>,
    question: PostingQuery,
) -> ReadAheadTask {
    let shared = Arc::clone(shared);
    let name = name.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let read = shared.lists_as_of(&name, place, &waiting, question);
        match tokio::time::timeout(shared.options.deadline, read).await {
            Ok(Ok(lists)) => Some(lists),
            outcome => {
                let too_slow = outcome.is_err();
                tracing::debug!(collection = name.as_str(), too_slow, "nothing was read ahead");
                None
            }
        }
    }))
}

impl SharedStore {
    /// Reads the postings of the digests and keys of the waiting records that are not stored yet, and the commit of the snapshot. It needs
    /// one round trip for the ids, one for each group of keys, and further round trips for keys that many records share.
    async fn lists_as_of(
        &self,
        name: &CollectionName,
        place: GenerationKey,
        waiting: &[Arc<BatchMember>],
        mut question: PostingQuery,
    ) -> Result<ListsAsOf, TxnError> {
        let mut session = self.snapshot().await?;
        let session = &mut session;
        let pointer = CollectionPointer::found(&self.find_one(session, CollectionPointer::find(name)).await?)?;
        let pointer = pointer.filter(|it| (it.number, it.generation) == (place.number, place.generation));
        let pointer = pointer.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
        // Most records that are stored already are unchanged, and need no lists.
        let ids: Vec<&str> = waiting.iter().map(|member| member.id().as_str()).collect();
        let there = self.seqs(session, place.number, &ids).await?;
        let new = waiting.iter().filter(|member| !there.contains_key(member.id().as_str()));
        let wanted = PostingQuery::of(new.filter_map(|member| Some(&*member.registration()?.signed)));
        question.leave_out(|key| !wanted.has(key));
        let known = self.full_lists.known(place, question.keys());
        let mut answer = KnownLists::answer(known.as_ref(), &mut question);
        if let Some(known) = &known {
            let taken = self.find_one(session, known.find(place.number)).await?;
            self.check_known(session, place, known, &pointer, &taken, &mut answer).await?;
        }
        let found = self.find_apart(session, question.finds(place)).await?;
        answer.extend(self.filed(session, place, &question, found).await?);
        self.full_lists.keep(place, known.as_ref(), pointer.commits, answer.lists());
        let (lists, _) = answer.into_parts();
        Ok(ListsAsOf { generation: place.generation, as_of: pointer.commits, lists })
    }
}
