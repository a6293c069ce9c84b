//! Verification: is the text that two records share evidence that they are about one matter?
//!
//! Evidence is shared text that is *rare here*, about the *same object*. Two texts are compared as weighted sets of shingles
//! (character runs, [`ShingleSet`]), each weighing what its document frequency says ([`Frequencies`]). On top stand the things
//! that both name ([`Contrast`]): what both name counts like many shared shingles, different things named in the same place of
//! a form like many that are not shared.
//!
//! With `s` the weight of the shared shingles, `a` and `b` those of either text, `A` what both name and `D` what either names
//! instead:
//!
//! ```text
//! bonus       = min(8·A, s)           a name alone proves nothing: it at most doubles what the texts share
//! similarity  = (s + bonus) / (a + b − s + bonus + 30·D)
//! containment = (s + bonus) / (min(a, b) + bonus + 30·D)
//!               (90 in place of 30 where A < 0.5: then the form is all they share)
//! accepted    : (similarity ≥ t or containment ≥ min(1, u + t − similarity)) and s + bonus ≥ evidence
//! ```
//! The thresholds t, u and `evidence` are settings. A text that quotes another may fall short of t, if it holds as much more of
//! it than u: a sentence that stands in a letter ten times as long proves less than one in a letter twice as long. `evidence` is
//! in shingles that are rare: two enquiries of twenty characters, nearly all of them a form's, share too little to be called one
//! matter, however alike. Copies of one text (plain Jaccard similarity of at least 0.65, or 0.5 where both name one place) that
//! name the same, to the letter, are accepted in any case: where a hundred people send one letter, it is common, and one matter. Where one
//! of them names more, what the other says instead must not be as long as a name: it may be one that was not recognised.
//!
//! Before a collection is counted, D counts three times.

use std::sync::Arc;

use super::contrast::{Contrast, MOST_AGREEING, OtherNames, TELLING_AT_ALL};
use super::shingles::{Resemblance, ShingleSet};
use crate::collection::Verify;
use crate::schemes::frequencies::Frequencies;

/// How many times more names that differ count before a collection is counted: then the text of a form weighs as much as any other.
const UNCOUNTED: f64 = 3.0;

/// Of how many times as many shingles the others are found by halving, not one after the other.
const FAR_FEWER: usize = 4;

/// Rare shingles that one name counts for which both texts hold.
const AGREEING_NAME: f64 = 8.0;
/// Rare shingles that one difference counts for.
const DIFFERING_NAME: f64 = 30.0;
/// ... and where what both name weighs less than [`HARDLY_A_NAME`]: then the form is all they share.
const DIFFERING_ALONE: f64 = 90.0;
const HARDLY_A_NAME: f64 = 0.5;
/// Plain Jaccard similarity from which two texts are copies of one ...
const COPY_JACCARD: f64 = 0.65;
/// ... or from which they are, if both name one place.
const COPY_JACCARD_OF_A_PLACE: f64 = 0.5;
/// ... if the shorter has so many shingles.
const COPY_SHINGLES: usize = 30;

/// A copy that names less lacks in the other the shingles about one gap, and one in so many of its shingles.
const MISSING_ONE_IN: f64 = 128.0;
/// Most shingles of a name and of what it stands between, in a title and once more.
const NAME_SHINGLES: f64 = 20.0;

/// A text's shingles with their weights.
#[derive(Clone, Debug)]
pub struct Weighed {
    set: ShingleSet,
    /// One for each shingle of the set, in its order.
    weights: Box<[f32]>,
    total: f64,
}

impl Weighed {
    /// The shingles.
    pub fn set(&self) -> &ShingleSet {
        &self.set
    }

    /// The sum of their weights.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The shingles' codes, ascending, with their weights.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, f32)> + '_ {
        self.set.codes().iter().copied().zip(self.weights.iter().copied())
    }
}

/// What two texts share, counted and weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Shingles counted alike.
    pub plain: Resemblance,
    /// The fewer of the two texts' shingles.
    pub fewer: usize,
    /// Weight of the shared shingles.
    pub shared: f64,
    /// Weight of the one text's.
    pub a: f64,
    /// Weight of the other's.
    pub b: f64,
}

/// Why two texts are, or are not, about one matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Weighted Jaccard similarity with the names in it, 0 to 1.
    pub similarity: f64,
    /// Weighted containment with the names in it, 0 to 1.
    pub containment: f64,
    /// What is shared, in rare shingles.
    pub amount: f64,
    /// Whether it is enough.
    pub accepted: bool,
}

/// What a collection verifies by: its thresholds, and what is common in it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Verifier {
    verify: Verify,
    frequencies: Arc<Frequencies>,
}

impl Verifier {
    /// With thresholds and document frequencies; these are left aside where the settings say so.
    pub fn new(verify: Verify, frequencies: Arc<Frequencies>) -> Self {
        Self { verify, frequencies }
    }

    /// The settings.
    pub fn settings(&self) -> &Verify {
        &self.verify
    }

    /// What is common.
    pub fn frequencies(&self) -> &Frequencies {
        &self.frequencies
    }

    /// What names weigh by; `None` where all weigh the same.
    pub fn weighing_names(&self) -> Option<&Frequencies> {
        self.verify.rarity.then(|| self.frequencies())
    }

    #[inline]
    fn weight(&self, code: u64) -> f32 {
        if self.verify.rarity { self.frequencies.weight(code) } else { 1.0 }
    }

    /// The shingles of a text. O(L log L).
    pub fn shingles(&self, text: &str) -> ShingleSet {
        ShingleSet::of(text, self.verify.shingle)
    }

    /// Weighs a set. O(n).
    pub fn weigh(&self, set: ShingleSet) -> Weighed {
        let weights: Box<[f32]> = set.codes().iter().map(|&code| self.weight(code)).collect();
        let total = weights.iter().map(|&weight| f64::from(weight)).sum();
        Weighed { set, weights, total }
    }

    /// How common a passage is: the mean weight of its shingles, and the share of the records that hold the rarest of them,
    /// `None` where fewer than one in a thousand do. O(length).
    pub fn commonness(&self, passage: &str) -> (f64, Option<f64>) {
        let set = self.shingles(passage);
        let rarest = set.codes().iter().map(|&code| self.frequencies.share(code)).min_by(|a, b| {
            let share = |share: &Option<f64>| share.unwrap_or(0.0);
            share(a).total_cmp(&share(b))
        });
        let sum: f64 = set.codes().iter().map(|&code| f64::from(self.weight(code))).sum();
        (sum / set.len().max(1) as f64, rarest.flatten())
    }

    /// Compares two texts. O(n + m), or O(m log n) where m is far below n.
    pub fn overlap(&self, ours: &Weighed, theirs: &ShingleSet) -> Overlap {
        let (mine, others) = (ours.set.codes(), theirs.codes());
        let far_fewer = others.len().saturating_mul(FAR_FEWER) < mine.len();
        let (mut i, mut count) = (0, 0);
        let (mut shared, mut b) = (0.0, 0.0);
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
        let (a, fewer) = (ours.total, mine.len().min(others.len()));
        Overlap { plain: Resemblance::of(count, mine.len(), others.len()), fewer, shared, a, b }
    }

    /// Whether what both texts name can still turn it into a match.
    pub fn could_accept(&self, overlap: &Overlap) -> bool {
        let same_place = self.verify.objects;
        let agreeing = if same_place { MOST_AGREEING } else { 0.0 };
        self.evidence(overlap, &Contrast { agreeing, same_place, ..Contrast::default() }).accepted
    }

    /// Whether the texts are copies of one, as far as can be said without what they name.
    pub fn could_be_copies(&self, overlap: &Overlap) -> bool {
        let alike = if self.verify.objects { COPY_JACCARD_OF_A_PLACE } else { COPY_JACCARD };
        overlap.fewer >= COPY_SHINGLES && overlap.plain.jaccard >= alike.max(self.verify.jaccard)
    }

    /// Decides.
    pub fn evidence(&self, overlap: &Overlap, contrast: &Contrast) -> Evidence {
        let Overlap { plain, fewer, shared, a, b } = *overlap;
        let bonus = (AGREEING_NAME * contrast.agreeing).min(shared);
        let difference = if contrast.agreeing < HARDLY_A_NAME { DIFFERING_ALONE } else { DIFFERING_NAME };
        let is_uncounted = self.verify.rarity && !self.frequencies.are_counted();
        let uncounted = if is_uncounted { UNCOUNTED } else { 1.0 };
        let against = uncounted * difference * contrast.differing;
        let amount = shared + bonus;
        let share = |of: f64| if of > 0.0 { (amount / of).min(1.0) } else { 0.0 };
        let (similarity, containment) = (share(a + b - shared + bonus + against), share(a.min(b) + bonus + against));
        let Verify { jaccard, containment: contained, evidence, .. } = self.verify;
        // A hair of slack: sums of weights depend on their order.
        let quoted = containment + 1e-9 >= (contained + jaccard - similarity).min(1.0);
        let enough = (similarity >= jaccard || quoted) && amount >= evidence;
        let alike = if contrast.same_place { COPY_JACCARD_OF_A_PLACE } else { COPY_JACCARD };
        let alike = fewer >= COPY_SHINGLES && plain.jaccard >= alike.max(jaccard);
        let same_names = match contrast.other_names {
            OtherNames::OfNeither => true,
            OtherNames::OfOne => !self.leaves_room_for_a_name(fewer as f64 * (1.0 - plain.containment), fewer),
            OtherNames::OfBoth => false,
        };
        let copy = alike && contrast.differing <= TELLING_AT_ALL && same_names;
        let similarity = if copy { similarity.max(plain.jaccard) } else { similarity };
        Evidence { similarity, containment, amount, accepted: enough || copy }
    }

    /// Whether so many shingles, of `fewer`, that the other text lacks may be those of a name: more than a gap in a copy leaves, and no
    /// more than a name has. Still more are words of one's own.
    fn leaves_room_for_a_name(&self, missing: f64, fewer: usize) -> bool {
        let gap = f64::from(self.verify.shingle) + fewer as f64 / MISSING_ONE_IN;
        missing > gap + 1e-9 && missing <= NAME_SHINGLES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schemes::frequencies::Counter;

    fn evidence(verifier: &Verifier, a: &str, b: &str, contrast: &Contrast) -> Evidence {
        let ours = verifier.weigh(verifier.shingles(a));
        verifier.evidence(&verifier.overlap(&ours, &verifier.shingles(b)), contrast)
    }

    /// Frequencies of a collection in which every other record says `form`.
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

    #[test]
    fn text_that_everybody_writes_is_no_evidence_and_rare_text_is() {
        let (a, b) = (
            format!("北门旁的旧水塔倾斜得厉害,塔顶的铁梯也松了,风一吹就响{FORM}"),
            format!("雨后渡口栈桥的木板断裂,护栏上的绳子早就没有了,孩子差点掉下去{FORM}"),
        );
        let before = Verifier::new(Verify::default(), Frequencies::built_in());
        let after = Verifier::new(Verify::default(), saying(FORM));
        let nothing = Contrast::default();
        assert!(evidence(&before, &a, &b, &nothing).accepted);
        assert!(!evidence(&after, &a, &b, &nothing).accepted);
        let again = format!("{FORM}北门旁的旧水塔还是倾斜得厉害,塔顶的铁梯已经掉了");
        assert!(evidence(&after, &a, &again, &nothing).accepted);
    }

    #[test]
    fn names_help_or_hinder_and_prove_nothing_alone() {
        let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
        let (a, b) = ("三号路的路灯坏了半个月没人修晚上走路摔了两次", "路灯坏了半个月没人修孩子放学看不见路三号路太黑");
        let with = |agreeing, differing| Contrast { agreeing, differing, ..Contrast::default() };
        let plain = evidence(&verifier, a, b, &with(0.0, 0.0));
        assert!(evidence(&verifier, a, b, &with(2.0, 0.0)).similarity > plain.similarity);
        assert!(evidence(&verifier, a, b, &with(0.0, 1.0)).similarity < plain.similarity);
        let unlike = evidence(&verifier, "鹤鸣苑停水", "公交线路改道以后等车太久希望恢复原来的站点", &with(9.0, 0.0));
        assert!(!unlike.accepted && unlike.amount == 0.0);
    }

    #[test]
    fn copies_that_name_nothing_different_match_however_common_they_are() {
        let verifier = Verifier::new(Verify::default(), saying(FORM));
        let copy = format!("{FORM}谢谢");
        assert!(evidence(&verifier, FORM, &copy, &Contrast::default()).accepted);
        let naming = |other_names| Contrast { other_names, ..Contrast::default() };
        for other in [Contrast { differing: 1.0, ..Contrast::default() }, naming(OtherNames::OfBoth)] {
            assert!(!evidence(&verifier, FORM, &copy, &other).accepted);
        }
        assert!(evidence(&verifier, FORM, &copy, &naming(OtherNames::OfOne)).accepted, "one may say more");
        let (head, tail) = FORM.split_at(FORM.char_indices().nth(8).unwrap().0);
        let [less, more] = ["我家楼上", "雁坪路"].map(|name| format!("{head}{name}{tail}"));
        assert!(!evidence(&verifier, &less, &more, &naming(OtherNames::OfOne)).accepted, "it may say something else");
        let accepts = |shared: usize| {
            let plain = Resemblance::of(shared, 150, 145);
            let common = Overlap { plain, fewer: 145, shared: 0.1, a: 0.2, b: 0.2 };
            verifier.evidence(&common, &naming(OtherNames::OfOne)).accepted
        };
        assert_eq!([144, 135, 120].map(accepts), [true, false, true], "each may add words of its own");
    }

    #[test]
    fn before_a_collection_is_counted_a_difference_outweighs_a_form() {
        let form = |road: &str| format!("{FORM}反映{road}的路灯不亮");
        let differing = Contrast { differing: 1.0, ..Contrast::default() };
        let accepts = |verifier: &Verifier| evidence(verifier, &form("雁坪路"), &form("松岗路"), &differing).accepted;
        assert!(!accepts(&Verifier::new(Verify::default(), Frequencies::built_in())));
        assert!(accepts(&Verifier::new(Verify::default(), saying("别的什么"))), "where the form is rare");
        let plain = Verify { rarity: false, ..Verify::default() };
        let of = |frequencies| accepts(&Verifier::new(plain.clone(), frequencies));
        assert_eq!(
            of(Frequencies::built_in()),
            of(saying("别的什么")),
            "where nothing is weighed, counting changes nothing"
        );
    }

    #[test]
    fn too_little_text_is_no_evidence() {
        let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
        assert!(!evidence(&verifier, "水管爆裂", "水管爆裂了", &Contrast::default()).accepted);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn unweighted_and_without_names_the_measures_are_the_plain_ones(
            a in "[一二三四ab ,。]{0,30}", b in "[一二三四ab ,。]{0,30}", jaccard in 0.0..=1.0,
        ) {
            let verify = Verify { rarity: false, objects: false, evidence: 0.0, jaccard, ..Verify::default() };
            let verifier = Verifier::new(verify, Frequencies::built_in());
            let plain = verifier.shingles(&a).resemblance(&verifier.shingles(&b));
            let found = evidence(&verifier, &a, &b, &Contrast::default());
            prop_assert!((found.similarity - plain.jaccard).abs() < 1e-9);
            prop_assert!((found.containment - plain.containment).abs() < 1e-9);
        }

        #[test]
        fn more_agreement_never_turns_a_match_into_none(
            shared in 0.0..100.0, a in 0.0..100.0, b in 0.0..100.0, agreeing in 0.0..1.2, differing in 0.0..3.0, more in 0.0..3.0,
        ) {
            let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
            let plain = Resemblance { jaccard: 0.0, containment: 0.0 };
            let overlap = Overlap { plain, fewer: 50, shared, a: shared + a, b: shared + b };
            let with = |agreeing, differing| Contrast { agreeing, differing, ..Contrast::default() };
            let before = verifier.evidence(&overlap, &with(agreeing, differing)).accepted;
            prop_assert!(!before || verifier.evidence(&overlap, &with(agreeing + more, differing)).accepted);
            prop_assert!(before || !verifier.evidence(&overlap, &with(agreeing, differing + more)).accepted);
            prop_assert!(!before || verifier.could_accept(&overlap));
        }
    }
}
