//! The texts of the pages about groups.

use super::table::words;

words! {
    /// The texts of the lists of groups.
    pub struct GroupsWords {
        title: "热点", "Groups";
        tabs: "榜单", "Lists";
        hot: "热点事项", "Hot issues";
        hot_hint: "同一事项的信访件归为一组，按期内不同信访人的人数排列。",
            "Records about the same matter form a group. Groups with the most petitioners in this period come first.";
        repeat: "重复信访人", "Repeat petitioners";
        repeat_hint: "就同一事项反映两次以上、期内仍有来件的人，按期内件数排列。",
            "People who wrote more than once about the same matter, and at least once in this period. Those with the most records come \
             first.";
        window: "时间范围", "Time";
        days(days: u32): "近 {days} 天", "last {days} days";
        none: "这段时间里没有。可以选更长的时间范围。", "There are none in this period. Choose a longer one.";
        matter: "事项", "Matter";
        people: "期内人数", "People in this period";
        recent: "期内件数", "Records in this period";
        size: "总件数", "All records";
        matters: "事项数", "Matters";
        first: "初次", "First";
        last: "最近", "Latest";
        trend: "走势", "Trend";
        place: "地点", "Place";
        /// Number of records that name the place, and number of records that were read.
        named_by(named: usize, of: usize): "最近 {of} 件中有 {named} 件提到", "named by {named} of the latest {of}";
        /// The numbers of a trend as text, with the number of days of each part.
        numbers(days: usize, numbers: &str) -> String: match days {
            1 => "每天件数：{numbers}", "Records by day: {numbers}";
            days => "每 {days} 天件数：{numbers}", "Records by {days} days: {numbers}";
        }
        total(count: &str): "共 {count} 项", "{count} in all";
        export: "导出表格（CSV）", "Export (CSV)";
        more(count: usize): "另有 {count} 项", "{count} more";
        previous_page: "上一页", "Previous page";
        /// Heading of the column with the ids of groups, in the export.
        group: "组号", "Group";
    }
}

words! {
    /// The texts of the page of one group.
    pub struct GroupWords {
        /// Title of a group whose original has no title.
        title: "同一事项的信访件", "Records about one matter";
        size(records: &str, people: &str): "{records} 件，{people} 人", "Records: {records}; people: {people}";
        span(first: &str, last: &str): "{first} 至 {last}", "{first} to {last}";
        chained: "这一组件数多而联系少，可能串联了几个事项；请看下面值得核对的联系。",
            "This group is large, and only a few pairs connect it, so it may contain several matters. See the links to check below.";
        contested: "组内有两件曾被认定为不是同一事项，但仍由其他联系连在一起。",
            "Two records of this group were decided not to be the same matter, but other pairs still connect them.";
        time_line: "时间分布", "Over time";
        not_drawn(more: usize, undated: usize): "另有 {more} 件未画出，{undated} 件时间不详。",
            "Not drawn: {more}; time unknown: {undated}.";
        petitioners: "信访人", "Petitioners";
        nobody: "这一组没有写信访人。", "No record of this group names a petitioner.";
        graph: "联系图", "How the records are connected";
        graph_hint(drawn: usize, of: usize):
            "画出 {of} 件中的 {drawn} 件；实线连接内容相同或相近的两件，虚线是下表中的联系，编号相同；橙色的一件最早。",
            "{drawn} of {of} records are drawn, the earliest in orange. Lines join records with the same or similar text; dashed lines \
             are the links of the table, by the same number.";
        weak: "值得核对的联系", "Links to check";
        weak_hint: "断开一处即认定这两件不是同一事项，执行前先预览结果；两件之间若另有联系，须把那些也断开。",
            "Cutting one decides that its two records are not the same matter; first you see what becomes of the group. If other links \
             connect the two, cut those as well.";
        no_weak: "没有值得核对的联系：每件都由两处以上的联系连在一起。", "There are none: more than one link connects each record.";
        link: "联系", "Link";
        records: "两件", "Records";
        similarity: "相似度", "Similarity";

        // Reasons why a pair is listed.
        bridge: "唯一联系", "only link";
        cut: "与另一组的唯一联系", "only link to another group";
        rejected: "已认定不是同一事项", "decided not to be the same";
        least: "相似度较低", "not very similar";

        beside: "对照", "Compare";
        cut_here: "从此处断开", "Cut here";
        join: "全部认定为同一事项", "All one matter";
        merge: "一键并单，主件为", "Merge the group under";
        merge_button: "预览并单", "Preview the merge";
        too_many(most: usize): "整组认定须对每两件逐一作出认定，因此最多 {most} 件；这一组超过了，请先断开或逐件认定。",
            "This needs one decision for each pair, so it is possible for at most {most} records, and this group has more. Cut it first, \
             or decide pair by pair.";
        members: "组内信访件", "Records of the group";
        shown(from: usize, to: usize, of: usize): "第 {from} 至 {to} 件，共 {of} 件", "{from} to {to} of {of}";
        kind: "初/重", "First/repeat";
        repeats: "关联件", "Repeats";
        /// Column with the date of the group's first record, in the export.
        first_date: "初次日期", "First date";
    }
}

words! {
    /// The texts of the previews of actions on a group.
    pub struct RegroupWords {
        cut_title: "从此处断开（预览）", "Cut here (preview)";
        join_title: "全部认定为同一事项（预览）", "All one matter (preview)";
        merge_title: "一键并单（预览）", "Merge the group (preview)";
        do_merge: "确认并单", "Merge";
        original(title: &str, id: &str): "并单以后，初件（主件）是：{title}（{id}），其余各件均为它的重件。",
            "Afterwards the original is “{title}” ({id}), and all other records repeat it.";
        dry_run: "这是预览，尚未作任何改动。", "This is a preview: nothing is changed yet.";
        decisions(count: usize, judgement: &str): "将作出 {count} 条认定：{judgement}。",
            "Decisions to be made: {count}, each: {judgement}.";
        touched: "涉及的信访件", "Records concerned";
        after: "执行之后", "Afterwards";
        group_of(count: usize): "一组，{count} 件", "A group of {count}";
        single: "单独一件，不在任何一组中", "By itself, in no group";
        stays: "这两件仍由其他联系连在同一组中；该组会标明存在分歧。",
            "Other links still hold the two in one group, which will be marked as disputed.";
        more(count: usize): "另有 {count} 件未列出。", "{count} more are not listed.";
        do_cut: "确认断开", "Cut";
        do_join: "确认全部为同一事项", "Decide: all one matter";
        nothing: "没有需要作出的认定：已经这样认定过了。", "Nothing is left to decide: all of this was decided before.";
        contradicted: "下列各对已有人认定为不是同一事项，不能整组认定。请先打开对照，撤销原认定：",
            "Somebody decided that these pairs are not the same matter. Open them and take those decisions back first:";
        changed: "预览之后情况有变，没有执行。请看新的预览。",
            "Something changed after the preview, so nothing was done. Here is a new preview.";
        done(done: usize, of: usize) -> String: match done {
            _ if done == of => "已作出 {done} 条认定。", "Decisions made: {done}.";
            _ => "{of} 条认定中作出了 {done} 条，其余未能作出。", "Decisions made: {done} of {of}; the others could not be made.";
        }
        undone(done: usize, of: usize) -> String: match done {
            _ if done == of => "已撤销 {done} 条认定。", "Decisions taken back: {done}.";
            _ => "{of} 条认定中撤销了 {done} 条，其余此后已由他人另行认定。",
                "Decisions taken back: {done} of {of}; somebody has decided about the others since.";
        }
    }
}
