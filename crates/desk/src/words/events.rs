//! The texts of the pages about events, in both languages.

use doppel_core::events::FrequencyState;
use doppel_engine::events::EventOrder;
use doppel_engine::events::handling::HandlingStatus;

/// The texts of the pages about events.
pub struct EventsWords {
    /// Heading of the list, and name of the section.
    pub title: &'static str,
    /// Description of events.
    pub hint: &'static str,
    /// Label of the links to usual lists.
    pub lists: &'static str,
    /// Link to the list of all events.
    pub all: &'static str,
    /// Link to the frequent events of the last days, with their number.
    pub recent: fn(u32) -> String,
    /// Label of the choice of the state, and column with the states.
    pub state: &'static str,
    /// The name of a state.
    pub state_of: fn(FrequencyState) -> &'static str,
    /// Choice that does not filter.
    pub any: &'static str,
    /// Label of the choice of the status of the handling, and column with the statuses.
    pub status: &'static str,
    /// The name of a status of the handling.
    pub status_of: fn(HandlingStatus) -> &'static str,
    /// Heading of the handling of an event.
    pub handling: &'static str,
    /// Text if nobody has handled the event.
    pub not_handled: &'static str,
    /// Label of the unit that handles the event.
    pub unit: &'static str,
    /// Label of a note.
    pub note: &'static str,
    /// Choice that leaves the status unchanged.
    pub unchanged: &'static str,
    /// Button that adds a step to the handling.
    pub add_step: &'static str,
    /// Message after a step of the handling.
    pub step_added: &'static str,
    /// Label of the choice of the order.
    pub order: &'static str,
    /// The name of an order.
    pub order_of: fn(EventOrder) -> &'static str,
    /// Label of the number of reports of the rule.
    pub least: &'static str,
    /// Label of the number of days of the rule.
    pub days: &'static str,
    /// Filter: start of the time.
    pub from: &'static str,
    /// Filter: end of the time.
    pub to: &'static str,
    /// Filter: place.
    pub place: &'static str,
    /// Filter: category.
    pub category: &'static str,
    /// Button that applies the filters.
    pub button: &'static str,
    /// The number of events of the list, and the rule: number of reports and number of days.
    pub total: fn(&str, usize, u32) -> String,
    /// Text instead of an empty list.
    pub none: &'static str,
    /// Number of records that are too early to be compared.
    pub left_out: fn(&str) -> String,
    /// Column with the events.
    pub event: &'static str,
    /// Column with the numbers of reports.
    pub reports: &'static str,
    /// Column with the numbers of people.
    pub people: &'static str,
    /// Column with the numbers of anonymous records.
    pub anonymous: &'static str,
    /// Column with the first dates.
    pub first: &'static str,
    /// Column with the latest dates.
    pub last: &'static str,
    /// Column with the places.
    pub places: &'static str,
    /// Number of days, and number of reports within these days.
    pub within: fn(u32, usize) -> String,
    /// Link to the list as a workbook.
    pub export: &'static str,
    /// Column with the numbers of events in a workbook.
    pub number: &'static str,
    /// Column with the days with the most reports in a workbook.
    pub within_days: &'static str,
    /// Number of events that are not in the workbook.
    pub not_in_file: fn(usize) -> String,
    /// Name of an event without a name and without a title.
    pub unnamed: &'static str,
    /// Message that the events are not found yet, with the number of records that were read and of all records.
    pub not_ready: fn(&str, &str) -> String,
    /// Link that tries again.
    pub again: &'static str,
    /// Note that the page tries again.
    pub repeats: &'static str,
    /// Message that the collection keeps no text.
    pub no_text: &'static str,
    /// Heading of the list of members.
    pub members: &'static str,
    /// Number of records of the event.
    pub size: fn(&str) -> String,
    /// Note that the list of members is not complete.
    pub truncated: fn(&str) -> String,
    /// Column with the reasons why the members belong to the event.
    pub why: &'static str,
    /// Reason: the two records are duplicates, or a person joined them.
    pub duplicate: &'static str,
    /// Reason: a person decided that the two report one event.
    pub decided: &'static str,
    /// Reason: the record cites another one.
    pub cites: &'static str,
    /// Reason: another record cites the record.
    pub cited_by: &'static str,
    /// Reason: the event model, with the probability in per cent.
    pub model: fn(u8) -> String,
    /// Heading of the values on which the members agree.
    pub known: &'static str,
    /// Text if the members agree on no value.
    pub none_known: &'static str,
    /// Number of members that name a value.
    pub named_by: fn(usize) -> String,
    /// Heading of the values that differ.
    pub contradicted: &'static str,
    /// Text if no values differ.
    pub none_contradicted: &'static str,
    /// Number of members that are not listed.
    pub more: fn(usize) -> String,
    /// Heading of the kinds of places that no member names.
    pub unknown: &'static str,
    /// Text if the members name every kind.
    pub none_unknown: &'static str,
    /// Heading of the forms with which people correct the event.
    pub correct: &'static str,
    /// Explanation of the button that confirms the event.
    pub confirm_hint: &'static str,
    /// Button: all members belong to the event.
    pub confirm: &'static str,
    /// Label of the choice of a record to remove, with the id of the record.
    pub choose: fn(&str) -> String,
    /// Column with the choice of records to remove.
    pub chosen: &'static str,
    /// Button that removes the chosen records from the event.
    pub remove: &'static str,
    /// Label of the id of a record of another event.
    pub with: &'static str,
    /// Button that merges the event with another one.
    pub merge: &'static str,
    /// Number of reports of the event, on the page of a record.
    pub of_reports: fn(&str) -> String,
}

pub(super) const EN: EventsWords = EventsWords {
    title: "Events",
    hint: "An event is a set of records about one real-world problem, by whichever people and in whichever words. A record that cites an \
           earlier record of its event is not counted as a report.",
    lists: "Lists",
    all: "All events",
    recent: |days| format!("Frequent in the last {days} days"),
    state: "State",
    state_of: |state| match state {
        FrequencyState::Frequent => "frequent",
        FrequencyState::NotReached => "not frequent",
        FrequencyState::NoDates => "too few dates",
    },
    any: "any",
    status: "Handling",
    status_of: |status| match status {
        HandlingStatus::Open => "open",
        HandlingStatus::Assigned => "assigned",
        HandlingStatus::Answered => "answered",
        HandlingStatus::Closed => "closed",
    },
    handling: "Handling",
    not_handled: "Nobody has handled this event yet.",
    unit: "Unit",
    note: "Note",
    unchanged: "unchanged",
    add_step: "Save",
    step_added: "Saved.",
    order: "Order",
    order_of: |order| match order {
        EventOrder::Frequent => "frequent events first",
        EventOrder::Size => "most reports first",
        EventOrder::Recent => "latest report first",
    },
    least: "Frequent from (reports)",
    days: "within (days)",
    from: "With a report from",
    to: "until (not included)",
    place: "Place",
    category: "Category",
    button: "Show",
    total: |count, reports, days| {
        format!("Events: {count}. An event is frequent if {reports} or more reports were submitted within {days} days.")
    },
    none: "There are no such events.",
    left_out: |count| format!("{count} early records are not compared, because the collection is too large."),
    event: "Event",
    reports: "Reports",
    people: "People",
    anonymous: "Anonymous",
    first: "First",
    last: "Latest",
    places: "Places",
    within: |days, reports| format!("{reports} within {days} days"),
    export: "Save as a workbook (XLSX)",
    number: "Event no.",
    within_days: "Days with the most reports",
    not_in_file: |more| format!("{more} more events are not in this file. Choose a shorter time or fewer states."),
    unnamed: "(no name)",
    not_ready: |done, all| format!("The events are being found. {done} of {all} records are read."),
    again: "Try again",
    repeats: "This page tries again every five seconds.",
    no_text: "This collection keeps no text of its records. Events are found in texts, so there are none here.",
    members: "Records of the event",
    size: |records| format!("Records: {records}"),
    truncated: |most| format!("The event has more records; only the first {most} are listed."),
    why: "Why it belongs here",
    duplicate: "same matter as",
    decided: "decided: same event as",
    cites: "cites",
    cited_by: "is cited by",
    model: |percent| format!("same problem ({percent} % probable) as"),
    known: "Agreed",
    none_known: "The records agree on no value.",
    named_by: |records| format!("records: {records}"),
    contradicted: "Contradictions",
    none_contradicted: "The records do not contradict each other.",
    more: |count| format!("{count} more"),
    unknown: "Not named by any record",
    none_unknown: "Nothing is missing.",
    correct: "Is this event right?",
    confirm_hint: "After you confirm the event, its records stay together even if new records come.",
    confirm: "Confirm the event",
    choose: |id| format!("Choose record {id}"),
    chosen: "Choose",
    remove: "The chosen records do not belong to it",
    with: "Id of a record of another event",
    merge: "That is the same event",
    of_reports: |reports| format!("reports: {reports}"),
};

pub(super) const ZH: EventsWords = EventsWords {
    title: "事件",
    hint: "反映同一个实际问题的信访件归为一个事件，不论谁写、怎么写。引用本事件中其他信访件编号的（如催办、查询），不另计件数。",
    lists: "常用列表",
    all: "全部事件",
    recent: |days| format!("近 {days} 天多频事件"),
    state: "多频",
    state_of: |state| match state {
        FrequencyState::Frequent => "多频",
        FrequencyState::NotReached => "未达多频",
        FrequencyState::NoDates => "日期不足",
    },
    any: "不限",
    status: "办理状态",
    status_of: |status| match status {
        HandlingStatus::Open => "待办",
        HandlingStatus::Assigned => "已交办",
        HandlingStatus::Answered => "已答复",
        HandlingStatus::Closed => "已办结",
    },
    handling: "办理情况",
    not_handled: "此事件尚无人办理。",
    unit: "承办单位",
    note: "备注",
    unchanged: "不变",
    add_step: "保存",
    step_added: "已保存。",
    order: "排序",
    order_of: |order| match order {
        EventOrder::Frequent => "多频在前",
        EventOrder::Size => "件数多的在前",
        EventOrder::Recent => "最近来件在前",
    },
    least: "多频的最少件数",
    days: "天数（几日之内）",
    from: "有来件的时间从",
    to: "到（不含）",
    place: "地点",
    category: "分类",
    button: "显示",
    total: |count, reports, days| format!("共 {count} 个事件。多频：{days} 日内 {reports} 件以上（含）。"),
    none: "没有这样的事件。",
    left_out: |count| format!("数据集过大，较早的 {count} 件没有参加比对。"),
    event: "事件",
    reports: "件数",
    people: "人数",
    anonymous: "匿名件",
    first: "首次",
    last: "最近",
    places: "地点",
    within: |days, reports| format!("{days} 日内 {reports} 件"),
    export: "导出表格（XLSX）",
    number: "事件序号",
    within_days: "来件最多的几天",
    not_in_file: |more| format!("另有 {more} 个事件未列入本文件，请缩短时间或减少条件。"),
    unnamed: "（无名称）",
    not_ready: |done, all| format!("正在归并事件：{all} 件中已读 {done} 件。"),
    again: "再试一次",
    repeats: "本页每五秒自动再试。",
    no_text: "本数据集不保存信访件正文。事件要从正文中找，因此这里没有事件。",
    members: "事件的信访件",
    size: |records| format!("信访件 {records} 件"),
    truncated: |most| format!("件数较多，只列出前 {most} 件。"),
    why: "归入依据",
    duplicate: "重复件",
    decided: "人工认定同一事件",
    cites: "引用",
    cited_by: "被引用",
    model: |percent| format!("同一问题（可能性 {percent}%）"),
    known: "一致之处",
    none_known: "各件没有一致写明的内容。",
    named_by: |records| format!("{records} 件写明"),
    contradicted: "矛盾之处",
    none_contradicted: "各件没有互相矛盾之处。",
    more: |count| format!("另有 {count} 件"),
    unknown: "各件都未写明",
    none_unknown: "没有缺少的内容。",
    correct: "这个事件对吗？",
    confirm_hint: "确认后，无论以后来什么信访件，这些件都归在同一事件中。",
    confirm: "确认事件",
    choose: |id| format!("选中 {id}"),
    chosen: "选择",
    remove: "选中的不属于此事件",
    with: "另一事件中任一件的编号",
    merge: "与它是同一事件",
    of_reports: |reports| format!("{reports} 件"),
};
