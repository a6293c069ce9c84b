//! Related cases, as pages list them.

use crate::console::pages::pair::PageContext;
use crate::console::view::row::Facts;
use crate::http::problem::Problem;
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::Relation;
use doppel_search::service::SearchError;

/// A related case.
#[derive(Clone, Debug)]
pub struct RelatedCase {
    /// Its id.
    pub id: RecordId,
    /// What its row says.
    pub facts: Facts,
    /// What both have.
    pub terms: Vec<String>,
    /// Who submitted the two.
    pub relation: Option<Relation>,
}

/// The cases that are most probably about the same matter as `row`, best first: at most `most`, those that are still stored.
///
/// # Errors
/// 409 where search is turned off, 503 while its index is being opened.
pub async fn related(
    context: &PageContext<'_>,
    row: Row,
    except: Option<RecordId>,
    most: usize,
) -> Result<Vec<RelatedCase>, Problem> {
    let service = context.app.search.as_ref().ok_or(SearchError::Off)?;
    let (found, _) = service.related(context.collection, row, except, most).await?;
    let ids: Vec<RecordId> = found.iter().map(|found| found.id.clone()).collect();
    let mut facts = context.facts(&ids).await?;
    let related = found.into_iter().filter_map(|found| {
        let facts = facts.remove(&found.id)?;
        let relation = found.same_petitioner.map(|same| if same { Relation::Repeat } else { Relation::Shared });
        Some(RelatedCase { id: found.id, facts, terms: found.terms, relation })
    });
    Ok(related.collect())
}
