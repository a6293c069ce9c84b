//! Cells of CSV files for spreadsheets. No cell can be a formula.

/// The characters that begin a formula. Spreadsheets of some languages treat the wide characters like the narrow ones.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Returns a cell in CSV. A cell that may be a formula begins with an apostrophe.
pub fn written(cell: &str) -> String {
    quoted(if may_be_formula(cell) { "'" } else { "" }, cell)
}

/// True if a spreadsheet may calculate a cell: its first visible character begins a formula. Some programs ignore spaces, control
/// characters and zero-width characters before it.
pub fn may_be_formula(cell: &str) -> bool {
    cell.starts_with(['\t', '\r']) || cell.trim_start_matches(is_unseen).starts_with(FORMULA)
}

/// True for white space, control characters and zero-width characters.
fn is_unseen(sign: char) -> bool {
    let is_without_width = matches!(sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    is_without_width || sign.is_whitespace() || sign.is_control()
}

/// Returns a cell in CSV without protection against formulas. This is for cells of an uploaded file that the result must keep unchanged.
pub fn kept(cell: &str) -> String {
    quoted("", cell)
}

fn quoted(guard: &str, cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{guard}{}\"", cell.replace('"', "\"\""))
    } else {
        format!("{guard}{cell}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_every_cell_stays_one() {
        let table = [
            ("路灯", "路灯"),
            ("=1+1", "'=1+1"),
            ("+86", "'+86"),
            ("-2", "'-2"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("＝1", "'＝1"),
            (" =1+1", "' =1+1"),
            ("\u{3000}\u{a0}+1", "'\u{3000}\u{a0}+1"),
            ("\u{feff}=1", "'\u{feff}=1"),
            ("\u{200b}\t @a", "'\u{200b}\t @a"),
            ("\u{0}\n=1", "\"'\u{0}\n=1\""),
            ("\u{2066}\u{ad}－1", "'\u{2066}\u{ad}－1"),
            (" 路灯 = 1", " 路灯 = 1"),
            ("\u{200b}", "\u{200b}"),
            ("=HYPERLINK(\"a\",\"b\")", "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\""),
            ("一,二\n三", "\"一,二\n三\""),
            ("a=b", "a=b"),
        ];
        for (cell, line) in table {
            assert_eq!(written(cell), line, "{cell:?}");
        }
    }
}
