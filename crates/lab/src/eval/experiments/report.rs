//! What an experiment found, as Markdown with SVG beside it. The same text is for terminals: columns are aligned.

use std::fmt::Write as _;

/// Stands for a figure of a document that is lost in our copy.
pub const UNKNOWN: &str = "unknown";

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Its name on the command line, and the beginning of its files' names.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// The question it answers, in a sentence or two.
    pub question: &'static str,
    /// With what it ran: name and value.
    pub setting: Vec<(&'static str, String)>,
    /// What was measured.
    pub tables: Vec<Table>,
    /// Charts of it.
    pub figures: Vec<Figure>,
    /// What the figures say, a sentence each.
    pub reading: Vec<String>,
    /// How the setting differs from the document's, a sentence each.
    pub differs: Vec<String>,
}

/// A table; every row has as many cells as the head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows, with units.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its file, `NAME.svg`.
    pub file: String,
    /// What it shows.
    pub alt: String,
    /// The picture.
    pub svg: String,
}

impl Table {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, head: &[&str]) -> Self {
        Self { caption: caption.into(), head: head.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    fn write(&self, out: &mut String) {
        let all = || std::iter::once(&self.head).chain(&self.rows);
        let widths: Vec<usize> =
            (0..self.head.len()).map(|at| all().map(|row| width(&row[at])).max().unwrap_or(0).max(3)).collect();
        let line = |out: &mut String, cells: &[String]| {
            for (at, (cell, most)) in cells.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(most - width(cell));
                // Names to the left, figures to the right.
                let _ = if at == 0 { write!(out, "| {cell}{pad} ") } else { write!(out, "| {pad}{cell} ") };
            }
            out.push_str("|\n");
        };
        let _ = writeln!(out, "{}\n", self.caption);
        line(out, &self.head);
        for (at, most) in widths.iter().enumerate() {
            let dashes = "-".repeat(*most);
            let _ = if at == 0 { write!(out, "|:{dashes}-") } else { write!(out, "|-{dashes}:") };
        }
        out.push_str("|\n");
        self.rows.iter().for_each(|row| line(out, row));
        out.push('\n');
    }
}

/// Columns that `text` takes on a terminal: Han characters and full-width marks take two.
fn width(text: &str) -> usize {
    let wide = |c: char| matches!(c, '\u{1100}'..='\u{115F}' | '\u{2E80}'..='\u{A4CF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{FE30}'..='\u{FE6F}' | '\u{FF00}'..='\u{FF60}');
    text.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}

impl Report {
    /// The report as Markdown. `pictures` is the folder of the charts as seen from the text; without it they are left out.
    pub fn markdown(&self, pictures: Option<&str>) -> String {
        let mut out = format!("## {}: {}\n\n{}\n\n", self.name, self.title, self.question);
        for (name, value) in &self.setting {
            let _ = writeln!(out, "* {name}: {value}");
        }
        out.push('\n');
        self.tables.iter().for_each(|table| table.write(&mut out));
        if let Some(folder) = pictures {
            for Figure { file, alt, .. } in &self.figures {
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

/// Seconds as milliseconds, with as many places as say something.
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

/// A share from 0 to 1 in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A whole number with commas.
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
        let mut table = Table::new("ms", &["topic", "n"]);
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
        let figure = Figure { file: "t2.svg".into(), alt: "time".into(), svg: "<svg/>".into() };
        let report = Report { name: "t2", figures: vec![figure], differs: vec!["by much".into()], ..Report::default() };
        assert!(report.markdown(Some("experiments")).contains("![time](experiments/t2.svg)"));
        assert!(report.markdown(Some("")).contains("![time](t2.svg)"));
        assert!(!report.markdown(None).contains("svg") && report.markdown(None).contains("* by much"));
    }
}
