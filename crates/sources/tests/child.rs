//! Tests that a separate process reads a workbook within its limits. Like `doppel`, this program is also that process. Therefore it has no
//! test harness.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test makes its own files, and says how far it is"
)]

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use doppel_sources::tables::guard::child::{self, ChildBudget};
use doppel_sources::tables::guard::samples::{self, HostileFile, open, read, texts};
use doppel_sources::tables::{TableError, TableProperties};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(child::COMMAND) => return child::main(),
        Some("exceed") => exceed(),
        _ => child::read_by(std::env::current_exe().expect("a program")),
    }
    for (name, test) in [
        ("the_operating_system_enforces_a_budget", the_operating_system_enforces_a_budget as fn()),
        ("sound_workbooks_are_read", sound_workbooks_are_read),
        ("hostile_workbooks_are_refused_with_the_reason", hostile_workbooks_are_refused_with_the_reason),
        ("numbers_keep_all_of_their_digits", numbers_keep_all_of_their_digits),
        ("a_reading_that_is_given_up_leaves_no_process", a_reading_that_is_given_up_leaves_no_process),
        ("a_file_that_is_missing_is_said_to_be", a_file_that_is_missing_is_said_to_be),
    ] {
        println!("test {name} ...");
        test();
        assert!(own_children().is_empty(), "{name}: every process has been reaped");
    }
    ExitCode::SUCCESS
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("a file");
    file
}

/// Returns the process ids of the children of this process.
fn own_children() -> Vec<u32> {
    let own = format!("\nPPid:\t{}\n", std::process::id());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_own =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.contains(&own));
    pids.filter(is_own).collect()
}

/// Exceeds the budget in the way that the second argument names.
fn exceed() {
    let mut arguments = std::env::args().skip(2);
    let what = arguments.next().expect("what to exceed");
    ChildBudget { memory: 512 << 20, seconds: 1 }.enforce().expect("limits");
    match what.as_str() {
        "memory" => println!("{}", std::hint::black_box(vec![1_u8; 1 << 30]).len()),
        "time" => loop {
            std::hint::black_box(0);
        },
        "files" => std::fs::write(arguments.next().expect("a path"), "text").expect("a file"),
        _ => {}
    }
    std::process::exit(0);
}

/// Runs this program as a child that exceeds a limit.
fn run_to_exceed(what: &str, path: &Path) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["exceed", what]).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("it starts")
}

fn the_operating_system_enforces_a_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("written");
    assert_eq!(run_to_exceed("nothing", &path).code(), Some(0));
    assert_eq!(run_to_exceed("memory", &path).signal(), Some(6), "an allocation that fails aborts");
    assert_eq!(run_to_exceed("time", &path).signal(), Some(24), "SIGXCPU");
    assert_ne!(run_to_exceed("files", &path).code(), Some(0));
    assert!(std::fs::read(&path).unwrap_or_default().is_empty(), "nothing was written");
}

fn sound_workbooks_are_read() {
    for (extension, bytes) in [("xlsx", samples::xlsx()), ("xls", samples::xls()), ("ods", samples::ods())] {
        let file = file(&bytes);
        let rows = read(file.path(), extension).unwrap_or_else(|error| panic!("{extension}: {error}"));
        assert_eq!(
            texts(&rows),
            [["编号", "内容"], ["1", "三号路的路灯不亮"], ["2", "文昌巷口的井盖裂开"]],
            "{extension}"
        );
    }
    let file = file(&samples::xlsx());
    let table = TableProperties::open(file.path(), 1 << 20).expect("a table");
    let mut count = 0;
    let counted = table.rows(file.path(), |_| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    });
    counted.expect("rows");
    assert_eq!((table.header.as_slice(), count), (&["编号".to_owned(), "内容".to_owned()][..], 3));
}

fn hostile_workbooks_are_refused_with_the_reason() {
    for HostileFile { name, extension, bytes, refused_for } in samples::hostile() {
        let error = read(file(&bytes).path(), extension).map(|rows| rows.len()).expect_err(name);
        assert!(error.to_string().contains(refused_for), "{name}: {error}");
    }
}

fn numbers_keep_all_of_their_digits() {
    let numbers = ["0.1", "1e300", "-2.2250738585072014e-308", "123456789012345680"];
    let cells: String = numbers.iter().map(|number| format!("<c><v>{number}</v></c>")).collect();
    let sheet = format!(
        r#"<worksheet><sheetData><row r="1"><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row><row r="2">{cells}</row></sheetData></worksheet>"#
    );
    let rows =
        read(file(&samples::xlsx_of(&samples::shared("2", &["甲", "乙"]), &sheet)).path(), "xlsx").expect("rows");
    let [exact @ .., long] = rows[1].cells.as_slice() else { panic!("four cells") };
    let read: Vec<Option<f64>> = exact.iter().map(|cell| cell.number).collect();
    let expected: Vec<Option<f64>> = numbers[..3].iter().map(|number| number.parse().ok()).collect();
    assert_eq!(read, expected);
    // A floating-point number cannot keep the digits of the last number, so that they are kept as text.
    assert_eq!((long.text.as_str(), long.number), (numbers[3], None));
}

fn a_reading_that_is_given_up_leaves_no_process() {
    let row: &[usize] = &[0, 1];
    let rows = vec![row; 200_000];
    let bytes = samples::xlsx_of(&samples::shared("2", &["编号", "内容"]), &samples::sheet(&rows));
    let file = file(&bytes);
    let mut stream = open(file.path(), "xlsx").expect("a table");
    stream.next_row().expect("a row");
    assert_eq!(own_children().len(), 1, "it reads on, until nobody takes its rows");
    drop(stream);
    let begun = Instant::now();
    while !own_children().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it outlives the reading");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_file_that_is_missing_is_said_to_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = open(&folder.path().join("a.xlsx"), "xlsx").map(drop).expect_err("it is missing");
    assert!(matches!(&error, TableError::Io(error) if error.kind() == std::io::ErrorKind::NotFound), "{error:?}");
}
