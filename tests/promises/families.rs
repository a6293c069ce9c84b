//! Among records that match one another and arrive at the same time, exactly one is the original, and all others name it.
//!
//! 64 clients register families of nearly equal texts at once. `DOPPEL_TEST_FAMILIES` sets the number of families (1,000 for acceptance),
//! and `DOPPEL_TEST_SEED` repeats a run.

#![allow(clippy::print_stdout, reason = "a test says what size and seed it ran with")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{TestRandom, TestServer, setting};
use serde_json::{Value, json};

const CLIENTS: usize = 64;
const MEMBERS: u64 = 6;
const MIN_FEATURES: u64 = 4;

/// The members of one family differ only in ways that `channel` tolerates.
#[derive(Clone, Copy, Debug)]
enum FamilyChannel {
    /// Equal texts, for the exact stage.
    Exact,
    /// Equal texts of two words, fewer than `min_features`.
    TooShort,
    /// Fingerprints within the radius.
    Simhash,
    /// A shared passage.
    Shingle,
}

#[test]
fn exactly_one_of_a_family_is_the_original() {
    let families = setting("DOPPEL_TEST_FAMILIES", 60);
    let seed = setting("DOPPEL_TEST_SEED", 7);
    println!("families {families} a channel, seed {seed}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    for channel in [FamilyChannel::Exact, FamilyChannel::TooShort, FamilyChannel::Simhash, FamilyChannel::Shingle] {
        let collection = format!("{channel:?}").to_lowercase();
        let created = server.send("PUT", &format!("/v1/collections/{collection}"), &settings(channel));
        assert_eq!(created.status, 201, "{}", created.text);
        let work = shuffled_members(channel, families, seed);
        let answers = register_all(&server, &collection, &work);
        assert_one_original_each(channel, &answers);
    }
}

fn settings(channel: FamilyChannel) -> Value {
    let channels = match channel {
        FamilyChannel::Simhash => json!([{ "scheme": "simhash", "weighting": "tf_len", "radius": 3 }]),
        FamilyChannel::Shingle => json!([{ "scheme": "shingle", "t": 0.0 }]),
        FamilyChannel::Exact | FamilyChannel::TooShort => json!([]),
    };
    json!({ "fields": [{ "name": "content", "role": "text" }], "channels": channels, "min_features": MIN_FEATURES, "verify": null })
}

struct FamilyMember {
    family: u64,
    id: String,
    row: Value,
}

fn shuffled_members(channel: FamilyChannel, families: u64, seed: u64) -> Vec<FamilyMember> {
    let mut members = Vec::new();
    for family in 0..families {
        let base = passage(seed, family, 30);
        for member in 0..MEMBERS {
            let content = match channel {
                FamilyChannel::Exact => base.clone(),
                FamilyChannel::TooShort => passage(seed, family, 1),
                // Punctuation is not a word: the words are equal and the digests differ.
                FamilyChannel::Simhash => format!("{base}{}", "。".repeat(member as usize + 1)),
                FamilyChannel::Shingle => {
                    format!("{}{base}{}", passage(seed + 1 + member, family, 3), passage(seed + 99 + member, family, 3))
                }
            };
            members.push(FamilyMember {
                family,
                id: format!("f{family}-m{member}"),
                row: json!({ "content": content }),
            });
        }
    }
    let mut random = TestRandom::new(seed);
    for last in (1..members.len()).rev() {
        members.swap(last, random.below(last as u64 + 1) as usize);
    }
    // Families must arrive close together to race with each other, so that members are shuffled only within windows.
    members.sort_by_key(|member| member.family / 16);
    members
}

/// Returns an invented passage of `words` pairs of a word and a house number that occurs in no other family.
fn passage(seed: u64, family: u64, words: u64) -> String {
    let vocabulary = [
        "道路",
        "积水",
        "居民",
        "楼道",
        "灯光",
        "施工",
        "噪声",
        "垃圾",
        "清运",
        "物业",
        "收费",
        "停车",
        "公园",
        "座椅",
        "学校",
        "门口",
        "拥堵",
        "公交",
        "站台",
        "取消",
        "水压",
        "不足",
        "电梯",
        "故障",
        "绿化",
        "枯死",
        "河道",
        "气味",
        "油烟",
        "扰民",
        "围墙",
        "倒塌",
        "路面",
        "破损",
        "井盖",
        "缺失",
        "信号灯",
        "损坏",
        "热水",
        "暖气",
    ];
    let mut random = TestRandom::new(seed.wrapping_mul(1_000_003) ^ family.wrapping_mul(0x9e37_79b9));
    let mut pair = || {
        let word = vocabulary[random.below(vocabulary.len() as u64) as usize];
        format!("{word}{}", family * 1000 + random.below(1000))
    };
    (0..words).map(|_| pair()).collect()
}

struct MemberAnswer {
    family: u64,
    id: String,
    verdict: String,
    duplicate_of: Option<String>,
}

fn register_all(server: &TestServer, collection: &str, work: &[FamilyMember]) -> Vec<MemberAnswer> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(work.len()));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while let Some(member) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let path = format!("/v1/collections/{collection}/records/{}", member.id);
                    let answer = server.send("PUT", &path, &member.row);
                    assert_eq!(answer.status, 201, "{}", answer.text);
                    let body = answer.json();
                    answers.lock().expect("no client panicked").push(MemberAnswer {
                        family: member.family,
                        id: member.id.clone(),
                        verdict: body["verdict"].as_str().expect("a verdict").to_owned(),
                        duplicate_of: body["duplicate_of"].as_str().map(str::to_owned),
                    });
                }
            });
        }
    });
    answers.into_inner().expect("no client panicked")
}

fn assert_one_original_each(channel: FamilyChannel, answers: &[MemberAnswer]) {
    let mut families: BTreeMap<u64, Vec<&MemberAnswer>> = BTreeMap::new();
    for answer in answers {
        families.entry(answer.family).or_default().push(answer);
    }
    let first = if matches!(channel, FamilyChannel::TooShort) { "too_short" } else { "original" };
    for (family, members) in families {
        let originals: Vec<&&MemberAnswer> = members.iter().filter(|answer| answer.verdict == first).collect();
        let verdicts: Vec<(&str, &str)> = members.iter().map(|a| (a.id.as_str(), a.verdict.as_str())).collect();
        assert_eq!(originals.len(), 1, "{channel:?} family {family}: {verdicts:?}");
        let original = &originals[0].id;
        for answer in members.iter().filter(|answer| answer.id != *original) {
            assert_eq!(answer.duplicate_of.as_ref(), Some(original), "{channel:?} family {family}: {verdicts:?}");
        }
    }
}
