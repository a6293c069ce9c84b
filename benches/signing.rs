//! Signing throughput in characters per second, one thread, on generated petition-like texts of about 300 characters:
//! the dictionary segmenter alone, each step, and the whole way from a row's text to its signatures. Compare ratios within one
//! run. `cargo bench --bench signing`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use doppel::collection::{Preset, Settings};
use doppel::record::Row;
use doppel::schemes::hash::splitmix64;
use doppel::schemes::profile::Profile;
use doppel::text::Document;
use doppel::text::normalise::Normaliser;

/// Parts that sentences are made of; enough of them that texts differ and the segmenter's caches see many words.
const PLACES: &[&str] = &[
    "幸福里小区",
    "城东街道",
    "滨河路",
    "火车站广场",
    "第三中学",
    "青年公寓",
    "老纺织厂宿舍",
    "高新区创业园",
    "东湖公园",
    "人民医院",
    "柳树村",
    "开发区管委会",
    "和平大街",
    "环城高速入口",
    "水岸花园二期",
];
const MATTERS: &[&str] = &[
    "夜间施工噪音严重扰民",
    "物业公司长期不作为",
    "自来水经常停水",
    "路灯损坏多月无人维修",
    "拖欠农民工工资",
    "违规搭建阳光房",
    "垃圾清运不及时",
    "电梯频繁出现故障",
    "公交线路调整后出行不便",
    "油烟排放影响居民生活",
    "停车位乱收费",
    "房产证迟迟办不下来",
    "供暖温度不达标",
    "下水道堵塞污水外溢",
    "培训机构停业不退费",
];
const DETAILS: &[&str] = &[
    "居民多次向社区反映",
    "拨打热线电话三次",
    "至今没有得到明确答复",
    "已经持续了2个多月",
    "严重影响老人和孩子休息",
    "相关单位互相推诿",
    "希望尽快安排人员到现场查看",
    "每天早上6点就开始",
    "共涉及300余户",
    "造成经济损失约1.5万元",
    "多名业主联名签字",
    "合同约定的交付时间早已过去",
    "现场没有设置任何警示标志",
    "雨天积水深达20厘米",
    "投诉之后反而更加严重",
    "施工单位没有办理许可证",
    "该路段曾经发生交通事故",
    "工作人员态度冷淡",
];
const MARKS: &[&str] = &["，", "。", "；", "，", "！"];

fn texts(count: u64) -> Vec<String> {
    let text = |number: u64| {
        let mut state = number << 32;
        let mut pick = |list: &[&'static str]| {
            state += 1;
            list[(splitmix64(state) % list.len() as u64) as usize]
        };
        let mut text = format!("尊敬的领导：您好！我是{}的居民，", pick(PLACES));
        while text.chars().count() < 300 {
            let list = if pick(&["m", "d", "d"]) == "m" { MATTERS } else { DETAILS };
            text += pick(list);
            text += pick(MARKS);
            if pick(&["p", "", ""]) == "p" {
                text += pick(PLACES);
            }
        }
        text
    };
    (0..count).map(text).collect()
}

fn signing(c: &mut Criterion) {
    let texts = texts(500);
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    let profile = |preset| Profile::compile(&Settings::preset(preset), None);
    let (default, paper) = (profile(Preset::Default), profile(Preset::Paper));
    let rows: Vec<Row> = texts
        .iter()
        .map(|text| Row::parse(serde_json::json!({ "content": text }).to_string().as_bytes()).expect("a row"))
        .collect();
    let normaliser = Normaliser::new(true);
    let normal: Vec<String> = texts.iter().map(|text| normaliser.normalise(text)).collect();
    let documents: Vec<Document> = rows.iter().map(|row| default.read(row).expect("a document")).collect();
    let jieba = jieba_rs::Jieba::new();

    let mut group = c.benchmark_group("signing");
    group.throughput(Throughput::Elements(chars as u64));
    group.bench_function("cut alone (jieba-rs)", |b| {
        b.iter(|| normal.iter().map(|text| black_box(jieba.cut(text, false)).len()).sum::<usize>());
    });
    group.bench_function("normalise", |b| {
        b.iter(|| texts.iter().map(|text| black_box(normaliser.normalise(text)).len()).sum::<usize>());
    });
    group.bench_function("cut into words and hash", |b| {
        b.iter(|| documents.iter().map(|document| default.cut(black_box(document)).tokens().len()).sum::<usize>());
    });
    group.bench_function("sign a document, default", |b| {
        b.iter(|| documents.iter().map(|document| default.sign(black_box(document)).keys.len()).sum::<usize>());
    });
    for (name, profile) in [("row to signatures, default", &default), ("row to signatures, paper", &paper)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let sign = |row: &Row| profile.sign(&profile.read(row).expect("a document")).features;
                rows.iter().map(|row| sign(black_box(row))).sum::<u32>()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, signing);
criterion_main!(benches);
