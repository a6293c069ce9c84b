//! The texts of the pages about events.

use doppel_core::events::FrequencyState;
use doppel_engine::events::EventOrder;
use doppel_engine::events::handling::HandlingStatus;

use super::table::words;

words! {
    /// The texts of the pages about events.
    pub struct EventsWords {
        title: "事件", "Events";
        hint: "反映同一个实际问题的信访件归为一个事件，不论谁写、怎么写。引用本事件中其他信访件编号的（如催办、查询），不另计件数。",
            "An event is a set of records about one real-world problem, by whichever people and in whichever words. A record that cites \
             an earlier record of its event is not counted as a report.";
        lists: "常用列表", "Lists";
        all: "全部事件", "All events";
        recent(days: u32): "近 {days} 天多频事件", "Frequent in the last {days} days";
        /// Label of the choice of the state, and column with the states.
        state: "多频", "State";
        state_of(state: FrequencyState) -> &'static str: match state {
            FrequencyState::Frequent => "多频", "frequent";
            FrequencyState::NotReached => "未达多频", "not frequent";
            FrequencyState::NoDates => "日期不足", "too few dates";
        }
        any: "不限", "any";
        /// Label of the choice of the status of the handling, and column with the statuses.
        status: "办理状态", "Handling";
        status_of(status: HandlingStatus) -> &'static str: match status {
            HandlingStatus::Open => "待办", "open";
            HandlingStatus::Assigned => "已交办", "assigned";
            HandlingStatus::Answered => "已答复", "answered";
            HandlingStatus::Closed => "已办结", "closed";
        }
        handling: "办理情况", "Handling";
        not_handled: "此事件尚无人办理。", "Nobody has handled this event yet.";
        unit: "承办单位", "Unit";
        note: "备注", "Note";
        unchanged: "不变", "unchanged";
        add_step: "保存", "Save";
        step_added: "已保存。", "Saved.";
        order: "排序", "Order";
        order_of(order: EventOrder) -> &'static str: match order {
            EventOrder::Frequent => "多频在前", "frequent events first";
            EventOrder::Size => "件数多的在前", "most reports first";
            EventOrder::Recent => "最近来件在前", "latest report first";
        }
        least: "多频的最少件数", "Frequent from (reports)";
        days: "天数（几日之内）", "within (days)";
        from: "有来件的时间从", "With a report from";
        to: "到（不含）", "until (not included)";
        place: "地点", "Place";
        category: "分类", "Category";
        button: "显示", "Show";
        total(count: &str, reports: usize, days: u32): "共 {count} 个事件。多频：{days} 日内 {reports} 件以上（含）。",
            "Events: {count}. An event is frequent if {reports} or more reports were submitted within {days} days.";
        none: "没有这样的事件。", "There are no such events.";
        left_out(count: &str): "数据集过大，较早的 {count} 件没有参加比对。",
            "{count} early records are not compared, because the collection is too large.";
        event: "事件", "Event";
        reports: "件数", "Reports";
        people: "人数", "People";
        anonymous: "匿名件", "Anonymous";
        first: "首次", "First";
        last: "最近", "Latest";
        places: "地点", "Places";
        within(days: u32, reports: usize): "{days} 日内 {reports} 件", "{reports} within {days} days";
        export: "导出表格（XLSX）", "Save as a workbook (XLSX)";
        /// Column with the numbers of events in a workbook.
        number: "事件序号", "Event no.";
        /// Column with the days with the most reports in a workbook.
        within_days: "来件最多的几天", "Days with the most reports";
        not_in_file(more: usize): "另有 {more} 个事件未列入本文件，请缩短时间或减少条件。",
            "{more} more events are not in this file. Choose a shorter time or fewer states.";
        /// Name of an event without a name and without a title.
        unnamed: "（无名称）", "(no name)";
        not_ready(done: &str, all: &str): "正在归并事件：{all} 件中已读 {done} 件。",
            "The events are being found. {done} of {all} records are read.";
        again: "再试一次", "Try again";
        repeats: "本页每五秒自动再试。", "This page tries again every five seconds.";
        no_text: "本数据集不保存信访件正文。事件要从正文中找，因此这里没有事件。",
            "This collection keeps no text of its records. Events are found in texts, so there are none here.";
        members: "事件的信访件", "Records of the event";
        size(records: &str): "信访件 {records} 件", "Records: {records}";
        truncated(most: &str): "件数较多，只列出前 {most} 件。", "The event has more records; only the first {most} are listed.";
        why: "归入依据", "Why it belongs here";

        // Reasons why a record belongs to the event.
        duplicate: "重复件", "same matter as";
        decided: "人工认定同一事件", "decided: same event as";
        cites: "引用", "cites";
        cited_by: "被引用", "is cited by";
        model(percent: u8): "同一问题（可能性 {percent}%）", "same problem ({percent} % probable) as";

        known: "一致之处", "Agreed";
        none_known: "各件没有一致写明的内容。", "The records agree on no value.";
        named_by(records: usize): "{records} 件写明", "records: {records}";
        contradicted: "矛盾之处", "Contradictions";
        none_contradicted: "各件没有互相矛盾之处。", "The records do not contradict each other.";
        more(count: usize): "另有 {count} 件", "{count} more";
        unknown: "各件都未写明", "Not named by any record";
        none_unknown: "没有缺少的内容。", "Nothing is missing.";
        correct: "这个事件对吗？", "Is this event right?";
        confirm_hint: "确认后，无论以后来什么信访件，这些件都归在同一事件中。",
            "After you confirm the event, its records stay together even if new records come.";
        confirm: "确认事件", "Confirm the event";
        /// Label of the choice of a record to remove, with the id of the record.
        choose(id: &str): "选中 {id}", "Choose record {id}";
        chosen: "选择", "Choose";
        remove: "选中的不属于此事件", "The chosen records do not belong to it";
        with: "另一事件中任一件的编号", "Id of a record of another event";
        merge: "与它是同一事件", "That is the same event";
        /// Number of reports of the event, on the page of a record.
        of_reports(reports: &str): "{reports} 件", "reports: {reports}";
    }
}
