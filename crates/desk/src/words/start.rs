//! The texts of the start page.

use super::table::words;

words! {
    /// The texts of the start page.
    pub struct StartWords {
        title: "工作台", "Start";
        /// Text for an administrator if there are no collections.
        welcome: "还没有信访件。可以先交来一份台账，也可以先用演示数据试一试。",
            "There are no records yet. Import a register of your office, or try the desk with demo data first.";
        /// Text for other visitors if no collection exists.
        none: "还没有数据集，或者当前密钥看不到。请管理员建立数据集，或为您开通权限。",
            "There are no collections that your key can see. Ask your administrator to create one or to give you access.";
        waiting: "今日待办", "Waiting today";
        name: "数据集", "Collection";
        undecided: "待认定重件", "Repeats to decide";
        arrived: "今日收件", "Received today";
        frequent: "近 7 天多频事件", "Frequent events, 7 days";
        /// Text instead of a number of events that is not known yet.
        not_ready: "尚未统计", "not counted yet";
        records: "总件数", "All records";
        next: "下一步", "Next step";
        at_least(number: &str, exact: bool) -> String: match exact {
            true => "{number}", "{number}";
            false => "{number} 以上", "{number} or more";
        }

        // Next steps.
        next_file: "导入台账", "Import a file";
        next_decide(number: &str): "认定重件（{number}）", "Decide repeats ({number})";
        next_check: "查重新来件", "Check a new letter";
        /// Next step of a collection whose records were not counted.
        next_inbox: "打开收件列表", "Open the inbox";

        go_to: "全部功能", "All sections";
        created: "建立时间", "Created";
        more: "数据集较多，只显示了前面一部分。", "There are more collections than are shown.";
        /// Heading of the forms if there are collections.
        another: "新建数据集", "New collection";
        by_file: "导入台账", "Import a file";
        by_file_hint: "从现有系统导出信访件或工单，连同表头一起交来；下一步核对每一列的含义，确认后登记并查重。",
            "Export the letters or cases of your present system with the names of the columns. In the next step you check the meaning of \
             each column; then the rows are registered and compared.";
        name_field: "数据集名称", "Name of the collection";
        name_hint: "用小写字母、数字、“-”和“_”，以字母或数字开头，最多 64 个字符，例如 letters、hotline-2024。",
            "Small letters, digits, “-” and “_”, with a letter or digit first; at most 64 characters, such as letters or hotline-2024.";
        drop_hint: "可以把文件拖到框内。", "You can drop a file on the field.";
        demo: "演示数据", "Demo data";
        demo_hint: "载入 34 件虚构的来信，内有重件、联名和再次来信，可以随意认定和撤销。",
            "Loads 34 made-up letters with repeats, copies and reminders. You can decide and undo as you like.";
        load_demo: "载入演示数据", "Load demo data";
        demo_loaded: "演示数据已载入。先看第一件疑似重件：左边是来件，右边是它疑似重复的初件。",
            "The demo data is loaded. Begin with the first repeat: on the left is the new letter, on the right the earlier one that it \
             seems to repeat.";
        empty: "空数据集", "Empty collection";
        empty_hint: "由业务系统通过接口逐件登记时使用。", "For a system of your office that registers each record by the API.";
        create: "建立", "Create";
        created_now: "数据集已建立。可以在这里导入台账，也可以通过接口登记。",
            "The collection was created. Import a file here, or register records by the API.";
        wrong_name: "名称不符合要求：用小写字母、数字、“-”和“_”，以字母或数字开头，最多 64 个字符。没有建立。",
            "The name is not valid: use small letters, digits, “-” and “_”, with a letter or digit first, at most 64 characters. Nothing \
             was created.";
        name_taken: "已有同名的数据集，请换一个名称。没有建立。",
            "A collection with this name exists. Choose another name. Nothing was created.";
        steps: "工作步骤", "How the work goes";
        guide: [&'static str; 4] = [
            "导入：交来台账，核对各列含义，选“查重并登记”。",
            "认定：在“筛重”中逐件对照，或按条件批量认定；认定错了可以撤销。",
            "查重：新来件先查重，看此前是否办过、由哪个单位办理、如何答复。",
            "研判：在“热点”“事件”“统计”中看多人反映和频繁发生的问题。",
        ], [
            "Import: upload a file, check the meaning of each column, and choose “Check and register”.",
            "Decide: compare repeats one by one in the inbox, or decide many in one step. Every decision can be undone.",
            "Check: look up each new letter first. You see whether the matter was handled before, by which unit, and the reply.",
            "Review: groups, events and statistics show matters that many people report or that happen often.",
        ];
    }
}
