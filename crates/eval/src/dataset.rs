//! Labelled sets: `records.jsonl` with one record in each line, `groups.jsonl` with one group of records about the same matter in each
//! line, and optionally `pairs.jsonl` with one labelled pair of records in each line.
//!
//! The whole set is in memory, because labelled sets are small. Errors name the file and the line, never the text.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::labelled::{LABELS, LabelledPair, LabelledPairLine};
use super::metrics::PositionPair;
use doppel_core::record::{RecordId, Row};
use doppel_engine::replay::BatchRecord;

#[derive(Clone, Debug, Default)]
pub struct LabelledSet {
    /// The records in the order of the file.
    pub records: Vec<(RecordId, Row)>,
    pub positions: HashMap<RecordId, u32>,
    /// The pairs of records that belong to one group.
    pub truth: BTreeSet<PositionPair>,
    /// These pairs by kind of group, and by kind and subkind as `kind/subkind`.
    pub truth_by_kind: BTreeMap<String, BTreeSet<PositionPair>>,
    /// Pairs that people labelled, each once.
    pub labelled: Vec<LabelledPair>,
    /// Records that were made from other records of the set.
    pub copies: BTreeSet<u32>,
}

/// The reason why a labelled set cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file} line {line}: {detail}")]
pub struct DatasetError {
    /// The file, with the name that the caller gave.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The error and its remedy.
    pub detail: String,
}

#[derive(Deserialize)]
struct GroupLine {
    members: Vec<RecordId>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    subkind: Option<String>,
    #[serde(default)]
    copies: Vec<CopyLine>,
}

#[derive(Deserialize)]
struct CopyLine {
    id: RecordId,
}

impl LabelledSet {
    /// Returns the records as a batch for [`doppel_engine::replay::find_duplicates`].
    pub fn batch(&self) -> Vec<BatchRecord> {
        let batch = self.records.iter().map(|(id, row)| BatchRecord { id: id.clone(), row: row.json().clone() });
        batch.collect()
    }

    /// Reads both files. The names are used in messages.
    ///
    /// # Errors
    /// The first line that cannot be read, is not a record or group, repeats an id, or names an unknown member.
    pub fn read(named_records: (&str, impl BufRead), named_groups: (&str, impl BufRead)) -> Result<Self, DatasetError> {
        let (records_name, records) = named_records;
        let (groups_name, groups) = named_groups;
        let mut set = Self::default();
        each_line(records_name, records, |line| set.add_record(line))?;
        each_line(groups_name, groups, |line| set.add_group(line))?;
        Ok(set)
    }

    /// Reads the set in a folder: `records.jsonl`, and `groups.jsonl` or `pairs.jsonl` or both.
    ///
    /// # Errors
    /// A file cannot be opened, the folder has neither groups nor pairs, and the errors of [`LabelledSet::read`] and
    /// [`LabelledSet::read_pairs`].
    pub fn read_folder(folder: &Path) -> anyhow::Result<Self> {
        let [records, groups, pairs] = ["records.jsonl", "groups.jsonl", "pairs.jsonl"].map(|name| folder.join(name));
        ensure!(
            groups.exists() || pairs.exists(),
            "{} has no groups.jsonl and no pairs.jsonl; at least one of them says which records belong together",
            folder.display()
        );
        let groups = Some(groups).filter(|file| file.exists());
        let pairs = Some(pairs).filter(|file| file.exists());
        Self::read_files(&records, groups.as_deref(), pairs.as_deref())
    }

    /// Reads a set from files.
    ///
    /// # Errors
    /// A file cannot be opened, there are neither groups nor labelled pairs, and the errors of [`LabelledSet::read`] and
    /// [`LabelledSet::read_pairs`].
    pub fn read_files(records: &Path, groups: Option<&Path>, pairs: Option<&Path>) -> anyhow::Result<Self> {
        let records_file = (&*name_of(records), open(records)?);
        let mut set = match groups {
            Some(groups) => Self::read(records_file, (&name_of(groups), open(groups)?))?,
            None => Self::read(records_file, ("no groups", &[][..]))?,
        };
        if let Some(pairs) = pairs {
            set.read_pairs((&name_of(pairs), open(pairs)?))?;
            ensure!(groups.is_some() || !set.labelled.is_empty(), "{} has no labelled pairs", pairs.display());
        }
        Ok(set)
    }

    /// Adds the labelled pairs of a file. The name is used in messages.
    ///
    /// # Errors
    /// The first line that cannot be read, is not a pair of two different records of the set with one of the [`LABELS`], or repeats a pair.
    pub fn read_pairs(&mut self, named_pairs: (&str, impl BufRead)) -> Result<(), DatasetError> {
        let (name, pairs) = named_pairs;
        let mut seen: BTreeSet<PositionPair> = self.labelled.iter().map(|labelled| labelled.pair).collect();
        each_line(name, pairs, |line| {
            let labelled = self.labelled_pair(line)?;
            if !seen.insert(labelled.pair) {
                let [a, b] = [labelled.pair.0, labelled.pair.1].map(|position| &self.records[position as usize].0);
                return Err(format!("the pair {a}, {b} occurs twice; give every pair one label"));
            }
            self.labelled.push(labelled);
            Ok(())
        })
    }

    /// Returns the position of an id, or an error that names the id.
    pub(super) fn position(&self, id: &RecordId) -> Result<u32, String> {
        self.positions.get(id).copied().ok_or_else(|| format!("the record {id} is not among the records"))
    }

    fn labelled_pair(&self, line: &[u8]) -> Result<LabelledPair, String> {
        let LabelledPairLine { a, b, label, jaccard, signs } = serde_json::from_slice(line)
            .map_err(|error| format!("not a pair with \"a\", \"b\" and \"label\" (column {})", error.column()))?;
        let pair = PositionPair::new(self.position(&a)?, self.position(&b)?);
        if pair.0 == pair.1 {
            return Err(format!("{a} is paired with itself; give two records"));
        }
        if !LABELS.contains(&label.as_str()) {
            return Err(format!("the label is not known; give one of {}", LABELS.join(", ")));
        }
        if jaccard.is_some_and(|jaccard| !(0.0..=1.0).contains(&jaccard)) {
            return Err("\"jaccard\" is a share; give a number from 0 to 1, or leave it out".into());
        }
        Ok(LabelledPair { pair, label, jaccard, signs })
    }

    fn add_record(&mut self, line: &[u8]) -> Result<(), String> {
        self.add(Row::parse(line).map_err(|error| error.to_string())?)
    }

    /// Adds a record at the end.
    ///
    /// # Errors
    /// The record has no id, or an id that occurs already.
    pub fn add(&mut self, row: Row) -> Result<(), String> {
        let id = row.id().cloned().ok_or("the record has no id; give every line an \"id\"")?;
        self.add_as(id, row)
    }

    /// Adds a record at the end, with an id that its row need not contain.
    ///
    /// # Errors
    /// The id occurs already.
    pub fn add_as(&mut self, id: RecordId, row: Row) -> Result<(), String> {
        let position = u32::try_from(self.records.len()).map_err(|_| "more than 2^32 records")?;
        if self.positions.insert(id.clone(), position).is_some() {
            return Err(format!("the id {id} occurs twice; give every record its own"));
        }
        self.records.push((id, row));
        Ok(())
    }

    fn add_group(&mut self, line: &[u8]) -> Result<(), String> {
        let group: GroupLine = serde_json::from_slice(line)
            .map_err(|error| format!("not a group with \"members\" (column {})", error.column()))?;
        let mut members = Vec::with_capacity(group.members.len());
        for member in &group.members {
            let position = self.positions.get(member);
            members.push(*position.ok_or_else(|| format!("the member {member} is not among the records"))?);
        }
        self.relate(&members);
        let copies = group.copies.iter().filter_map(|copy| self.positions.get(&copy.id));
        self.copies.extend(copies.filter(|position| members.contains(position)));
        let kind = group.kind.unwrap_or_else(|| "unnamed".into());
        let names = [group.subkind.map(|subkind| format!("{kind}/{subkind}")), Some(kind)];
        let pairs =
            || members.iter().enumerate().flat_map(|(n, a)| members[..n].iter().map(|b| PositionPair::new(*a, *b)));
        for name in names.into_iter().flatten() {
            self.truth_by_kind.entry(name).or_default().extend(pairs().filter(|pair| pair.0 != pair.1));
        }
        Ok(())
    }

    /// Records that the records at these positions concern the same matter.
    pub fn relate(&mut self, members: &[u32]) {
        let pairs =
            members.iter().enumerate().flat_map(|(n, a)| members[..n].iter().map(|b| PositionPair::new(*a, *b)));
        self.truth.extend(pairs.filter(|pair| pair.0 != pair.1));
    }

    /// Returns the first `count` records, and the pairs among them. Kinds of groups and labelled pairs are left out.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        self.these(0..self.records.len().min(count) as u32)
    }

    /// Returns the records at the ascending `positions`, and the pairs among them. Kinds of groups and labelled pairs are left out.
    #[must_use]
    pub fn these(&self, positions: impl IntoIterator<Item = u32>) -> Self {
        let mut part = Self::default();
        let mut moved = HashMap::new();
        for (new, old) in (0..).zip(positions) {
            let (id, row) = &self.records[old as usize];
            moved.insert(old, new);
            part.positions.insert(id.clone(), new);
            part.records.push((id.clone(), row.clone()));
        }
        let pairs =
            self.truth.iter().filter_map(|PositionPair(a, b)| Some(PositionPair::new(*moved.get(a)?, *moved.get(b)?)));
        part.truth = pairs.collect();
        part
    }
}

/// Opens a file for reading.
///
/// # Errors
/// The file cannot be opened. The error contains its name.
pub fn open(file: &Path) -> anyhow::Result<BufReader<File>> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    Ok(BufReader::new(opened))
}

fn name_of(file: &Path) -> String {
    file.display().to_string()
}

pub(super) fn each_line(
    name: &str,
    reader: impl BufRead,
    mut take: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), DatasetError> {
    for (number, line) in reader.split(b'\n').enumerate() {
        let taken = match line {
            Ok(line) if line.trim_ascii().is_empty() => Ok(()),
            Ok(line) => take(&line),
            Err(cause) => Err(format!("cannot be read: {cause}")),
        };
        taken.map_err(|detail| DatasetError { file: name.to_owned(), line: number + 1, detail })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &str =
        "{\"id\":\"a\",\"content\":\"x\"}\n\n{\"id\":\"b\",\"content\":\"y\"}\n{\"id\":3,\"content\":\"z\"}\n";

    fn read(records: &str, groups: &str) -> Result<LabelledSet, String> {
        LabelledSet::read(("r", records.as_bytes()), ("g", groups.as_bytes())).map_err(|error| error.to_string())
    }

    #[test]
    fn every_two_members_of_a_group_are_a_true_pair() {
        let set = read(
            RECORDS,
            "{\"members\":[\"a\",\"b\",\"3\"],\"kind\":\"natural\",\"subkind\":\"near\",\"strength\":null}",
        )
        .unwrap();
        assert_eq!(
            set.truth.iter().copied().collect::<Vec<_>>(),
            [PositionPair(0, 1), PositionPair(0, 2), PositionPair(1, 2)]
        );
        assert_eq!(set.truth_by_kind.keys().collect::<Vec<_>>(), ["natural", "natural/near"]);
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let unknown = read(RECORDS, "\n{\"members\":[\"a\",\"zz\"]}").unwrap_err();
        assert_eq!(unknown, "g line 2: the member zz is not among the records");
        let twice = read("{\"id\":\"a\"}\n{\"id\":\"a\"}", "").unwrap_err();
        assert_eq!(twice, "r line 2: the id a occurs twice; give every record its own");
        assert!(read("{\"content\":\"x\"}", "").unwrap_err().starts_with("r line 1: the record has no id"));
    }
}
