//! Measures the cost of the search index in addition to signing, as CPU time of all threads. It measures the preparation of a record, and
//! the writing with its commits and merges. Compare only the ratios within one run. `cargo bench --bench index -- [RECORDS] [RECORDS
//! BETWEEN COMMITS]`.

#![allow(clippy::disallowed_methods, reason = "a bench makes its own time, files and settings")]
#![allow(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::hint::black_box;

use doppel_core::collection::{Preset, Settings};
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Profile;
use doppel_core::verdict::VerdictKind;
use doppel_eval::sample::{RecordSample, SampleOptions, UNTIL};
use doppel_search::index::{Index, IndexEntry, IndexProgress, IndexSource, OpenedIndex};
use doppel_store::Seq;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse::<usize>().ok());
    let records = numbers.next().unwrap_or(20_000);
    // Number of records that arrive between two commits while an import fully uses two cores.
    let between = numbers.next().unwrap_or(600);
    let options =
        SampleOptions { records: records as u64, seed: 7, duplicates: 0.2, forms: 0.0, labels: false, until: UNTIL };
    let rows: Vec<Row> = RecordSample::new(&options).records().map(|record| row(&record.content)).collect();
    let settings = Settings::preset(Preset::Default);
    let profile = Profile::compile(&settings, None);
    let folder = std::env::temp_dir().join(format!("doppel-bench-index-{}", std::process::id()));
    let OpenedIndex { index, .. } =
        Index::open(&folder, IndexSource::new("bench", &settings), &settings).expect("an index");

    black_box((keys(&profile, &rows[0]), index.extractor().extract(&rows[0]).is_ok()));
    let (signing, _) = cpu(|| rows.iter().map(|row| black_box(keys(&profile, row))).sum::<usize>());
    let (extracting, extracts) =
        cpu(|| rows.iter().map(|row| index.extractor().extract(row).expect("an extract")).collect::<Vec<_>>());
    let entries = (1..).map(Seq).zip(extracts).map(|(seq, extract)| IndexEntry {
        id: RecordId::new(&format!("letter-{}", seq.0)).expect("an id"),
        seq,
        verdict: VerdictKind::Original,
        extract,
    });
    let entries: Vec<IndexEntry> = entries.collect();
    let (writing, ()) = cpu(|| {
        for piece in entries.chunks(between) {
            piece.iter().for_each(|entry| index.add(entry).expect("it is written"));
            index.commit(IndexProgress::Reached(piece[piece.len() - 1].seq)).expect("it is committed");
        }
        index.release_writer();
    });
    println!(
        "{records} records, a commit every {between}, {:.2} kB a record on disk",
        index.disk_bytes() as f64 / 1e3 / records as f64
    );
    for (name, micros) in [("signing", signing), ("extracting", extracting), ("writing", writing)] {
        let each = micros / records as f64;
        println!("  {name:12} {each:7.1} µs a record, {:5.2} × signing", micros / signing);
    }
    drop(index);
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

fn row(content: &str) -> Row {
    Row::parse(serde_json::json!({ "content": content }).to_string().as_bytes()).expect("a row")
}

/// Signs a row, and returns the number of its keys.
fn keys(profile: &Profile, row: &Row) -> usize {
    profile.sign(&profile.read(row).expect("a document")).keys.len()
}

/// Returns the CPU time that the process used for `work`, in microseconds, and the result of `work`.
fn cpu<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let begun = used();
    let given = work();
    (used() - begun, given)
}

/// Returns the CPU time that the process has used, in microseconds (Linux: in ticks of a hundredth of a second).
fn used() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc is there");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name in brackets").1.split(' ').collect();
    let ticks = fields[11..=12].iter().map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() * 1e4
}
