//! The texts of the page about quality, in both languages.

/// What people decided against what was found.
pub struct QualityWords {
    /// The heading, and the name of the section.
    pub title: &'static str,
    /// What the numbers are of.
    pub hint: &'static str,
    /// Only so many decisions were read.
    pub not_all_decisions: fn(&str) -> String,
    /// Nobody decided anything yet.
    pub none: &'static str,
    /// Heading.
    pub precision: &'static str,
    /// So many of so many that were found are the same matter: share and interval, in per cent.
    pub precision_is: fn(&str, &str, &str) -> String,
    /// Nobody decided about a pair that was found.
    pub no_precision: &'static str,
    /// Heading.
    pub missed: &'static str,
    /// So many were missed; at most so much was found.
    pub missed_are: fn(&str, &str) -> String,
    /// What that is a bound of.
    pub missed_hint: &'static str,
    /// Heading of the table.
    pub by_similarity: &'static str,
    /// A column.
    pub band: &'static str,
    /// A column.
    pub same: &'static str,
    /// A column.
    pub not_same: &'static str,
    /// A column.
    pub share: &'static str,
    /// A column.
    pub interval: &'static str,
    /// Heading.
    pub recorded: &'static str,
    /// Over how many pairs.
    pub recorded_of: fn(&str) -> String,
    /// These are not all.
    pub not_all_recorded: fn(&str) -> String,
    /// A column.
    pub pairs: &'static str,
    /// There are none.
    pub no_recorded: &'static str,
    /// Heading.
    pub what_if: &'static str,
    /// What it does.
    pub what_if_hint: &'static str,
    /// The collection does not verify.
    pub unverified: &'static str,
    /// A threshold.
    pub jaccard: &'static str,
    /// A threshold.
    pub containment: &'static str,
    /// A threshold.
    pub evidence: &'static str,
    /// The button.
    pub look: &'static str,
    /// A threshold is no number in its range.
    pub wrong: &'static str,
    /// So many of so many decided pairs would fall away: the same, not the same.
    pub decided_fall: fn([&str; 4]) -> String,
    /// So many of so many recorded pairs would.
    pub recorded_fall: fn(&str, &str) -> String,
    /// So many of the missed would be accepted.
    pub missed_accepted: fn(&str) -> String,
    /// Heading.
    pub falling: &'static str,
    /// Heading.
    pub staying: &'static str,
    /// No example.
    pub no_example: &'static str,
    /// A similarity.
    pub alike: fn(&str) -> String,
    /// Nothing is set yet; how it is.
    pub how_to_set: &'static str,
    /// The button that builds a generation.
    pub try_it: &'static str,
    /// What that does.
    pub try_hint: &'static str,
}

pub(super) const EN: QualityWords = QualityWords {
    title: "Quality",
    hint: "What people decided against what was found. Similarity is measured now, by the settings and statistics of today. People \
           decide mostly about what they are shown: the shares hold of such pairs.",
    not_all_decisions: |most| {
        format!("There are more decisions: only the first {most}, in the order of their ids, were read.")
    },
    none: "Nobody has decided about two records that are there.",
    precision: "Right",
    precision_is: |numbers, share, interval| {
        format!("{numbers} decided pairs that were found are the same matter: {share} (95 % interval {interval}).")
    },
    no_precision: "Nobody has decided about a pair that was found.",
    missed: "Missed",
    missed_are: |missed, recall| {
        format!(
            "{missed} pairs that people called the same were not found. At most {recall} of what is the same matter was found."
        )
    },
    missed_hint: "The number is a lower bound of what was missed, and the share an upper bound of what was found: pairs that nobody \
                  has looked at are in neither.",
    by_similarity: "Decided pairs by similarity",
    band: "Similarity",
    same: "Same matter",
    not_same: "Not the same",
    share: "Share that is the same",
    interval: "95 % interval",
    recorded: "Pairs that were found, by similarity",
    recorded_of: |number| format!("{number} pairs, the latest first; whether decided or not."),
    not_all_recorded: |numbers| {
        format!("These are not all: at most 2,000 pairs of the latest {numbers} numbers were read.")
    },
    pairs: "Pairs",
    no_recorded: "No pair was found among the latest records.",
    what_if: "What if",
    what_if_hint: "Try other thresholds on the pairs above. Nothing is changed. Pairs that lower thresholds would add are not known before \
                   an index is built with them.",
    unverified: "This collection does not verify; there is no threshold to choose.",
    jaccard: "Least similarity (0 to 1)",
    containment: "Least containment (0 to 1)",
    evidence: "Least evidence (0 to 1000)",
    look: "Look what would change",
    wrong: "A threshold is not a number in its range; those of today are shown.",
    decided_fall: |[fall, of, same, not_same]| {
        format!(
            "Of {of} decided pairs that were found, {fall} would fall away: {same} the same matter, {not_same} not the same."
        )
    },
    recorded_fall: |fall, of| format!("Of {of} pairs that were found, decided or not, {fall} would fall away."),
    missed_accepted: |number| {
        format!("Of the pairs that were missed, {number} more would be accepted if the index proposes them.")
    },
    falling: "Would fall away, the most alike",
    staying: "Would stay, the least alike",
    no_example: "None.",
    alike: |similarity| format!("similarity {similarity}"),
    how_to_set: "Thresholds are set by an administrator: in the collection's settings (verify), or by a reindex with them.",
    try_it: "Build a generation with these thresholds",
    try_hint: "It is built beside the index that answers and answers nothing. Under Work it can then be compared, made to answer, or \
               discarded.",
};

pub(super) const ZH: QualityWords = QualityWords {
    title: "质量",
    hint: "把人工认定与系统找到的重件相对照。相似度按今天的设置和统计重新计算。人工多半只认定系统提示过的件，所以这些比例只对看过的件成立。",
    not_all_decisions: |most| format!("认定较多，只按编号顺序读了前 {most} 条。"),
    none: "现有信访件之间还没有人工认定。",
    precision: "找得准不准",
    precision_is: |numbers, share, interval| {
        format!("系统找到并经认定的对中，{numbers} 是相同事项：{share}（95% 区间 {interval}）。")
    },
    no_precision: "系统找到的对还没有人认定过。",
    missed: "漏掉的",
    missed_are: |missed, recall| format!("有 {missed} 对经人工认定相同而系统没有找到；相同事项至多找到了 {recall}。"),
    missed_hint: "漏掉的对数是下限，找到的比例是上限：没有人看过的对都不在其中。",
    by_similarity: "已认定的对，按相似度",
    band: "相似度",
    same: "相同事项",
    not_same: "不是相同事项",
    share: "相同的比例",
    interval: "95% 区间",
    recorded: "系统找到的对，按相似度",
    recorded_of: |number| format!("共 {number} 对，从最近的算起，不论是否认定。"),
    not_all_recorded: |numbers| format!("并非全部：最多读最近 {numbers} 个登记号内的 2,000 对。"),
    pairs: "对数",
    no_recorded: "最近的信访件中没有找到重件。",
    what_if: "如果换阈值",
    what_if_hint: "用其他阈值试算以上各对，不作任何改动。阈值放低后会新增哪些对，要按新阈值建成索引才能知道。",
    unverified: "本数据集不作复核，没有阈值可选。",
    jaccard: "最低相似度（0 到 1）",
    containment: "最低包含度（0 到 1）",
    evidence: "最低证据量（0 到 1000）",
    look: "看会有什么变化",
    wrong: "阈值不是范围内的数字，下面显示的是现有阈值。",
    decided_fall: |[fall, of, same, not_same]| {
        format!("系统找到并经认定的 {of} 对中，{fall} 对会不再算重件：相同事项 {same} 对，不是相同事项 {not_same} 对。")
    },
    recorded_fall: |fall, of| format!("系统找到的 {of} 对（不论是否认定）中，{fall} 对会不再算重件。"),
    missed_accepted: |number| format!("漏掉的对中，另有 {number} 对在索引能提出时会被接受。"),
    falling: "会失去的，最相似的在前",
    staying: "会保留的，最不相似的在前",
    no_example: "没有。",
    alike: |similarity| format!("相似度 {similarity}"),
    how_to_set: "阈值由管理员设定：修改数据集设置中的 verify，或带新设置重建索引。",
    try_it: "按这些阈值另建一个版本",
    try_hint: "与使用中的索引并存，不启用；建成后可在“任务”页比较、启用或删除。",
};
