//! The list of related cases on several pages.

use crate::pages::pair::PageContext;
use crate::view::row::RowFacts;
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::Relation;
use doppel_http::problem::Problem;
use doppel_search::service::SearchError;

#[derive(Clone, Debug)]
pub struct RelatedCase {
    pub id: RecordId,
    /// The facts from the record's row.
    pub facts: RowFacts,
    /// Terms that both rows contain.
    pub terms: Vec<String>,
    /// The relation between the petitioners of the two.
    pub relation: Option<Relation>,
}

/// Returns the cases that are most probably about the same matter as `row`, best first. The list contains at most `most` cases, without
/// records that are not stored any more.
///
/// # Errors
/// 409 if search is off; 503 while the search index is being opened.
pub async fn related(
    context: &PageContext,
    row: Row,
    except: Option<RecordId>,
    most: usize,
) -> Result<Vec<RelatedCase>, Problem> {
    let service = context.app.search.as_ref().ok_or(SearchError::Off)?;
    let found = service.related(&context.collection, row, except, most).await?.related;
    let ids: Vec<RecordId> = found.iter().map(|found| found.id.clone()).collect();
    let mut facts = context.facts(&ids).await?;
    let related = found.into_iter().filter_map(|found| {
        let facts = facts.remove(&found.id)?;
        let relation = found.same_petitioner.map(|same| if same { Relation::Repeat } else { Relation::Shared });
        Some(RelatedCase { id: found.id, facts, terms: found.terms, relation })
    });
    Ok(related.collect())
}
