//! Verification: the evidence that two texts concern the same matter.
//!
//! Two texts are compared in three ways: as sets of shingles (character runs, [`ShingleSet`]) with weights by document
//! frequency ([`Frequencies`]), by the objects that both name ([`Contrast`]), and by the order of their contents
//! ([`Alignment`]). The [`EvidenceModel`] turns these measures into a probability. A pair whose probability reaches
//! [`Verify::duplicate`] is a match.

use std::sync::Arc;

use super::alignment::{Alignment, TokenText, align_tokens};
use super::contrast::Contrast;
use super::forms::FormText;
use super::shingles::{Resemblance, ShingleSet};
use crate::collection::Verify;
use crate::evidence::{Contribution, EvidenceModel, PairFeatures};
use crate::schemes::frequencies::Frequencies;

/// If the longer text has more than this number of times the shingles of the shorter one, the shared shingles are found
/// by binary search.
const FAR_FEWER: usize = 4;

/// A text's shingles with their weights.
#[derive(Clone, Debug)]
pub struct WeightedShingles {
    set: ShingleSet,
    /// The weight of each shingle of the set, in the order of the set.
    weights: Box<[f32]>,
    total: f64,
}

impl WeightedShingles {
    /// Returns the shingles.
    pub fn set(&self) -> &ShingleSet {
        &self.set
    }

    /// Returns the sum of the weights.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Returns the codes of the shingles, ascending, with their weights.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, f32)> + '_ {
        self.set.codes().iter().copied().zip(self.weights.iter().copied())
    }
}

/// The common shingles of two texts, counted and weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// The resemblance if every shingle has the same weight.
    pub plain: Resemblance,
    /// Number of shingles of the text with fewer shingles.
    pub fewer: usize,
    /// Weight of the shared shingles.
    pub shared: f64,
    /// Weight of the first text's shingles.
    pub a: f64,
    /// Weight of the second text's shingles.
    pub b: f64,
}

/// The probability that two texts concern the same matter, and the reasons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Weighted Jaccard similarity of the texts, 0 to 1.
    pub similarity: f64,
    /// Amount of shared text, in shingles that are rare in the collection.
    pub amount: f64,
    /// The input of the model.
    pub features: PairFeatures,
    /// The probability that both concern the same matter, 0 to 1.
    pub probability: f64,
    /// True if the probability reaches [`Verify::duplicate`].
    pub accepted: bool,
}

/// The thresholds, document frequencies and evidence model of a collection. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Verifier {
    verify: Verify,
    frequencies: Arc<Frequencies>,
    model: Arc<EvidenceModel>,
    forms: Arc<FormText>,
}

impl Verifier {
    /// Creates a verifier with the model of the settings, or else the shipped one. If the settings say so, the verifier
    /// ignores the document frequencies.
    pub fn new(verify: Verify, frequencies: Arc<Frequencies>) -> Self {
        let forms = Arc::new(FormText::new(&verify.forms));
        let learned = verify.model.as_ref().and_then(|model| EvidenceModel::of_learned(model).ok());
        let model = learned.map_or_else(EvidenceModel::shipped, Arc::new);
        Self { verify, frequencies, model, forms }
    }

    /// Returns the verifier with another model.
    #[must_use]
    pub fn with_model(self, model: Arc<EvidenceModel>) -> Self {
        Self { model, ..self }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Verify {
        &self.verify
    }

    /// Returns the evidence model.
    pub fn model(&self) -> &EvidenceModel {
        &self.model
    }

    /// Returns the document frequencies.
    pub fn frequencies(&self) -> &Frequencies {
        &self.frequencies
    }

    /// Returns the document frequencies that give the weights of names; `None` if all names have the same weight.
    pub fn weighing_names(&self) -> Option<&Frequencies> {
        self.verify.rarity.then(|| self.frequencies())
    }

    /// Returns the text of the forms of the collection.
    pub fn forms(&self) -> &FormText {
        &self.forms
    }

    /// True if the weights of text depend on frequencies that were counted in the collection.
    pub fn is_counted(&self) -> bool {
        self.verify.rarity && self.frequencies.are_counted()
    }

    /// Returns the weight of a shingle with the width for which frequencies are counted: above 0, at most 1.
    #[inline]
    pub fn weight(&self, code: u64) -> f32 {
        if self.verify.rarity { self.frequencies.weight(code) } else { 1.0 }
    }

    /// Returns the shingles of a text, without the text of forms. O(L log L).
    pub fn shingles(&self, text: &str) -> ShingleSet {
        ShingleSet::of_parts(&self.forms.parts(text), self.verify.shingle)
    }

    /// Weighs a set. O(n).
    pub fn weigh(&self, set: ShingleSet) -> WeightedShingles {
        let weights: Box<[f32]> = set.codes().iter().map(|&code| self.weight(code)).collect();
        let total = weights.iter().map(|&weight| f64::from(weight)).sum();
        WeightedShingles { set, weights, total }
    }

    /// Returns how common a passage is: the mean weight of its shingles, and the share of the records that contain the
    /// rarest of them. The text of `forms`, which the whole text is on, has no weight. The share is `None` if it is below one in a thousand.
    /// O(length).
    pub fn commonness(&self, passage: &str, forms: &FormText) -> (f64, Option<f64>) {
        let count = ShingleSet::of(passage, self.verify.shingle).len();
        let set = ShingleSet::of_parts(&forms.parts(passage), self.verify.shingle);
        let shares = set.codes().iter().map(|&code| self.frequencies.share(code));
        let rarest = shares.min_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
        let sum = set.codes().iter().fold(0.0, |sum, &code| sum + f64::from(self.weight(code)));
        (sum / count.max(1) as f64, rarest.flatten())
    }

    /// Compares two texts. O(n + m), or O(m log n) if m is far below n.
    pub fn overlap(&self, ours: &WeightedShingles, theirs: &ShingleSet) -> Overlap {
        let mine = ours.set.codes();
        let others = theirs.codes();
        let far_fewer = others.len().saturating_mul(FAR_FEWER) < mine.len();
        let mut i = 0;
        let mut count = 0;
        let mut shared = 0.0;
        let mut b = 0.0;
        for &code in others {
            if far_fewer {
                i += mine[i..].partition_point(|&ours| ours < code);
            } else {
                i += mine[i..].iter().take_while(|&&ours| ours < code).count();
            }
            if mine.get(i) == Some(&code) {
                let weight = f64::from(ours.weights[i]);
                count += 1;
                shared += weight;
                b += weight;
            } else {
                b += f64::from(self.weight(code));
            }
        }
        let plain = Resemblance::of(count, mine.len(), others.len());
        Overlap { plain, fewer: mine.len().min(others.len()), shared, a: ours.total, b }
    }

    /// True if the pair can be accepted when the names in both texts agree as much as possible. `contacts` is true if
    /// both texts may contain the same contact.
    pub fn could_accept(&self, overlap: &Overlap, contacts: bool) -> bool {
        let contrast = if self.verify.objects { Contrast::most_agreeing(contacts) } else { Contrast::default() };
        self.could_accept_with(overlap, &contrast)
    }

    /// True if a pair can be accepted that shares no more than `overlap`, and whose names agree no more and differ no
    /// less than in `contrast`.
    pub(super) fn could_accept_with(&self, overlap: &Overlap, contrast: &Contrast) -> bool {
        let coefficients = self.model.coefficients(self.is_counted());
        let (far, near) = PairFeatures::bounds(overlap, contrast);
        let mut bounds = std::iter::once(far).chain(near);
        bounds.any(|features| self.accepts(coefficients.probability(&features)))
    }

    // The comparison has a small tolerance, because sums of weights depend on their order.
    fn accepts(&self, probability: f64) -> bool {
        probability + 1e-9 >= self.verify.duplicate
    }

    /// Weighs the evidence. The order of the texts is compared only if it can change whether the pair is accepted, or
    /// if `in_full` is true.
    pub fn weigh_up(
        &self,
        overlap: &Overlap,
        contrast: &Contrast,
        in_full: bool,
        texts: impl FnOnce() -> (String, String),
    ) -> Evidence {
        self.weigh_up_by(overlap, contrast, in_full, || {
            let (a, b) = texts();
            align_tokens(&self.tokens(&a), &self.tokens(&b), &contrast.only_names)
        })
    }

    /// Weighs the evidence like [`Verifier::weigh_up`]. `align` compares the order of the texts by [`align_tokens`] with
    /// the [`Verifier::tokens`] of both.
    pub fn weigh_up_by(
        &self,
        overlap: &Overlap,
        contrast: &Contrast,
        in_full: bool,
        align: impl FnOnce() -> Alignment,
    ) -> Evidence {
        let unaligned = self.evidence(overlap, contrast, &Alignment::default());
        if !(unaligned.accepted || in_full) {
            return unaligned;
        }
        self.evidence(overlap, contrast, &align())
    }

    /// Returns the tokens of a text, without the text of forms. O(length).
    pub fn tokens(&self, text: &str) -> TokenText {
        TokenText::of(&self.forms.strip(text))
    }

    /// Weighs the evidence. O(features).
    pub fn evidence(&self, overlap: &Overlap, contrast: &Contrast, alignment: &Alignment) -> Evidence {
        let features = PairFeatures::of(overlap, contrast, alignment);
        let probability = self.model.coefficients(self.is_counted()).probability(&features);
        let Overlap { shared, a, b, .. } = *overlap;
        let union = a + b - shared;
        Evidence {
            similarity: if union > 0.0 { (shared / union).min(1.0) } else { 0.0 },
            amount: shared,
            features,
            probability,
            accepted: self.accepts(probability),
        }
    }

    /// Returns the log-odds of a pair whose features are all 0.
    pub fn intercept(&self) -> f64 {
        self.model.coefficients(self.is_counted()).intercept
    }

    /// Returns the contribution of each feature to the log-odds of a pair, the largest effect first.
    pub fn contributions(&self, features: &PairFeatures) -> Vec<Contribution> {
        self.model.contributions(features, self.is_counted())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schemes::frequencies::Counter;

    fn evidence(verifier: &Verifier, a: &str, b: &str, contrast: &Contrast) -> Evidence {
        let ours = verifier.weigh(verifier.shingles(a));
        let overlap = verifier.overlap(&ours, &verifier.shingles(b));
        let alignment = align_tokens(&TokenText::of(a), &TokenText::of(b), &contrast.only_names);
        verifier.evidence(&overlap, contrast, &alignment)
    }

    /// Returns frequencies of a collection in which every other record contains `form`.
    fn saying(form: &str) -> Arc<Frequencies> {
        let mut counter = Counter::default();
        let codes = ShingleSet::of(form, 3);
        for record in 0..1_000 {
            counter.observe(if record % 2 == 0 { codes.codes().to_vec() } else { Vec::new() });
        }
        Arc::new(Frequencies::decode(1, &counter.encode(1_000)).unwrap())
    }

    const FORM: &str =
        "来电人说其所住的楼栋电梯经常出故障老人上下楼十分不便请物业主管单位尽快派人检修并把结果告诉来电人";

    /// Returns the contrast of texts that each name a different object.
    fn differing() -> Contrast {
        Contrast { names_differ: 1.0, other_names: 1, ..Contrast::default() }
    }

    #[test]
    fn text_that_everybody_writes_is_no_evidence_and_rare_text_is() {
        let a = format!("北门旁的旧水塔倾斜得厉害,塔顶的铁梯也松了,风一吹就响{FORM}");
        let b = format!("雨后渡口栈桥的木板断裂,护栏上的绳子早就没有了,孩子差点掉下去{FORM}");
        let before = Verifier::new(Verify::default(), Frequencies::built_in());
        let after = Verifier::new(Verify::default(), saying(FORM));
        let nothing = Contrast::default();
        assert!(evidence(&after, &a, &b, &nothing).probability < evidence(&before, &a, &b, &nothing).probability);
        assert!(!evidence(&after, &a, &b, &nothing).accepted);
        let again = format!("{FORM}北门旁的旧水塔还是倾斜得厉害,塔顶的铁梯已经掉了");
        assert!(evidence(&after, &a, &again, &nothing).accepted);
    }

    #[test]
    fn names_help_or_hinder_and_prove_nothing_alone() {
        let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
        let a = "三号路的路灯坏了半个月没人修晚上走路摔了两次";
        let b = "路灯坏了半个月没人修孩子放学看不见路三号路太黑";
        let agreeing = Contrast { names_agree: 2.0, ..Contrast::default() };
        let plain = evidence(&verifier, a, b, &Contrast::default()).probability;
        assert!(evidence(&verifier, a, b, &agreeing).probability > plain);
        assert!(evidence(&verifier, a, b, &differing()).probability < plain);
        let unlike = evidence(&verifier, "鹤鸣苑停水", "公交线路改道以后等车太久希望恢复原来的站点", &agreeing);
        assert!(!unlike.accepted && unlike.amount == 0.0);
    }

    #[test]
    fn copies_that_name_nothing_different_match_however_common_they_are() {
        let verifier = Verifier::new(Verify::default(), saying(FORM));
        let copy = format!("{FORM}我们等了很久了");
        assert!(evidence(&verifier, FORM, &copy, &Contrast::default()).accepted);
        assert!(!evidence(&verifier, FORM, &copy, &differing()).accepted);
        let lines = Contrast { identifiers_differ: true, ..Contrast::default() };
        assert!(evidence(&verifier, FORM, &copy, &lines).probability < 0.8);
    }

    #[test]
    fn texts_that_differ_in_one_place_are_aligned() {
        let verifier = Verifier::new(Verify::default(), saying(FORM));
        let [a, b] = ["反映雁坪电梯厂的电梯", "反映松岗机械厂的电梯"].map(|name| format!("{name}{FORM}"));
        let overlap = verifier.overlap(&verifier.weigh(verifier.shingles(&a)), &verifier.shingles(&b));
        let contrast = Contrast {
            only_names: [vec!["雁坪电梯厂".into()], vec!["松岗机械厂".into()]],
            ..Contrast::default()
        };
        let aligned = verifier.weigh_up(&overlap, &contrast, true, || (a.clone(), b.clone()));
        let unaligned = verifier.evidence(&overlap, &contrast, &Alignment::default());
        assert!(aligned.probability < unaligned.probability && !aligned.accepted, "{aligned:?}");
    }

    #[test]
    fn a_form_with_another_name_is_no_match_before_and_after_it_is_counted() {
        let names = ["雁坪路", "松岗路"];
        let contrast = Contrast { only_names: names.map(|name| vec![name.to_owned()]), ..differing() };
        let [a, b] = names.map(|road| format!("{FORM}反映{road}的路灯不亮"));
        for frequencies in [Frequencies::built_in(), saying(FORM)] {
            let verifier = Verifier::new(Verify::default(), frequencies);
            assert!(!evidence(&verifier, &a, &b, &contrast).accepted);
        }
    }

    #[test]
    fn contributions_say_where_the_probability_comes_from() {
        let verifier = Verifier::new(Verify::default(), saying(FORM));
        let found = evidence(&verifier, FORM, &format!("{FORM}谢谢"), &differing());
        let contributions = verifier.contributions(&found.features);
        let sum: f64 = contributions.iter().map(|found| found.log_odds).sum();
        let intercept = verifier.model().coefficients(true).intercept;
        assert!((1.0 / (1.0 + (-(sum + intercept)).exp()) - found.probability).abs() < 1e-9);
        assert!(contributions.iter().any(|found| found.log_odds < 0.0), "{contributions:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn unweighted_similarity_is_the_plain_one(a in "[一二三四ab ,。]{0,30}", b in "[一二三四ab ,。]{0,30}") {
            let verify = Verify { rarity: false, objects: false, ..Verify::default() };
            let verifier = Verifier::new(verify, Frequencies::built_in());
            let plain = verifier.shingles(&a).resemblance(&verifier.shingles(&b));
            let found = evidence(&verifier, &a, &b, &Contrast::default());
            prop_assert!((found.similarity - plain.jaccard).abs() < 1e-9);
        }

        #[test]
        fn more_agreement_never_turns_a_match_into_none(
            shared in 0.0..100.0, a in 0.0..100.0, b in 0.0..100.0, jaccard in 0.0..1.0,
            agree in 0.0..2.0, differ in 0.0..2.0, more in 0.0..2.0,
        ) {
            let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
            let plain = Resemblance { jaccard, containment: jaccard };
            let overlap = Overlap { plain, fewer: 50, shared, a: shared + a, b: shared + b };
            let contrasts: [(f64, f64); 3] = [(agree, differ), (agree + more, differ), (agree, differ + more)];
            let [before, agreeing, differing] = contrasts.map(|(agree, differ)| {
                let names = Contrast { names_agree: agree.min(2.0), names_differ: differ.min(2.0), ..Contrast::default() };
                verifier.evidence(&overlap, &names, &Alignment::default()).accepted
            });
            prop_assert!(!before || agreeing);
            prop_assert!(before || !differing);
            prop_assert!(!before || verifier.could_accept(&overlap, false));
        }
    }
}
