//! Why two records do or do not match, in terms a person can check.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::Result;
use crate::answers::{
    DiffKind, DiffPiece, EvidenceContribution, Explanation, FieldShare, FingerprintComparison, Passage, ProbabilitySource,
    SharedFeature,
    WeightedFeature,
};
use crate::context::{Context, Subject};
use crate::judge::{contrasted, rounded};
use crate::original::Original;
use doppel_core::evidence::Contribution;
use doppel_core::record::Row;
use doppel_core::schemes::profile::Signed;
use doppel_core::similarity::{
    MAX_DIFF_CHARS, MAX_PASSAGES, Piece, Resemblance, SharedPassage, ShingleSet, align, shared_passages,
};
use doppel_core::text::Document;
use doppel_core::verdict::{VIA_COPY, VIA_EXACT};

/// Most features in each of the three lists.
const MAX_FEATURES: usize = 200;
/// Most characters of a text in which passages are looked for.
const MAX_READABLE_CHARS: usize = 50_000;
/// Most characters of each side of which features and the shares of fields are shown. Normalisation can make a row of a megabyte
/// eighteen times as long, and cutting that takes seconds that nobody waits for any more.
const MAX_FEATURE_CHARS: usize = 200_000;

/// Compares two rows of one collection, as they were read, under its present settings.
pub(super) fn explain(
    context: &Context,
    (row_a, a): (&Row, &Subject),
    (row_b, b): (&Row, &Subject),
) -> Result<Explanation> {
    let settings = &context.state.settings;
    let original_a = Original::of(settings, row_a, &a.document);
    let original_b = Original::of(settings, row_b, &b.document);
    let exact = a.signed.digest == b.signed.digest;
    let is_copy = context.are_copies(&a.document, &b.document);
    let mut via = agreeing_channels(context, &a.signed, &b.signed);
    via.retain(|channel| channel != VIA_COPY || is_copy);
    let verifier = context.measuring();
    let width = verifier.settings().shingle;
    let (text_a, text_b) = (a.document.joined(), b.document.joined());
    let overlap = verifier.overlap(&verifier.weigh(verifier.shingles(&text_a)), &verifier.shingles(&text_b));
    let contrast = contrasted(&verifier, &context.named(&text_a), &context.named(&text_b));
    let evidence = verifier.weigh_up(&overlap, &contrast, true, || (text_a.clone(), text_b.clone()));
    let contributions = verifier.contributions(&evidence.features).into_iter().map(contribution).collect();
    // Exact ones as the verdict says it, also where there is nothing but punctuation.
    let whole = |measure: f64| if exact { 1.0 } else { rounded(measure) };
    let verified = settings.verify.is_none() || is_copy || evidence.accepted;
    let (shown_a, cut_a) = beginning(&a.document);
    let (shown_b, cut_b) = beginning(&b.document);
    let Features { shared, only_a, only_b } = compare_features(context, &shown_a, &shown_b);
    // Normalisation can make a text eighteen times as long; what a person reads of it is bounded.
    let readable = |text: &str| text.chars().take(MAX_READABLE_CHARS).collect::<Vec<char>>();
    let (chars_a, chars_b) = (readable(&text_a), readable(&text_b));
    let passages: Vec<Passage> = shared_passages(&chars_a, &chars_b)
        .into_iter()
        .map(|SharedPassage { at_a, at_b, chars }| {
            let text: String = chars_b[at_b..at_b + chars].iter().collect();
            let (weight, common) = verifier.commonness(&text);
            let (in_a, in_b) = (original_a.ranges(at_a..at_a + chars), original_b.ranges(at_b..at_b + chars));
            Passage { text, at_a, at_b, chars, in_a, in_b, weight: rounded(weight), common: common.map(rounded) }
        })
        .collect();
    let truncated = [&shared.len(), &only_a.len(), &only_b.len()].iter().any(|len| **len > MAX_FEATURES)
        || chars_a.len().max(chars_b.len()) > MAX_DIFF_CHARS
        || passages.len() == MAX_PASSAGES
        || cut_a
        || cut_b;
    Ok(Explanation {
        matches: exact || a.document.shares_address(&b.document) || (!via.is_empty() && verified),
        via: exact.then(|| VIA_EXACT.to_owned()).into_iter().chain(via).collect(),
        exact,
        jaccard: whole(overlap.plain.jaccard),
        containment: whole(overlap.plain.containment),
        similarity: whole(evidence.similarity),
        evidence: rounded(evidence.amount),
        probability: if is_copy { 1.0 } else { whole(evidence.probability) },
        model: verifier.model().digest().to_owned(),
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

fn probability_source(exact: bool, is_copy: bool) -> ProbabilitySource {
    match (exact, is_copy) {
        (true, _) => ProbabilitySource::Exact,
        (false, true) => ProbabilitySource::Copy,
        (false, false) => ProbabilitySource::Evidence,
    }
}

fn contribution(found: Contribution) -> EvidenceContribution {
    EvidenceContribution {
        feature: found.feature.name().to_owned(),
        value: rounded(found.value),
        log_odds: rounded(found.log_odds),
    }
}

/// The first [`MAX_FEATURE_CHARS`] characters of a document, and whether there are more.
fn beginning(document: &Document) -> (Cow<'_, Document>, bool) {
    let bytes: usize = document.fields.iter().map(|field| field.text.len()).sum();
    if bytes <= MAX_FEATURE_CHARS {
        return (Cow::Borrowed(document), false);
    }
    let (mut shown, mut left, mut cut) = (document.clone(), MAX_FEATURE_CHARS, false);
    for field in &mut shown.fields {
        match field.text.char_indices().nth(left) {
            Some((end, _)) => {
                field.text.truncate(end);
                (left, cut) = (0, true);
            }
            None => left -= field.text.chars().count(),
        }
    }
    shown.fields.retain(|field| !field.text.is_empty());
    (Cow::Owned(shown), cut)
}

/// The channels that would propose one for the other and accept it.
fn agreeing_channels(context: &Context, a: &Signed, b: &Signed) -> Vec<String> {
    let mut agreeing = Vec::new();
    for (position, scheme) in context.profile.schemes().iter().enumerate() {
        let (Some(ours), Some(theirs)) = (&a.signatures[position], &b.signatures[position]) else { continue };
        let keys = |signed: &Signed| -> Vec<u64> {
            signed.keys.iter().filter(|key| key.channel.index() == position).map(|key| key.key).collect()
        };
        let (keys_a, keys_b) = (keys(a), keys(b));
        // A channel without posting keys (simhash) is complete: its comparison alone decides.
        let proposed = keys_a.is_empty() && keys_b.is_empty() || keys_a.iter().any(|key| keys_b.contains(key));
        if proposed && scheme.compare(ours, theirs) {
            agreeing.push(scheme.name().to_owned());
        }
    }
    agreeing
}

fn compare_fingerprints(a: &Signed, b: &Signed) -> Option<FingerprintComparison> {
    let (a, b) = (a.fingerprint()?, b.fingerprint()?);
    let differing = a.0 ^ b.0;
    let differing_bits = (0..64).rev().filter(|bit| differing >> bit & 1 == 1).collect();
    Some(FingerprintComparison { a, b, distance: a.distance(b), differing_bits })
}

struct Features {
    shared: Vec<SharedFeature>,
    only_a: Vec<WeightedFeature>,
    only_b: Vec<WeightedFeature>,
}

/// Both feature lists merged; each list stays heaviest first, as the profile gives it.
fn compare_features(context: &Context, a: &Document, b: &Document) -> Features {
    let features_a = context.profile.features(a);
    let features_b = context.profile.features(b);
    let weights_b: HashMap<&str, f64> = features_b.iter().map(|f| (f.term.as_str(), f.weight)).collect();
    let mut found = Features { shared: Vec::new(), only_a: Vec::new(), only_b: Vec::new() };
    let mut in_a = HashMap::with_capacity(features_a.len());
    for feature in &features_a {
        in_a.insert(feature.term.as_str(), ());
        let (term, weight_a) = (feature.term.clone(), feature.weight);
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

/// The pieces of an alignment, with where they stand in what came.
fn pieces(aligned: Vec<Piece>, original_a: &Original, original_b: &Original) -> Vec<DiffPiece> {
    let (mut at_a, mut at_b) = (0, 0);
    let mut piece = |piece: Piece| {
        let (kind, text) = match piece {
            Piece::Equal(text) => (DiffKind::Equal, text),
            Piece::OnlyA(text) => (DiffKind::OnlyA, text),
            Piece::OnlyB(text) => (DiffKind::OnlyB, text),
        };
        let chars = text.chars().count();
        let (begin_a, begin_b) = (at_a, at_b);
        at_a += if kind == DiffKind::OnlyB { 0 } else { chars };
        at_b += if kind == DiffKind::OnlyA { 0 } else { chars };
        DiffPiece { kind, text, in_a: original_a.ranges(begin_a..at_a), in_b: original_b.ranges(begin_b..at_b) }
    };
    aligned.into_iter().map(&mut piece).collect()
}
