//! The results of an experiment as Markdown, with SVG charts. The columns are aligned, so that the same text can also be shown on a
//! terminal.

use std::fmt::Write as _;

/// The text for a figure that is missing in our copy of a document.
pub const UNKNOWN: &str = "unknown";

/// The results of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExperimentReport {
    /// The name on the command line, and the beginning of the names of its files.
    pub name: &'static str,
    pub title: &'static str,
    /// The question that the experiment answers, in one or two sentences.
    pub question: &'static str,
    /// The setting of the experiment: names and values.
    pub setting: Vec<(&'static str, String)>,
    /// The measured figures.
    pub tables: Vec<ReportTable>,
    pub figures: Vec<ReportChart>,
    /// The meaning of the figures, one sentence each.
    pub reading: Vec<String>,
    /// The differences from the document's setting, one sentence each.
    pub differs: Vec<String>,
}

/// A table. Every row has the same number of cells as the head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportTable {
    /// A description of the table, with units.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReportChart {
    /// The name of the file, `NAME.svg`.
    pub file: String,
    /// A description of the chart.
    pub alt: String,
    /// The picture.
    pub svg: String,
}

impl ReportTable {
    /// Creates a table without rows.
    pub fn new(caption: impl Into<String>, head: &[&str]) -> Self {
        Self { caption: caption.into(), head: head.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![3; self.head.len()];
        for row in std::iter::once(&self.head).chain(&self.rows) {
            widths.iter_mut().zip(row).for_each(|(most, cell)| *most = width(cell).max(*most));
        }
        widths
    }

    fn write(&self, out: &mut String) {
        let widths = self.widths();
        let _ = writeln!(out, "{}\n", self.caption);
        write_line(out, &self.head, &widths);
        for (at, most) in widths.iter().enumerate() {
            let dashes = "-".repeat(*most);
            let _ = if at == 0 { write!(out, "|:{dashes}-") } else { write!(out, "|-{dashes}:") };
        }
        out.push_str("|\n");
        self.rows.iter().for_each(|row| write_line(out, row, &widths));
        out.push('\n');
    }
}

fn write_line(out: &mut String, cells: &[String], widths: &[usize]) {
    for (at, (cell, most)) in cells.iter().zip(widths).enumerate() {
        let pad = " ".repeat(most - width(cell));
        // Names are aligned left, figures right.
        let _ = if at == 0 { write!(out, "| {cell}{pad} ") } else { write!(out, "| {pad}{cell} ") };
    }
    out.push_str("|\n");
}

/// Returns the number of columns of `text` on a terminal. Han characters and full-width marks take two columns.
fn width(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

fn is_wide(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115F}' | '\u{2E80}'..='\u{A4CF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{FE30}'..='\u{FE6F}' | '\u{FF00}'..='\u{FF60}')
}

impl ExperimentReport {
    /// Returns the report as Markdown. `pictures` is the folder of the charts relative to the text; without it the charts are left out.
    pub fn markdown(&self, pictures: Option<&str>) -> String {
        let mut out = format!("## {}: {}\n\n{}\n\n", self.name, self.title, self.question);
        for (name, value) in &self.setting {
            let _ = writeln!(out, "* {name}: {value}");
        }
        out.push('\n');
        self.tables.iter().for_each(|table| table.write(&mut out));
        if let Some(folder) = pictures {
            for ReportChart { file, alt, .. } in &self.figures {
                let slash = if folder.is_empty() { "" } else { "/" };
                let _ = writeln!(out, "![{alt}]({folder}{slash}{file})\n");
            }
        }
        for sentence in &self.reading {
            let _ = writeln!(out, "{sentence}\n");
        }
        out.push_str("How this differs from the document:\n\n");
        for sentence in &self.differs {
            let _ = writeln!(out, "* {sentence}");
        }
        out
    }
}

/// Returns seconds as milliseconds, with a suitable number of digits.
pub fn ms(seconds: f64) -> String {
    let ms = seconds * 1e3;
    match ms {
        ms if ms >= 100.0 => thousands(ms.round() as u64),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms if ms >= 0.1 => format!("{ms:.3}"),
        ms => format!("{ms:.4}"),
    }
}

/// Returns a share from 0 to 1 in per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a whole number with commas between thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_also_with_han_characters() {
        let mut table = ReportTable::new("ms", &["topic", "n"]);
        table.rows = vec![vec!["教育".into(), "7".into()], vec!["abcdef".into(), "1,234".into()]];
        let mut out = String::new();
        table.write(&mut out);
        let lines: Vec<&str> = out.trim_end().lines().skip(2).collect();
        assert_eq!(lines, ["| topic  |     n |", "|:-------|------:|", "| 教育   |     7 |", "| abcdef | 1,234 |"]);
    }

    #[test]
    fn figures_keep_the_places_that_say_something() {
        assert_eq!([0.000_012_34, 0.0123, 1.5, 1234.5678].map(ms), ["0.0123", "12.3", "1,500", "1,234,568"]);
        assert_eq!((thousands(999), thousands(1_000_000)), ("999".into(), "1,000,000".into()));
    }

    #[test]
    fn pictures_are_named_from_where_the_text_is() {
        let figure = ReportChart { file: "t2.svg".into(), alt: "time".into(), svg: "<svg/>".into() };
        let report = ExperimentReport {
            name: "t2",
            figures: vec![figure],
            differs: vec!["by much".into()],
            ..ExperimentReport::default()
        };
        assert!(report.markdown(Some("experiments")).contains("![time](experiments/t2.svg)"));
        assert!(report.markdown(Some("")).contains("![time](t2.svg)"));
        assert!(!report.markdown(None).contains("svg") && report.markdown(None).contains("* by much"));
    }
}
