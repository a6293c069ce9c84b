//! The texts about the evidence for a pair.

use doppel_core::evidence::Feature;

use super::table::words;

words! {
    /// The texts about the evidence for a pair.
    pub struct EvidenceWords {
        why: "判断依据", "Why";
        hint: "每一项都把概率推向“重件”（右）或“不同事项”（左），作用大的在前。",
            "Each line moves the probability towards \"repeat\" (right) or \"another matter\" (left), the largest effect first.";
        sign: "依据", "Sign";
        effect: "作用", "Effect";
        /// The first step, before anything is compared.
        before: "比较之前：两件来件多半不是同一事项", "Before comparing: two records rarely concern one matter";
        /// Effects for one matter: weak, clear, strong.
        supports: [&'static str; 3] = ["略支持重件", "支持重件", "有力支持重件"],
            ["slightly for a repeat", "for a repeat", "strongly for a repeat"];
        /// Effects against one matter: weak, clear, strong.
        against: [&'static str; 3] = ["略支持不同事项", "支持不同事项", "有力支持不同事项"],
            ["slightly for another matter", "for another matter", "strongly for another matter"];
        feature(feature: Feature) -> &'static str: match feature {
            Feature::FarJaccard => "相同文字占全部文字的比例", "Share of all text that both have";
            Feature::FarContainment => "较短一件的文字也出现在较长一件中", "The longer text contains text of the shorter one";
            Feature::FarWeightedContainment => "少见的文字相同", "Rare text is the same";
            Feature::FarNamesAgree => "提到相同的地点、道路或单位", "Both name the same place, road or organisation";
            Feature::FarNamesShared => "提到的名称大多相同", "Most of the names are the same";
            Feature::FarIdentifiersAgree => "提到同一条线路或同一辆车", "Both name the same line or vehicle";
            Feature::FarReferencesAgree => "引用同一件工单或信访件", "Both cite the same order or petition";
            Feature::FarContactAndName => "联系方式、地点或单位、问题类型都相同",
                "Both give the same contact, the same name and the same kind of problem";
            Feature::FarDistrictsDiffer => "所在地区不同", "Other districts";
            Feature::FarNamesDiffer => "各有对方没有提到的名称", "Each has names that the other lacks";
            Feature::FarIdentifiersDiffer => "线路或车辆不同", "Other lines or vehicles";
            Feature::FarSubjectsDiffer => "最先提到的线路不同", "Another line is named first";
            Feature::FarNumbersReplaced => "同一位置的数字不同", "Another number at the same place";
            Feature::FarNamesReplaced => "同一位置的名称不同", "Another name at the same place";
            Feature::FarProblemsReplaced => "同一位置写的是另一类问题", "Another kind of problem at the same place";
            Feature::Near => "文字基本相同", "The texts are nearly the same";
            Feature::NearWeightedContainment => "较短一件的内容几乎都在较长一件中",
                "The longer text contains nearly all of the shorter one";
            Feature::NearShortness => "文字太短，相同也说明不了多少", "The texts are short, so that equal words mean little";
            Feature::NearOtherNames => "短文中各有对方没有的名称", "In short texts, each has a name that the other lacks";
            Feature::NearIdentifiersDiffer => "线路或车辆不同", "Other lines or vehicles";
            Feature::NearNumbersDiffer => "同类数字没有一个相同", "No number of one kind is the same";
            Feature::NearNumbersSubstituted => "有的数字相同，有的不同", "Some numbers are the same, others are not";
            Feature::NearNumbersReplaced => "不同之处主要是数字", "The differences are mostly numbers";
            Feature::NearNamesReplaced => "不同之处主要是名称", "The differences are mostly names";
            Feature::NearProblemsReplaced => "不同之处主要是问题的种类", "The differences are mostly kinds of problems";
        }
    }
}
