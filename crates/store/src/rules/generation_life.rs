//! The life of a generation: begun, complete, live, dropped; and how a collection begins anew with other settings.
//!
//! Each transition takes what is shown of a collection and gives what is to be shown instead, or says why it may not be; where
//! nothing is to be changed, it gives none.

use crate::generations::{GenerationSpec, GenerationState, PairSource, Phase};
use crate::{CollectionSpec, CollectionState, GenerationId, Result, Seq, StoreError};
use doppel_core::collection::Settings;

/// Most generations of a collection, the live one included: each costs every registration another signing and another
/// index entry on disk.
pub const MAX_GENERATIONS: usize = 3;

/// Whether a collection with so many generations may have another one.
///
/// # Errors
/// `TooManyGenerations` from [`MAX_GENERATIONS`] on.
pub fn check_number(generations: usize) -> Result<()> {
    let most = MAX_GENERATIONS;
    if generations >= most { Err(StoreError::TooManyGenerations { most }) } else { Ok(()) }
}

impl CollectionState {
    /// Begins the generation `id`, a number that none of the collection has had. See [`GenerationState::scan_end`].
    ///
    /// # Errors
    /// `KeepConflict` where its settings keep something else; `GenerationBuilding` while one is being built; `TooManyGenerations` when
    /// there are [`MAX_GENERATIONS`]; `StaleGeneration` where the collection has other settings than [`GenerationSpec::based_on`].
    pub fn begin(&self, id: GenerationId, spec: &GenerationSpec, scan_end: Seq) -> Result<(GenerationState, Self)> {
        self.check_keep(&spec.settings)?;
        if spec.based_on.as_ref().is_some_and(|settings| *settings != self.settings) {
            return Err(StoreError::StaleGeneration { given: self.generation, live: self.generation });
        }
        if let Some(building) = self.others.iter().find(|other| other.phase == Phase::Building) {
            return Err(StoreError::GenerationBuilding(building.id));
        }
        check_number(self.others.len() + 1)?;
        let begun = GenerationState {
            id,
            settings: spec.settings.clone(),
            profile: spec.profile.clone(),
            phase: Phase::Building,
            created_at: spec.now.clone(),
            scan_end,
        };
        let others = self.others.iter().chain([&begun]).cloned().collect();
        Ok((begun, Self { others, ..self.clone() }))
    }

    /// Says that a standby generation is complete.
    ///
    /// # Errors
    /// `UnknownGeneration`, also for the live one.
    pub fn complete(&self, id: GenerationId) -> Result<Option<Self>> {
        if self.standby(id)?.phase == Phase::Ready {
            return Ok(None);
        }
        let mut completed = self.clone();
        completed.others.iter_mut().filter(|other| other.id == id).for_each(|other| other.phase = Phase::Ready);
        Ok(Some(completed))
    }

    /// Makes a complete standby generation the live one, and the live one a standby one. Records that are registered under the new live
    /// generation have the seq `from` or a later one. The pairs of the generations so far stay in force: see
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
        // A generation that went live before, and is live again, has pairs from its first time on.
        if activated.pair_sources.iter().all(|source| source.generation != id) {
            activated.pair_sources.push(PairSource { generation: id, from });
        }
        Ok(Some(activated))
    }

    /// Says that the live generation has all pairs.
    ///
    /// # Errors
    /// `UnknownGeneration` where `id` is not the live one.
    pub fn complete_pairs(&self, id: GenerationId) -> Result<Option<Self>> {
        if self.generation != id {
            return Err(self.lacks(id));
        }
        Ok((!self.pair_sources.is_empty()).then(|| Self { pair_sources: Vec::new(), ..self.clone() }))
    }

    /// The generations whose pairs are in force: at least one.
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
            // No other generation's pairs are left: the pairs of the live generation are all there are.
            pair_sources.clear();
        }
        Ok((others.len() < self.others.len()).then(|| Self { others, pair_sources, ..self.clone() }))
    }

    /// Gives it new settings. With another profile it begins anew with the generation `next`, a number that none of it has had: then
    /// the generations that are gone with it, which without records are worth nothing.
    ///
    /// # Errors
    /// `KeepConflict` where they keep something else; `ProfileConflict` where the profile is another and it has records;
    /// `GenerationBuilding` while a generation is being built with settings of its own, which would take the place of these. How long
    /// records are kept is no setting of a generation, and can be changed at any time.
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
            return match self.others.iter().find(|other| other.phase == Phase::Building) {
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

    /// Whether `settings` keep of a record what the collection was made to keep, with records or without: what a store has written
    /// and deleted may still lie in its files.
    ///
    /// # Errors
    /// `KeepConflict` where they do not.
    pub fn check_keep(&self, settings: &Settings) -> Result<()> {
        let keep = self.settings.keep;
        if settings.keep == keep { Ok(()) } else { Err(StoreError::KeepConflict { name: self.name.clone(), keep }) }
    }

    /// The generation `id` beside the live one.
    ///
    /// # Errors
    /// `UnknownGeneration`, also for the live one.
    pub fn standby(&self, id: GenerationId) -> Result<&GenerationState> {
        self.others.iter().find(|other| other.id == id).ok_or_else(|| self.lacks(id))
    }

    /// The generation `id` beside the live one, complete.
    ///
    /// # Errors
    /// `UnknownGeneration`, also for the live one; `GenerationBuilding` while it is being built.
    pub fn ready(&self, id: GenerationId) -> Result<&GenerationState> {
        match self.standby(id)? {
            building if building.phase == Phase::Building => Err(StoreError::GenerationBuilding(id)),
            ready => Ok(ready),
        }
    }

    /// The standby generations, ascending.
    pub fn standby_ids(&self) -> Vec<GenerationId> {
        self.others.iter().map(|other| other.id).collect()
    }

    /// What to answer to who names `generation`, which is not beside the live one.
    pub fn lacks(&self, generation: GenerationId) -> StoreError {
        StoreError::UnknownGeneration { collection: self.name.clone(), generation }
    }

    /// Whether the generation `id` answers.
    ///
    /// # Errors
    /// `GenerationLive` if it does.
    pub fn check_not_live(&self, id: GenerationId) -> Result<()> {
        if self.generation == id { Err(StoreError::GenerationLive(id)) } else { Ok(()) }
    }

    /// The same collection as it would be if `other`, one beside the live one, were live.
    #[must_use]
    pub fn seen_from(&self, other: &GenerationState) -> Self {
        let before = GenerationState {
            id: self.generation,
            settings: self.settings.clone(),
            profile: self.profile.clone(),
            phase: Phase::Ready,
            created_at: self.generation_created_at().to_owned(),
            scan_end: self.scan_end,
        };
        let mut others: Vec<_> = self.others.iter().filter(|kept| kept.id != other.id).cloned().collect();
        others.push(before);
        others.sort_by_key(|kept| kept.id);
        Self {
            // How long records are kept is no matter of an index: going back to an old one must delete nothing.
            settings: Settings { retention: self.settings.retention, ..other.settings.clone() },
            generation: other.id,
            profile: other.profile.clone(),
            live_since: Some(other.created_at.clone()),
            scan_end: other.scan_end,
            others,
            ..self.clone()
        }
    }

    /// When the live generation was begun: with the collection, unless it was built later.
    pub fn generation_created_at(&self) -> &str {
        self.live_since.as_deref().unwrap_or(&self.created_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectionNumber;
    use Phase::{Building, Ready};
    use doppel_core::collection::CollectionName;

    fn spec(profile: &str) -> CollectionSpec {
        let (name, now) = (CollectionName::new("letters").unwrap(), "2026-01-01".to_owned());
        CollectionSpec { name, settings: Settings::default(), profile: profile.to_owned(), hash_key: None, now }
    }

    /// A collection whose generation 2 is live, with others in these phases from 3 on.
    fn with(phases: &[Phase]) -> CollectionState {
        let other = |(id, phase): (GenerationId, &Phase)| {
            let (settings, created_at) = (Settings::default(), "2026-01-02".to_owned());
            GenerationState { id, settings, profile: "q".into(), phase: *phase, created_at, scan_end: Seq(9) }
        };
        let others = (3..).map(GenerationId).zip(phases).map(other).collect();
        CollectionState {
            generation: GenerationId(2),
            others,
            ..CollectionState::first(CollectionNumber(1), spec("p"))
        }
    }

    /// The live generation, the others with their phases; or the error in words.
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
    fn each_transition_gives_what_is_to_be_shown_or_its_refusal() {
        let begin = |phases: &[Phase]| {
            let CollectionSpec { name: collection, settings, profile, now, .. } = spec("r");
            let spec = GenerationSpec { collection, settings, based_on: None, profile, statistics: Vec::new(), now };
            with(phases).begin(GenerationId(7), &spec, Seq(12)).map(|(begun, state)| {
                assert_eq!(
                    (begun.id, begun.phase, begun.scan_end, begun.profile.as_str()),
                    (GenerationId(7), Building, Seq(12), "r")
                );
                Some(state)
            })
        };
        let both = || with(&[Ready, Building]);
        let table = [
            (begin(&[]), "2 live 7 Building"),
            (begin(&[Ready]), "2 live 3 Ready 7 Building"),
            (begin(&[Building]), "GenerationBuilding(3)"),
            // What would make room first is said first.
            (begin(&[Ready, Building]), "GenerationBuilding(4)"),
            (begin(&[Ready, Ready]), "TooManyGenerations"),
            (both().complete(GenerationId(4)), "2 live 3 Ready 4 Ready"),
            (both().complete(GenerationId(3)), "as it was"),
            (both().complete(GenerationId(2)), "UnknownGeneration"),
            (both().complete(GenerationId(7)), "UnknownGeneration"),
            (both().activate(GenerationId(3), Seq(20)), "3 live 2 Ready 4 Building"),
            (both().activate(GenerationId(2), Seq(20)), "as it was"),
            (both().activate(GenerationId(4), Seq(20)), "GenerationBuilding(4)"),
            (both().activate(GenerationId(1), Seq(20)), "UnknownGeneration"),
            (both().without(GenerationId(3)), "2 live 4 Building"),
            (both().without(GenerationId(4)), "2 live 3 Ready"),
            (both().without(GenerationId(7)), "as it was"),
            (both().without(GenerationId(2)), "GenerationLive(2)"),
        ];
        for (at, (changed, expected)) in table.into_iter().enumerate() {
            assert_eq!(shown(changed), expected, "{at}");
        }
    }

    #[test]
    fn going_back_restores_what_was_shown_but_for_when_the_generation_was_begun() {
        let before = with(&[Ready]);
        let there = before.activate(GenerationId(3), Seq(20)).unwrap().unwrap();
        assert_eq!(
            (there.profile.as_str(), there.scan_end, there.generation_created_at()),
            ("q", Seq(9), "2026-01-02")
        );
        let back = there.activate(GenerationId(2), Seq(20)).unwrap().unwrap();
        let pair_sources = there.pair_sources.clone();
        assert_eq!(back, CollectionState { live_since: Some("2026-01-01".into()), pair_sources, ..before });
    }

    #[test]
    fn the_pairs_of_the_generations_before_stay_in_force_until_the_live_one_has_all() {
        let sources = |state: &CollectionState| -> Vec<(u32, u64)> {
            state.sources_of_pairs().iter().map(|source| (source.generation.0, source.from.0)).collect()
        };
        let before = with(&[Ready, Ready]);
        assert_eq!(sources(&before), [(2, 0)]);
        let next = before.activate(GenerationId(3), Seq(20)).unwrap().unwrap();
        assert_eq!(sources(&next), [(2, 0), (3, 20)]);
        let back = next.activate(GenerationId(2), Seq(30)).unwrap().unwrap();
        assert_eq!(sources(&back), [(2, 0), (3, 20)], "it lacks what came while 3 was live");
        let third = next.activate(GenerationId(4), Seq(40)).unwrap().unwrap();
        assert_eq!(sources(&third), [(2, 0), (3, 20), (4, 40)]);
        assert_eq!(sources(&third.without(GenerationId(2)).unwrap().unwrap()), [(3, 20), (4, 40)]);
        assert_eq!(sources(&next.without(GenerationId(2)).unwrap().unwrap()), [(3, 0)]);
        let complete = third.complete_pairs(GenerationId(4)).unwrap().unwrap();
        assert_eq!(sources(&complete), [(4, 0)]);
        assert_eq!(complete.complete_pairs(GenerationId(4)).unwrap(), None, "said twice");
        assert!(matches!(complete.complete_pairs(GenerationId(3)), Err(StoreError::UnknownGeneration { .. })));
    }

    #[test]
    fn what_is_kept_of_a_record_is_never_changed() {
        let settings = Settings::preset(doppel_core::collection::Preset::Signatures);
        for state in [with(&[]), CollectionState { settings: settings.clone(), ..with(&[]) }] {
            let other = if state.settings == settings { Settings::default() } else { settings.clone() };
            let spec = |settings: &Settings| CollectionSpec { settings: settings.clone(), ..spec("p") };
            for has_records in [true, false] {
                let changed = state.with_settings(spec(&other), GenerationId(5), has_records);
                assert!(matches!(changed, Err(StoreError::KeepConflict { .. })));
            }
            assert!(state.with_settings(spec(&state.settings), GenerationId(5), true).is_ok());
            let (collection, now) = (state.name.clone(), String::new());
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

    #[test]
    fn another_profile_begins_anew_and_only_without_records() {
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
