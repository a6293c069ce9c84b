//! The texts of the page about quality.

use super::table::words;

words! {
    /// The texts of the page about quality.
    pub struct QualityWords {
        title: "质量", "Quality";
        hint:
            "看系统靠不靠得住：把人工认定与系统找到的重件相对照。相像程度按今天的设置重新计算。人工多半只认定系统提示过的件，所以下面的数只对看过的件成立。",
            "How far doppel can be relied on: what people decided against the repeats that it named. How alike two letters are is \
             measured now, by the settings of today. People decide mostly about what they are shown: the numbers hold of such pairs.";
        not_all_decisions(most: &str): "认定较多，只按编号顺序读了前 {most} 条。",
            "There are more decisions: only the first {most}, in the order of their ids, were read.";
        none: "现有信访件之间还没有人工认定。", "Nobody has decided about two records that still exist.";
        precision: "找得对不对", "How often it is right";
        precision_is([decided, confirmed, of_100, least, most]: [&str; 5]):
            "系统找到的重件中，有 {decided} 对经人工认定，{confirmed} 对确为同一事项。照此推算，系统每找到 100 对，约有 {of_100} 对是对的；因为只认定了这么多，实际在 100 对中的 {least} 到 {most} \
             对之间。",
            "People decided about {decided} repeats that doppel had named, and confirmed {confirmed}. So of 100 that it names about \
             {of_100} are right: since no more were decided, between {least} and {most} of 100.";
        no_precision: "系统找到的重件还没有人认定过。", "Nobody has decided about a repeat that doppel reported.";
        missed: "漏掉了什么", "What it missed";
        missed_are(missed: &str, of_100: &str):
            "有 {missed} 对经人工认定为同一事项，系统却没有找到。每 100 对同一事项中，系统至多找到 {of_100} 对。",
            "People called {missed} pairs the same matter that doppel had not named. Of 100 pairs that are the same matter it named \
             {of_100} at most.";
        missed_hint: "漏掉的可能更多，找到的可能更少：没有人看过的对都不在其中。",
            "Pairs that nobody has looked at are in neither number, so more repeats may be missed, and more of the reported ones may be \
             wrong.";
        by_similarity: "已认定的对，按把握大小", "Decided pairs, by probability";
        band: "把握", "Probability";
        same: "同一事项", "Same matter";
        not_same: "不是同一事项", "Not the same";
        share: "每 100 对中对的", "Right of 100";
        interval: "可能在", "Between";
        recorded: "系统找到的对，按把握大小", "Pairs that doppel reported, by probability";
        recorded_of(number: &str): "共 {number} 对，从最近的算起，不论是否认定。",
            "{number} pairs, the latest first; whether decided or not.";
        not_all_recorded(numbers: &str): "并非全部：最多读最近 {numbers} 个登记号内的 2,000 对。",
            "These are not all: at most 2,000 pairs of the latest {numbers} numbers were read.";
        pairs: "对数", "Pairs";
        no_recorded: "最近的信访件中没有找到重件。", "Nothing among the latest records repeats anything.";
        what_if: "要求严一些或宽一些会怎样", "Other limits";
        what_if_hint: "有多大把握才算重件？可以用以上各对试算，不作任何改动。要求放宽后会多找到哪些，要按新要求建成索引才能知道。",
            "How sure must doppel be to call two letters repeats? Try another number on the pairs above: nothing is changed. What a \
             lower number would add is known only when an index is built with it.";
        unverified: "本数据集不比对原文，没有要求可选。",
            "In this collection the texts themselves are not compared; there is nothing to choose.";
        duplicate: "算作重件的最低把握（0 到 1）", "Least probability of a repeat (0 to 1)";
        look: "看会有什么变化", "Preview the change";
        wrong: "所填的数不在范围内，下面显示的是现在的要求。", "A number is not in its range; the current ones are shown.";
        decided_fall([fall, of, same, not_same]: [&str; 4]):
            "系统找到并经认定的 {of} 对中，{fall} 对会不再算重件：同一事项 {same} 对，不是同一事项 {not_same} 对。",
            "Of {of} decided pairs that doppel reported, {fall} would no longer be reported: {same} the same matter, {not_same} not the \
             same.";
        recorded_fall(fall: &str, of: &str): "系统找到的 {of} 对（不论是否认定）中，{fall} 对会不再算重件。",
            "Of {of} pairs that doppel reported, decided or not, {fall} would no longer be reported.";
        missed_accepted(number: &str): "漏掉的对中，有 {number} 对会够得上要求；能不能找到，要建成索引才知道。",
            "Of the missed pairs, {number} are similar enough. Only an index with these numbers shows whether they are found.";
        falling: "会不再算重件的，把握最大的在前", "No longer reported, the most similar first";
        staying: "仍算重件的，把握最小的在前", "Still reported, the least similar first";
        no_example: "没有。", "None.";
        alike(percent: &str): "把握 {percent}%", "{percent} % similar";
        how_to_set: "这些要求由管理员设定：修改数据集设置中的 verify，或带新设置重建索引。",
            "An administrator sets these numbers: in the collection's settings (verify), or by a reindex with them.";
        try_it: "按这些要求另建一个版本", "Build a generation with these numbers";
        try_hint: "与使用中的索引并存，不启用；建成后可在“任务”页比较、启用或删除。",
            "It is built beside the index that answers and answers nothing. Under Work it can then be compared, made to answer, or \
             discarded.";
    }
}
