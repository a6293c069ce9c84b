//! The texts of the start page, in all languages.

/// The texts of the start page.
pub struct StartWords {
    /// Heading of the page.
    pub title: &'static str,
    /// Text for an administrator if there are no collections.
    pub welcome: &'static str,
    /// Text for other visitors if there are no collections.
    pub none: &'static str,
    /// Label of the table.
    pub waiting: &'static str,
    /// Column with the names of collections.
    pub name: &'static str,
    /// Column with the numbers of undecided duplicates.
    pub undecided: &'static str,
    /// Column with the numbers of records that arrived today.
    pub arrived: &'static str,
    /// Column with the numbers of frequent events.
    pub frequent: &'static str,
    /// Text instead of a number of events that is not known yet.
    pub not_ready: &'static str,
    /// Column with the numbers of records.
    pub records: &'static str,
    /// Column with the proposed next steps.
    pub next: &'static str,
    /// A number, and true if it is exact.
    pub at_least: fn(&str, bool) -> String,
    /// Next step: import a file.
    pub next_file: &'static str,
    /// Next step: decide duplicates, with their number.
    pub next_decide: fn(&str) -> String,
    /// Next step: check a letter.
    pub next_check: &'static str,
    /// Next step of a collection whose records were not counted.
    pub next_inbox: &'static str,
    /// Summary of the folded links to all sections.
    pub go_to: &'static str,
    /// Label of the time of creation.
    pub created: &'static str,
    /// Note that the list is not complete.
    pub more: &'static str,
    /// Heading of the forms if there are collections.
    pub another: &'static str,
    /// Heading of the form for a file.
    pub by_file: &'static str,
    /// Description of the form for a file.
    pub by_file_hint: &'static str,
    /// Label of the name of a new collection.
    pub name_field: &'static str,
    /// The rule for names.
    pub name_hint: &'static str,
    /// Note that a file can be dropped on the field.
    pub drop_hint: &'static str,
    /// Heading of the form for made-up letters.
    pub demo: &'static str,
    /// Description of the made-up letters.
    pub demo_hint: &'static str,
    /// Button that loads the made-up letters.
    pub load_demo: &'static str,
    /// Message after the made-up letters were loaded.
    pub demo_loaded: &'static str,
    /// Heading of the form for an empty collection.
    pub empty: &'static str,
    /// Description of an empty collection.
    pub empty_hint: &'static str,
    /// Button that creates an empty collection.
    pub create: &'static str,
    /// Message after a collection was created.
    pub created_now: &'static str,
    /// Message that a name is not valid.
    pub wrong_name: &'static str,
    /// Message that a collection has the name.
    pub name_taken: &'static str,
    /// Heading of the steps of the work.
    pub steps: &'static str,
    /// The steps of the work.
    pub guide: [&'static str; 4],
}

pub(super) const ZH: StartWords = StartWords {
    title: "工作台",
    welcome: "还没有信访件。可以先交来一份台账，也可以先用演示数据试一试。",
    none: "还没有数据集，或者当前密钥看不到。请管理员建立数据集，或为您开通权限。",
    waiting: "今日待办",
    name: "数据集",
    undecided: "待认定重件",
    arrived: "今日收件",
    frequent: "近 7 天频发事件",
    not_ready: "尚未统计",
    records: "总件数",
    next: "下一步",
    at_least: |number, exact| if exact { number.to_owned() } else { format!("{number} 以上") },
    next_file: "导入台账",
    next_decide: |number| format!("认定重件（{number}）"),
    next_check: "查重新来件",
    next_inbox: "打开收件列表",
    go_to: "全部功能",
    created: "建立时间",
    more: "数据集较多，只显示了前面一部分。",
    another: "新建数据集",
    by_file: "导入台账",
    by_file_hint: "从现有系统导出信访件或工单，连同表头一起交来；下一步核对每一列的含义，确认后登记并查重。",
    name_field: "数据集名称",
    name_hint: "用小写字母、数字、“-”和“_”，以字母或数字开头，最多 64 个字符，例如 letters、hotline-2024。",
    drop_hint: "可以把文件拖到框内。",
    demo: "演示数据",
    demo_hint: "载入 34 件虚构的来信，内有重件、联名和再次来信，可以随意认定和撤销。",
    load_demo: "载入演示数据",
    demo_loaded: "演示数据已载入。先看第一件疑似重件：左边是来件，右边是它疑似重复的初件。",
    empty: "空数据集",
    empty_hint: "由业务系统通过接口逐件登记时使用。",
    create: "建立",
    created_now: "数据集已建立。可以在这里导入台账，也可以通过接口登记。",
    wrong_name: "名称不符合要求：用小写字母、数字、“-”和“_”，以字母或数字开头，最多 64 个字符。没有建立。",
    name_taken: "已有同名的数据集，请换一个名称。没有建立。",
    steps: "工作步骤",
    guide: [
        "导入：交来台账，核对各列含义，选“查重并登记”。",
        "认定：在“筛重”中逐件对照，或按条件批量认定；认定错了可以撤销。",
        "查重：新来件先查重，看此前是否办过、由哪个单位办理、如何答复。",
        "研判：在“热点”“事件”“统计”中看多人反映和频繁发生的问题。",
    ],
};

pub(super) const EN: StartWords = StartWords {
    title: "Start",
    welcome: "There are no records yet. Import a register of your office, or try the desk with demo data first.",
    none: "There are no collections that your key can see. Ask your administrator to create one or to give you access.",
    waiting: "Waiting today",
    name: "Collection",
    undecided: "Repeats to decide",
    arrived: "Received today",
    frequent: "Frequent events, 7 days",
    not_ready: "not counted yet",
    records: "All records",
    next: "Next step",
    at_least: |number, exact| if exact { number.to_owned() } else { format!("{number} or more") },
    next_file: "Import a file",
    next_decide: |number| format!("Decide repeats ({number})"),
    next_check: "Check a new letter",
    next_inbox: "Open the inbox",
    go_to: "All sections",
    created: "Created",
    more: "There are more collections than are shown.",
    another: "New collection",
    by_file: "Import a file",
    by_file_hint: "Export the letters or cases of your present system with the names of the columns. In the next step you check the meaning of each column; then the rows are registered and compared.",
    name_field: "Name of the collection",
    name_hint: "Small letters, digits, “-” and “_”, with a letter or digit first; at most 64 characters, such as letters or hotline-2024.",
    drop_hint: "You can drop a file on the field.",
    demo: "Demo data",
    demo_hint: "Loads 34 made-up letters with repeats, copies and reminders. You can decide and undo as you like.",
    load_demo: "Load demo data",
    demo_loaded: "The demo data is loaded. Begin with the first repeat: on the left is the new letter, on the right the earlier one that it seems to repeat.",
    empty: "Empty collection",
    empty_hint: "For a system of your office that registers each record by the API.",
    create: "Create",
    created_now: "The collection was created. Import a file here, or register records by the API.",
    wrong_name: "The name is not valid: use small letters, digits, “-” and “_”, with a letter or digit first, at most 64 characters. Nothing was created.",
    name_taken: "A collection with this name exists. Choose another name. Nothing was created.",
    steps: "How the work goes",
    guide: [
        "Import: upload a file, check the meaning of each column, and choose “Check and register”.",
        "Decide: compare repeats one by one in the inbox, or decide many in one step. Every decision can be undone.",
        "Check: look up each new letter first. You see whether the matter was handled before, by which unit, and the reply.",
        "Review: groups, events and statistics show matters that many people report or that happen often.",
    ],
};
