//! The states of a generation (begun, complete, live, dropped), and new settings of a collection.
//!
//! Each transition takes the state of a collection and returns the new state, or an error if the transition is not allowed. It returns `None` if
//! nothing changes.

use crate::generations::{GenerationPhase, GenerationSpec, GenerationState, PairSource};
use crate::{CollectionSpec, CollectionState, GenerationId, Result, Seq, StoreError};
use doppel_core::collection::Settings;

/// Largest number of generations of a collection, including the live one. Each generation costs every registration one more signing and one more
/// index entry on disk.
pub const MAX_GENERATIONS: usize = 3;

/// Checks that a collection with this number of generations may have another generation.
///
/// # Errors
/// `TooManyGenerations` if the number has reached [`MAX_GENERATIONS`].
pub fn check_number(generations: usize) -> Result<()> {
    let most = MAX_GENERATIONS;
    if generations >= most { Err(StoreError::TooManyGenerations { most }) } else { Ok(()) }
}

impl CollectionState {
    /// Begins the generation `id`, a number that no generation of the collection has had. See [`GenerationState::scan_end`].
    ///
    /// # Errors
    /// `KeepConflict` if its settings keep other content; `GenerationBuilding` while a generation is being built; `TooManyGenerations` if
    /// there are [`MAX_GENERATIONS`]; `StaleGeneration` if the collection has other settings than [`GenerationSpec::based_on`].
    pub fn begin(&self, id: GenerationId, spec: &GenerationSpec, scan_end: Seq) -> Result<(GenerationState, Self)> {
        self.check_keep(&spec.settings)?;
        if spec.based_on.as_ref().is_some_and(|settings| *settings != self.settings) {
            return Err(StoreError::StaleGeneration { given: self.generation, live: self.generation });
        }
        if let Some(building) = self.others.iter().find(|other| other.phase == GenerationPhase::Building) {
            return Err(StoreError::GenerationBuilding(building.id));
        }
        check_number(self.others.len() + 1)?;
        let begun = GenerationState {
            id,
            settings: spec.settings.clone(),
            profile: spec.profile.clone(),
            phase: GenerationPhase::Building,
            created_at: spec.now.clone(),
            scan_end,
        };
        let others = self.others.iter().chain([&begun]).cloned().collect();
        Ok((begun, Self { others, ..self.clone() }))
    }

    /// Returns the complete standby generations that a reindex drops before it begins the next generation, oldest first. It drops only as
    /// many as the limit [`MAX_GENERATIONS`] requires.
    pub fn dropped_for_room(&self) -> Vec<GenerationId> {
        let most_others = MAX_GENERATIONS.saturating_sub(2);
        let complete = self.others.iter().filter(|other| other.phase == GenerationPhase::Ready).map(|other| other.id);
        let surplus = complete.clone().count().saturating_sub(most_others);
        complete.take(surplus).collect()
    }

    /// Returns the complete standby generations that are older than `previous`, oldest first. A reindex drops them when the new generation
    /// is live, so that only the previous generation is kept.
    pub fn older_than(&self, previous: GenerationId) -> Vec<GenerationId> {
        let older = self.others.iter().filter(|other| other.phase == GenerationPhase::Ready && other.id < previous);
        older.map(|other| other.id).collect()
    }

    /// Marks a standby generation as complete.
    ///
    /// # Errors
    /// `UnknownGeneration`, also for the live generation.
    pub fn complete(&self, id: GenerationId) -> Result<Option<Self>> {
        if self.standby(id)?.phase == GenerationPhase::Ready {
            return Ok(None);
        }
        let mut completed = self.clone();
        completed
            .others
            .iter_mut()
            .filter(|other| other.id == id)
            .for_each(|other| other.phase = GenerationPhase::Ready);
        Ok(Some(completed))
    }

    /// Makes a complete standby generation the live generation, and the live generation a standby generation. Records that are registered
    /// under the new live generation have the seq `from` or a later one. The pairs of the earlier generations still count: see
    /// [`CollectionState::pair_sources`].
    ///
    /// # Errors
    /// As [`CollectionState::ready`].
    pub fn activate(&self, id: GenerationId, from: Seq) -> Result<Option<Self>> {
        if self.generation == id {
            return Ok(None);
        }
        let mut activated = self.seen_from(self.ready(id)?);
        if activated.pair_sources.is_empty() {
            activated.pair_sources.push(PairSource { generation: self.generation, from: Seq(0) });
        }
        // A generation that was live before and becomes live again has pairs since it first became live.
        if activated.pair_sources.iter().all(|source| source.generation != id) {
            activated.pair_sources.push(PairSource { generation: id, from });
        }
        Ok(Some(activated))
    }

    /// Records that the live generation has all pairs.
    ///
    /// # Errors
    /// `UnknownGeneration` if `id` is not the live generation.
    pub fn complete_pairs(&self, id: GenerationId) -> Result<Option<Self>> {
        if self.generation != id {
            return Err(self.lacks(id));
        }
        Ok((!self.pair_sources.is_empty()).then(|| Self { pair_sources: Vec::new(), ..self.clone() }))
    }

    /// Returns the generations whose pairs count: at least one.
    pub fn sources_of_pairs(&self) -> Vec<PairSource> {
        match self.pair_sources.is_empty() {
            true => vec![PairSource { generation: self.generation, from: Seq(0) }],
            false => self.pair_sources.clone(),
        }
    }

    /// Drops a standby generation.
    ///
    /// # Errors
    /// `GenerationLive`.
    pub fn without(&self, id: GenerationId) -> Result<Option<Self>> {
        self.check_not_live(id)?;
        let others: Vec<_> = self.others.iter().filter(|other| other.id != id).cloned().collect();
        let mut pair_sources = self.pair_sources.clone();
        pair_sources.retain(|source| source.generation != id);
        if pair_sources.iter().all(|source| source.generation == self.generation) {
            // No other generation has pairs any more. All remaining pairs are pairs of the live generation.
            pair_sources.clear();
        }
        Ok((others.len() < self.others.len()).then(|| Self { others, pair_sources, ..self.clone() }))
    }

    /// Gives the collection new settings. With another profile it starts the generation `next`, a number that no generation of the collection
    /// has had, and all other generations are dropped; their ids are returned. (They contain no records.)
    ///
    /// # Errors
    /// `KeepConflict` if the settings keep other contents; `ProfileConflict` if the profile differs and the collection has records;
    /// `GenerationBuilding` while a generation is being built, because its settings would replace the new settings. The retention of
    /// records is not a setting of a generation, and can be changed at any time.
    pub fn with_settings(
        &self,
        spec: CollectionSpec,
        next: GenerationId,
        has_records: bool,
    ) -> Result<(Self, Vec<GenerationId>)> {
        let CollectionSpec { settings, profile, name, .. } = spec;
        self.check_keep(&settings)?;
        let kept = Self { settings, profile, ..self.clone() };
        if kept.profile == self.profile {
            let is_same = Settings { retention: self.settings.retention, ..kept.settings.clone() } == self.settings;
            return match self.others.iter().find(|other| other.phase == GenerationPhase::Building) {
                Some(building) if !is_same => Err(StoreError::GenerationBuilding(building.id)),
                _ => Ok((kept, Vec::new())),
            };
        }
        if has_records {
            return Err(StoreError::ProfileConflict(name));
        }
        let gone = std::iter::once(self.generation).chain(self.standby_ids()).collect();
        Ok((
            Self {
                generation: next,
                live_since: None,
                scan_end: Seq(0),
                others: Vec::new(),
                pair_sources: Vec::new(),
                ..kept
            },
            gone,
        ))
    }

    /// Checks that `settings` keep the same content of a record as the collection. This also holds for an empty collection, because the files of
    /// a store may still contain deleted records.
    ///
    /// # Errors
    /// `KeepConflict` if they keep other content.
    pub fn check_keep(&self, settings: &Settings) -> Result<()> {
        let keep = self.settings.keep;
        if settings.keep == keep { Ok(()) } else { Err(StoreError::KeepConflict { name: self.name.clone(), keep }) }
    }

    /// Returns the standby generation `id`.
    ///
    /// # Errors
    /// `UnknownGeneration`, also for the live generation.
    pub fn standby(&self, id: GenerationId) -> Result<&GenerationState> {
        self.others.iter().find(|other| other.id == id).ok_or_else(|| self.lacks(id))
    }

    /// Returns the standby generation `id`, which must be complete.
    ///
    /// # Errors
    /// `UnknownGeneration`, also for the live generation; `GenerationBuilding` while it is being built.
    pub fn ready(&self, id: GenerationId) -> Result<&GenerationState> {
        match self.standby(id)? {
            building if building.phase == GenerationPhase::Building => Err(StoreError::GenerationBuilding(id)),
            ready => Ok(ready),
        }
    }

    /// Returns the ids of the standby generations, ascending.
    pub fn standby_ids(&self) -> Vec<GenerationId> {
        self.others.iter().map(|other| other.id).collect()
    }

    /// Returns the error for `generation`, which is not a standby generation.
    pub fn lacks(&self, generation: GenerationId) -> StoreError {
        StoreError::UnknownGeneration { collection: self.name.clone(), generation }
    }

    /// Checks that the generation `id` is not live.
    ///
    /// # Errors
    /// `GenerationLive` if it is live.
    pub fn check_not_live(&self, id: GenerationId) -> Result<()> {
        if self.generation == id { Err(StoreError::GenerationLive(id)) } else { Ok(()) }
    }

    /// Returns the state of the collection after the standby generation `other` has become live.
    #[must_use]
    pub fn seen_from(&self, other: &GenerationState) -> Self {
        let before = GenerationState {
            id: self.generation,
            settings: self.settings.clone(),
            profile: self.profile.clone(),
            phase: GenerationPhase::Ready,
            created_at: self.generation_created_at().to_owned(),
            scan_end: self.scan_end,
        };
        let mut others: Vec<_> = self.others.iter().filter(|kept| kept.id != other.id).cloned().collect();
        others.push(before);
        others.sort_by_key(|kept| kept.id);
        Self {
            // Retention belongs to the collection, not to a generation: activating an older generation must not delete records.
            settings: Settings { retention: self.settings.retention, ..other.settings.clone() },
            generation: other.id,
            profile: other.profile.clone(),
            live_since: Some(other.created_at.clone()),
            scan_end: other.scan_end,
            others,
            ..self.clone()
        }
    }

    /// Returns the time at which the live generation was begun. A first generation was begun with the collection.
    pub fn generation_created_at(&self) -> &str {
        self.live_since.as_deref().unwrap_or(&self.created_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectionNumber;
    use GenerationPhase::{Building, Ready};
    use doppel_core::collection::CollectionName;

    fn spec(profile: &str) -> CollectionSpec {
        let name = CollectionName::new("letters").unwrap();
        let now = "2026-01-01".to_owned();
        CollectionSpec { name, settings: Settings::default(), profile: profile.to_owned(), hash_key: None, now }
    }

    /// A collection with the live generation 2 and standby generations in these phases, with numbers from 3.
    fn with(phases: &[GenerationPhase]) -> CollectionState {
        let others = (3..)
            .map(GenerationId)
            .zip(phases)
            .map(|(id, phase): (GenerationId, &GenerationPhase)| {
                let settings = Settings::default();
                let created_at = "2026-01-02".to_owned();
                GenerationState { id, settings, profile: "q".into(), phase: *phase, created_at, scan_end: Seq(9) }
            })
            .collect();
        CollectionState {
            generation: GenerationId(2),
            others,
            ..CollectionState::first(CollectionNumber(1), spec("p"))
        }
    }

    /// Describes the live generation and the other generations with their phases, or the error.
    fn shown(changed: Result<Option<CollectionState>>) -> String {
        match changed {
            Ok(None) => "as it was".to_owned(),
            Ok(Some(state)) => {
                let others = state.others.iter().map(|other| format!(" {} {:?}", other.id, other.phase));
                format!("{} live{}", state.generation, others.collect::<String>())
            }
            Err(error) => format!("{error:?}").split('{').next().unwrap_or_default().trim().to_owned(),
        }
    }

    #[test]
    fn each_transition_returns_the_new_state_or_an_error() {
        let table = [
            (begin_with(&[]), "2 live 7 Building"),
            (begin_with(&[Ready]), "2 live 3 Ready 7 Building"),
            (begin_with(&[Building]), "GenerationBuilding(3)"),
            // If two errors apply, the first is the error that the person can remove first.
            (begin_with(&[Ready, Building]), "GenerationBuilding(4)"),
            (begin_with(&[Ready, Ready]), "TooManyGenerations"),
            (with_ready_and_building().complete(GenerationId(4)), "2 live 3 Ready 4 Ready"),
            (with_ready_and_building().complete(GenerationId(3)), "as it was"),
            (with_ready_and_building().complete(GenerationId(2)), "UnknownGeneration"),
            (with_ready_and_building().complete(GenerationId(7)), "UnknownGeneration"),
            (with_ready_and_building().activate(GenerationId(3), Seq(20)), "3 live 2 Ready 4 Building"),
            (with_ready_and_building().activate(GenerationId(2), Seq(20)), "as it was"),
            (with_ready_and_building().activate(GenerationId(4), Seq(20)), "GenerationBuilding(4)"),
            (with_ready_and_building().activate(GenerationId(1), Seq(20)), "UnknownGeneration"),
            (with_ready_and_building().without(GenerationId(3)), "2 live 4 Building"),
            (with_ready_and_building().without(GenerationId(4)), "2 live 3 Ready"),
            (with_ready_and_building().without(GenerationId(7)), "as it was"),
            (with_ready_and_building().without(GenerationId(2)), "GenerationLive(2)"),
        ];
        for (at, (changed, expected)) in table.into_iter().enumerate() {
            assert_eq!(shown(changed), expected, "{at}");
        }
    }

    fn with_ready_and_building() -> CollectionState {
        with(&[Ready, Building])
    }

    fn begin_with(phases: &[GenerationPhase]) -> std::result::Result<Option<CollectionState>, StoreError> {
        let CollectionSpec { name: collection, settings, profile, now, .. } = spec("r");
        let spec = GenerationSpec { collection, settings, based_on: None, profile, statistics: Vec::new(), now };
        with(phases).begin(GenerationId(7), &spec, Seq(12)).map(|(begun, state)| {
            assert_eq!(
                (begun.id, begun.phase, begun.scan_end, begun.profile.as_str()),
                (GenerationId(7), Building, Seq(12), "r")
            );
            Some(state)
        })
    }

    #[test]
    fn a_reindex_drops_the_oldest_complete_generations_and_keeps_the_newest_previous_one() {
        for (phases, dropped) in
            [(&[][..], &[][..]), (&[Ready], &[]), (&[Ready, Ready], &[3]), (&[Ready, Building], &[])]
        {
            assert_eq!(with(phases).dropped_for_room(), generation_ids(dropped), "{phases:?}");
        }
        let many = with(&[Ready, Building, Ready]);
        assert_eq!(
            many.older_than(GenerationId(5)),
            generation_ids(&[3]),
            "a generation that is being built is not dropped"
        );
        assert_eq!(many.older_than(GenerationId(3)), generation_ids(&[]));
    }

    fn generation_ids(ids: &[u32]) -> Vec<GenerationId> {
        ids.iter().copied().map(GenerationId).collect::<Vec<_>>()
    }

    #[test]
    fn activating_the_previous_generation_restores_the_state_except_for_the_time() {
        let before = with(&[Ready]);
        let there = before.activate(GenerationId(3), Seq(20)).unwrap().unwrap();
        assert_eq!(
            (there.profile.as_str(), there.scan_end, there.generation_created_at()),
            ("q", Seq(9), "2026-01-02")
        );
        let back = there.activate(GenerationId(2), Seq(20)).unwrap().unwrap();
        let pair_sources = there.pair_sources;
        assert_eq!(back, CollectionState { live_since: Some("2026-01-01".into()), pair_sources, ..before });
    }

    #[test]
    fn the_pairs_of_the_generations_before_stay_in_force_until_the_live_one_has_all() {
        let before = with(&[Ready, Ready]);
        assert_eq!(pair_sources(&before), [(2, 0)]);
        let next = before.activate(GenerationId(3), Seq(20)).unwrap().unwrap();
        assert_eq!(pair_sources(&next), [(2, 0), (3, 20)]);
        let back = next.activate(GenerationId(2), Seq(30)).unwrap().unwrap();
        assert_eq!(pair_sources(&back), [(2, 0), (3, 20)], "it lacks what came while 3 was live");
        let third = next.activate(GenerationId(4), Seq(40)).unwrap().unwrap();
        assert_eq!(pair_sources(&third), [(2, 0), (3, 20), (4, 40)]);
        assert_eq!(pair_sources(&third.without(GenerationId(2)).unwrap().unwrap()), [(3, 20), (4, 40)]);
        assert_eq!(pair_sources(&next.without(GenerationId(2)).unwrap().unwrap()), [(3, 0)]);
        let complete = third.complete_pairs(GenerationId(4)).unwrap().unwrap();
        assert_eq!(pair_sources(&complete), [(4, 0)]);
        assert_eq!(complete.complete_pairs(GenerationId(4)).unwrap(), None, "said twice");
        assert!(matches!(complete.complete_pairs(GenerationId(3)), Err(StoreError::UnknownGeneration { .. })));
    }

    fn pair_sources(state: &CollectionState) -> Vec<(u32, u64)> {
        state.sources_of_pairs().iter().map(|source| (source.generation.0, source.from.0)).collect()
    }

    #[test]
    fn the_kept_content_of_records_never_changes() {
        let settings = Settings::preset(doppel_core::collection::Preset::Signatures);
        for state in [with(&[]), CollectionState { settings: settings.clone(), ..with(&[]) }] {
            let other = if state.settings == settings { Settings::default() } else { settings.clone() };
            for has_records in [true, false] {
                let changed = state.with_settings(spec_with(&other), GenerationId(5), has_records);
                assert!(matches!(changed, Err(StoreError::KeepConflict { .. })));
            }
            assert!(state.with_settings(spec_with(&state.settings), GenerationId(5), true).is_ok());
            let collection = state.name.clone();
            let now = String::new();
            let begun = GenerationSpec {
                collection,
                settings: other,
                based_on: None,
                profile: "q".into(),
                statistics: Vec::new(),
                now,
            };
            assert!(matches!(state.begin(GenerationId(7), &begun, Seq(1)), Err(StoreError::KeepConflict { .. })));
        }
    }

    fn spec_with(settings: &Settings) -> CollectionSpec {
        CollectionSpec { settings: settings.clone(), ..spec("p") }
    }

    #[test]
    fn another_profile_is_allowed_only_without_records() {
        let state =
            CollectionState { live_since: Some("2026-01-02".into()), scan_end: Seq(9), ..with(&[Ready, Building]) };
        let (kept, gone) = state.with_settings(spec("p"), GenerationId(5), true).unwrap();
        assert_eq!((kept, gone), (state.clone(), vec![]));
        let refused = state.with_settings(spec("other"), GenerationId(5), true);
        assert!(matches!(refused, Err(StoreError::ProfileConflict(_))));
        let (anew, gone) = state.with_settings(spec("other"), GenerationId(5), false).unwrap();
        assert_eq!(
            (anew.generation, anew.profile.as_str(), gone),
            (GenerationId(5), "other", [2, 3, 4].map(GenerationId).to_vec())
        );
        assert_eq!((anew.live_since, anew.scan_end, anew.others), (None, Seq(0), vec![]));
    }
}
