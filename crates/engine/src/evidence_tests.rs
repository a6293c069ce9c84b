//! Sequences of letters that must form one group, and pairs that must not match, with the model store.

use serde_json::json;

use crate::Side;
use crate::answers::ProbabilitySource;
use crate::groups::GroupSelection;
use crate::lookup::SimilarSelection;
use crate::testing::{LetterDesk, id};
use doppel_core::record::Row;
use doppel_core::verdict::{Match, VIA_COPY};

const CAMPAIGN: &str = "河口新区三号路与兴业街交叉口的污水井盖破损已经半个多月，夜间骑车经过时有老人摔倒受伤，社区和市政都说不归自己管，请尽快更换井盖并设置警示标志。";

/// Returns a letter about its own subject, by number.
fn unlike(number: u32) -> String {
    let text: String = (0..60).filter_map(|at| char::from_u32(0x4e00 + (number * 977 + at * 131) % 20_000)).collect();
    format!("{text}。")
}

/// Registers records and returns the number of records that are no duplicates.
async fn originals(desk: &LetterDesk, prefix: &str, letters: &[String]) -> usize {
    let mut originals = 0;
    for (number, letter) in letters.iter().enumerate() {
        let verdict = desk.verdict(&format!("{prefix}{number}"), letter).await;
        originals += usize::from(!verdict.kind.is_duplicate());
    }
    originals
}

/// The sizes of the groups of a collection, largest first.
async fn group_sizes(desk: &LetterDesk) -> Vec<usize> {
    let (groups, _) = desk.engine.groups(&desk.name, &GroupSelection::default(), None, 100).await.unwrap();
    let mut sizes: Vec<usize> = groups.iter().map(|group| group.size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// Returns the letter of the campaign with a phone number of one of its senders.
fn with_phone(sender: usize) -> String {
    format!("{CAMPAIGN}联系电话1{}{:09}。", 3 + sender % 6, (sender * 7_919_111) % 1_000_000_000)
}

/// Returns the letter of the campaign with the home of one of its senders.
fn with_home(sender: usize) -> String {
    format!("{CAMPAIGN}本人住安居苑{}栋{}室。", 1 + sender % 40, 101 + sender * 7 % 2_900)
}

#[tokio::test]
async fn one_letter_of_many_people_with_their_contacts_is_one_group_before_and_after_a_count() {
    for (count, letter) in
        [(20, with_phone as fn(usize) -> String), (20, with_home), (150, with_home), (150, with_phone)]
    {
        let desk = LetterDesk::with(&[]).await;
        let letters: Vec<String> = (0..count).map(letter).collect();
        assert_eq!(originals(&desk, "c", &letters).await, 1);
        assert_eq!(group_sizes(&desk).await, [count]);
        desk.recount().await;
        assert_eq!(group_sizes(&desk).await, [count], "after a count");
        let verdict = desk.verdict("later", &letter(count + 1)).await;
        assert!(verdict.kind.is_duplicate());
        assert_eq!(group_sizes(&desk).await, [count + 1]);
    }
}

/// Returns a short letter with one of several punctuation marks.
fn short_letter(number: usize) -> String {
    let marks = ["。", "；", "！", "\n"];
    format!("小区停电{m}物业不管{m}请处理{m}", m = marks[number % marks.len()])
}

#[tokio::test]
async fn any_number_of_short_copies_among_other_letters_is_one_group() {
    for copies in [10, 60] {
        let desk = LetterDesk::with(&[]).await;
        let all: Vec<String> = (0..200).map(unlike).collect();
        assert_eq!(originals(&desk, "u", &all).await, all.len());
        let letters: Vec<String> = (0..copies).map(short_letter).collect();
        assert_eq!(originals(&desk, "s", &letters).await, 1);
        desk.recount().await;
        assert_eq!(group_sizes(&desk).await, [copies]);
    }
}

/// Returns the best match of a letter among others, and all similar letters including those of the same form.
async fn best(letters: &[&str], asked: &str) -> (Option<Match>, Vec<Match>) {
    let desk = LetterDesk::with(&[]).await;
    for (number, letter) in letters.iter().enumerate() {
        desk.put(&number.to_string(), letter).await;
    }
    let row = Row::parse(json!({ "content": asked }).to_string().as_bytes()).unwrap();
    let wanted = SimilarSelection::matches(10);
    let matches = desk.engine.similar(&desk.name, row.clone(), wanted.clone()).await.unwrap().similar;
    let shown = desk.engine.similar(&desk.name, row, SimilarSelection { templates: true, ..wanted }).await.unwrap();
    (matches.into_iter().next(), shown.similar)
}

#[tokio::test]
async fn another_number_or_name_in_an_otherwise_equal_text_is_no_match_and_the_difference_is_named() {
    let pairs = [
        ("反映第三中学门口每天放学堵车严重，家长接送孩子十分危险，希望交警上路疏导", "第三中学", "第五中学"),
        ("幸福里小区23号路段的下水道堵塞多日，污水横流，希望尽快派人疏通，居民意见很大", "23号", "32号"),
        ("鹤鸣小区5号楼电梯已经停运一个星期，老人上下楼十分困难，物业一直没有维修", "5号楼", "58号楼"),
        ("建议86路公交车延长末班车时间，晚上九点以后下班的人没有车坐，非常不方便", "86路", "92路"),
    ];
    for (letter, from, to) in pairs {
        let (found, shown) = best(&[letter], &letter.replace(from, to)).await;
        assert_eq!(found, None, "{from} {to}");
        assert!(
            shown.first().is_none_or(|shown| shown.template && !shown.differs.is_empty()),
            "{from} {to}: {shown:?}"
        );
        let (found, _) = best(&[letter], &format!("{letter}。谢谢！")).await;
        assert!(found.is_some_and(|found| found.via.contains(&VIA_COPY.to_owned())), "{from}");
    }
}

#[tokio::test]
async fn the_same_signature_greeting_footer_or_hashtag_under_two_matters_is_no_match() {
    let matters = ["三号路的路灯坏了半个月没有人修，夜里很黑", "小区门口的垃圾三天没有清运，气味难闻"];
    let frames = [
        "尊敬的领导：您好！{}",
        "{}（请承办单位按规定在5个工作日内联系来件人并反馈办理情况）",
        "#问政平台#{}来自网友12的帖子",
        "{}\n反映人：王某某 2024年3月5日",
        "{}联系电话13800001234。谢谢！",
    ];
    for frame in frames {
        let [one, other] = matters.map(|matter| frame.replace("{}", matter));
        assert_eq!(best(&[&one], &other).await.0, None, "{frame}");
    }
}

#[tokio::test]
async fn a_match_states_its_probability_and_an_explanation_the_reasons() {
    let desk = LetterDesk::with(&[]).await;
    desk.put("a", CAMPAIGN).await;
    let again = format!("上次来信没有得到答复。{CAMPAIGN}请给一个明确的时间。");
    let verdict = desk.verdict("b", &again).await;
    let probability = verdict.similar[0].probability.unwrap();
    assert!(verdict.kind.is_duplicate() && (0.5..=1.0).contains(&probability), "{verdict:?}");
    let explained = desk.engine.explain(&desk.name, Side::Stored(id("a")), Side::Stored(id("b"))).await.unwrap();
    assert!((explained.probability - probability).abs() < 0.01);
    assert!(!explained.contributions.is_empty() && explained.model.len() == 12);
    assert_eq!(explained.decided_by, ProbabilitySource::Evidence);
    let log_odds: f64 = explained.contributions.iter().map(|part| part.log_odds).sum::<f64>() + explained.intercept;
    assert!((1.0 / (1.0 + (-log_odds).exp()) - explained.probability).abs() < 0.01, "{log_odds}");
}
