//! Checks every scheme as a channel: the store finds the records that share a key and whose signatures match, for every kind of signature.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::desk::{TestCollection, id};
use crate::content::RecordContent;
use crate::{
    CandidateJudge, CandidateRecord, CollectionSpec, GenerationId, LookupEnd, LookupQuery, LookupResult,
    RegisterOutcome, Registration, RegistrationMode, SequencedNotifier, Store,
};
use doppel_core::collection::{Channel, ChannelPosition, Field, MatchScope, Preset, Role, Settings};
use doppel_core::index::{HammingRange, POSTINGS_PER_KEY, Via};
use doppel_core::record::Row;
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::verdict::{Match, Verdict, VerdictInputs};

type SharedStore = Arc<dyn Store>;

const TEXTS: &[&str] = &[
    "小区楼下的夜市每天营业到凌晨,噪音扰民。居民向物业投诉多次,物业一直没有处理。夜市的油烟也很大,老人孩子无法休息。",
    "小区楼下的夜市每天营业到凌晨,噪音扰民。居民向物业投诉多次,物业一直没有处理。夜市的油烟也很大,老人孩子没法休息!",
    "小区楼下的夜市每天营业到凌晨,噪音扰民。居民向物业投诉多次,物业一直没有处理。夜市的油烟也很大,老人孩子无法休息。",
    "公交车改道以后站牌没有更换,乘客每天白等半个小时。希望公交公司尽快更换站牌,公布新的路线。",
    "公交车改道以后站牌没有更换,乘客每天白等半个小时。希望公交公司尽快更换站牌,公布新的路线。谢谢!",
    "学校门口没有信号灯,放学的时候车辆很多,孩子过马路十分危险。请交警在学校门口装一个信号灯。",
];

/// Compares signatures as the channel at position 0 does.
struct SchemeJudge {
    profile: Arc<Profile>,
    signed: Arc<Signed>,
}

impl CandidateJudge for SchemeJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let theirs = match (&self.signed.signatures[0], candidate.fingerprint) {
            (Some(Signature::Fingerprint(_)), fingerprint) => fingerprint.map(Signature::Fingerprint),
            _ => candidate.signatures.first().cloned().flatten(),
        };
        let accepted = self.profile.schemes()[0].compare(self.signed.signatures[0].as_ref()?, &theirs?);
        let proposed = accepted && candidate.via.contains(Via::channel(ChannelPosition(0)));
        proposed.then(|| Match::unmeasured(candidate.record.id.clone(), candidate.record.seq))
    }

    fn needs_signatures(&self) -> bool {
        true
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: None,
                generation: GenerationId(1),
                statistics: 0,
                truncated,
            },
        )
    }
}

async fn create(store: &SharedStore, name: &str, channel: Channel, scope: MatchScope) -> (TestCollection, Settings) {
    let settings = Settings {
        fields: vec![Field::new("content", Role::Text)],
        channels: vec![channel],
        verify: None,
        scope,
        ..Settings::preset(Preset::Default)
    };
    let desk = TestCollection::existing(store, name);
    let now = "2026-01-01T00:00:00Z".into();
    let spec = CollectionSpec {
        name: desk.name.clone(),
        settings: settings.clone(),
        profile: "p1".into(),
        hash_key: None,
        now,
    };
    store.create_collection(spec).await.expect("a new collection");
    (desk, settings)
}

async fn put(desk: &TestCollection, name: &str, row: Row, signed: &Arc<Signed>, judge: Arc<dyn CandidateJudge>) {
    let registration = Registration {
        collection: desk.name.clone(),
        generation: GenerationId(1),
        id: id(name),
        content: RecordContent::from(&row),
        signed: signed.clone(),
        others: Vec::new(),
        confirmed: Vec::new(),
        refused: Vec::new(),
        decisions_as_of: None,
        mode: RegistrationMode::Put,
        write_once: false,
        now: "2026-01-02T00:00:00Z".into(),
        sequenced: SequencedNotifier::default(),
    };
    let outcome = desk.store.register(registration, judge).await.expect("a registration");
    assert!(matches!(outcome, RegisterOutcome::Created(_)), "{outcome:?}");
}

async fn found(
    desk: &TestCollection,
    settings: &Settings,
    signed: &Arc<Signed>,
    judge: Arc<dyn CandidateJudge>,
) -> BTreeSet<String> {
    let found = looked_up(desk, settings, signed, judge).await;
    assert!(!found.truncated);
    found.matches.into_iter().map(|found| found.id.to_string()).collect()
}

async fn looked_up(
    desk: &TestCollection,
    settings: &Settings,
    signed: &Arc<Signed>,
    judge: Arc<dyn CandidateJudge>,
) -> LookupResult {
    let query = LookupQuery {
        collection: desk.name.clone(),
        generation: GenerationId(1),
        digest: None,
        hamming: HammingRange::of(signed, settings.simhash()),
        signed: Some(signed.clone()),
        except: None,
        confirmed: Vec::new(),
    };
    desk.store.find(query, judge, LookupEnd::Exhausted).await.expect("a lookup")
}

pub(super) async fn every_scheme_finds_what_its_keys_and_signatures_say(store: SharedStore) {
    for channel in Channel::all_defaults() {
        let name = channel.scheme();
        let (desk, settings) = create(&store, &format!("scheme_{name}"), channel, MatchScope::default()).await;
        let plain = Profile::compile(&settings, None);
        // As in a first generation, the profile has no statistics, unless the scheme cannot run without them.
        let profile =
            if plain.inactive().is_empty() { plain } else { Profile::compile(&settings, Some(statistics(&plain))) };
        let profile = Arc::new(profile);
        assert_eq!(profile.inactive(), [], "{name}");
        let signed: Vec<_> = TEXTS.iter().map(|text| sign_text(text, &profile)).collect();
        for (number, (row, signed)) in signed.iter().enumerate() {
            put(&desk, &number.to_string(), row.clone(), signed, scheme_judge(signed, &profile)).await;
        }
        let scheme = &profile.schemes()[0];
        for (_, asked) in &signed {
            let matches = |other: &Signed| {
                let shares = asked.keys.is_empty() || asked.keys.iter().any(|key| other.keys.contains(key));
                let both = asked.signatures[0].as_ref().zip(other.signatures[0].as_ref());
                shares && both.is_some_and(|(a, b)| scheme.compare(a, b))
            };
            let numbered = signed.iter().enumerate();
            let expected =
                numbered.filter(|(_, (_, other))| matches(other)).map(|(number, _)| number.to_string()).collect();
            assert_eq!(found(&desk, &settings, asked, scheme_judge(asked, &profile)).await, expected, "{name}");
        }
        let copies = found(&desk, &settings, &signed[0].1, scheme_judge(&signed[0].1, &profile)).await;
        assert!(copies.contains("0") && copies.contains("2") && !copies.contains("5"), "{name}: {copies:?}");
    }
}

fn scheme_judge(signed: &Arc<Signed>, profile: &Arc<Profile>) -> Arc<dyn CandidateJudge + 'static> {
    Arc::new(SchemeJudge { profile: profile.clone(), signed: signed.clone() })
}

fn sign_text(text: &str, profile: &Arc<Profile>) -> (Row, Arc<Signed>) {
    let json = serde_json::json!({ "content": text }).to_string();
    let row = Row::parse(json.as_bytes()).expect("a row");
    let document = profile.read(&row).expect("a document");
    (row, Arc::new(profile.sign(&document)))
}

/// Returns statistics in which ten of a hundred records contain each word: rare and common enough for every scheme.
fn statistics(profile: &Profile) -> Arc<Statistics> {
    let mut counted = Statistics::default();
    for text in TEXTS {
        let json = serde_json::json!({ "content": text }).to_string();
        let row = Row::parse(json.as_bytes()).expect("a row");
        counted.observe(&profile.cut(&profile.read(&row).expect("a document")));
    }
    Arc::new(Statistics::from_parts(100, counted.iter().map(|(hash, _)| (hash, 10))))
}

pub(super) async fn a_hot_issue_is_found_by_its_earliest_records(store: SharedStore) {
    find_hot_issue(&store, "hot_issue", &MatchScope::default()).await;
}

pub(super) async fn a_hot_issue_is_found_by_its_latest_records_if_only_near_times_match(store: SharedStore) {
    find_hot_issue(&store, "hot_month", &MatchScope { days: Some(30), ..MatchScope::default() }).await;
}

/// Stores more records of one issue than a key proposes, and looks them up.
async fn find_hot_issue(store: &SharedStore, collection: &str, scope: &MatchScope) {
    for name in ["segments", "feature_code"] {
        let channel =
            Channel::all_defaults().into_iter().find(|channel| channel.scheme() == name).expect("it is there");
        let (desk, settings) = create(store, &format!("{collection}_{name}"), channel, scope.clone()).await;
        let profile = Arc::new(Profile::compile(&settings, None));
        let judge = |signed: &Arc<Signed>| -> Arc<dyn CandidateJudge> {
            Arc::new(SchemeJudge { profile: profile.clone(), signed: signed.clone() })
        };
        let all = POSTINGS_PER_KEY + 2;
        for number in 0..all {
            let (row, signed) = sign_numbered(number, &profile);
            put(&desk, &number.to_string(), row, &signed, judge(&signed)).await;
        }
        let first = if scope.days.is_some() { all - POSTINGS_PER_KEY } else { 0 };
        for asked in [first, 200, all + 1] {
            let (_, asked) = sign_numbered(asked, &profile);
            let found = looked_up(&desk, &settings, &asked, judge(&asked)).await;
            let ids: BTreeSet<String> = found.matches.iter().map(|found| found.id.to_string()).collect();
            let proposed = first..first + POSTINGS_PER_KEY;
            let missing = proposed.filter(|number| !ids.contains(&number.to_string())).count();
            assert_eq!(missing, 0, "{name}: some of the first ones in the order of the collection");
            assert!(found.truncated || ids.len() == all, "{name}: {} of {all}, and nothing said", ids.len());
        }
    }
}

fn sign_numbered(number: usize, profile: &Arc<Profile>) -> (Row, Arc<Signed>) {
    let row =
        Row::parse(serde_json::json!({ "content": format!("第{number}封") }).to_string().as_bytes()).expect("a row");
    let document = profile.read(&row).expect("a document");
    // Three pieces that all texts contain, and one different piece.
    let signatures = vec![Some(Signature::Hashes([7, 8, 9, 100 + number as u64].into()))];
    let keys = profile.keys(&signatures);
    (row, Arc::new(Signed { signatures, keys, ..profile.sign(&document) }))
}
