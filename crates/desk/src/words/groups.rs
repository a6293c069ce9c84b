//! The types for the texts of the pages about groups and statistics.

/// The texts of the lists of groups.
pub struct GroupsWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Label of the links to the lists.
    pub tabs: &'static str,
    /// Name of the list of matters about which many people wrote.
    pub hot: &'static str,
    /// Description of the list of these matters.
    pub hot_hint: &'static str,
    /// Name of the list of people who wrote repeatedly.
    pub repeat: &'static str,
    /// Description of the list of these people.
    pub repeat_hint: &'static str,
    /// Label of the choice of the period.
    pub window: &'static str,
    /// A period, with its number of days.
    pub days: fn(u32) -> String,
    /// Text instead of an empty list.
    pub none: &'static str,
    /// Column with the matters.
    pub matter: &'static str,
    /// Column with the number of people in the period.
    pub people: &'static str,
    /// Column with the number of records in the period.
    pub recent: &'static str,
    /// Column with the number of all records.
    pub size: &'static str,
    /// Column with the number of matters.
    pub matters: &'static str,
    /// Column with the first dates.
    pub first: &'static str,
    /// Column with the latest dates.
    pub last: &'static str,
    /// Column with the trends.
    pub trend: &'static str,
    /// Column with the places.
    pub place: &'static str,
    /// Number of records that name the place, and number of records that were read.
    pub named_by: fn(usize, usize) -> String,
    /// The numbers of a trend as text, with the number of days of each part.
    pub numbers: fn(usize, &str) -> String,
    /// The number of lines of the list.
    pub total: fn(&str) -> String,
    /// Link to the export.
    pub export: &'static str,
    /// The number of matters that are not listed.
    pub more: fn(usize) -> String,
    /// Link to the previous page.
    pub previous_page: &'static str,
    /// Heading of the column with the ids of groups, in the export.
    pub group: &'static str,
}

/// The texts of the page of one group.
pub struct GroupWords {
    /// Title of a group whose original has no title.
    pub title: &'static str,
    /// Number of records and number of people.
    pub size: fn(&str, &str) -> String,
    /// Period, with its first and last date.
    pub span: fn(&str, &str) -> String,
    /// Warning that few pairs connect the group.
    pub chained: &'static str,
    /// Warning that a person rejected a pair of the group.
    pub contested: &'static str,
    /// Heading of the time line.
    pub time_line: &'static str,
    /// Number of members that have no dot, and number of members without a time.
    pub not_drawn: fn(usize, usize) -> String,
    /// Heading of the list of petitioners.
    pub petitioners: &'static str,
    /// Text instead of an empty list of petitioners.
    pub nobody: &'static str,
    /// Heading of the graph.
    pub graph: &'static str,
    /// Description of the graph, with the number of drawn records and of all records.
    pub graph_hint: fn(usize, usize) -> String,
    /// Heading of the table of pairs.
    pub weak: &'static str,
    /// Description of the table of pairs.
    pub weak_hint: &'static str,
    /// Text instead of an empty table of pairs.
    pub no_weak: &'static str,
    /// Column with the numbers of pairs.
    pub link: &'static str,
    /// Column with the records of pairs.
    pub records: &'static str,
    /// Column with the similarities of pairs.
    pub similarity: &'static str,
    /// Reason: the pair is the only link between two parts of the group.
    pub bridge: &'static str,
    /// Reason: the pair is the only link to another group.
    pub cut: &'static str,
    /// Reason: a person decided that the two records are different matters.
    pub rejected: &'static str,
    /// Reason: the pair is among the least similar pairs.
    pub least: &'static str,
    /// Link to the comparison of the two records.
    pub beside: &'static str,
    /// Link to the preview of cutting the group at the pair.
    pub cut_here: &'static str,
    /// Link to the preview of declaring all records one matter.
    pub join: &'static str,
    /// Label of the choice of the original under which the group is merged.
    pub merge: &'static str,
    /// Button that shows the preview of the merge.
    pub merge_button: &'static str,
    /// Message that the group has too many records for this action, with the largest number.
    pub too_many: fn(usize) -> String,
    /// Heading of the list of members.
    pub members: &'static str,
    /// Numbers of the first and the last shown member, and number of all members.
    pub shown: fn(usize, usize, usize) -> String,
    /// Column with the verdicts: first or repeat.
    pub kind: &'static str,
    /// Column with the ids of the repeated records.
    pub repeats: &'static str,
    /// Column with the date of the group's first record, in the export.
    pub first_date: &'static str,
}

/// The texts of the previews of actions on a group.
pub struct RegroupWords {
    /// Heading of the preview of a cut.
    pub cut_title: &'static str,
    /// Heading of the preview of a join.
    pub join_title: &'static str,
    /// Heading of the preview of a merge.
    pub merge_title: &'static str,
    /// Button that makes the merge.
    pub do_merge: &'static str,
    /// The record that becomes the original, by its title and id.
    pub original: fn(&str, &str) -> String,
    /// Note that the preview changes nothing.
    pub dry_run: &'static str,
    /// Number of decisions, and their judgement.
    pub decisions: fn(usize, &str) -> String,
    /// Heading of the list of records that the decisions are about.
    pub touched: &'static str,
    /// Heading of the list of resulting groups.
    pub after: &'static str,
    /// Heading of a group, with its number of records.
    pub group_of: fn(usize) -> String,
    /// Heading of a record that is in no group.
    pub single: &'static str,
    /// Note that other pairs still connect the two records.
    pub stays: &'static str,
    /// Number of records that are not listed.
    pub more: fn(usize) -> String,
    /// Button that makes the cut.
    pub do_cut: &'static str,
    /// Button that makes the join.
    pub do_join: &'static str,
    /// Message that no decision is left to make.
    pub nothing: &'static str,
    /// Message that rejected pairs forbid the join.
    pub contradicted: &'static str,
    /// Message that the group or a decision has changed since the preview.
    pub changed: &'static str,
    /// Message after the action, with the number of decisions made and of decisions planned.
    pub done: fn(usize, usize) -> String,
    /// Message after undoing, with the number of decisions taken back and of decisions made.
    pub undone: fn(usize, usize) -> String,
}
