//! Damaged files of every kind that is read: no panic, no abort, no hang, no more than a gigabyte.
//!
//! A seed makes the same files each time. `DOPPEL_TEST_MUTATIONS` says how many of each kind, `DOPPEL_TEST_SEED` which ones.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use doppel_sources::tables::guard::samples;

use crate::support::{Rng, setting};

/// The longest processor time for one file, and the longest time on a machine that does other things, too.
const MOST_TIME: Duration = Duration::from_secs(10);
const MOST_WAIT: Duration = Duration::from_secs(120);
/// The most memory for one file, in kilobytes.
const MOST_MEMORY: u64 = 1 << 20;

const CSV: &str = "编号,标题,内容\r\n1,路灯,三号路的路灯不亮\r\n2,\"井盖,破损\",\"文昌巷口\n井盖裂开\"\r\n";
const JSON: &str = "{\"id\":\"1\",\"content\":\"三号路的路灯不亮\"}\n{\"id\":\"2\",\"content\":\"文昌巷口的井盖\\u88c2开\",\"n\":1e3}\n";
const CONFIGURATION: &str = "[server]\nlisten = \"127.0.0.1:8080\"\n[store]\nkind = \"embedded\"\ndata = \"data\"\n[limits]\nmax_body_bytes = 1048576\n";

/// Numbers at which programs that count go wrong.
const NUMBERS: [&str; 8] =
    ["0", "-1", "65536", "2147483648", "4294967295", "9223372036854775808", "18446744073709551615", "1e308"];

/// Changes a few bytes.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
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
            // A number in a text becomes another number.
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

/// Changes an archive, or a file inside it, which stays readable as an archive.
fn damage_archive(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if rng.below(4) == 0 {
        return damage(bytes, rng);
    }
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes.as_slice())).expect("a sound archive");
    let chosen = rng.below(archive.len() as u64) as usize;
    let mut parts = Vec::new();
    for at in 0..archive.len() {
        let mut part = archive.by_index(at).expect("a sound archive");
        let (name, mut content) = (part.name().expect("a name").into_owned(), Vec::new());
        part.read_to_end(&mut content).expect("a sound archive");
        if at == chosen {
            damage(&mut content, rng);
        }
        parts.push((name, content));
    }
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, part)| (name.as_str(), part.as_slice())).collect();
    *bytes = samples::archive(&parts);
}

/// A process and its children.
fn family(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children = children.collect::<String>();
    std::iter::once(pid).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
}

/// The memory that a process has taken at most, in kilobytes.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// The processor time of a process.
fn busy(pid: u32) -> Duration {
    // Linux counts in hundredths of a second; the name before these numbers has no spaces here.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let hundredths: u64 = stat.split(' ').skip(13).take(2).filter_map(|number| number.parse::<u64>().ok()).sum();
    Duration::from_millis(hundredths * 10)
}

/// Waits for the end of a command; the most memory that was seen.
fn watch(child: &mut Child, what: &str) -> u64 {
    let begun = Instant::now();
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        let family = family(child.id());
        most = most.max(family.iter().map(|pid| memory(*pid)).sum());
        let busy: Duration = family.iter().map(|pid| busy(*pid)).sum();
        if busy > MOST_TIME || begun.elapsed() > MOST_WAIT {
            let _ = child.kill();
            panic!("{what}: {busy:?} of processor time after {:?}", begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    most
}

/// Runs a command on a damaged file; the most memory that was seen.
fn read(arguments: &[&str], what: &str) -> u64 {
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
    let most = watch(&mut child, what);
    let (status, said) = (child.wait().expect("it ended"), said.join().expect("a text"));
    assert!(matches!(status.code(), Some(0..=3)), "{what}: {status}\n{said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
    assert!(most < MOST_MEMORY, "{what}: {most} kB");
    most
}

#[test]
#[expect(clippy::print_stdout, reason = "the test says what it measured")]
fn damaged_files_of_every_kind_are_read_or_refused() {
    let (seed, count) = (setting("DOPPEL_TEST_SEED", 1), setting("DOPPEL_TEST_MUTATIONS", 12));
    let dir = tempfile::tempdir().unwrap();
    let kinds: [(&str, Vec<u8>); 6] = [
        ("xlsx", samples::xlsx()),
        ("xls", samples::xls()),
        ("ods", samples::ods()),
        ("csv", CSV.as_bytes().to_vec()),
        ("jsonl", JSON.as_bytes().to_vec()),
        ("toml", CONFIGURATION.as_bytes().to_vec()),
    ];
    for (extension, sound) in kinds {
        let mut rng = Rng::new(seed);
        let (begun, mut most) = (Instant::now(), 0);
        for number in 0..count {
            let mut bytes = sound.clone();
            if matches!(extension, "xlsx" | "ods") {
                damage_archive(&mut bytes, &mut rng);
            } else {
                damage(&mut bytes, &mut rng);
            }
            let path = dir.path().join(format!("a.{extension}"));
            write(&path, &bytes);
            let path = path.to_str().unwrap();
            let what = format!("{extension}, number {number} of seed {seed}");
            most = most.max(match extension {
                "toml" => read(&["config", "check", "--config", path], &what),
                _ => read(&["dedup", path], &what),
            });
        }
        println!("{extension}: {count} files in {:.1?}, {} MB at most", begun.elapsed(), most >> 10);
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::File::create(path).and_then(|mut file| file.write_all(bytes)).expect("made here");
}
