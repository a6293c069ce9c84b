//! Explains in checkable terms why two records match or do not match.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::Result;
use crate::answers::{
    DiffKind, DiffPiece, EvidenceContribution, Explanation, FieldShare, FingerprintComparison, Passage,
    ProbabilitySource, SharedFeature, WeightedFeature,
};
use crate::context::{Context, SignedRow};
use crate::judge::{contrasted, rounded};
use crate::original::OriginalOffsets;
use doppel_core::collection::ScopeExclusion;
use doppel_core::evidence::Contribution;
use doppel_core::record::Row;
use doppel_core::schemes::profile::Signed;
use doppel_core::similarity::{
    MAX_DIFF_CHARS, MAX_PASSAGES, Piece, Resemblance, SharedPassage, ShingleSet, align, shared_passages,
};
use doppel_core::text::Document;
use doppel_core::verdict::{VIA_COPY, VIA_EXACT, VIA_NAMES};

/// Largest number of features in each of the three lists.
const MAX_FEATURES: usize = 200;
/// Number of characters at the beginning of a text in which passages are searched.
const MAX_READABLE_CHARS: usize = 50_000;
/// Number of characters at the beginning of each text for which features and the shares of fields are shown. Normalisation can make a row
/// of a megabyte eighteen times as long, and cutting such a text into features takes seconds, longer than a client waits.
const MAX_FEATURE_CHARS: usize = 200_000;

/// A side of an explanation: a row as it was received, and the same row read and signed.
pub(super) struct ExplainedRow {
    pub(super) row: Row,
    pub(super) subject: SignedRow,
}

/// Compares two rows of one collection under its present settings.
pub(super) fn explain(context: &Context, side_a: &ExplainedRow, side_b: &ExplainedRow) -> Result<Explanation> {
    let a = &side_a.subject;
    let b = &side_b.subject;
    let settings = &context.state.settings;
    let original_a = OriginalOffsets::of(settings, &side_a.row, &a.document);
    let original_b = OriginalOffsets::of(settings, &side_b.row, &b.document);
    let exact = a.signed.digest == b.signed.digest;
    let is_copy = context.are_copies(&a.document, &b.document);
    let mut via = agreeing_channels(context, &a.signed, &b.signed);
    via.retain(|channel| match channel.as_str() {
        VIA_COPY => is_copy,
        // Common names alone are no match.
        VIA_NAMES => settings.verify.is_some(),
        _ => true,
    });
    let verifier = context.measuring();
    let width = verifier.settings().shingle;
    let text_a = a.document.joined();
    let text_b = b.document.joined();
    let overlap = verifier.overlap(&verifier.weigh(verifier.shingles(&text_a)), &verifier.shingles(&text_b));
    let [named_a, named_b] = [(&text_a, &a.document), (&text_b, &b.document)]
        .map(|(text, from)| context.named(text).with_contacts(&from.contacts));
    let contrast = contrasted(&verifier, &named_a, &named_b);
    let evidence = verifier.weigh_up(&overlap, &contrast, true, || (text_a.clone(), text_b.clone()));
    let contributions = verifier.contributions(&evidence.features).into_iter().map(contribution).collect();
    // The verdict gives 1 for equal digests, also if the texts contain only punctuation.
    let share = |measure: f64| if exact { 1.0 } else { rounded(measure) };
    let verified = settings.verify.is_none() || is_copy || evidence.accepted;
    let (shown_a, cut_a) = beginning(&a.document);
    let (shown_b, cut_b) = beginning(&b.document);
    let FeatureComparison { shared, only_a, only_b } = compare_features(context, &shown_a, &shown_b);
    let chars_a = readable(&text_a);
    let chars_b = readable(&text_b);
    let forms = verifier.forms().on(&text_b);
    let passages: Vec<Passage> = shared_passages(&chars_a, &chars_b)
        .into_iter()
        .map(|SharedPassage { at_a, at_b, chars }| {
            let text: String = chars_b[at_b..at_b + chars].iter().collect();
            let (weight, common) = verifier.commonness(&text, &forms);
            let in_a = original_a.ranges(at_a..at_a + chars);
            let in_b = original_b.ranges(at_b..at_b + chars);
            Passage { text, at_a, at_b, chars, in_a, in_b, weight: rounded(weight), common: common.map(rounded) }
        })
        .collect();
    let truncated = [&shared.len(), &only_a.len(), &only_b.len()].iter().any(|len| **len > MAX_FEATURES)
        || chars_a.len().max(chars_b.len()) > MAX_DIFF_CHARS
        || passages.len() == MAX_PASSAGES
        || cut_a
        || cut_b;
    let excluded_by = scope_exclusion(context, &a.document, &b.document);
    let texts_match = exact || a.document.shares_address(&b.document) || (!via.is_empty() && verified);
    Ok(Explanation {
        matches: texts_match && excluded_by.is_none(),
        via: exact.then(|| VIA_EXACT.to_owned()).into_iter().chain(via).collect(),
        exact,
        jaccard: share(overlap.plain.jaccard),
        containment: share(overlap.plain.containment),
        similarity: share(evidence.similarity),
        evidence: rounded(evidence.amount),
        probability: if is_copy { 1.0 } else { share(evidence.probability) },
        model: verifier.model().digest().to_owned(),
        excluded_by,
        decided_by: probability_source(exact, is_copy),
        intercept: rounded(verifier.intercept()),
        contributions,
        differs: contrast.differs,
        statistics: context.statistics(),
        fingerprints: compare_fingerprints(&a.signed, &b.signed),
        shared_features: first(shared),
        only_a: first(only_a),
        only_b: first(only_b),
        fields: compare_fields(context, &shown_a, &shown_b, width),
        passages,
        diff: pieces(align(&chars_a, &chars_b), &original_a, &original_b),
        truncated,
        row_a: None,
        row_b: None,
    })
}

/// Returns the condition of `match` that excludes the pair. The record with the later time counts as the new record; if the times do not decide,
/// `b` does.
fn scope_exclusion(context: &Context, a: &Document, b: &Document) -> Option<ScopeExclusion> {
    let a_is_later = a.time.zip(b.time).is_some_and(|(a, b)| a > b);
    let (record, earlier) = if a_is_later { (a, b) } else { (b, a) };
    context.profile.scope_exclusion(record.scoped(), earlier.scoped())
}

fn probability_source(exact: bool, is_copy: bool) -> ProbabilitySource {
    match (exact, is_copy) {
        (true, _) => ProbabilitySource::Exact,
        (false, true) => ProbabilitySource::Copy,
        (false, false) => ProbabilitySource::Evidence,
    }
}

/// Returns the first [`MAX_READABLE_CHARS`] characters of a text. Normalisation can make a text eighteen times as long; a person reads only
/// the beginning.
fn readable(text: &str) -> Vec<char> {
    text.chars().take(MAX_READABLE_CHARS).collect()
}

fn contribution(found: Contribution) -> EvidenceContribution {
    EvidenceContribution {
        feature: found.feature.name().to_owned(),
        value: rounded(found.value),
        log_odds: rounded(found.log_odds),
    }
}

/// Returns the first [`MAX_FEATURE_CHARS`] characters of a document, and true if there are more.
fn beginning(document: &Document) -> (Cow<'_, Document>, bool) {
    let bytes: usize = document.fields.iter().map(|field| field.text.len()).sum();
    if bytes <= MAX_FEATURE_CHARS {
        return (Cow::Borrowed(document), false);
    }
    let mut shown = document.clone();
    let mut left = MAX_FEATURE_CHARS;
    let mut cut = false;
    for field in &mut shown.fields {
        match field.text.char_indices().nth(left) {
            Some((end, _)) => {
                field.text.truncate(end);
                left = 0;
                cut = true;
            }
            None => left -= field.text.chars().count(),
        }
    }
    shown.fields.retain(|field| !field.text.is_empty());
    (Cow::Owned(shown), cut)
}

/// Returns the channels that would propose one record as a candidate for the other, and accept it.
fn agreeing_channels(context: &Context, a: &Signed, b: &Signed) -> Vec<String> {
    let mut agreeing = Vec::new();
    for (position, scheme) in context.profile.schemes().iter().enumerate() {
        let (Some(ours), Some(theirs)) = (&a.signatures[position], &b.signatures[position]) else { continue };
        let keys_a = keys_of_channel(a, position);
        let keys_b = keys_of_channel(b, position);
        // A channel without posting keys (simhash) finds all pairs that its comparison accepts.
        let proposed = keys_a.is_empty() && keys_b.is_empty() || keys_a.iter().any(|key| keys_b.contains(key));
        if proposed && scheme.compare(ours, theirs) {
            agreeing.push(scheme.name().to_owned());
        }
    }
    agreeing
}

fn keys_of_channel(signed: &Signed, position: usize) -> Vec<u64> {
    signed.keys.iter().filter(|key| key.channel.index() == position).map(|key| key.key).collect()
}

fn compare_fingerprints(a: &Signed, b: &Signed) -> Option<FingerprintComparison> {
    let a = a.fingerprint()?;
    let b = b.fingerprint()?;
    let differing = a.0 ^ b.0;
    let differing_bits = (0..64).rev().filter(|bit| differing >> bit & 1 == 1).collect();
    Some(FingerprintComparison { a, b, distance: a.distance(b), differing_bits })
}

struct FeatureComparison {
    shared: Vec<SharedFeature>,
    only_a: Vec<WeightedFeature>,
    only_b: Vec<WeightedFeature>,
}

/// Merges both feature lists. Each result stays in the order of the profile, heaviest first.
fn compare_features(context: &Context, a: &Document, b: &Document) -> FeatureComparison {
    let features_a = context.profile.features(a);
    let features_b = context.profile.features(b);
    let weights_b: HashMap<&str, f64> = features_b.iter().map(|f| (f.term.as_str(), f.weight)).collect();
    let mut found = FeatureComparison { shared: Vec::new(), only_a: Vec::new(), only_b: Vec::new() };
    let mut in_a = HashMap::with_capacity(features_a.len());
    for feature in &features_a {
        in_a.insert(feature.term.as_str(), ());
        let term = feature.term.clone();
        let weight_a = feature.weight;
        match weights_b.get(feature.term.as_str()) {
            Some(&weight_b) => found.shared.push(SharedFeature { term, weight_a, weight_b }),
            None => found.only_a.push(WeightedFeature { term, weight: weight_a }),
        }
    }
    let only_b = features_b.iter().filter(|feature| !in_a.contains_key(feature.term.as_str()));
    found.only_b.extend(only_b.map(|feature| WeightedFeature { term: feature.term.clone(), weight: feature.weight }));
    found
}

fn compare_fields(context: &Context, a: &Document, b: &Document, width: u8) -> Vec<FieldShare> {
    let mut shares = Vec::new();
    for field in &a.fields {
        let Some(other) = b.fields.iter().find(|other| other.position == field.position) else { continue };
        let measured = match field.text == other.text {
            true => Resemblance { jaccard: 1.0, containment: 1.0 },
            false => ShingleSet::of(&field.text, width).resemblance(&ShingleSet::of(&other.text, width)),
        };
        shares.push(FieldShare {
            name: context.state.settings.fields[usize::from(field.position)].name.clone(),
            jaccard: rounded(measured.jaccard),
            containment: rounded(measured.containment),
        });
    }
    shares
}

fn first<T>(mut list: Vec<T>) -> Vec<T> {
    list.truncate(MAX_FEATURES);
    list
}

/// Returns the pieces of an alignment, with their ranges in the original fields.
fn pieces(aligned: Vec<Piece>, original_a: &OriginalOffsets, original_b: &OriginalOffsets) -> Vec<DiffPiece> {
    let mut at_a = 0;
    let mut at_b = 0;
    let mut pieces = Vec::with_capacity(aligned.len());
    for piece in aligned {
        let (kind, text) = match piece {
            Piece::Equal(text) => (DiffKind::Equal, text),
            Piece::OnlyA(text) => (DiffKind::OnlyA, text),
            Piece::OnlyB(text) => (DiffKind::OnlyB, text),
        };
        let chars = text.chars().count();
        let begin_a = at_a;
        let begin_b = at_b;
        at_a += if kind == DiffKind::OnlyB { 0 } else { chars };
        at_b += if kind == DiffKind::OnlyA { 0 } else { chars };
        let in_a = original_a.ranges(begin_a..at_a);
        let in_b = original_b.ranges(begin_b..at_b);
        pieces.push(DiffPiece { kind, text, in_a, in_b });
    }
    pieces
}
