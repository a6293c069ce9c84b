#![no_main]

use doppel_sources::tables::guard::samples;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let rest = &rest[..rest.len().min(60_000)];
    let workbook = match first % 3 {
        0 => samples::xls_of(&samples::xls_stream(&["编号", "内容"], rest)),
        1 => samples::xls_of(rest),
        _ => rest.to_vec(),
    };
    doppel_fuzz::workbook("xls", &workbook);
});
