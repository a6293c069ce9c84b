//! The rules for a match. The store applies them to every candidate.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::context::{Context, SignedRow};
use crate::decisions::RecordRulings;
use crate::read_records::ReadRecord;
use crate::stages::StageRecorder;
use doppel_core::collection::{ChannelPosition, ScopeExclusion, ScopeValues, ScopedRecord};
use doppel_core::index::{HammingRange, Via};
use doppel_core::schemes::Signature;
use doppel_core::similarity::{
    Alignment, Contrast, Evidence, NameFilter, NamesInText, SketchComparison, SketchFilter, TokenText, Verifier,
    WeightedShingles, align_tokens, contrast, named_in, names_in, sketch, with_names,
};
use doppel_core::text::Document;
use doppel_core::text::objects::NamedObject;
use doppel_core::verdict::{
    Difference, Fingerprint, Match, Relation, VIA_COPY, VIA_DECISION, VIA_EXACT, VIA_NAMES, VIA_URL, Verdict,
    VerdictInputs,
};
use doppel_store::content::{ContentHashes, RecordContent};
use doppel_store::stages::{RegistrationStage, StageSpan};
use doppel_store::{CandidateJudge, CandidateRecord, Seq, StoredRecord};
use parking_lot::Mutex;

/// Smallest number of candidates whose sketches are fetched together: for fewer candidates the fetch costs more time than it saves.
const FETCHED_TOGETHER: usize = 16;

/// Judges candidates for one record. A candidate with an equal digest matches. Another candidate matches if a channel that proposed it accepts it
/// and, in a collection that verifies, the verification of the texts accepts it.
pub(super) struct RecordJudge {
    context: Arc<Context>,
    subject: SignedRow,
    /// The decisions about this record and others.
    rulings: RecordRulings,
    /// True if records with the same form are shown, too, although they do not match.
    templates: bool,
    /// True if recorded pairs are judged again: the present status of a record then has no effect.
    ignores_status: bool,
    /// The record's shingles, made when the first candidate is verified.
    filter: OnceLock<SketchFilter>,
    /// The numbers of candidates by result.
    candidates: CandidateCounts,
    /// The names in the record's text, found when the first candidate is contrasted.
    named: OnceLock<NameFilter>,
    /// The tokens of the record's text, found when the first candidate is aligned.
    tokens: OnceLock<TokenText>,
    /// The comparison with the last candidate, for the next candidate if it has the same text: a letter that thousands of people sent is
    /// compared with hundreds of copies. Copies are proposed one after the other.
    last: Mutex<Option<TextComparison>>,
    /// The recorder of the durations of the store's stages.
    noted: StageRecorder,
}

/// The comparison of the record with the text of a candidate. It is the same for all candidates with this text.
struct TextComparison {
    read: Arc<ReadRecord>,
    via: Via,
    fingerprint: Option<Fingerprint>,
    /// True if the candidate has the same digest.
    exact: bool,
    /// The names of the channels that proposed the candidate and accept it.
    channels: Vec<String>,
    /// `None` if the texts were not compared.
    verified: Option<VerifiedCandidate>,
}

/// The numbers of candidates by result, for the metrics.
#[derive(Default)]
struct CandidateCounts {
    dismissed: AtomicU32,
    refused: AtomicU32,
    accepted: AtomicU32,
}

impl Drop for CandidateCounts {
    fn drop(&mut self) {
        let results = [("dismissed", &self.dismissed), ("refused", &self.refused), ("accepted", &self.accepted)];
        for (result, count) in results {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                metrics::counter!("doppel_candidates_total", "result" => result).increment(count.into());
            }
        }
    }
}

impl RecordJudge {
    pub(super) fn new(context: Arc<Context>, subject: SignedRow, rulings: RecordRulings) -> Self {
        Self {
            context,
            subject,
            rulings,
            templates: false,
            ignores_status: false,
            filter: OnceLock::new(),
            candidates: CandidateCounts::default(),
            named: OnceLock::new(),
            tokens: OnceLock::new(),
            last: Mutex::new(None),
            noted: StageRecorder::nothing(),
        }
    }

    /// Returns the same judge with a recorder of the durations of the store's stages.
    #[must_use]
    pub(super) fn with_recorder(self, noted: StageRecorder) -> Self {
        Self { noted, ..self }
    }

    pub(super) fn document(&self) -> &Document {
        &self.subject.document
    }

    /// True if all work on its text takes a fraction of a millisecond.
    pub(super) fn is_of_short_text(&self) -> bool {
        self.subject.is_short()
    }

    /// Makes the data that candidates are compared with; otherwise the first candidate would wait for it.
    pub(super) fn prepare(&self) {
        if let Some(verifier) = &self.context.verifier {
            self.filter(verifier);
            self.own_names(verifier);
        }
    }

    /// Returns the same judge, which with `templates` also shows records of the same form that do not match.
    #[must_use]
    pub(super) fn showing_templates(self, templates: bool) -> Self {
        Self { templates, ..self }
    }

    /// Returns the same judge, which accepts earlier records that are closed. A record has only its present status, so that a reindex would
    /// otherwise dissolve the groups of finished matters.
    #[must_use]
    pub(super) fn ignoring_status(self) -> Self {
        Self { ignores_status: true, ..self }
    }

    /// Returns the names of the channels that proposed the candidate and accept it. `other` is its text, if the collection keeps it.
    fn accepting_channels(&self, candidate: &CandidateRecord<'_>, other: Option<&Document>) -> Vec<String> {
        // The candidate is signed again at most once, and only if no signature is stored and no verification follows.
        let signed_again = OnceCell::new();
        let mut accepting = Vec::new();
        for (position, scheme) in self.context.profile.schemes().iter().enumerate() {
            let Some(ours) = &self.subject.signed.signatures[position] else { continue };
            if !candidate.via.contains(Via::channel(ChannelPosition(position as u8))) {
                continue;
            }
            if scheme.name() == VIA_URL {
                // The texts contain the whole addresses, so that the signatures need not be compared.
                let same = other.is_some_and(|other| self.subject.document.shares_address(other));
                accepting.extend(same.then(|| VIA_URL.to_owned()));
                continue;
            }
            if scheme.name() == VIA_NAMES && self.context.verifier.is_none() {
                // Common names alone are no match.
                continue;
            }
            if scheme.name() == VIA_COPY {
                let same = other.is_some_and(|other| self.context.are_copies(&self.subject.document, other));
                accepting.extend(same.then(|| VIA_COPY.to_owned()));
                continue;
            }
            let theirs = match (ours, candidate.fingerprint, candidate.signatures.get(position), other) {
                // The index holds fingerprints, so that no signature is loaded for them.
                (Signature::Fingerprint(_), Some(fingerprint), ..) => Some(Signature::Fingerprint(fingerprint)),
                (_, _, Some(stored), None) => stored.clone(),
                (_, _, None, None) => None,
                (_, _, Some(stored), _) if !scheme.key_implies_match() => stored.clone(),
                // The index compares 44 bits of a key, which is enough because verification compares the texts next.
                _ if scheme.key_implies_match() && self.context.state.settings.verify.is_some() => {
                    accepting.push(scheme.name().to_owned());
                    continue;
                }
                (_, _, _, Some(other)) => {
                    signed_again.get_or_init(|| self.context.profile.sign(other)).signatures[position].clone()
                }
            };
            if theirs.is_some_and(|theirs| scheme.compare(ours, &theirs)) {
                accepting.push(scheme.name().to_owned());
            }
        }
        accepting
    }

    fn filter(&self, verifier: &Verifier) -> &SketchFilter {
        self.filter.get_or_init(|| {
            let document = &self.subject.document;
            SketchFilter::new(verifier.weigh(verifier.shingles(&document.joined())), !document.contacts.is_empty())
        })
    }

    fn own_names(&self, verifier: &Verifier) -> &NameFilter {
        self.named.get_or_init(|| {
            let text = self.subject.document.joined();
            let found = self.subject.named.as_ref().map(|objects| NamesInText::new(&text, Arc::clone(objects)));
            let named =
                found.unwrap_or_else(|| self.context.named(&text)).with_contacts(&self.subject.document.contacts);
            NameFilter::new(named, verifier.settings().shingle, verifier.weighing_names())
        })
    }

    /// Returns the names in a candidate's text: from its sketch, or found now.
    fn names_of(&self, candidate: &CandidateRecord<'_>, text: &str) -> NamesInText {
        let sketches = &self.context.sketches;
        let remembered = match candidate.seq_is_immutable {
            true => sketches.compare(self.context.owner, candidate.record.seq.0, named_in).flatten(),
            false => None,
        };
        match remembered {
            Some(objects) => NamesInText::new(&self.context.own_text(text), objects),
            None => self.context.named(text),
        }
    }

    /// Measures a candidate by its text.
    fn verified(
        &self,
        candidate: &CandidateRecord<'_>,
        other: &ReadRecord,
        verifier: &Verifier,
        is_copy: bool,
    ) -> VerifiedCandidate {
        let mut new = false;
        let shingles = other.shingles(|text| {
            new = true;
            verifier.shingles(text)
        });
        let overlap = verifier.overlap(self.filter(verifier).weighed(), shingles);
        let contacts = self.shares_contact(&other.document);
        let undecided = self.templates || is_copy || verifier.could_accept(&overlap, contacts);
        let named = (undecided && verifier.settings().objects).then(|| {
            other.named(|text| {
                new = true;
                self.names_of(candidate, text)
            })
        });
        // The sketch lets a later comparison refuse the candidate without reading its text.
        if new && candidate.seq_is_immutable {
            let names = named.map(NamesInText::objects);
            remember_sketch(
                &self.context,
                candidate.record.seq,
                || Cow::Owned(verifier.weigh(shingles.clone())),
                names,
            );
        }
        let contrast =
            named.map_or_else(Contrast::default, |named| contrasted(verifier, self.own_names(verifier).named(), named));
        let evidence = match is_copy {
            true => verifier.evidence(&overlap, &contrast, &Alignment::default()),
            false => verifier.weigh_up_by(&overlap, &contrast, self.templates, || {
                let ours = self.tokens.get_or_init(|| verifier.tokens(&self.subject.document.joined()));
                align_tokens(ours, other.tokens(|text| verifier.tokens(text)), &contrast.only_names)
            }),
        };
        let accepted = is_copy || evidence.accepted;
        let probability = if is_copy { 1.0 } else { evidence.probability };
        let alike = overlap.plain.is_same_form() || evidence.probability >= verifier.settings().unsure;
        VerifiedCandidate {
            measures: MatchMeasures {
                jaccard: Some(rounded(overlap.plain.jaccard)),
                containment: Some(rounded(overlap.plain.containment)),
                similarity: Some(rounded(evidence.similarity)),
                probability: Some(rounded(probability)),
                differs: contrast.differs,
            },
            accepted,
            template: self.templates && alike && !accepted,
        }
    }
}

/// The result of a verification.
struct VerifiedCandidate {
    measures: MatchMeasures,
    accepted: bool,
    /// True if the candidate has the same form and concerns another matter.
    template: bool,
}

/// Compares the names in two texts, if the collection's settings ask for names.
pub(super) fn contrasted(verifier: &Verifier, ours: &NamesInText, theirs: &NamesInText) -> Contrast {
    if !verifier.settings().objects {
        return Contrast::default();
    }
    contrast(ours, theirs, verifier.weighing_names())
}

/// Weighs the whole evidence about two records. O(length of both texts).
pub(super) fn full_evidence(context: &Context, verifier: &Verifier, one: &ReadRecord, other: &ReadRecord) -> Evidence {
    let weighed = verifier.weigh(one.shingles(|text| verifier.shingles(text)).clone());
    let overlap = verifier.overlap(&weighed, other.shingles(|text| verifier.shingles(text)));
    let names = one.named(|text| context.named(text));
    let contrast = contrasted(verifier, names, other.named(|text| context.named(text)));
    verifier.weigh_up(&overlap, &contrast, true, || (one.document.joined(), other.document.joined()))
}

/// Keeps the sketch of a stored record, as its verification would, unless the sketch is in memory already or the record cannot be verified.
pub(super) fn remember(context: &Context, record: &StoredRecord) {
    let Some(verifier) = &context.verifier else { return };
    let Some(read) = ReadRecord::of(record, context) else { return };
    remember_sketch(
        context,
        record.seq,
        || Cow::Owned(verifier.weigh(verifier.shingles(&read.document.joined()))),
        None,
    );
}

/// Keeps the sketch of a record, with the names in its text if they are known. Adds the names to a sketch without names.
fn remember_sketch<'a>(
    context: &Context,
    seq: Seq,
    weighed: impl FnOnce() -> Cow<'a, WeightedShingles>,
    named: Option<&[NamedObject]>,
) {
    let owner = context.owner;
    let sketches = &context.sketches;
    sketches.remember(owner, seq.0, || sketch(&weighed(), named));
    if let Some(named) = named
        && sketches.compare(owner, seq.0, |sketch| names_in(sketch).is_none()) == Some(true)
    {
        sketches.change(owner, seq.0, |sketch| with_names(sketch, named));
    }
}

/// The known measures of a match.
#[derive(Clone, Default)]
struct MatchMeasures {
    jaccard: Option<f64>,
    containment: Option<f64>,
    similarity: Option<f64>,
    probability: Option<f64>,
    differs: Vec<Difference>,
}

impl MatchMeasures {
    /// Returns the measures of two equal texts.
    fn of_equal_texts() -> Self {
        let one = Some(1.0);
        Self { jaccard: one, containment: one, similarity: one, probability: one, differs: Vec::new() }
    }
}

impl RecordJudge {
    fn judged(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let ruled = self.rulings.of(&candidate.record.id);
        if ruled == Some(false) {
            return None;
        }
        let confirmed = ruled == Some(true);
        if let Some(hashes) = candidate.record.content.hashes() {
            return self.judged_without_text(candidate, hashes, confirmed);
        }
        let read = match candidate.seq_is_immutable {
            true => self.context.keep(candidate.record)?,
            false => Arc::new(ReadRecord::of(candidate.record, &self.context)?),
        };
        if !confirmed && self.is_out_of_scope(read.document.scoped()) {
            return None;
        }
        let last = self.last.lock().take().filter(|last| self.compares_the_same(last, candidate, &read));
        let compared = match last {
            Some(same) => {
                self.remember_copy(candidate, &same);
                same
            }
            None => self.compared(candidate, &read, confirmed),
        };
        let found = self.matching(candidate, &read.document, &compared, confirmed);
        *self.last.lock() = Some(compared).filter(|_| candidate.signatures.is_empty());
        found
    }

    /// Returns the match that follows from a comparison of the texts. `other` is the text of the candidate.
    fn matching(
        &self,
        candidate: &CandidateRecord<'_>,
        other: &Document,
        compared: &TextComparison,
        confirmed: bool,
    ) -> Option<Match> {
        let TextComparison { exact, channels, verified, .. } = compared;
        let exact = *exact;
        if !exact && !confirmed && channels.is_empty() {
            return None;
        }
        let same_address = channels.iter().any(|channel| channel == VIA_URL);
        let mut template = false;
        let measures = match verified {
            _ if exact => MatchMeasures::of_equal_texts(),
            None => MatchMeasures::default(),
            Some(verified) => {
                if !confirmed && !same_address && !verified.accepted {
                    if !verified.template {
                        return None;
                    }
                    template = true;
                }
                verified.measures.clone()
            }
        };
        let stages = [exact.then_some(VIA_EXACT), confirmed.then_some(VIA_DECISION)];
        Some(Match {
            relation: relation(&self.subject.document, other),
            time: other.time.map(|time| time.to_string()),
            template,
            ..self.found(candidate, stages, channels.clone(), measures)
        })
    }

    /// Compares the record with the text of a candidate. A text that no channel accepts is not verified, unless a person confirmed the pair.
    fn compared(&self, candidate: &CandidateRecord<'_>, read: &Arc<ReadRecord>, confirmed: bool) -> TextComparison {
        let exact = read.digest == Some(self.subject.signed.digest);
        let channels = self.accepting_channels(candidate, Some(&read.document));
        let is_copy = channels.iter().any(|channel| channel == VIA_COPY);
        let verifier = self.context.verifier.as_ref().filter(|_| !exact && (confirmed || !channels.is_empty()));
        let verified = verifier.map(|verifier| self.verified(candidate, read, verifier, is_copy));
        let CandidateRecord { via, fingerprint, .. } = *candidate;
        TextComparison { read: Arc::clone(read), via, fingerprint, exact, channels, verified }
    }

    /// True if the comparison with `candidate` would give the same result as `last`.
    fn compares_the_same(&self, last: &TextComparison, candidate: &CandidateRecord<'_>, read: &ReadRecord) -> bool {
        let before = &last.read.document;
        let document = &read.document;
        // A decision about a candidate changes the comparison, and signatures are compared for themselves.
        self.rulings.is_empty()
            && candidate.signatures.is_empty()
            && (last.via, last.fingerprint) == (candidate.via, candidate.fingerprint)
            && last.exact == (read.digest == Some(self.subject.signed.digest))
            && before.has_same_text(document)
            && (before.contacts == document.contacts || !self.shares_contact(before) && !self.shares_contact(document))
    }

    /// True if the text of the record has a contact of another text. Other contacts are no evidence.
    fn shares_contact(&self, other: &Document) -> bool {
        self.subject.document.shares_contact(other)
    }

    /// Keeps the sketch of a candidate that has the text of `same`, as its verification would.
    fn remember_copy(&self, candidate: &CandidateRecord<'_>, same: &TextComparison) {
        let (Some(verifier), Some(_)) = (&self.context.verifier, &same.verified) else { return };
        if candidate.seq_is_immutable {
            remember_sketch(
                &self.context,
                candidate.record.seq,
                || Cow::Owned(verifier.weigh(same.read.shingles(|text| verifier.shingles(text)).clone())),
                same.read.known_objects(),
            );
        }
    }

    /// Judges a candidate whose text is not kept, by its digest and by the comparisons of channels. Nothing is verified.
    fn judged_without_text(
        &self,
        candidate: &CandidateRecord<'_>,
        hashes: &ContentHashes,
        confirmed: bool,
    ) -> Option<Match> {
        let CandidateRecord { record, .. } = candidate;
        let is_ours = record.digest_generation == self.context.state.generation;
        let exact = is_ours && record.digest == self.subject.signed.digest;
        let channels = self.accepting_channels(candidate, None);
        if !exact && !confirmed && channels.is_empty() {
            return None;
        }
        let time = hashes.time.as_deref().and_then(|time| time.parse().ok());
        if !confirmed && self.is_out_of_scope(ScopedRecord { time, values: &ScopeValues::default() }) {
            return None;
        }
        let measures = if exact { MatchMeasures::of_equal_texts() } else { MatchMeasures::default() };
        let stages = [exact.then_some(VIA_EXACT), confirmed.then_some(VIA_DECISION)];
        Some(Match {
            relation: self.relation_by_hash(hashes),
            time: hashes.time.clone(),
            ..self.found(candidate, stages, channels, measures)
        })
    }

    /// True if the settings' `match` excludes an earlier record.
    fn is_out_of_scope(&self, earlier: ScopedRecord<'_>) -> bool {
        match self.context.profile.scope_exclusion(self.subject.document.scoped(), earlier) {
            Some(ScopeExclusion::Closed) => !self.ignores_status,
            exclusion => exclusion.is_some(),
        }
    }

    /// Compares the hashes of the petitioners; `None` if one of the records names no petitioner.
    fn relation_by_hash(&self, hashes: &ContentHashes) -> Option<Relation> {
        let key = self.context.hash_key().ok()?;
        let ours: Vec<_> = self.subject.document.identity_values().map(|value| key.identity(value)).collect();
        let known = !ours.is_empty() && !hashes.identity.is_empty();
        let is_same = ours.iter().any(|value| hashes.identity.contains(value));
        known.then_some(if is_same { Relation::Repeat } else { Relation::Shared })
    }

    /// Returns a match without the fields that come from the candidate's content.
    fn found(
        &self,
        candidate: &CandidateRecord<'_>,
        stages: [Option<&str>; 2],
        channels: Vec<String>,
        measures: MatchMeasures,
    ) -> Match {
        let ours = self.subject.signed.fingerprint();
        Match {
            via: stages.into_iter().flatten().map(str::to_owned).chain(channels).collect(),
            distance: ours.zip(candidate.fingerprint).map(|(a, b)| a.distance(b)),
            jaccard: measures.jaccard,
            containment: measures.containment,
            similarity: measures.similarity,
            probability: measures.probability,
            differs: measures.differs,
            ..Match::unmeasured(candidate.record.id.clone(), candidate.record.seq)
        }
    }
}

impl CandidateJudge for RecordJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let found = self.judged(candidate);
        let count = if found.is_some() { &self.candidates.accepted } else { &self.candidates.refused };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn dismisses(&self, seq: Seq, via: Via) -> bool {
        let Some(verifier) = &self.context.verifier else { return false };
        // Candidates with an equal digest, address or copy key, and candidates of a decision, need no similar text.
        if self.templates || via.contains(Via::EXACT) || via.contains(Via::DECISION) {
            return false;
        }
        let schemes = (0..).zip(self.context.profile.schemes());
        let is_equal = schemes.into_iter().any(|(position, scheme)| {
            matches!(scheme.name(), VIA_URL | VIA_COPY) && via.contains(Via::channel(ChannelPosition(position)))
        });
        if is_equal {
            return false;
        }
        let filter = self.filter(verifier);
        let compared = self.context.sketches.compare(self.context.owner, seq.0, |theirs| {
            let compared_sketch = filter.compare(theirs, verifier, self.named.get());
            // Names are compared with a copy of the sketch, because other requests wait while the sketch is locked.
            (compared_sketch, (compared_sketch == SketchComparison::ByNames).then(|| theirs.to_vec()))
        });
        let compared_sketch = match compared {
            None => return false,
            Some((compared_sketch, None)) => compared_sketch,
            Some((_, Some(theirs))) => {
                let names = self.own_names(verifier);
                names.learn(names_in(&theirs).unwrap_or_default(), verifier.weighing_names());
                filter.compare(&theirs, verifier, Some(names))
            }
        };
        let dismissed = compared_sketch == SketchComparison::RuledOut;
        self.candidates.dismissed.fetch_add(u32::from(dismissed), Ordering::Relaxed);
        dismissed
    }

    fn expects(&self, seqs: &[Seq]) {
        if self.context.verifier.is_some() && seqs.len() >= FETCHED_TOGETHER {
            self.context.sketches.fetch(self.context.owner, seqs.iter().map(|seq| seq.0));
        }
    }

    fn stored(&self, seq: Seq) {
        let Some(verifier) = &self.context.verifier else { return };
        // The first verification makes the shingles of a long text, because other requests wait here.
        if self.filter.get().is_none() && !self.subject.is_short() {
            return;
        }
        let named = match &self.subject.named {
            Some(named) => Some(&**named),
            None => self.named.get().map(|names| names.named().objects()),
        };
        remember_sketch(&self.context, seq, || Cow::Borrowed(self.filter(verifier).weighed()), named);
    }

    fn took(&self, stage: RegistrationStage, span: StageSpan) {
        self.noted.note(stage, span);
    }

    fn needs_signatures(&self) -> bool {
        self.context.needs_signatures()
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        let signed = &self.subject.signed;
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: signed.too_short,
                fingerprint: signed.fingerprint(),
                generation: self.context.state.generation,
                statistics: self.context.statistics(),
                truncated,
            },
        )
    }
}

/// Judges by fingerprint alone. Nothing is verified, so that a match states no similarity.
pub(super) struct FingerprintJudge {
    context: Arc<Context>,
    hamming: HammingRange,
    noted: StageRecorder,
}

impl FingerprintJudge {
    pub(super) fn new(context: Arc<Context>, hamming: HammingRange) -> Self {
        let noted = StageRecorder::new(&context.stages);
        Self { context, hamming, noted }
    }
}

impl CandidateJudge for FingerprintJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let fingerprint = candidate.fingerprint.filter(|fingerprint| self.hamming.contains(*fingerprint))?;
        let time = match &candidate.record.content {
            RecordContent::Row(_) => {
                let other = self.context.profile.read(&candidate.record.content.read()?).ok()?;
                other.time.map(|time| time.to_string())
            }
            RecordContent::Hashes(hashes) => hashes.time.clone(),
        };
        Some(Match {
            via: vec!["simhash".into()],
            distance: Some(self.hamming.centre.distance(fingerprint)),
            time,
            ..Match::unmeasured(candidate.record.id.clone(), candidate.record.seq)
        })
    }

    fn took(&self, stage: RegistrationStage, span: StageSpan) {
        self.noted.note(stage, span);
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        let generation = self.context.state.generation;
        let statistics = self.context.statistics();
        let facts = VerdictInputs {
            too_short: false,
            fingerprint: Some(self.hamming.centre),
            generation,
            statistics,
            truncated,
        };
        Verdict::conclude(matches, facts)
    }
}

/// Rounds a share to four decimals, for the answer. Thresholds use the full number.
pub(super) fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

/// Compares the petitioners of two documents; `None` if one of them names no petitioner.
pub(super) fn relation(a: &Document, b: &Document) -> Option<Relation> {
    let is_same = a.has_same_petitioner(b)?;
    Some(if is_same { Relation::Repeat } else { Relation::Shared })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, IfDuplicate, Options};
    use doppel_core::collection::CollectionName;
    use doppel_core::record::{RecordId, Row};
    use doppel_core::schemes::profile::Digest;
    use doppel_store::GenerationId;
    use doppel_store::model::ModelStore;

    fn row(text: &str) -> Row {
        Row::parse(format!("{{\"content\":\"{text}\"}}").as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn a_stored_digest_decides_in_its_generation_and_the_text_in_others() {
        let options = Options {
            auto_create: true,
            max_auto_created: usize::MAX,
            automatic_reindex: false,
            sketch_bytes: crate::SKETCH_BYTES,
            event_records: crate::EVENT_RECORDS,
            now: String::new,
            micros: || 1,
            new_id: String::new,
            random: || Some([7; 32]),
        };
        let engine = Engine::new(Arc::new(ModelStore::default()), options);
        let name = CollectionName::new("letters").unwrap();
        let text = "路灯损坏三个月，请派人修理";
        let ours = row(text);
        let another = row("小区门口垃圾堆放多日，请清运");
        engine.register(&name, RecordId::new("a").ok(), row(text), IfDuplicate::Keep).await.unwrap();
        let stored = engine.store.record(&name, &RecordId::new("a").unwrap()).await.unwrap().unwrap();
        let context = engine.context(&name).await.unwrap();
        let subject = context.subject(&row(text)).unwrap();
        let judge = RecordJudge::new(context, subject, RecordRulings::default());
        let is_exact = |text: &str, digest, digest_generation| {
            let content = RecordContent::Row(text.into());
            let record = StoredRecord { content, digest, digest_generation, ..stored.clone() };
            let via = Via::default().with(Via::EXACT);
            let candidate =
                CandidateRecord { record: &record, via, fingerprint: None, signatures: &[], seq_is_immutable: false };
            judge.judge(&candidate).is_some_and(|found| found.via.contains(&VIA_EXACT.to_owned()))
        };
        let wrong = Digest([7; 32]);
        assert!(is_exact(another.json(), stored.digest, GenerationId(1)), "the text is not digested again");
        assert!(!is_exact(ours.json(), wrong, GenerationId(1)));
        for unknown in [0, 2] {
            assert!(
                is_exact(ours.json(), wrong, GenerationId(unknown))
                    && !is_exact(another.json(), stored.digest, GenerationId(unknown))
            );
        }
    }
}
