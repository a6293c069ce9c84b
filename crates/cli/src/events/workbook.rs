//! The workbook of events and orders. Each row goes to disk at once.

use std::collections::HashMap;

use anyhow::Context as _;
use rust_xlsxwriter::{Workbook, Worksheet};

use super::{EventReport, OrderStock, ReportedEvent};
use crate::output::OutputFile;
use crate::progress::CommandProgress;
use doppel_core::events::{FactState, FrequencyState};
use doppel_core::record::{Row, Value};
use doppel_findings::FindingWords;
use doppel_findings::output::{write_counts, write_row};
use doppel_texts::Language;

/// Maximum number of ids that a cell lists.
const MAX_LISTED: usize = 200;

/// The headings in Chinese and in English.
const EVENT_HEADINGS: [[&str; 2]; 14] = [
    ["事件", "event"],
    ["名称", "name"],
    ["件数", "reports"],
    ["人数", "people"],
    ["匿名件", "anonymous"],
    ["首次", "first"],
    ["最近", "last"],
    ["多频", "frequent"],
    ["多频时段", "window"],
    ["地点", "place"],
    ["分类", "category"],
    ["依据", "evidence"],
    ["未知", "unknown"],
    ["矛盾", "contradictions"],
];
const ORDER_HEADINGS: [[&str; 2]; 4] =
    [["编号", "id"], ["事件", "event"], ["事件名称", "event name"], ["引用", "cites"]];
const SHEETS: [[&str; 2]; 2] = [["事件", "工单"], ["events", "orders"]];

pub(super) struct EventBook<'a> {
    pub(super) report: &'a EventReport,
    pub(super) orders: &'a OrderStock,
    pub(super) language: Language,
    pub(super) time_zone: &'a str,
}

impl EventBook<'_> {
    /// Writes the workbook. Temporary data is in unnamed files.
    pub(super) fn write(&self, mut out: OutputFile, progress: &CommandProgress) -> anyhow::Result<OutputFile> {
        let path = out.path().display().to_string();
        self.write_book(&mut out, progress).with_context(|| format!("cannot write {path}"))?;
        Ok(out)
    }

    fn write_book(&self, out: &mut OutputFile, progress: &CommandProgress) -> anyhow::Result<()> {
        let mut book = Workbook::new();
        let language = usize::from(self.language != Language::Chinese);
        let sheet = book.add_worksheet_with_constant_memory()?;
        sheet.set_name(SHEETS[language][0])?;
        self.write_events(sheet, language)?;
        let sheet = book.add_worksheet_with_constant_memory()?;
        sheet.set_name(SHEETS[language][1])?;
        self.write_orders(sheet, language, progress)?;
        Ok(book.save_to_writer(out)?)
    }

    fn write_events(&self, sheet: &mut Worksheet, language: usize) -> anyhow::Result<()> {
        write_row(sheet, 0, EVENT_HEADINGS.map(|both| both[language]))?;
        for (number, event) in self.report.events.iter().enumerate() {
            let cells = self.event_cells(event, language)?;
            let row = number as u32 + 1;
            write_row(sheet, row, cells.iter().map(String::as_str))?;
            let counts = [event.counts.reports, event.counts.petitioners, event.counts.anonymous];
            write_counts(sheet, row, 0, [row.into()])?;
            write_counts(sheet, row, 2, counts.map(|count| count as u64))?;
        }
        Ok(())
    }

    /// Returns the texts of the row of an event. The cells of the numbers are empty.
    fn event_cells(&self, event: &ReportedEvent, language: usize) -> anyhow::Result<Vec<String>> {
        let state = match event.frequency {
            FrequencyState::Frequent => ["是", "frequent"],
            FrequencyState::NotReached => ["否", "not_reached"],
            FrequencyState::NoDates => ["无日期", "no_dates"],
        };
        let words = FindingWords(self.language);
        let window = match event.window {
            Some(window) => format!("{} - {} ({})", self.day(window.first)?, self.day(window.last)?, window.reports),
            None => String::new(),
        };
        Ok(vec![
            String::new(),
            event.summary.name.clone(),
            String::new(),
            String::new(),
            String::new(),
            event.counts.times.first().map_or(Ok(String::new()), |time| self.day(*time))?,
            event.counts.times.last().map_or(Ok(String::new()), |time| self.day(*time))?,
            state[language].to_owned(),
            window,
            event.summary.places.join("、"),
            event.counts.category.clone().unwrap_or_default(),
            self.evidence(event, language),
            event.facts.unknown.iter().map(|kind| words.object(*kind)).collect::<Vec<_>>().join("、"),
            self.contradictions(event),
        ])
    }

    /// Describes why the members belong together, with their ids.
    fn evidence(&self, event: &ReportedEvent, language: usize) -> String {
        let known = self.report.known_pairs.get(&event.members[0]).copied().unwrap_or_default();
        let ids = self.ids(&event.members);
        match language {
            0 => format!("重复或引用 {known} 对；工单 {ids}"),
            _ => format!("{known} duplicate or citing pairs; orders {ids}"),
        }
    }

    fn contradictions(&self, event: &ReportedEvent) -> String {
        let words = FindingWords(self.language);
        let contradicted = event.facts.facts.iter().filter(|fact| fact.state == FactState::Contradicted);
        let one = contradicted
            .map(|fact| format!("{} {} ({})", words.object(fact.kind), fact.value, self.ids(&fact.members)));
        one.collect::<Vec<_>>().join("; ")
    }

    fn ids(&self, members: &[u32]) -> String {
        let listed = members.iter().take(MAX_LISTED).map(|member| &*self.report.finder.collection().record(*member).id);
        let more = if members.len() > MAX_LISTED { " …" } else { "" };
        listed.collect::<Vec<_>>().join(" ") + more
    }

    fn day(&self, time: i64) -> anyhow::Result<String> {
        let time = jiff::Timestamp::from_second(time).context("a time is out of range")?;
        Ok(time.in_tz(self.time_zone)?.date().to_string())
    }

    fn write_orders(&self, sheet: &mut Worksheet, language: usize, progress: &CommandProgress) -> anyhow::Result<()> {
        let columns = &self.orders.columns;
        write_row(
            sheet,
            0,
            ORDER_HEADINGS.map(|both| both[language]).into_iter().chain(columns.iter().map(String::as_str)),
        )?;
        let mut event_of: HashMap<u32, usize> = HashMap::new();
        for (number, event) in self.report.events.iter().enumerate() {
            event_of.extend(event.members.iter().map(|member| (*member, number)));
        }
        let mut citations = self.report.citations.iter().peekable();
        for (at, order) in (0_u32..).zip(&self.orders.rows) {
            let row = Row::parse(order.row.as_bytes()).context("a stored row is damaged")?;
            let mut cited = Vec::new();
            while let Some(citation) = citations.next_if(|citation| citation.record == at) {
                cited.push(citation.cited);
            }
            let number = event_of.get(&at);
            let mut cells = vec![
                order.id.as_str().to_owned(),
                String::new(),
                number.map_or_else(String::new, |number| self.report.events[*number].summary.name.clone()),
                self.ids(&cited),
            ];
            cells.extend(columns.iter().map(|name| match row.value(name) {
                Some(Value::Text(text) | Value::Literal(text)) => text.clone(),
                _ => String::new(),
            }));
            write_row(sheet, at + 1, cells.iter().map(String::as_str))?;
            write_counts(sheet, at + 1, 1, number.map(|number| *number as u64 + 1))?;
            progress.at(u64::from(at) + 1);
        }
        Ok(())
    }
}
