//! Plans a registration from the record that exists under its id.

use doppel_core::collection::Keep;
use doppel_core::schemes::profile::Digest;
use doppel_core::verdict::Verdict;

use crate::{GenerationId, Registration, Result, Seq, StoreError, StoredRecord};

/// The present state of a collection, on which a registration must be based.
#[derive(Clone, Copy, Debug)]
pub struct CollectionMoment<'a> {
    /// The live generation.
    pub live: GenerationId,
    /// The standby generations, ascending.
    pub standby: &'a [GenerationId],
    /// The content of a record that the collection keeps.
    pub keep: Keep,
    /// The last commit that changed a decision about the record; 0 if there is none, or if the store needs no
    /// [`Registration::decisions_as_of`].
    pub decided: Seq,
}

impl CollectionMoment<'_> {
    /// Refuses a registration that is signed for other generations, has other content than the collection keeps, or is based on outdated
    /// decisions.
    ///
    /// # Errors
    /// [`StoreError::StaleGeneration`].
    pub fn check(&self, registration: &Registration) -> Result<()> {
        let signed = registration.others.iter().map(|(id, _)| id).eq(self.standby);
        // A person has decided since then, perhaps about this record.
        let decided = registration.decisions_as_of.is_some_and(|known| known < self.decided);
        // This is false if the collection was dropped and created again with another `keep`.
        let kept = registration.content.is_kept_by(self.keep);
        match signed && kept && !decided {
            true => check_live(registration.generation, self.live),
            false => Err(StoreError::StaleGeneration { given: registration.generation, live: self.live }),
        }
    }
}

/// Checks that a query is signed for the live generation.
///
/// # Errors
/// [`StoreError::StaleGeneration`].
pub fn check_live(given: GenerationId, live: GenerationId) -> Result<()> {
    if given == live { Ok(()) } else { Err(StoreError::StaleGeneration { given, live }) }
}

/// The text of a record in the form that a generation has filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiledText {
    /// The seq under which it is filed.
    pub seq: Seq,
    /// The digest of the text.
    pub digest: FiledDigest,
}

/// A filed digest: complete, or only its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FiledDigest {
    /// The complete digest.
    Whole(Digest),
    /// The key of the digest; see [`Digest::key`].
    Key(u64),
}

impl FiledDigest {
    fn is(self, digest: Digest) -> bool {
        match self {
            Self::Whole(filed) => filed == digest,
            Self::Key(key) => key == digest.key(),
        }
    }
}

/// The record that exists under an id.
pub trait StandingRecord {
    /// The record.
    fn record(&self) -> &StoredRecord;

    /// Returns the text that `generation` has filed for the record; `None` if it has filed no text or cannot read it.
    fn text_in(&self, generation: GenerationId) -> Option<FiledText>;
}

/// The work that a registration requires.
#[derive(Debug, PartialEq, Eq)]
pub enum RegistrationPlan<T> {
    /// There is no record under the id. Judge and store a new record.
    Create,
    /// A record with the same content exists. Do nothing.
    Unchanged(T),
    /// A record with the same text and other fields exists. Store the new content under the same seq, and file it in these generations, which do
    /// not have it yet (ascending).
    Update(T, Vec<GenerationId>),
    /// A record with another text exists. Judge a new record and replace the existing one.
    Replace(T),
}

/// Plans `registration`, given the present state of the collection and the record that exists under the id.
///
/// # Errors
/// [`StoreError::StaleGeneration`], [`StoreError::IdTaken`].
pub fn plan<T: StandingRecord>(
    registration: &Registration,
    now: CollectionMoment<'_>,
    standing: Option<T>,
) -> Result<RegistrationPlan<T>> {
    now.check(registration)?;
    let Some(standing) = standing else { return Ok(RegistrationPlan::Create) };
    // Computed only if necessary, because the comparison parses both rows.
    let is_same = || registration.content.is_same(&standing.record().content);
    if registration.write_once && !is_same() {
        return Err(StoreError::IdTaken(registration.id.clone()));
    }
    Ok(match missing(registration, &standing) {
        None => RegistrationPlan::Replace(standing),
        Some(_) if is_same() => RegistrationPlan::Unchanged(standing),
        Some(missing) => RegistrationPlan::Update(standing, missing),
    })
}

/// Returns the standby generations that have not filed the record. Returns `None` if the new content has another text in the live
/// generation, or in another generation that has filed the record.
fn missing(registration: &Registration, standing: &impl StandingRecord) -> Option<Vec<GenerationId>> {
    let seq = standing.record().seq;
    let mut missing = Vec::new();
    for (generation, signed) in registration.generations() {
        match standing.text_in(generation) {
            Some(filed) if filed.seq == seq && filed.digest.is(signed.digest) => {}
            None if generation != registration.generation => missing.push(generation),
            _ => return None,
        }
    }
    Some(missing)
}

impl Registration {
    /// Makes the record that the registration stores.
    pub fn record(&self, seq: Seq, verdict: Verdict, duplicate_of_seq: Option<Seq>) -> StoredRecord {
        StoredRecord {
            id: self.id.clone(),
            seq,
            content: self.content.clone(),
            digest: self.signed.digest,
            digest_generation: self.generation,
            verdict,
            duplicate_of_seq,
            stored_at: self.now.clone(),
        }
    }

    /// Makes the record after an update: it has the new content and keeps seq and verdict.
    pub fn updated(&self, record: StoredRecord) -> StoredRecord {
        self.record(record.seq, record.verdict, record.duplicate_of_seq)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::content::{HashKey, RecordContent};
    use crate::{RegistrationMode, SequencedNotifier};
    use doppel_core::collection::CollectionName;
    use doppel_core::record::{RecordId, Row};
    use doppel_core::schemes::profile::Signed;
    use doppel_core::text::Document;

    const SEQ: Seq = Seq(5);

    /// Returns a signed record whose digest depends on `text`: `Signed::unreadable` makes a different digest for every name.
    fn signed(text: &str) -> Arc<Signed> {
        Arc::new(Signed::unreadable(0, text))
    }

    /// Makes a registration that is signed for the live generation 2 and the standby generations 1 and 3.
    fn registration(row: &str, [first, live, third]: [&str; 3]) -> Registration {
        Registration {
            collection: CollectionName::new("letters").unwrap(),
            generation: GenerationId(2),
            id: RecordId::new("a").unwrap(),
            content: RecordContent::from(&Row::parse(row.as_bytes()).unwrap()),
            signed: signed(live),
            others: vec![(GenerationId(1), signed(first)), (GenerationId(3), signed(third))],
            confirmed: Vec::new(),
            refused: Vec::new(),
            decisions_as_of: Some(Seq(7)),
            mode: RegistrationMode::Put,
            write_once: false,
            now: "2026-01-02".to_owned(),
            sequenced: SequencedNotifier::default(),
        }
    }

    #[derive(Clone)]
    struct StandingTexts(StoredRecord, Vec<(GenerationId, FiledText)>);

    impl StandingRecord for StandingTexts {
        fn record(&self) -> &StoredRecord {
            &self.0
        }

        fn text_in(&self, generation: GenerationId) -> Option<FiledText> {
            self.1.iter().find(|(id, _)| *id == generation).map(|(_, filed)| *filed)
        }
    }

    const ROW: &str = r#"{"content":"路灯不亮","user":"张某"}"#;
    const OTHER_USER: &str = r#"{"content":"路灯不亮","user":"李某"}"#;
    const NOW: CollectionMoment<'_> = CollectionMoment {
        live: GenerationId(2),
        standby: &[GenerationId(1), GenerationId(3)],
        keep: Keep::All,
        decided: Seq(7),
    };

    /// Makes the existing record, with these texts filed in these generations.
    fn standing(filed: &[(u32, &str)]) -> Option<StandingTexts> {
        let filed = filed.iter().map(|(id, text)| {
            let digest = signed(text).digest;
            let digest = if *id == 3 { FiledDigest::Key(digest.key()) } else { FiledDigest::Whole(digest) };
            (GenerationId(*id), FiledText { seq: SEQ, digest })
        });
        let record = registration(ROW, ["old"; 3]).record(SEQ, Verdict::blank(), Some(Seq(2)));
        Some(StandingTexts(record, filed.collect()))
    }

    fn planned(row: &str, texts: [&str; 3], standing: Option<StandingTexts>) -> RegistrationPlan<Seq> {
        match plan(&registration(row, texts), NOW, standing).unwrap() {
            RegistrationPlan::Create => RegistrationPlan::Create,
            RegistrationPlan::Unchanged(standing) => RegistrationPlan::Unchanged(standing.record().seq),
            RegistrationPlan::Update(standing, missing) => RegistrationPlan::Update(standing.record().seq, missing),
            RegistrationPlan::Replace(standing) => RegistrationPlan::Replace(standing.record().seq),
        }
    }

    #[test]
    fn the_plan_depends_on_the_filed_texts_and_then_on_the_content() {
        type Case = (&'static str, [&'static str; 3], Option<StandingTexts>, RegistrationPlan<Seq>);
        let same = ["old"; 3];
        let whole = &[(1, "old"), (2, "old"), (3, "old")][..];
        let table: [Case; 10] = [
            (ROW, same, None, RegistrationPlan::Create),
            (ROW, same, standing(whole), RegistrationPlan::Unchanged(SEQ)),
            (OTHER_USER, same, standing(whole), RegistrationPlan::Update(SEQ, vec![])),
            (OTHER_USER, ["old", "new", "old"], standing(whole), RegistrationPlan::Replace(SEQ)),
            // One standby generation reads another text, by its digest or by its key.
            (OTHER_USER, ["new", "old", "old"], standing(whole), RegistrationPlan::Replace(SEQ)),
            (OTHER_USER, ["old", "old", "new"], standing(whole), RegistrationPlan::Replace(SEQ)),
            // A text that is not filed counts only in the live generation.
            (
                OTHER_USER,
                ["new", "old", "new"],
                standing(&[(2, "old")]),
                RegistrationPlan::Update(SEQ, vec![GenerationId(1), GenerationId(3)]),
            ),
            (
                OTHER_USER,
                same,
                standing(&[(2, "old"), (1, "old")]),
                RegistrationPlan::Update(SEQ, vec![GenerationId(3)]),
            ),
            (ROW, same, standing(&[(2, "old")]), RegistrationPlan::Unchanged(SEQ)),
            (ROW, same, standing(&[(1, "old"), (3, "old")]), RegistrationPlan::Replace(SEQ)),
        ];
        for (at, (row, texts, standing, expected)) in table.into_iter().enumerate() {
            assert_eq!(planned(row, texts, standing), expected, "{at}");
        }
        let mut elsewhere = standing(whole).unwrap();
        elsewhere.1[1].1.seq = SEQ.before(1);
        assert_eq!(planned(ROW, same, Some(elsewhere)), RegistrationPlan::Replace(SEQ), "filed of another content");
    }

    #[test]
    fn a_registration_with_an_outdated_state_or_with_other_content_under_a_write_once_id_is_refused() {
        let stale = [
            CollectionMoment { live: GenerationId(1), standby: &[GenerationId(2), GenerationId(3)], ..NOW },
            CollectionMoment { live: GenerationId(3), ..NOW },
            CollectionMoment { standby: &[GenerationId(1)], ..NOW },
            CollectionMoment { standby: &[GenerationId(1), GenerationId(3), GenerationId(4)], ..NOW },
            CollectionMoment { decided: Seq(8), ..NOW },
        ];
        for moment in stale {
            let refused = plan(&registration(ROW, ["old"; 3]), moment, standing(&[(2, "old")])).map(drop);
            assert!(matches!(refused, Err(StoreError::StaleGeneration { given: GenerationId(2), .. })), "{moment:?}");
        }
        let before = CollectionMoment { decided: Seq(3), ..NOW };
        assert!(plan(&registration(ROW, ["old"; 3]), before, standing(&[(2, "old")])).is_ok());
        for (row, refused) in [(ROW, false), (OTHER_USER, true)] {
            let once = Registration { write_once: true, ..registration(row, ["old"; 3]) };
            let planned = plan(&once, NOW, standing(&[(2, "old")])).map(drop);
            assert_eq!(matches!(planned, Err(StoreError::IdTaken(_))), refused, "{row}");
        }
    }

    #[test]
    fn a_registration_must_have_the_kind_of_content_that_the_collection_keeps() {
        let bare = CollectionMoment { keep: Keep::Signatures, ..NOW };
        assert!(refused(&registration(ROW, ["old"; 3]), bare) && refused(&hashed(ROW), NOW));
        assert!(!refused(&hashed(ROW), bare));
        let mut stands = standing(&[(1, "old"), (2, "old"), (3, "old")]).unwrap();
        stands.0.content = hashed(ROW).content;
        assert!(matches!(plan(&hashed(ROW), bare, Some(stands.clone())), Ok(RegistrationPlan::Unchanged(_))));
        assert!(matches!(plan(&hashed(OTHER_USER), bare, Some(stands.clone())), Ok(RegistrationPlan::Update(..))));
        let once = Registration { write_once: true, ..hashed(OTHER_USER) };
        assert!(matches!(plan(&once, bare, Some(stands)), Err(StoreError::IdTaken(_))));
    }

    /// Makes a registration without text.
    fn hashed(row: &str) -> Registration {
        let hashes = HashKey::new([1; 32]).hashes(&Row::parse(row.as_bytes()).unwrap(), &Document::default());
        let content = RecordContent::Hashes(Box::new(hashes));
        Registration { content, ..registration(row, ["old"; 3]) }
    }

    fn refused(registration: &Registration, moment: CollectionMoment<'_>) -> bool {
        matches!(plan::<StandingTexts>(registration, moment, None), Err(StoreError::StaleGeneration { .. }))
    }

    #[test]
    fn an_update_changes_the_content_and_keeps_seq_and_verdict() {
        let StandingTexts(old, _) = standing(&[]).unwrap();
        let new = registration(OTHER_USER, ["old"; 3]).updated(old.clone());
        assert_eq!(
            (new.content.row().map(|row| &**row), new.stored_at.as_str(), new.digest_generation),
            (Some(OTHER_USER), "2026-01-02", GenerationId(2))
        );
        assert_eq!((new.seq, new.verdict, new.duplicate_of_seq), (old.seq, old.verdict, old.duplicate_of_seq));
    }
}
