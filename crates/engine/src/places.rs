//! The places that an office knows, with their aliases (`text.places` of the settings).
//!
//! Places decide which names a text has, and therefore the keys of a record and the evidence about a pair. Another list therefore takes effect with
//! a generation, which can be compared with the live generation, activated, and replaced again by the former one, like a form.

use std::collections::{BTreeSet, HashMap};

use crate::arrivals::BackwardWalk;
use crate::boxed;
use crate::forms::reindex;
use crate::tasks::Task;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::facts::{Place, PlaceKind, spellings};
use doppel_core::text::normalise::Normaliser;
use doppel_core::violation::Violation;

/// Number of the latest seqs whose records are searched for aliases.
const LATEST: u64 = 500;
/// Smallest number of records that show how common an alias is.
const LEAST_RECORDS: usize = 50;
/// An alias that one in this number of records contains, or more, is probably an ordinary word: an office knows thousands of places.
const ORDINARY_IN: usize = 10;
/// Largest number of warnings about a list.
const MOST_WARNINGS: usize = 50;

impl Engine {
    /// Returns the places of the live generation, in the order of the list.
    ///
    /// # Errors
    /// [`UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn places(&self, collection: &CollectionName) -> Result<Vec<Place>> {
        Ok(self.context(collection).await?.state.settings.text.places.clone())
    }

    /// Returns a warning for each alias that is probably an ordinary word, because at least a tenth of the latest records contain it.
    /// Districts and towns are left out: most records of an office may name its own. O(characters of the records).
    ///
    /// # Errors
    /// [`UnknownCollection`](crate::Error::UnknownCollection); the errors of the store.
    #[boxed]
    pub async fn common_aliases(&self, collection: &CollectionName, places: Vec<Place>) -> Result<Vec<Violation>> {
        let context = self.context(collection).await?;
        let mut walk = BackwardWalk::begin(self, collection, None, LATEST).await?;
        let mut records = Vec::new();
        while let Some(more) = walk.next().await? {
            records.extend(more);
        }
        off_thread(move || {
            let documents = records.iter().filter_map(|record| context.profile.read(&record.content.read()?).ok());
            let texts = documents.map(|document| document.fields.into_iter().map(|field| field.text).collect());
            let normaliser = Normaliser::new(context.state.settings.text.simplify);
            Ok(common_aliases(&places, &texts.collect::<Vec<_>>(), normaliser))
        })
        .await
    }

    /// Begins a reindex with these places in the place of the earlier list.
    ///
    /// # Errors
    /// The errors of [`Engine::begin_task`].
    #[boxed]
    pub async fn set_places(&self, collection: &CollectionName, places: Vec<Place>, activate: bool) -> Result<Task> {
        let mut settings = self.latest_settings(collection).await?;
        settings.text.places = places;
        self.begin_task(collection, reindex(settings, activate)).await
    }
}

/// An alias in a list of places.
struct ListedAlias {
    /// The index of its place.
    place: usize,
    /// The index of the alias among the aliases of the place.
    number: usize,
    /// Its normal form, and the one with its numbers in the other way of writing.
    spellings: [String; 2],
}

/// Returns the aliases of all places except districts and towns.
fn listed_aliases(places: &[Place], normaliser: Normaliser) -> Vec<ListedAlias> {
    let mut listed = Vec::new();
    for (place, Place { kind, aliases, .. }) in places.iter().enumerate() {
        if !matches!(kind, PlaceKind::District | PlaceKind::Town) {
            let spelt = aliases.iter().map(|alias| spellings(alias, normaliser));
            listed.extend(spelt.enumerate().map(|(number, spellings)| ListedAlias { place, number, spellings }));
        }
    }
    listed
}

/// Returns the warnings about aliases that too many of the records contain. Each record is the list of its normalised texts.
fn common_aliases(places: &[Place], records: &[Vec<String>], normaliser: Normaliser) -> Vec<Violation> {
    let total = records.len();
    if total < LEAST_RECORDS {
        return Vec::new();
    }
    let aliases = listed_aliases(places, normaliser);
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, alias) in aliases.iter().enumerate() {
        alias.spellings.iter().for_each(|spelling| positions.entry(spelling).or_default().push(at));
    }
    let lengths: BTreeSet<usize> = positions.keys().map(|spelling| spelling.len()).collect();
    let mut counts = vec![0; aliases.len()];
    for texts in records {
        let mut found = BTreeSet::new();
        for text in texts {
            for (begin, _) in text.char_indices() {
                let pieces = lengths.iter().filter_map(|length| text.get(begin..begin + length));
                found.extend(pieces.filter_map(|piece| positions.get(piece)).flatten());
            }
        }
        found.into_iter().for_each(|at: &usize| counts[*at] += 1);
    }
    let common = aliases.iter().zip(counts).filter(|(_, count)| count * ORDINARY_IN >= total);
    let warnings = common.map(|(ListedAlias { place, number, .. }, count)| {
        let detail = format!(
            "{count} of the latest {total} records contain this alias; leave it out if it is an ordinary word, because each of them would \
             name the place"
        );
        Violation::new(format!("/text/places/{place}/aliases/{number}"), ErrorCode::CommonAlias, detail)
    });
    warnings.take(MOST_WARNINGS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kind: PlaceKind) -> Place {
        Place { name: "翠湖花园".into(), kind, aliases: vec!["翠湖".into(), "小區".into()], parent: None }
    }

    /// Returns the pointers of the warnings about a district and an estate, if `common` of `total` records contain an alias of both.
    fn told(common: usize, total: usize) -> Vec<String> {
        let texts = (0..total).map(|at| if at < common { "小区的路灯,小区" } else { "翠柳路" });
        let records: Vec<_> = texts.map(|text| vec!["路灯".to_owned(), text.to_owned()]).collect();
        let places = [PlaceKind::District, PlaceKind::Estate].map(place);
        let found = common_aliases(&places, &records, Normaliser::new(true));
        found.into_iter().map(|warning| warning.pointer).collect()
    }

    #[test]
    fn an_alias_in_a_tenth_of_the_records_is_told_unless_it_is_of_a_district() {
        assert_eq!(told(10, 100), ["/text/places/1/aliases/1"]);
        assert!(told(9, 100).is_empty());
        assert!(told(40, LEAST_RECORDS - 1).is_empty(), "too few records");
    }

    #[test]
    fn both_spellings_of_a_number_in_an_alias_count() {
        let aliases = ["一期", "2期", "3期"].map(|alias| format!("翠湖{alias}")).to_vec();
        let places = [Place { name: "翠湖花园".into(), kind: PlaceKind::Estate, aliases, parent: None }];
        let records: Vec<_> = (0..50)
            .map(|at| match at {
                0..4 => "翠湖一期漏水,翠湖1期停电",
                4..8 => "翠湖1期漏水",
                8..14 => "翠湖二期漏水",
                _ => "翠湖三期",
            })
            .map(|text| vec![text.to_owned()])
            .collect();
        let details = common_aliases(&places, &records[..50], Normaliser::new(true)).into_iter();
        let counts: Vec<String> = details.map(|warning| warning.detail.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(counts, ["8", "6", "36"]);
    }
}
