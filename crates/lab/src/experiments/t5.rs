//! T5 of the paper of 2015: records that arrive one at a time are looked up in MySQL, in MongoDB, and in the embedded store.
//!
//! Each of the three is filled with a stock of records. Then, for every new record, two lookups are made (is any record similar, and which
//! records are similar) and the record is added. The three take turns, so that other load of the machine affects all of them equally.
//! Records are signed beforehand. The two stores are the stores of the service, with the calls of the service; the table is the table of
//! the paper ([`BlockTable`]). All must give the same answers; the report shows whether they do.

use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::data::documents;
use super::mysql::{BlockTable, MysqlError};
use super::report::{ReportChart, ReportTable, UNKNOWN, ms, thousands};
use super::{ExperimentError, ExperimentProgress, ExperimentReport, ExperimentResult, ExperimentSetup};
use doppel_core::collection::{Channel, CollectionName, Settings, SimhashChannel, SimhashParams};
use doppel_core::index::HammingRange;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::verdict::{Fingerprint, Match, Verdict, VerdictInputs};
use doppel_eval::plot::{ChartAxis, plot};
use doppel_eval::svg::PlotLine;
use doppel_store::content::RecordContent;
use doppel_store::{
    CandidateJudge, CandidateRecord, CollectionSpec, GenerationId, LookupEnd, LookupQuery, Registration,
    RegistrationMode, SequencedNotifier, Store, StoreError,
};

const RADIUS: u8 = 3;
/// Number of records in the stock at scale 1. The document's number is not known.
const STOCK: u64 = 30_000;
/// Number of new records.
const NEW: u64 = 2_000;
/// Number of records that are added at a time before the measurement.
const FILLING: usize = 16;

/// The servers and stores that are measured.
#[derive(Clone, Debug)]
pub struct MeasuredPlaces {
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE`
    pub mysql: String,
    /// The embedded store, open.
    pub embedded: ServiceStore,
    /// The MongoDB store, open.
    pub mongodb: ServiceStore,
    /// A unique part of the names of everything that is created on the servers.
    pub id: String,
    /// The current time (RFC 3339, UTC).
    pub now: String,
}

#[derive(Clone)]
pub struct ServiceStore(pub Arc<dyn Store>);

impl std::fmt::Debug for ServiceStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stored")
    }
}

/// A record that will be added.
#[derive(Clone)]
struct NewRecord {
    id: RecordId,
    row: Row,
    signed: Arc<Signed>,
    fingerprint: Fingerprint,
    /// The time of its arrival.
    now: Arc<str>,
}

/// The answers about one new record, and their seconds.
#[derive(Clone, Copy, Debug, Default)]
struct QueryAnswers {
    any: bool,
    all: usize,
    seconds: [f64; 3],
}

/// A table or a store that is measured.
enum StoreContender {
    Table(Box<BlockTable>),
    Store(Arc<dyn Store>, CollectionName),
}

/// Runs the experiment. Everything that was created on the servers is removed, even if the experiment is stopped or fails.
///
/// # Errors
/// A server fails, there are too few records, or the experiment is stopped.
pub fn run<'a>(
    setup: &'a ExperimentSetup,
    places: &'a MeasuredPlaces,
    progress: &'a ExperimentProgress,
) -> BoxFuture<'a, ExperimentResult<ExperimentReport>> {
    Box::pin(async move {
        let (settings, profile) = compile(setup);
        let items = items(setup, &profile, &places.now, progress)?;
        let stock = items.len() - setup.size(NEW, 10).min(items.len() as u64 / 4) as usize;
        let (stock, new) = items.split_at(stock);
        if stock.is_empty() || new.is_empty() {
            return Err(ExperimentError::Unfit("t5 needs at least four records with text".into()));
        }
        let suffix: String = places.id.chars().filter(char::is_ascii_alphanumeric).collect();
        let name = CollectionName::new(&format!("t5-{suffix}")).map_err(ExperimentError::Failed)?;
        let table =
            BlockTable::create(&places.mysql, &format!("doppel_t5_{suffix}"), RADIUS).await.map_err(|error| {
                let hint =
                    "see that --mysql names a server that runs, and a database in which its user may create tables";
                ExperimentError::Failed(format!("{error}; {hint}"))
            })?;
        let server = table.version().to_owned();
        let mut contenders = vec![
            (format!("MySQL table ({server})"), StoreContender::Table(Box::new(table))),
            ("MongoDB store".to_owned(), StoreContender::Store(places.mongodb.0.clone(), name.clone())),
            ("embedded store".to_owned(), StoreContender::Store(places.embedded.0.clone(), name.clone())),
        ];
        let measured = measure(&mut contenders, (&settings, &profile), (stock, new), progress).await;
        let mut removed = Ok(());
        for (_, contender) in contenders {
            removed = removed.and(contender.remove().await);
        }
        let names = [format!("MySQL table ({server})"), "MongoDB store".into(), "embedded store".into()];
        let asked = measured?;
        removed?;
        Ok(report(setup, (stock.len(), new.len()), &names, &asked))
    })
}

fn compile(setup: &ExperimentSetup) -> (Settings, Profile) {
    let channels = vec![Channel::Simhash(SimhashParams { radius: RADIUS, ..SimhashParams::default() })];
    let settings = Settings { channels, verify: None, min_features: 0, ..setup.settings.clone() };
    let profile = Profile::compile(&settings, None);
    (settings, profile)
}

fn items(
    setup: &ExperimentSetup,
    profile: &Profile,
    now: &str,
    progress: &ExperimentProgress,
) -> ExperimentResult<Vec<NewRecord>> {
    let now: Arc<str> = now.into();
    let set = setup.records(setup.size(STOCK, 100) + setup.size(NEW, 10), progress)?;
    let documents = documents(&set, profile);
    let items = documents.iter().filter_map(|(position, document)| {
        let signed = Arc::new(profile.sign(document));
        let (id, row) = set.records[*position as usize].clone();
        signed.fingerprint().map(|fingerprint| NewRecord { id, row, signed, fingerprint, now: now.clone() })
    });
    Ok(items.collect())
}

async fn measure(
    contenders: &mut [(String, StoreContender)],
    rules: (&Settings, &Profile),
    records: (&[NewRecord], &[NewRecord]),
    progress: &ExperimentProgress,
) -> ExperimentResult<Vec<Vec<QueryAnswers>>> {
    let (settings, profile) = rules;
    let (stock, new) = records;
    for (done, (_, contender)) in contenders.iter_mut().enumerate() {
        progress.at("filing the stock", done as u64, 3)?;
        contender.create(settings, profile, &new[0].now).await?;
        contender.fill(stock, progress).await?;
    }
    let mut asked = vec![Vec::with_capacity(new.len()); contenders.len()];
    for (done, item) in new.iter().enumerate() {
        progress.at("asking and filing", done as u64, new.len() as u64)?;
        for ((_, contender), asked) in contenders.iter_mut().zip(&mut asked) {
            asked.push(contender.ask(item, done % 2).await?);
        }
    }
    Ok(asked)
}

impl StoreContender {
    async fn create(&mut self, settings: &Settings, profile: &Profile, now: &str) -> ExperimentResult<()> {
        let Self::Store(store, name) = self else { return Ok(()) };
        let name = name.clone();
        let settings = settings.clone();
        let profile = profile.digest().to_owned();
        store
            .create_collection(CollectionSpec { name, settings, profile, hash_key: None, now: now.to_owned() })
            .await?;
        Ok(())
    }

    async fn fill(&mut self, stock: &[NewRecord], progress: &ExperimentProgress) -> ExperimentResult<()> {
        match self {
            Self::Table(table) => {
                let records: Vec<_> = stock.iter().map(|item| (item.id.clone(), item.fingerprint)).collect();
                table.fill(&records).await?;
            }
            Self::Store(store, name) => {
                let filing = stock.iter().map(|item| {
                    progress.go_on()?;
                    Ok(register(store.clone(), name.clone(), item))
                });
                let filing = stream::iter(filing.collect::<ExperimentResult<Vec<_>>>()?).buffer_unordered(FILLING);
                filing
                    .map(|filed| progress.go_on().map_err(ExperimentError::from).and(filed))
                    .try_collect::<()>()
                    .await?;
            }
        }
        Ok(())
    }

    /// Makes both lookups, with `QUESTIONS[first]` first, then adds the record.
    async fn ask(&mut self, item: &NewRecord, first: usize) -> ExperimentResult<QueryAnswers> {
        let mut asked = QueryAnswers::default();
        for question in [first, 1 - first] {
            let begun = Instant::now();
            let until = if question == 0 { LookupEnd::FirstMatch } else { LookupEnd::Exhausted };
            let found = self.find(item, until).await?;
            asked.seconds[question] = begun.elapsed().as_secs_f64();
            if question == 0 { asked.any = found > 0 } else { asked.all = found }
        }
        let begun = Instant::now();
        match self {
            Self::Table(table) => table.insert(&item.id, item.fingerprint).await?,
            Self::Store(store, name) => register(store.clone(), name.clone(), item).await?,
        }
        asked.seconds[2] = begun.elapsed().as_secs_f64();
        Ok(asked)
    }

    /// Returns the number of similar records; with `LookupEnd::FirstMatch` at most one.
    async fn find(&mut self, item: &NewRecord, until: LookupEnd) -> ExperimentResult<usize> {
        Ok(match (self, until) {
            (Self::Table(table), LookupEnd::FirstMatch) => usize::from(table.any(item.fingerprint).await?),
            (Self::Table(table), LookupEnd::Exhausted) => table.all(item.fingerprint).await?.len(),
            (Self::Store(store, name), until) => {
                store.find(query(name, item), RadiusJudge::to(item), until).await?.matches.len()
            }
        })
    }

    async fn remove(self) -> ExperimentResult<()> {
        match self {
            Self::Table(table) => table.remove().await?,
            Self::Store(store, name) => drop(store.drop_collection(&name).await?),
        }
        Ok(())
    }
}

fn query(name: &CollectionName, item: &NewRecord) -> LookupQuery {
    LookupQuery {
        collection: name.clone(),
        generation: GenerationId(1),
        digest: None,
        hamming: Some(HammingRange { centre: item.fingerprint, within: SimhashChannel::first(RADIUS) }),
        signed: None,
        except: None,
        confirmed: Vec::new(),
    }
}

fn register(
    store: Arc<dyn Store>,
    name: CollectionName,
    item: &NewRecord,
) -> impl Future<Output = ExperimentResult<()>> + use<> {
    let registration = Registration {
        collection: name,
        generation: GenerationId(1),
        id: item.id.clone(),
        content: RecordContent::from(&item.row),
        signed: item.signed.clone(),
        others: Vec::new(),
        confirmed: Vec::new(),
        refused: Vec::new(),
        decisions_as_of: None,
        mode: RegistrationMode::Put,
        write_once: false,
        now: item.now.to_string(),
        sequenced: SequencedNotifier::default(),
    };
    let judge = RadiusJudge::to(item);
    async move { store.register(registration, judge).await.map(drop).map_err(ExperimentError::from) }
}

/// Accepts all records within the radius.
struct RadiusJudge(Fingerprint);

impl RadiusJudge {
    fn to(item: &NewRecord) -> Arc<dyn CandidateJudge> {
        Arc::new(Self(item.fingerprint))
    }
}

impl CandidateJudge for RadiusJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let near = candidate.fingerprint?.distance(self.0) <= RADIUS;
        near.then(|| Match::unmeasured(candidate.record.id.clone(), candidate.record.seq))
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: Some(self.0),
                generation: GenerationId(1),
                statistics: 0,
                truncated,
            },
        )
    }
}

impl From<MysqlError> for ExperimentError {
    fn from(error: MysqlError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<StoreError> for ExperimentError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

const QUESTIONS: [&str; 3] = ["is any similar", "list all similar", "insert"];

fn report(
    setup: &ExperimentSetup,
    records: (usize, usize),
    names: &[String; 3],
    asked: &[Vec<QueryAnswers>],
) -> ExperimentReport {
    let (stock, new) = records;
    let head = [
        "store",
        "is any similar, ms",
        "list all similar, ms",
        "insert, ms",
        "records with similar records",
        "similar records listed",
        "document",
    ];
    let mut table = ReportTable::new("Milliseconds for a new record: mean (median).", &head);
    for (name, asked) in names.iter().zip(asked) {
        let cells = (0..QUESTIONS.len()).map(|question| {
            let mut seconds: Vec<f64> = asked.iter().map(|one| one.seconds[question]).collect();
            seconds.sort_by(f64::total_cmp);
            format!("{} ({})", ms(mean(&seconds)), ms(seconds[seconds.len() / 2]))
        });
        let counts = [asked.iter().filter(|one| one.any).count(), asked.iter().map(|one| one.all).sum()];
        let known = [UNKNOWN.to_owned()];
        table.rows.push(
            std::iter::once(name.clone())
                .chain(cells)
                .chain(counts.map(|n| thousands(n as u64)))
                .chain(known)
                .collect(),
        );
    }
    let lines = names.iter().zip(asked).map(|(name, asked)| PlotLine {
        name: name.split(" (").next().unwrap_or_default().into(),
        points: (0..QUESTIONS.len())
            .map(|question| (question as f64 + 1.0, mean_seconds(asked, question) * 1e3))
            .collect(),
    });
    let lines: Vec<PlotLine> = lines.collect();
    let x = ChartAxis::linear("1 is any similar   2 list all similar   3 insert");
    let title = "Mean time of a new record, by store";
    let y = ChartAxis::logarithmic("ms");
    ExperimentReport {
        name: "t5",
        title: "incremental lookups in MySQL, in MongoDB, and embedded",
        question: "When a record arrives, how long does it take to find out whether any record is similar, to list all similar \
                   records, and to insert the new record? The experiment compares a MySQL table of blocks, MongoDB \
                   documents of blocks, and the embedded store. (Improved Simhash, 2015, experiment T5.)",
        setting: vec![
            ("records", setup.origin()),
            ("records inserted before the measurement", thousands(stock as u64)),
            (
                "new records",
                format!(
                    "{}, one after the other; the three stores take turns; every other record asks the second question \
                     first; one client, over loopback",
                    thousands(new as u64)
                ),
            ),
        ],
        tables: vec![table],
        figures: vec![ReportChart { file: "t5.svg".into(), alt: title.into(), svg: plot(title, x, y, &lines) }],
        reading: reading(asked),
        differs: vec![
            "Our copy of the document does not contain the times and the table. The document found that MongoDB is faster. \
             It also says, without a measurement, that inserts are slightly faster."
                .into(),
            "The MySQL table holds only fingerprints and names; the stores keep the records. Registering looks up and \
             inserts in one atomic step; in MongoDB this step is a transaction that a majority acknowledges. An insert into \
             a store is therefore more work than an insert into the table."
                .into(),
            "The MySQL server compares the fingerprints itself (`BIT_COUNT`) and sends only the similar ones. The MongoDB \
             store reads the pages of the four blocks, compares the fingerprints in the service, as the document's program \
             did, and reads the records that it finds."
                .into(),
            "A page of a block holds at most 128 entries; the document keeps one MongoDB document for each value of a block."
                .into(),
            "The servers have their default settings and run on the same machine. All earlier records are in memory, so \
             lookups do not read the disk. The embedded store has its index in the process and needs no connection; the \
             document does not have it."
                .into(),
            "The fingerprints are computed before the measurement; the times are the times of the stores.".into(),
        ],
    }
}

fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
}

fn mean_seconds(asked: &[QueryAnswers], question: usize) -> f64 {
    mean(&asked.iter().map(|one| one.seconds[question]).collect::<Vec<_>>())
}

fn ratio(a: &[QueryAnswers], b: &[QueryAnswers], question: usize) -> f64 {
    mean_seconds(a, question) / mean_seconds(b, question).max(1e-12)
}

fn reading(asked: &[Vec<QueryAnswers>]) -> Vec<String> {
    let [mysql, mongodb, embedded] = asked else { return Vec::new() };
    let new = mysql.len();
    let agree = (0..new).filter(|&at| {
        let [mysql, mongodb, embedded] = [mysql, mongodb, embedded].map(|asked| (asked[at].any, asked[at].all));
        mysql == mongodb && mongodb == embedded && mysql.0 == (mysql.1 > 0)
    });
    vec![
        format!("The three stores give the same answers for {} of {} new records.", agree.count(), new),
        format!(
            "The MongoDB store takes {:.2} times as long as the MySQL table to find out whether any record is similar, \
             {:.2} times as long to list all similar records, and {:.2} times as long to insert a record. The embedded \
             store takes {:.3}, {:.3} and {:.2} times as long as the MySQL table.",
            ratio(mongodb, mysql, 0),
            ratio(mongodb, mysql, 1),
            ratio(mongodb, mysql, 2),
            ratio(embedded, mysql, 0),
            ratio(embedded, mysql, 1),
            ratio(embedded, mysql, 2),
        ),
    ]
}
