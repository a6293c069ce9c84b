//! Golden vectors: invented texts with their normal form, words and fingerprints. They protect all steps from a row to a signature. A change of
//! a golden vector makes every stored index invalid; it requires a higher version of the text rules.
//!
//! The tests also compute the fingerprints from the words by the plain definition.

use std::collections::BTreeMap;

use super::profile::Profile;
use crate::collection::{Field, Preset, Role, Settings};
use crate::record::Row;

struct GoldenVector {
    title: &'static str,
    content: &'static str,
    normal: &'static str,
    words: &'static str,
    default: u64,
    paper: u64,
}

const GOLDEN: &[GoldenVector] = &[
    GoldenVector {
        title: "关于夜市噪音扰民的问题",
        content: "尊敬的领导：您好！我们小区楼下的夜市，每天营业到凌晨２点……严重影响老人和孩子休息。",
        normal: "尊敬的领导:您好!我们小区楼下的夜市,每天营业到凌晨2点......严重影响老人和孩子休息。",
        words: "小区 楼下 夜市 每天 营业 凌晨 2 点 严重 影响 老人 孩子 休息",
        default: 0xe227_0300_0092_7f91,
        paper: 0x62af_0246_019b_7f81,
    },
    GoldenVector {
        title: "請求解決拖欠農民工工資",
        content: "施工單位拖欠工資約１．５萬元，\u{200B}至今未付。\n聯繫電話：無",
        normal: "施工单位拖欠工资约1.5万元,至今未付。 联系电话:无",
        words: "施工单位 拖欠工资 约 1 5 万元 至今 未付 联系电话",
        default: 0xa497_2fbe_022b_1e98,
        paper: 0x8495_cf02_0a3d_1fd1,
    },
    GoldenVector {
        title: "Street light out",
        content: "The Street Light at No. 12 Ｒｉｖｅｒ Road has been out for 3 weeks; please repair it!",
        normal: "the street light at no. 12 river road has been out for 3 weeks; please repair it!",
        words: "street light 12 river road out 3 weeks repair",
        default: 0xa914_df38_1930_cc9f,
        paper: 0xe9c4_4538_1a30_ca55,
    },
    GoldenVector {
        title: "Wi-Fi 信号差",
        content: "A市图书馆的Wi-Fi经常断线，café里也连不上，客服说“正在处理”👍",
        normal: "a市图书馆的wi-fi经常断线,café里也连不上,客服说“正在处理”👍",
        words: "a 市图书馆 wi fi 断线 caf é 连不上 客服 说",
        default: 0x7fdc_59e5_7e8b_212b,
        paper: 0x931c_8865_b88b_69a3,
    },
];

fn settings(preset: Preset) -> Settings {
    let (role, weight) = if preset == Preset::Paper { (Role::Whole, Some(2)) } else { (Role::Text, None) };
    let mut settings = Settings::preset(preset);
    settings.fields = vec![Field { weight, ..Field::new("title", role) }, Field::new("content", Role::Text)];
    // The words and fingerprints of the whole text.
    settings.text.remove_noise = false;
    settings
}

fn row(golden: &GoldenVector) -> Row {
    let json = serde_json::json!({ "title": golden.title, "content": golden.content }).to_string();
    Row::parse(json.as_bytes()).unwrap()
}

/// Computes a Simhash by its definition, with one sum for each bit.
fn simhash(weights: &BTreeMap<&str, i64>) -> u64 {
    (0..64).filter(|&bit| sum_of_bit(weights, bit) > 0).fold(0, |bits, bit| bits | 1 << bit)
}

fn sum_of_bit(weights: &BTreeMap<&str, i64>, bit: u32) -> i64 {
    weights.iter().map(|(term, w)| if super::hash::city64(term) >> bit & 1 == 1 { *w } else { -w }).sum()
}

#[test]
fn texts_have_the_golden_normal_forms_words_and_fingerprints() {
    let default = Profile::compile(&settings(Preset::Default), None);
    let paper = Profile::compile(&settings(Preset::Paper), None);
    let found: Vec<_> = GOLDEN
        .iter()
        .map(|golden| {
            let document = default.read(&row(golden)).unwrap();
            let content = super::tests::document(&[(Role::Text, &document.fields[1].text)]);
            let words: Vec<&str> = default.cut(&content).tokens().iter().map(|token| token.term).collect();
            let [default, paper] = [&default, &paper]
                .map(|profile| profile.sign(&document_of(profile, golden)).fingerprint().map(|f| f.0));
            (content.fields[0].text.clone(), words.join(" "), default, paper)
        })
        .collect();
    let expected: Vec<_> = GOLDEN
        .iter()
        .map(|golden| (golden.normal.into(), golden.words.into(), Some(golden.default), Some(golden.paper)))
        .collect();
    assert_eq!(found, expected, "{found:#x?}");
}

fn document_of(profile: &Profile, golden: &GoldenVector) -> crate::text::Document {
    profile.read(&row(golden)).unwrap()
}

#[test]
fn golden_fingerprints_follow_from_the_words_by_the_plain_definition() {
    let default = settings(Preset::Default);
    let paper = settings(Preset::Paper);
    let profile = Profile::compile(&default, None);
    for golden in GOLDEN {
        let document = document_of(&profile, golden);
        let cut = profile.cut(&document);
        let mut by_length = BTreeMap::new();
        for token in cut.tokens() {
            *by_length.entry(token.term).or_default() += token.term.chars().count() as i64;
        }
        assert_eq!(simhash(&by_length), golden.default, "{}", golden.title);

        let whole = Profile::compile(&paper, None);
        let title = &document.fields[0].text;
        let content = super::tests::document(&[(Role::Text, &document.fields[1].text)]);
        let mut by_count = BTreeMap::from([(title.as_str(), 2)]);
        let cut = whole.cut(&content);
        for term in golden.words.split(' ') {
            *by_count.entry(term).or_default() += 1;
        }
        assert_eq!(cut.tokens().len(), golden.words.split(' ').count());
        assert_eq!(simhash(&by_count), golden.paper, "{}", golden.title);
    }
}
