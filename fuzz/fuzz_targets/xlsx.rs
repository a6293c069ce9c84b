#![no_main]

use doppel_sources::tables::guard::samples;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let shared = samples::shared("2", &["编号", "内容"]);
    let sheet = samples::sheet(&[&[0, 1], &[1, 0]]);
    let workbook = match first % 4 {
        0 => samples::xlsx_of(&text, &sheet),
        1 => samples::xlsx_of(&shared, &text),
        2 => samples::xlsx_with(&shared, &sheet, &text),
        _ => rest.to_vec(),
    };
    doppel_fuzz::workbook("xlsx", &workbook);
});
