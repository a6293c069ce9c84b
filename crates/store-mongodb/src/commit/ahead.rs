//! Reading ahead: the lists of those who wait are read while the batch before them is judged and written.
//!
//! Meanwhile a large batch asks for few things, and the next one would begin by asking for these. What is read, in a snapshot, goes to
//! the posting cache if it is of the instant just before or just after that batch; if not, it is dropped: nothing depends on it. Reading
//! ends, too, where nobody wants it any more.

use std::sync::Arc;

use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use crate::posting_cache::{ListsAsOf, Reading};
use crate::postings::PostingQuery;
use crate::read::{GenerationKey, Pointer};
use crate::retry::TxnError;
use doppel_core::collection::CollectionName;
use doppel_store::StoreError;

/// Begins to read what `question` asks.
pub(super) fn start(
    shared: &Arc<Shared>,
    name: &CollectionName,
    place: GenerationKey,
    question: PostingQuery,
) -> Reading {
    let (shared, name) = (Arc::clone(shared), name.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let read = shared.lists_as_of(&name, place, &question);
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
    /// What is filed under all digests and keys at one instant, and which that is. A round trip for each group of keys, and more where
    /// they are shared by many.
    async fn lists_as_of(
        &self,
        name: &CollectionName,
        place: GenerationKey,
        question: &PostingQuery,
    ) -> Result<ListsAsOf, TxnError> {
        let mut session = self.snapshot().await?;
        let session = &mut session;
        let mut finds = question.finds(place);
        finds.push(Pointer::find(name));
        let mut found = self.find_apart(session, finds).await?;
        let pointer = Pointer::found(&found.pop().unwrap_or_default())?;
        let pointer = pointer.filter(|pointer| pointer.number == place.number);
        let pointer = pointer.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
        let answer = self.filed(session, place, question, found).await?;
        let (lists, _) = answer.into_parts();
        Ok(ListsAsOf { generation: place.generation, as_of: pointer.commits, lists })
    }
}
