//! Which texts the pages of groups and statistics have.

/// Lists of groups.
pub struct GroupsWords {
    /// The heading, and the name of the section.
    pub title: &'static str,
    /// The lists.
    pub tabs: &'static str,
    /// Matters that many write about.
    pub hot: &'static str,
    /// What that list is.
    pub hot_hint: &'static str,
    /// People who write again.
    pub repeat: &'static str,
    /// What that list is.
    pub repeat_hint: &'static str,
    /// The time looked at.
    pub window: &'static str,
    /// The last so many days.
    pub days: fn(u32) -> String,
    /// Nothing in that time.
    pub none: &'static str,
    /// A column.
    pub matter: &'static str,
    /// A column: people of late.
    pub people: &'static str,
    /// A column: records of late.
    pub recent: &'static str,
    /// A column: all records.
    pub size: &'static str,
    /// A column: number of matters.
    pub matters: &'static str,
    /// A column.
    pub first: &'static str,
    /// A column.
    pub last: &'static str,
    /// A column.
    pub trend: &'static str,
    /// A column.
    pub place: &'static str,
    /// So many of so many records that were read name it.
    pub named_by: fn(usize, usize) -> String,
    /// The numbers of a trend, each of so many days.
    pub numbers: fn(usize, &str) -> String,
    /// So many in all.
    pub total: fn(&str) -> String,
    /// The button.
    pub export: &'static str,
    /// So many more.
    pub more: fn(usize) -> String,
    /// To the page before.
    pub previous_page: &'static str,
    /// Of the number of a group, in a file.
    pub group: &'static str,
}

/// One group.
pub struct GroupWords {
    /// What a group is called, where its record has no title.
    pub title: &'static str,
    /// Its size, and the number of people.
    pub size: fn(&str, &str) -> String,
    /// From when to when.
    pub span: fn(&str, &str) -> String,
    /// It hangs together by few pairs.
    pub chained: &'static str,
    /// A person rejected a pair of it.
    pub contested: &'static str,
    /// The picture of members by time.
    pub time_line: &'static str,
    /// How many are not drawn, and how many have no time.
    pub not_drawn: fn(usize, usize) -> String,
    /// Who wrote.
    pub petitioners: &'static str,
    /// Nobody is named.
    pub nobody: &'static str,
    /// The picture of pairs.
    pub graph: &'static str,
    /// What the picture shows: so many records of so many, and how.
    pub graph_hint: fn(usize, usize) -> String,
    /// The table of pairs.
    pub weak: &'static str,
    /// What they are.
    pub weak_hint: &'static str,
    /// There are none.
    pub no_weak: &'static str,
    /// A column.
    pub link: &'static str,
    /// A column.
    pub records: &'static str,
    /// A column.
    pub similarity: &'static str,
    /// The only link between two parts.
    pub bridge: &'static str,
    /// A single link to another group.
    pub cut: &'static str,
    /// Decided not to be the same.
    pub rejected: &'static str,
    /// Among the least alike.
    pub least: &'static str,
    /// To both beside each other.
    pub beside: &'static str,
    /// Takes the pair apart.
    pub cut_here: &'static str,
    /// Says that all are one matter.
    pub join: &'static str,
    /// Too many for that.
    pub too_many: fn(usize) -> String,
    /// The members.
    pub members: &'static str,
    /// Only so many of them.
    pub shown: fn(usize, usize, usize) -> String,
    /// A column: first or repeat.
    pub kind: &'static str,
    /// A column: the record that it repeats.
    pub repeats: &'static str,
    /// A column: the date of the first of the group.
    pub first_date: &'static str,
}

/// What would be decided about a group.
pub struct RegroupWords {
    /// The heading of a cut.
    pub cut_title: &'static str,
    /// The heading of a join.
    pub join_title: &'static str,
    /// Nothing is changed yet.
    pub dry_run: &'static str,
    /// So many decisions, and what they say.
    pub decisions: fn(usize, &str) -> String,
    /// The records touched.
    pub touched: &'static str,
    /// What becomes of the group.
    pub after: &'static str,
    /// A group of so many.
    pub group_of: fn(usize) -> String,
    /// A record in no group.
    pub single: &'static str,
    /// Other pairs hold it together.
    pub stays: &'static str,
    /// So many more.
    pub more: fn(usize) -> String,
    /// The button of a cut.
    pub do_cut: &'static str,
    /// The button of a join.
    pub do_join: &'static str,
    /// Nothing left to decide.
    pub nothing: &'static str,
    /// Pairs that a person rejected stand against it.
    pub contradicted: &'static str,
    /// The group or a decision changed since the dry run.
    pub changed: &'static str,
    /// Done: so many of so many decisions.
    pub done: fn(usize, usize) -> String,
    /// Taken back: so many of so many decisions.
    pub undone: fn(usize, usize) -> String,
}

/// How much came in.
pub struct StatisticsWords {
    /// The heading, and the name of the section.
    pub title: &'static str,
    /// The heading of the picture.
    pub intake: &'static str,
    /// What is counted.
    pub hint: &'static str,
    /// Not all of the time could be counted: only from then on, so many numbers.
    pub partial: fn(&str, &str) -> String,
    /// A column.
    pub day: &'static str,
    /// A column.
    pub total: &'static str,
    /// A column: the share of repeats.
    pub share: &'static str,
    /// The last line.
    pub sum: &'static str,
    /// The heading of the collection's own numbers.
    pub collection: &'static str,
    /// Records stored.
    pub records: &'static str,
    /// Pieces of text known to be frequent.
    pub frequent: &'static str,
    /// Counted over so many records.
    pub sampled: &'static str,
    /// Nothing came in.
    pub none: &'static str,
}
