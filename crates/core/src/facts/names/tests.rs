use std::sync::LazyLock;

use jieba_rs::Jieba;

use super::super::tests::check_shown;
use super::super::{FactReader, FactSource, WordSpan};

static JIEBA: LazyLock<Jieba> = LazyLock::new(Jieba::new);

/// Returns the names of a text with their kinds.
fn named(text: &str) -> String {
    let tags = JIEBA.tag(text, false);
    let words: Vec<_> =
        tags.iter().map(|tag| WordSpan { span: tag.start as u32..tag.end as u32, tag: tag.tag }).collect();
    let facts = FactReader::without_places().read(text, &words);
    let chars: Vec<char> = text.chars().collect();
    let names = facts.iter().filter(|fact| fact.source != FactSource::Pattern).map(|fact| {
        let name: String = chars[fact.span.start as usize..fact.span.end as usize].iter().collect();
        format!("{:?} {name}", fact.kind)
    });
    names.collect::<Vec<_>>().join("; ")
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    check_shown(table, named);
}

#[test]
fn divisions_are_names_with_and_without_their_ending() {
    check(&[
        ("海口市龙华区的路灯", "District 海口市; District 龙华区"),
        ("浙江杭州的快递", "District 浙江; District 杭州"),
        ("岳麓区望城坡街道办回复", "District 岳麓区; Town 望城坡街道办"),
        ("这个区域的市民去市场", ""),
        ("全市各区县", ""),
    ]);
}

#[test]
fn names_end_as_what_they_name() {
    check(&[
        ("雁坪路的路灯不亮", "Road 雁坪路"),
        ("鹤鸣小区门口有垃圾", "Estate 鹤鸣小区"),
        ("红石滩广场停车难", "PublicPlace 红石滩广场"),
        ("青石桥小学什么时候开学", "School 青石桥小学"),
        ("砚溪河发黑", "PublicPlace 砚溪河"),
        ("砚溪河水发黑,河水很臭", "PublicPlace 砚溪河"),
        ("杨柳村的水渠", "Village 杨柳村"),
        ("松岗东路和学府二路", "Road 松岗东路; Road 学府二路"),
        ("柳塘派出所", "Organisation 柳塘派出所"),
    ]);
}

#[test]
fn a_company_has_its_full_name() {
    check(&[
        ("云帆旅游投资有限公司拖欠工资", "Organisation 云帆旅游投资有限公司"),
        ("投诉鹤鸣建设工程有限公司", "Organisation 鹤鸣建设工程有限公司"),
        ("有限公司和物业公司", ""),
    ]);
}

#[test]
fn verbs_conjunctions_and_prepositions_before_a_name_are_none_of_it() {
    check(&[
        ("政府整治砚溪河", "PublicPlace 砚溪河"),
        ("但是柳塘派出所没来", "Organisation 柳塘派出所"),
        ("从雁坪路到松岗路", "Road 雁坪路; Road 松岗路"),
        ("我住在鹤鸣小区", "Estate 鹤鸣小区"),
        ("位于雁坪路与松岗东路交汇处", "Road 雁坪路; Road 松岗东路"),
        ("因为鹤鸣小区停水", "Estate 鹤鸣小区"),
    ]);
}

#[test]
fn characters_that_the_dictionary_does_not_join_are_a_name_where_places_are_named() {
    check(&[
        ("我住在安集东路附近", "Road 安集东路"),
        ("途经梅沿村", "Village 梅沿村"),
        ("海口市龙华区安集东路路灯不亮", "District 海口市; District 龙华区; Road 安集东路"),
        ("安集东路,路灯不亮", "Road 安集东路"),
        ("安集东路、梅沿村都停水", "Road 安集东路; Village 梅沿村"),
        ("往安集东路的车", "Road 安集东路"),
        ("他安集东路", ""),
        ("在那些小区", ""),
        ("垃圾都倒在茶园河里", "PublicPlace 茶园河"),
        ("吃到家乡河里的鱼", ""),
    ]);
}

#[test]
fn a_division_that_the_list_lacks_is_no_part_of_the_name_behind_it() {
    check(&[
        ("澄溪区义集新村", "Estate 义集新村"),
        ("鹭洲县鹤鸣公园", "PublicPlace 鹤鸣公园"),
        ("老城区雁坪路", "District 老城区; Road 雁坪路"),
    ]);
}

#[test]
fn a_dance_is_no_square_and_the_word_behind_a_date_is_no_part_of_a_name() {
    check(&[("鹤鸣小区广场舞扰民", "Estate 鹤鸣小区"), ("人民广场舞", ""), ("6月21日起雁坪路停水", "Road 雁坪路")]);
}

#[test]
fn what_names_nothing_is_no_name() {
    check(&[
        ("我们小区的业主和有关部门", ""),
        ("三个小区都停水", ""),
        ("回家路上,这条路,一路上", ""),
        ("城市道路和农村公路", ""),
        ("孩子在幼儿园,老人在医院", ""),
        ("向市政府反映", ""),
    ]);
}

#[test]
fn items_of_a_list_of_stops_are_places() {
    check(&[(
        "设站:鹤鸣路口~红石滩~松岗公园~雁坪西里~柳塘桥~砚溪",
        "Road 鹤鸣路; PublicPlace 红石滩; PublicPlace 松岗公园; Estate 雁坪西里; PublicPlace 柳塘桥",
    )]);
    check(&[("漏水、停电、噪音、垃圾、油烟", "")]);
}
