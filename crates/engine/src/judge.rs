//! What counts as a match: the rules that the store asks for every candidate.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::context::{Context, Subject};
use crate::decisions::Rulings;
use crate::read_records::ReadRecord;
use crate::stages::Noted;
use doppel_core::collection::ChannelPosition;
use doppel_core::index::{Ball, Via};
use doppel_core::schemes::Signature;
use doppel_core::similarity::{
    Contrast, NameSieve, Named, Replacements, Sieve, Sifted, Verifier, Weighed, contrast, named_in, names_in, sketch,
    with_names,
};
use doppel_core::text::Document;
use doppel_core::text::objects::NamedObject;
use doppel_core::verdict::{Difference, Facts, Match, Relation, VIA_COPY, VIA_DECISION, VIA_EXACT, VIA_URL, Verdict};
use doppel_store::content::{Content, ContentHashes};
use doppel_store::stages::{Span, Stage};
use doppel_store::{Candidate, Judge, Seq, StoredRecord};

/// From how many candidates on their sketches are fetched together: for fewer it costs more than it saves.
const FETCHED_TOGETHER: usize = 16;

/// Judges candidates for one record: exact by digest; else accepted by the comparison of a channel that proposed it and,
/// where the collection verifies, by verification of the texts.
pub(super) struct RecordJudge {
    context: Arc<Context>,
    subject: Subject,
    /// What people said of this record and others.
    rulings: Rulings,
    /// Whether what has the same form is shown too, though it is no match.
    templates: bool,
    /// The record's shingles, made when the first candidate is to be verified.
    sieve: OnceLock<Sieve>,
    /// What became of candidates.
    candidates: Candidates,
    /// What the record names, found when the first candidate is to be contrasted.
    named: OnceLock<NameSieve>,
    /// How long the store's stages took.
    noted: Noted,
}

/// Counts candidates by what became of them, for the metrics.
#[derive(Default)]
struct Candidates {
    dismissed: AtomicU32,
    refused: AtomicU32,
    accepted: AtomicU32,
}

impl Drop for Candidates {
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
    pub(super) fn new(context: Arc<Context>, subject: Subject, rulings: Rulings) -> Self {
        Self {
            context,
            subject,
            rulings,
            templates: false,
            sieve: OnceLock::new(),
            candidates: Candidates::default(),
            named: OnceLock::new(),
            noted: Noted::nothing(),
        }
    }

    /// The same judge, who notes how long the store's stages take.
    #[must_use]
    pub(super) fn noting(self, noted: Noted) -> Self {
        Self { noted, ..self }
    }

    /// Whether all that is done with its text takes a fraction of a millisecond.
    pub(super) fn is_of_short_text(&self) -> bool {
        self.subject.is_short()
    }

    /// Makes what candidates are compared with, which otherwise the first of them waits for.
    pub(super) fn prepare(&self) {
        if let Some(verifier) = &self.context.verifier {
            self.sieve(verifier);
            self.own_names(verifier);
        }
    }

    /// The same judge, who also shows what has the same form though it is no match.
    #[must_use]
    pub(super) fn showing_templates(self, templates: bool) -> Self {
        Self { templates, ..self }
    }

    /// The names of the channels that proposed the candidate and accept it. `other` is its text, if that is kept.
    fn accepting_channels(&self, candidate: &Candidate<'_>, other: Option<&Document>) -> Vec<String> {
        // Signed again at most once, and only where no signature is stored and nothing is verified afterwards.
        let signed_again = OnceCell::new();
        let mut accepting = Vec::new();
        for (position, scheme) in self.context.profile.schemes().iter().enumerate() {
            let Some(ours) = &self.subject.signed.signatures[position] else { continue };
            if !candidate.via.contains(Via::channel(ChannelPosition(position as u8))) {
                continue;
            }
            if scheme.name() == VIA_URL {
                // The texts say it in full, and need not be compared.
                let same = other.is_some_and(|other| self.subject.document.shares_address(other));
                accepting.extend(same.then(|| VIA_URL.to_owned()));
                continue;
            }
            if scheme.name() == VIA_COPY {
                let same = other.is_some_and(|other| self.context.are_copies(&self.subject.document, other));
                accepting.extend(same.then(|| VIA_COPY.to_owned()));
                continue;
            }
            let theirs = match (ours, candidate.fingerprint, candidate.signatures.get(position), other) {
                // The index holds fingerprints; no signature need be loaded for them.
                (Signature::Fingerprint(_), Some(fingerprint), ..) => Some(Signature::Fingerprint(fingerprint)),
                (_, _, Some(stored), None) => stored.clone(),
                (_, _, None, None) => None,
                (_, _, Some(stored), _) if !scheme.key_implies_match() => stored.clone(),
                // The index compares 44 bits of a key: enough when the texts are compared next.
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

    fn sieve(&self, verifier: &Verifier) -> &Sieve {
        self.sieve.get_or_init(|| {
            let shingles = verifier.shingles(&self.subject.document.joined());
            Sieve::new(verifier.weigh(shingles))
        })
    }

    fn own_names(&self, verifier: &Verifier) -> &NameSieve {
        self.named.get_or_init(|| {
            let text = self.subject.document.joined();
            let found = self.subject.named.as_ref().map(|objects| Named::new(&text, Arc::clone(objects)));
            let named = found.unwrap_or_else(|| self.context.named(&text));
            NameSieve::new(named, verifier.settings().shingle, verifier.weighing_names())
        })
    }

    /// What a candidate's text names, as it is remembered or found now.
    fn names_of(&self, candidate: &Candidate<'_>, text: &str) -> Named {
        let remembered =
            || self.context.sketches.compare(self.context.owner, candidate.record.seq.0, named_in).flatten();
        match candidate.seq_is_immutable.then(remembered).flatten() {
            Some(objects) => Named::new(text, objects),
            None => self.context.named(text),
        }
    }

    /// Measures a candidate by its text.
    fn verified(&self, candidate: &Candidate<'_>, other: &ReadRecord, verifier: &Verifier, is_copy: bool) -> Verified {
        let mut new = false;
        let shingles = other.shingles(|text| {
            new = true;
            verifier.shingles(text)
        });
        let overlap = verifier.overlap(self.sieve(verifier).weighed(), shingles);
        let undecided = self.templates || is_copy || verifier.could_accept(&overlap);
        let named = (undecided && verifier.settings().objects).then(|| {
            other.named(|text| {
                new = true;
                self.names_of(candidate, text)
            })
        });
        // So the text need not be read again to be refused.
        if new && candidate.seq_is_immutable {
            let weighed = || Cow::Owned(verifier.weigh(shingles.clone()));
            remember_sketch(&self.context, candidate.record.seq, weighed, named.map(Named::objects));
        }
        let contrast =
            named.map_or_else(Contrast::default, |named| contrasted(verifier, self.own_names(verifier).named(), named));
        let texts = || (self.subject.document.joined(), other.document.joined());
        let evidence = match is_copy {
            true => verifier.evidence(&overlap, &contrast, &Replacements::default()),
            false => verifier.weigh_up(&overlap, &contrast, self.templates, texts),
        };
        let accepted = is_copy || evidence.accepted;
        let probability = if is_copy { 1.0 } else { evidence.probability };
        let alike = overlap.plain.is_same_form() || evidence.probability >= verifier.settings().unsure;
        Verified {
            measures: Measures {
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

/// What verification found.
struct Verified {
    measures: Measures,
    accepted: bool,
    /// The same form, about another matter.
    template: bool,
}

/// What two texts name, as far as the collection asks.
pub(super) fn contrasted(verifier: &Verifier, ours: &Named, theirs: &Named) -> Contrast {
    if !verifier.settings().objects {
        return Contrast::default();
    }
    contrast(ours, theirs, verifier.weighing_names())
}

/// Remembers the sketch of a stored record, as verifying it would, unless it is remembered or cannot be verified.
pub(super) fn remember(context: &Context, record: &StoredRecord) {
    let Some(verifier) = &context.verifier else { return };
    let Some(read) = ReadRecord::of(record, context) else { return };
    let weighed = || Cow::Owned(verifier.weigh(verifier.shingles(&read.document.joined())));
    remember_sketch(context, record.seq, weighed, None);
}

/// Remembers the sketch of a record, with what its text names as far as that is known; a sketch that is remembered without is
/// completed.
fn remember_sketch<'a>(
    context: &Context,
    seq: Seq,
    weighed: impl FnOnce() -> Cow<'a, Weighed>,
    named: Option<&[NamedObject]>,
) {
    let (owner, sketches) = (context.owner, &context.sketches);
    sketches.remember(owner, seq.0, || sketch(&weighed(), named));
    if let Some(named) = named
        && sketches.compare(owner, seq.0, |sketch| names_in(sketch).is_none()) == Some(true)
    {
        sketches.change(owner, seq.0, |sketch| with_names(sketch, named));
    }
}

/// The measures of a match, as far as they are known.
#[derive(Default)]
struct Measures {
    jaccard: Option<f64>,
    containment: Option<f64>,
    similarity: Option<f64>,
    probability: Option<f64>,
    differs: Vec<Difference>,
}

impl Measures {
    /// The measures of equal texts.
    fn of_equal_texts() -> Self {
        let one = Some(1.0);
        Self { jaccard: one, containment: one, similarity: one, probability: one, differs: Vec::new() }
    }
}

impl RecordJudge {
    fn judged(&self, candidate: &Candidate<'_>) -> Option<Match> {
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
        let other = &read.document;
        let exact = read.digest == Some(self.subject.signed.digest);
        let channels = self.accepting_channels(candidate, Some(other));
        let same_address = channels.iter().any(|channel| channel == VIA_URL);
        let is_copy = channels.iter().any(|channel| channel == VIA_COPY);
        if !exact && !confirmed && channels.is_empty() {
            return None;
        }
        let mut template = false;
        let measures = match (&self.context.verifier, exact) {
            (_, true) => Measures::of_equal_texts(),
            (None, false) => Measures::default(),
            (Some(verifier), false) => {
                let verified = self.verified(candidate, &read, verifier, is_copy);
                if !confirmed && !same_address && !verified.accepted {
                    if !verified.template {
                        return None;
                    }
                    template = true;
                }
                verified.measures
            }
        };
        let stages = [exact.then_some(VIA_EXACT), confirmed.then_some(VIA_DECISION)];
        Some(Match {
            relation: relation(&self.subject.document, other),
            time: other.time.map(|time| time.to_string()),
            template,
            ..self.found(candidate, stages, channels, measures)
        })
    }

    /// As [`RecordJudge::judged`], of a record whose text is not kept: by its digest and by what the channels compare, and nothing is
    /// verified.
    fn judged_without_text(&self, candidate: &Candidate<'_>, hashes: &ContentHashes, confirmed: bool) -> Option<Match> {
        let Candidate { record, .. } = candidate;
        let is_ours = record.digest_generation == self.context.state.generation;
        let exact = is_ours && record.digest == self.subject.signed.digest;
        let channels = self.accepting_channels(candidate, None);
        if !exact && !confirmed && channels.is_empty() {
            return None;
        }
        let measures = if exact { Measures::of_equal_texts() } else { Measures::default() };
        let stages = [exact.then_some(VIA_EXACT), confirmed.then_some(VIA_DECISION)];
        Some(Match {
            relation: self.relation_by_hash(hashes),
            time: hashes.time.clone(),
            ..self.found(candidate, stages, channels, measures)
        })
    }

    /// Same or another petitioner, by their hashes; unknown where either record names none.
    fn relation_by_hash(&self, hashes: &ContentHashes) -> Option<Relation> {
        let key = self.context.hash_key().ok()?;
        let ours: Vec<_> = self.subject.document.identity_values().map(|value| key.identity(value)).collect();
        let known = !ours.is_empty() && !hashes.identity.is_empty();
        let is_same = ours.iter().any(|value| hashes.identity.contains(value));
        known.then_some(if is_same { Relation::Repeat } else { Relation::Shared })
    }

    /// A match, but for what only its content says.
    fn found(
        &self,
        candidate: &Candidate<'_>,
        stages: [Option<&str>; 2],
        channels: Vec<String>,
        measures: Measures,
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

impl Judge for RecordJudge {
    fn judge(&self, candidate: &Candidate<'_>) -> Option<Match> {
        let found = self.judged(candidate);
        let count = if found.is_some() { &self.candidates.accepted } else { &self.candidates.refused };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    fn dismisses(&self, seq: Seq, via: Via) -> bool {
        let Some(verifier) = &self.context.verifier else { return false };
        // Equal digests, addresses and copy keys and what a person decided need no resemblance.
        let schemes = (0..).zip(self.context.profile.schemes());
        let is_equal = schemes.into_iter().any(|(position, scheme)| {
            matches!(scheme.name(), VIA_URL | VIA_COPY) && via.contains(Via::channel(ChannelPosition(position)))
        });
        if self.templates || is_equal || via.contains(Via::EXACT) || via.contains(Via::DECISION) {
            return false;
        }
        let sieve = self.sieve(verifier);
        let compared = self.context.sketches.compare(self.context.owner, seq.0, |theirs| {
            let sifted = sieve.compare(theirs, verifier, self.named.get());
            // What names mean is worked out from a copy: others wait for what is locked now.
            (sifted, (sifted == Sifted::ByNames).then(|| theirs.to_vec()))
        });
        let sifted = match compared {
            None => return false,
            Some((sifted, None)) => sifted,
            Some((_, Some(theirs))) => {
                let names = self.own_names(verifier);
                names.learn(names_in(&theirs).unwrap_or_default(), verifier.weighing_names());
                sieve.compare(&theirs, verifier, Some(names))
            }
        };
        let dismissed = sifted == Sifted::RuledOut;
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
        // A long text's shingles are not made here, where other requests wait; the first who verifies it does.
        if self.sieve.get().is_none() && !self.subject.is_short() {
            return;
        }
        let compared = || self.named.get().map(|names| names.named().objects());
        let named = self.subject.named.as_deref().or_else(compared);
        remember_sketch(&self.context, seq, || Cow::Borrowed(self.sieve(verifier).weighed()), named);
    }

    fn took(&self, stage: Stage, span: Span) {
        self.noted.note(stage, span);
    }

    fn needs_signatures(&self) -> bool {
        self.context.needs_signatures()
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        let signed = &self.subject.signed;
        Verdict::conclude(
            matches,
            Facts {
                too_short: signed.too_short,
                fingerprint: signed.fingerprint(),
                generation: self.context.state.generation,
                statistics: self.context.statistics(),
                truncated,
            },
        )
    }
}

/// Judges by fingerprint alone: nothing is verified, so a match claims no similarity.
pub(super) struct FingerprintJudge {
    context: Arc<Context>,
    ball: Ball,
    noted: Noted,
}

impl FingerprintJudge {
    pub(super) fn new(context: Arc<Context>, ball: Ball) -> Self {
        let noted = Noted::new(&context.stages);
        Self { context, ball, noted }
    }
}

impl Judge for FingerprintJudge {
    fn judge(&self, candidate: &Candidate<'_>) -> Option<Match> {
        let fingerprint = candidate.fingerprint.filter(|fingerprint| self.ball.contains(*fingerprint))?;
        let time = match &candidate.record.content {
            Content::Row(_) => {
                let other = self.context.profile.read(&candidate.record.content.read()?).ok()?;
                other.time.map(|time| time.to_string())
            }
            Content::Hashes(hashes) => hashes.time.clone(),
        };
        Some(Match {
            via: vec!["simhash".into()],
            distance: Some(self.ball.centre.distance(fingerprint)),
            time,
            ..Match::unmeasured(candidate.record.id.clone(), candidate.record.seq)
        })
    }

    fn took(&self, stage: Stage, span: Span) {
        self.noted.note(stage, span);
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        let generation = self.context.state.generation;
        let statistics = self.context.statistics();
        let facts = Facts { too_short: false, fingerprint: Some(self.ball.centre), generation, statistics, truncated };
        Verdict::conclude(matches, facts)
    }
}

/// Four decimals: what the texts support, and what a person reads. Thresholds see the full number.
pub(super) fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

/// Same or another petitioner; unknown where either names none.
fn relation(a: &Document, b: &Document) -> Option<Relation> {
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

    #[tokio::test]
    async fn a_stored_digest_decides_where_it_is_this_generations_and_the_text_elsewhere() {
        let options = Options {
            auto_create: true,
            max_auto_created: usize::MAX,
            automatic_reindex: false,
            sketch_bytes: crate::SKETCH_BYTES,
            now: String::new,
            micros: || 1,
            new_id: String::new,
            random: || Some([7; 32]),
        };
        let engine = Engine::new(Arc::new(ModelStore::default()), options);
        let name = CollectionName::new("letters").unwrap();
        let row = |text: &str| Row::parse(format!("{{\"content\":\"{text}\"}}").as_bytes()).unwrap();
        let (ours, another) = ("路灯损坏三个月，请派人修理", "小区门口垃圾堆放多日，请清运");
        engine.register(&name, RecordId::new("a").ok(), row(ours), IfDuplicate::Keep).await.unwrap();
        let stored = engine.store.record(&name, &RecordId::new("a").unwrap()).await.unwrap().unwrap();
        let context = engine.context(&name).await.unwrap();
        let subject = context.subject(&row(ours)).unwrap();
        let judge = RecordJudge::new(context, subject, Rulings::default());
        let exact = |text: &str, digest, digest_generation| {
            let content = Content::Row(text.into());
            let record = StoredRecord { content, digest, digest_generation, ..stored.clone() };
            let via = Via::default().with(Via::EXACT);
            let candidate =
                Candidate { record: &record, via, fingerprint: None, signatures: &[], seq_is_immutable: false };
            judge.judge(&candidate).is_some_and(|found| found.via.contains(&VIA_EXACT.to_owned()))
        };
        let (ours, another) = (row(ours), row(another));
        let wrong = Digest([7; 32]);
        assert!(exact(another.json(), stored.digest, GenerationId(1)), "no text is digested again");
        assert!(!exact(ours.json(), wrong, GenerationId(1)));
        for unknown in [0, 2] {
            assert!(
                exact(ours.json(), wrong, GenerationId(unknown))
                    && !exact(another.json(), stored.digest, GenerationId(unknown))
            );
        }
    }
}
