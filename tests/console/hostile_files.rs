//! Files that would take the memory or the time of the service are refused. A process with limits reads all other files.

use std::io::Cursor;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use doppel_sources::tables::WorkbookLimits;
use doppel_sources::tables::guard::child::ChildBudget;
use doppel_sources::tables::guard::{HELD_PER_TEXT, samples};
use rust_xlsxwriter::Workbook;
use serde_json::json;

use crate::browser::{KeyedServer, TestBrowser};
use crate::files::{action, begin, ended, give, send};
use crate::support::{TestDesk, until_within};

/// Returns the value of a line in a file of the kernel about a process.
fn line(pid: u32, file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name).map(|rest| rest.trim().to_owned()))
}

/// Returns the process ids of the children of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| line(*pid, "status", "PPid:").is_some_and(|found| found == parent.to_string())).collect()
}

#[test]
fn hostile_workbooks_are_refused_and_the_service_lives() {
    let desk = TestDesk::with("hostile-files", &json!({}));
    let page = "/console/hostile-files/files";
    let mut clerk = TestBrowser::new(&desk.server);
    let action = action(&clerk.open(page));
    let texts = usize::try_from(WorkbookLimits::DESK.held / HELD_PER_TEXT).expect("a number") + 1;
    let many = ("too many empty texts", "xlsx", samples::empty_texts(texts));
    let hostile = samples::hostile().into_iter().map(|file| (file.name, file.extension, file.bytes));
    for (name, extension, bytes) in hostile.chain([many]) {
        let (status, head, body) = send(&clerk, &action, &format!("a.{extension}"), &bytes);
        assert_eq!(status, 422, "{name}: {head}\n{}", String::from_utf8_lossy(&body));
    }
    assert_eq!(clerk.open(page).status, 200, "it still answers");
    let peak = line(desk.server.pid(), "status", "VmHWM:").expect("Linux");
    let peak: u64 = peak.trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 1 << 20, "the service took {peak} kB");
    assert!(children(desk.server.pid()).is_empty(), "every process that read a workbook has been reaped");
}

#[test]
fn the_process_that_reads_a_workbook_has_limits_and_no_secrets() {
    let keyed = KeyedServer::with(&["a"]);
    let mut book = Workbook::new();
    let sheet = book.add_worksheet();
    for (column, name) in ["编号", "内容"].into_iter().enumerate() {
        sheet.write(0, column as u16, name).expect("a cell");
    }
    for row in 1..20_000 {
        sheet.write(row, 0, row).expect("a cell");
        sheet.write(row, 1, format!("{row}号楼的居民反映工地夜间施工噪声扰民已经{}天", row % 97)).expect("a cell");
    }
    let mut bytes = Vec::new();
    book.save_to_writer(Cursor::new(&mut bytes)).expect("a workbook");
    let mut clerk = keyed.signed_in("desk");
    let file = give(&mut clerk, "来信.xlsx", &bytes);
    begin(&mut clerk, &file, "check");
    // The process runs while rows are being processed. Before it begins to read, its last step is to limit its address space.
    let service = keyed.server.pid();
    let begun = Instant::now();
    let is_limited =
        |child| line(child, "limits", "Max address space").is_some_and(|found| !found.starts_with("unlimited"));
    let child = loop {
        if let Some(child) = children(service).into_iter().next()
            && is_limited(child)
        {
            break child;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no process that reads the workbook was seen");
        std::thread::sleep(Duration::from_millis(5));
    };
    let limit =
        |name: &str| line(child, "limits", name).expect("it lives").split_whitespace().next().map(str::to_owned);
    let budget = ChildBudget::of(WorkbookLimits::DESK);
    assert_eq!(limit("Max open files"), Some("16".to_owned()));
    assert_eq!(limit("Max address space"), Some(budget.memory.to_string()));
    assert_eq!(limit("Max cpu time"), Some(budget.seconds.to_string()));
    assert_eq!(limit("Max file size"), Some("0".to_owned()), "it can write no file");
    assert_eq!(limit("Max core file size"), Some("0".to_owned()), "a dump would hold texts of records");
    let variables = std::fs::read(format!("/proc/{child}/environ")).expect("it lives");
    assert_eq!(variables, b"MIMALLOC_ARENA_RESERVE=32MiB\0", "no variables of the service");
    // A child that has used up its limit before it reads cannot read harmless workbooks either.
    let used = line(child, "status", "VmPeak:").expect("it lives");
    let used: u64 = used.trim_end_matches(" kB").parse().expect("a number");
    assert!(used * 1024 < budget.memory / 2, "the child uses {used} kB of {}", budget.memory);
    let open = std::fs::read_dir(format!("/proc/{child}/fd")).expect("it lives").filter_map(Result::ok);
    let open: Vec<PathBuf> = open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    assert!(!open.iter().any(|file| file.to_string_lossy().starts_with("socket:")), "{open:?}");
    let strange = open.iter().filter(|file| {
        let name = file.to_string_lossy();
        !name.starts_with("pipe:") && name != "/dev/null" && !name.contains("/desk-files/")
    });
    assert_eq!(strange.count(), 0, "{open:?}");

    // The process ends together with the work.
    let form = clerk.open(&file).form(&format!("{file}/stop"));
    clerk.post(&format!("{file}/stop"), &form, &[]).expect_status(303);
    ended(&mut clerk, &file);
    // The process must end soon, and not only at its own time limit.
    until_within(Duration::from_secs(10), "the process ends", || children(service).is_empty());
}
