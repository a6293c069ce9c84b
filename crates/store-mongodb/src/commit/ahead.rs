//! Reading ahead: the lists of those who wait are read while the batch before them is judged and written.
//!
//! Meanwhile a large batch asks for few things, and the next one would begin by asking for these. What is read, in a snapshot, goes to
//! the posting cache if it is of the instant just before or just after that batch; if not, it is dropped: nothing depends on it. Reading
//! ends, too, where nobody wants it any more.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::{Member, Shared};
use crate::full_lists::Known;
use crate::posting_cache::{ListsAsOf, Reading};
use crate::postings::PostingQuery;
use crate::read::{GenerationKey, Pointer};
use crate::retry::TxnError;
use doppel_core::collection::CollectionName;
use doppel_store::StoreError;

/// Begins to read those of the lists in `question` that `waiting` will ask for.
pub(super) fn start(
    shared: &Arc<Shared>,
    name: &CollectionName,
    place: GenerationKey,
    (waiting, question): (Vec<Arc<Member>>, PostingQuery),
) -> Reading {
    let (shared, name) = (Arc::clone(shared), name.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let read = shared.lists_as_of(&name, place, (&waiting, question));
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

impl Shared {
    /// What is filed at one instant under digests and keys of those that are not there yet, and which that is. A round trip for the ids,
    /// one for each group of keys, and more where they are shared by many.
    async fn lists_as_of(
        &self,
        name: &CollectionName,
        place: GenerationKey,
        (waiting, mut question): (&[Arc<Member>], PostingQuery),
    ) -> Result<ListsAsOf, TxnError> {
        let mut session = self.snapshot().await?;
        let session = &mut session;
        let pointer = Pointer::found(&self.find_one(session, Pointer::find(name)).await?)?;
        let is_of = |it: &Pointer| (it.number, it.generation) == (place.number, place.generation);
        let pointer = pointer.filter(is_of);
        let pointer = pointer.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
        // Most of those that are there are unchanged, and ask for nothing.
        let ids: Vec<&str> = waiting.iter().map(|member| member.id().as_str()).collect();
        let there = self.seqs(session, place.number, &ids).await?;
        let new = waiting.iter().filter(|member| !there.contains_key(member.id().as_str()));
        let wanted = PostingQuery::of(new.filter_map(|member| Some(&*member.registration()?.signed)));
        question.leave_out(|key| !wanted.has(key));
        let known = self.full_lists.known(place, question.keys());
        let mut answer = Known::answer(known.as_ref(), &mut question);
        if let Some(known) = &known {
            let taken = self.find_one(session, known.find(place.number)).await?;
            self.check_known(session, place, (known, &pointer, &taken), &mut answer).await?;
        }
        let found = self.find_apart(session, question.finds(place)).await?;
        answer.extend(self.filed(session, place, &question, found).await?);
        self.full_lists.keep(place, (known.as_ref(), pointer.commits), answer.lists());
        let (lists, _) = answer.into_parts();
        Ok(ListsAsOf { generation: place.generation, as_of: pointer.commits, lists })
    }
}
