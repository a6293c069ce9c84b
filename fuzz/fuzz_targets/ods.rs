#![no_main]

use doppel_sources::tables::guard::samples;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let workbook = match first % 3 {
        0 => samples::ods_of(&samples::content(&text)),
        1 => samples::ods_of(&text),
        _ => rest.to_vec(),
    };
    doppel_fuzz::workbook("ods", &workbook);
});
