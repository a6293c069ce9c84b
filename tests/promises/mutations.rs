//! Damaged files of every kind that the program reads cause no panic, no abort and no hang, and need at most one gigabyte.
//!
//! The same seed makes the same files. `DOPPEL_TEST_MUTATIONS` sets the number of files of each kind in a round, `DOPPEL_TEST_SEED` the
//! seed of the first round, and `DOPPEL_TEST_MUTATION_SECONDS` the time after which no further round begins.

use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use doppel_sources::tables::guard::samples;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::{TestRandom, TestServer, run, setting};

/// The longest processor time for one file, and the longest time on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(10);
const MOST_WAIT: Duration = Duration::from_secs(120);
/// The largest memory for one file, in kilobytes.
const MOST_MEMORY: u64 = 1 << 20;

const CSV: &str = "编号,标题,内容\r\n1,路灯,三号路的路灯不亮\r\n2,\"井盖,破损\",\"文昌巷口\n井盖裂开\"\r\n";
const JSON: &str = "{\"id\":\"1\",\"content\":\"三号路的路灯不亮\"}\n{\"id\":\"2\",\"content\":\"文昌巷口的井盖\\u88c2开\",\"n\":1e3}\n";
const CONFIGURATION: &str = "[server]\nlisten = \"127.0.0.1:8080\"\n[store]\nkind = \"embedded\"\ndata = \"data\"\n[limits]\nmax_body_bytes = 1048576\n";

/// Numbers that often cause errors in counts.
const NUMBERS: [&str; 8] =
    ["0", "-1", "65536", "2147483648", "4294967295", "9223372036854775808", "18446744073709551615", "1e308"];

/// Changes a few bytes.
fn damage(bytes: &mut Vec<u8>, rng: &mut TestRandom) {
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        let count = 1 + rng.below(64.min((bytes.len() - at) as u64)) as usize;
        match rng.below(8) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + count)),
            4 => {
                let piece = bytes[at..at + count].to_vec();
                let to = rng.below(bytes.len() as u64) as usize;
                bytes.splice(to..to, piece.repeat(1 + rng.below(64) as usize));
            }
            5 => bytes[at..at + count].fill([0x00, 0xff, b'<', b'"'][rng.below(4) as usize]),
            6 if at + 4 <= bytes.len() => {
                let number =
                    [0, 1, 0x7fff_ffff, 0xffff_ffff, 0xffff_fffe, at as u32, 0x0000_ffff][rng.below(7) as usize];
                bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
            }
            // Replaces a number in a text by another number.
            _ => {
                let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else {
                    continue;
                };
                let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
                bytes.splice(from..from + digits, number.bytes());
            }
        }
    }
}

/// Changes an archive, or a file inside it; in the second case the archive stays readable.
fn damage_archive(bytes: &mut Vec<u8>, rng: &mut TestRandom) {
    if rng.below(4) == 0 {
        return damage(bytes, rng);
    }
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes.as_slice())).expect("a sound archive");
    let chosen = rng.below(archive.len() as u64) as usize;
    let mut parts = Vec::new();
    for at in 0..archive.len() {
        let mut part = archive.by_index(at).expect("a sound archive");
        let name = part.name().expect("a name").into_owned();
        let mut content = Vec::new();
        part.read_to_end(&mut content).expect("a sound archive");
        if at == chosen {
            damage(&mut content, rng);
        }
        parts.push((name, content));
    }
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, part)| (name.as_str(), part.as_slice())).collect();
    *bytes = samples::archive(&parts);
}

/// Returns the id of a process and the ids of its children.
fn family(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children = children.collect::<String>();
    std::iter::once(pid).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
}

/// Returns the largest memory that a process has used, in kilobytes.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Returns the processor time of a process.
fn busy(pid: u32) -> Duration {
    // Linux counts in hundredths of a second. The process name before these numbers contains no spaces here.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let hundredths: u64 = stat.split(' ').skip(13).take(2).filter_map(|number| number.parse::<u64>().ok()).sum();
    Duration::from_millis(hundredths * 10)
}

/// The cost of reading one file.
#[derive(Clone, Copy, Debug, Default)]
struct ReadingCost {
    /// The largest observed memory, in kilobytes.
    memory: u64,
    /// The processor time.
    busy: Duration,
}

impl ReadingCost {
    fn or_more(self, other: Self) -> Self {
        Self { memory: self.memory.max(other.memory), busy: self.busy.max(other.busy) }
    }
}

/// Waits for the end of a command, and kills the command if it takes too long.
fn watch(child: &mut Child) -> Result<ReadingCost, String> {
    let begun = Instant::now();
    let mut cost = ReadingCost::default();
    while child.try_wait().expect("a child").is_none() {
        let family = family(child.id());
        let memory = family.iter().map(|pid| memory(*pid)).sum();
        cost = cost.or_more(ReadingCost { memory, busy: family.iter().map(|pid| busy(*pid)).sum() });
        if cost.busy > MOST_TIME || begun.elapsed() > MOST_WAIT {
            let _ = child.kill();
            return Err(format!("a hang: {:?} of processor time after {:?}", cost.busy, begun.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(cost)
}

/// Runs a command on a damaged file.
fn read(arguments: &[&str]) -> Result<ReadingCost, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the doppel binary starts");
    let mut said = child.stderr.take().expect("piped");
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = said.by_ref().take(1 << 20).read_to_string(&mut text);
        let _ = std::io::copy(&mut said, &mut std::io::sink());
        text
    });
    let watched = watch(&mut child);
    let status = child.wait().expect("it ended");
    let said = said.join().expect("a text");
    let cost = watched?;
    if !matches!(status.code(), Some(0..=3)) {
        return Err(format!("an abort: {status}\n{said}"));
    }
    if said.contains("panicked") {
        return Err(format!("a panic: {said}"));
    }
    if cost.memory >= MOST_MEMORY {
        return Err(format!("{} kB of memory", cost.memory));
    }
    Ok(cost)
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Xlsx,
    Xls,
    Ods,
    Csv,
    Json,
    Configuration,
    /// The manifest of a snapshot in a directory.
    Manifest,
    /// A chunk of a snapshot. Its name fits its damaged bytes, so that the program reads it.
    Chunk,
    /// A snapshot in one file.
    SnapshotFile,
    /// A collection in the form of `doppel export`.
    Exported,
}

impl FileKind {
    fn extension(self) -> &'static str {
        match self {
            Self::Xlsx => "xlsx",
            Self::Xls => "xls",
            Self::Ods => "ods",
            Self::Csv => "csv",
            Self::Json | Self::Exported => "jsonl",
            Self::Configuration => "toml",
            Self::Manifest | Self::Chunk => "part",
            Self::SnapshotFile => "snapshot",
        }
    }
}

const KINDS: [FileKind; 10] = [
    FileKind::Xlsx,
    FileKind::Xls,
    FileKind::Ods,
    FileKind::Csv,
    FileKind::Json,
    FileKind::Configuration,
    FileKind::Manifest,
    FileKind::Chunk,
    FileKind::SnapshotFile,
    FileKind::Exported,
];

/// Sound files of every kind, and the folder in which damaged files are read.
struct SampleFiles {
    folder: tempfile::TempDir,
    manifest: PathBuf,
    chunks: Vec<PathBuf>,
}

impl SampleFiles {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = TestServer::start_in(folder.path().join("data"));
        for number in 0..12 {
            let row = json!({"title": "路灯", "content": format!("三号路第{number}根灯杆的路灯不亮，晚上行走十分危险"), "time": "2024-03-01"});
            let path = format!("/v1/collections/letters/records/{number}");
            assert!(server.send("PUT", &path, &row).status < 300);
        }
        let ruling = json!({"judgement": "not_same", "by": "desk 3", "note": "两处"});
        assert!(server.send("PUT", "/v1/collections/letters/decisions/0/2", &ruling).status < 300);
        server.stop();
        let mut files = Self { folder, manifest: PathBuf::new(), chunks: Vec::new() };
        let [data, kept] = [files.at("data"), files.at("kept")];
        let [exported, snapshot] = [files.at("sound.jsonl"), files.at("sound.snapshot")];
        for arguments in [
            &["snapshot", "create", "--data", &data, "--to", &kept][..],
            &["snapshot", "create", "--data", &data, "--out", &snapshot],
            &["export", "--from", &data, "--collection", "letters", &exported],
        ] {
            let ended = run(arguments, &[]);
            assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        files.manifest = below(&files.folder.path().join("kept/snapshots")).remove(0);
        files.chunks = below(&files.folder.path().join("kept/chunks"));
        files
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a plain path").to_owned()
    }

    /// Returns a sound file of a kind.
    fn sound(&self, kind: FileKind, rng: &mut TestRandom) -> Vec<u8> {
        match kind {
            FileKind::Xlsx => samples::xlsx(),
            FileKind::Xls => samples::xls(),
            FileKind::Ods => samples::ods(),
            FileKind::Csv => CSV.into(),
            FileKind::Json => JSON.into(),
            FileKind::Configuration => CONFIGURATION.into(),
            FileKind::Manifest => bytes_of(&self.manifest),
            FileKind::Chunk => bytes_of(&self.chunks[rng.below(self.chunks.len() as u64) as usize]),
            FileKind::SnapshotFile => bytes_of(&self.folder.path().join("sound.snapshot")),
            FileKind::Exported => bytes_of(&self.folder.path().join("sound.jsonl")),
        }
    }

    /// Runs every command that reads files of this kind.
    fn try_reading(&self, kind: FileKind, bytes: &[u8], sound: &[u8]) -> Result<ReadingCost, String> {
        let path = self.at(&format!("a.{}", kind.extension()));
        fs::write(&path, bytes).expect("the folder can be written");
        let fresh = self.at("fresh");
        let result = match kind {
            FileKind::Xlsx | FileKind::Xls | FileKind::Ods | FileKind::Csv | FileKind::Json => read(&["dedup", &path]),
            FileKind::Configuration => read(&["config", "check", "--config", &path]),
            FileKind::Manifest => {
                let before = fs::read(&self.manifest).expect("made here");
                fs::write(&self.manifest, bytes).expect("the folder can be written");
                let result = self.restored(&self.at("kept"));
                fs::write(&self.manifest, before).expect("the folder can be written");
                result
            }
            FileKind::Chunk => self.with_chunk(bytes, sound),
            FileKind::SnapshotFile => self.restored(&path),
            FileKind::Exported => read(&["import", "--exported", &path, "--to", &fresh, "--collection", "letters"]),
        };
        let _ = fs::remove_dir_all(&fresh);
        result
    }

    /// Verifies a snapshot and restores it into a data directory.
    fn restored(&self, from: &str) -> Result<ReadingCost, String> {
        let verified = read(&["snapshot", "verify", from])?;
        let restored = read(&["snapshot", "restore", from, "--data", &self.at("fresh")])?;
        Ok(verified.or_more(restored))
    }

    /// Restores a snapshot with a damaged chunk. The manifest refers to the chunk by the name that fits the damaged bytes.
    fn with_chunk(&self, bytes: &[u8], sound: &[u8]) -> Result<ReadingCost, String> {
        let [old, new] = [sound, bytes].map(|bytes| hex(&Sha256::digest(bytes)));
        let before = fs::read_to_string(&self.manifest).expect("made here");
        let folder = self.folder.path().join("kept/chunks").join(&new[..2]);
        fs::create_dir_all(&folder).expect("the folder can be written");
        fs::write(folder.join(&new), bytes).expect("the folder can be written");
        fs::write(&self.manifest, before.replace(&old, &new)).expect("the folder can be written");
        let result = self.restored(&self.at("kept"));
        fs::write(&self.manifest, before).expect("the folder can be written");
        if old != new {
            fs::remove_file(folder.join(&new)).expect("the folder can be written");
        }
        result
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    fs::read(path).expect("made here")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns all files below a folder, in the order of their names.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("made here").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// The results for the files of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct FileTally {
    files: u64,
    failures: u64,
    most: ReadingCost,
}

#[test]
#[expect(clippy::print_stdout, reason = "the test says what it measured")]
fn damaged_files_of_every_kind_are_read_or_refused() {
    let first = setting("DOPPEL_TEST_SEED", 1);
    let count = setting("DOPPEL_TEST_MUTATIONS", 8);
    let time = Duration::from_secs(setting("DOPPEL_TEST_MUTATION_SECONDS", 0));
    let files = SampleFiles::new();
    let begun = Instant::now();
    let mut tallies = [FileTally::default(); KINDS.len()];
    for seed in first.. {
        for (kind, tally) in KINDS.into_iter().zip(&mut tallies) {
            let mut rng = TestRandom::new(seed);
            for number in 0..count {
                let sound = files.sound(kind, &mut rng);
                let mut bytes = sound.clone();
                if matches!(kind, FileKind::Xlsx | FileKind::Ods) {
                    damage_archive(&mut bytes, &mut rng);
                } else {
                    damage(&mut bytes, &mut rng);
                }
                tally.files += 1;
                match files.try_reading(kind, &bytes, &sound) {
                    Ok(cost) => tally.most = tally.most.or_more(cost),
                    Err(failure) => {
                        tally.failures += 1;
                        println!("{kind:?}, number {number} of seed {seed}: {failure}");
                    }
                }
            }
        }
        if begun.elapsed() >= time {
            break;
        }
    }
    for (kind, FileTally { files, failures, most }) in KINDS.into_iter().zip(tallies) {
        let megabytes = most.memory >> 10;
        println!("{kind:?}: {files} files, {failures} failures, {:.2?} and {megabytes} MB at most", most.busy);
    }
    println!("{:.0?} from seed {first} on", begun.elapsed());
    assert_eq!(tallies.iter().map(|tally| tally.failures).sum::<u64>(), 0);
}
