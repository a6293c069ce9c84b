//! The texts about the evidence for a pair.

use doppel_core::evidence::Feature;

/// The texts about the evidence for a pair.
pub struct EvidenceWords {
    /// Summary of the folded evidence.
    pub why: &'static str,
    /// How to read the evidence.
    pub hint: &'static str,
    /// Column with the features.
    pub sign: &'static str,
    /// Column with the effects.
    pub effect: &'static str,
    /// The first step, before anything is compared.
    pub before: &'static str,
    /// Effects for one matter: weak, clear, strong.
    pub supports: [&'static str; 3],
    /// Effects against one matter: weak, clear, strong.
    pub against: [&'static str; 3],
    /// A feature.
    pub feature: fn(Feature) -> &'static str,
}

pub(super) const ZH: EvidenceWords = EvidenceWords {
    why: "判断依据",
    hint: "每一项都把概率推向“重件”（右）或“不同事项”（左），作用大的在前。",
    sign: "依据",
    effect: "作用",
    before: "比较之前：两件来件多半不是同一事项",
    supports: ["略支持重件", "支持重件", "有力支持重件"],
    against: ["略支持不同事项", "支持不同事项", "有力支持不同事项"],
    feature: |feature| match feature {
        Feature::FarJaccard => "相同文字占全部文字的比例",
        Feature::FarContainment => "较短一件的文字也出现在较长一件中",
        Feature::FarWeightedContainment => "少见的文字相同",
        Feature::FarNamesAgree => "提到相同的地点、道路或单位",
        Feature::FarNamesShared => "提到的名称大多相同",
        Feature::FarIdentifiersAgree => "提到同一条线路或同一辆车",
        Feature::FarReferencesAgree => "引用同一件工单或信访件",
        Feature::FarContactsAgree => "联系方式相同",
        Feature::FarDistrictsDiffer => "所在地区不同",
        Feature::FarNamesDiffer => "各有对方没有提到的名称",
        Feature::FarIdentifiersDiffer => "线路或车辆不同",
        Feature::FarSubjectsDiffer => "最先提到的线路不同",
        Feature::FarNumbersReplaced => "同一位置的数字不同",
        Feature::FarNamesReplaced => "同一位置的名称不同",
        Feature::Near => "文字基本相同",
        Feature::NearWeightedContainment => "较短一件的内容几乎都在较长一件中",
        Feature::NearShortness => "文字太短，相同也说明不了多少",
        Feature::NearOtherNames => "短文中各有对方没有的名称",
        Feature::NearIdentifiersDiffer => "线路或车辆不同",
        Feature::NearNumbersDiffer => "同类数字没有一个相同",
        Feature::NearNumbersSubstituted => "有的数字相同，有的不同",
        Feature::NearNumbersReplaced => "不同之处主要是数字",
        Feature::NearNamesReplaced => "不同之处主要是名称",
    },
};

pub(super) const EN: EvidenceWords = EvidenceWords {
    why: "Why",
    hint: "Each line moves the probability towards \"repeat\" (right) or \"another matter\" (left), the largest effect first.",
    sign: "Sign",
    effect: "Effect",
    before: "Before comparing: two records rarely concern one matter",
    supports: ["slightly for a repeat", "for a repeat", "strongly for a repeat"],
    against: ["slightly for another matter", "for another matter", "strongly for another matter"],
    feature: |feature| match feature {
        Feature::FarJaccard => "Share of all text that both have",
        Feature::FarContainment => "The longer text contains text of the shorter one",
        Feature::FarWeightedContainment => "Rare text is the same",
        Feature::FarNamesAgree => "Both name the same place, road or organisation",
        Feature::FarNamesShared => "Most of the names are the same",
        Feature::FarIdentifiersAgree => "Both name the same line or vehicle",
        Feature::FarReferencesAgree => "Both cite the same order or petition",
        Feature::FarContactsAgree => "Both give the same contact",
        Feature::FarDistrictsDiffer => "Other districts",
        Feature::FarNamesDiffer => "Each has names that the other lacks",
        Feature::FarIdentifiersDiffer => "Other lines or vehicles",
        Feature::FarSubjectsDiffer => "Another line is named first",
        Feature::FarNumbersReplaced => "Another number at the same place",
        Feature::FarNamesReplaced => "Another name at the same place",
        Feature::Near => "The texts are nearly the same",
        Feature::NearWeightedContainment => "The longer text contains nearly all of the shorter one",
        Feature::NearShortness => "The texts are short, so that equal words mean little",
        Feature::NearOtherNames => "In short texts, each has a name that the other lacks",
        Feature::NearIdentifiersDiffer => "Other lines or vehicles",
        Feature::NearNumbersDiffer => "No number of one kind is the same",
        Feature::NearNumbersSubstituted => "Some numbers are the same, others are not",
        Feature::NearNumbersReplaced => "The differences are mostly numbers",
        Feature::NearNamesReplaced => "The differences are mostly names",
    },
};
