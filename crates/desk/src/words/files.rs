//! The texts of the pages for files of letters.

use crate::files::MOST_BYTES;
use crate::files::plan::WrongPlan;

use super::table::words;

words! {
    /// The texts of the pages for files of letters.
    pub struct FilesWords {
        title: "批量查重", "Check a file";
        hint: "交来一个表格文件，逐行查重，原表加上“结论、重复于、相似度、理由”四列后取回。",
            "Upload a table of letters. Each row is checked, and you get the table back with four more columns: verdict, repeats, \
             similarity, reason.";
        file: "表格文件", "Table";
        file_hint(mib: u64): "Excel 工作簿（.xlsx）或 CSV，最大 {mib} MB。CSV 的编码（UTF-8、GBK、UTF-16）和分隔符自动识别。",
            "An Excel workbook (.xlsx) or CSV, at most {mib} MB. Encoding (UTF-8, GBK, UTF-16) and separator of CSV are found.";
        give: "上传", "Upload";
        given: "交来的文件", "Your files";
        kept: "文件只有您自己看得到，保留 24 小时；服务重新启动后即清除。",
            "Only you see them. They are kept for 24 hours, or until the service restarts.";
        none: "还没有文件。", "No files yet.";
        name: "文件", "File";
        rows: "行数", "Rows";
        how_far: "进度", "Progress";

        // Progress of a file.
        is_new: "待选列", "columns to be chosen";
        is_waiting: "排队中", "waiting";
        is_running: "处理中", "at work";
        is_whole: "已完成", "done";
        is_stopped: "已停止", "stopped";
        is_failed: "未能完成", "failed";

        read_as_text(rows: &str, encoding: &str, separator: &str): "共 {rows} 行。CSV 文件，编码 {encoding}，分隔符 {separator}。",
            "{rows} rows. CSV in {encoding}, separated by {separator}.";
        read_as_sheet: fn(&str, &str, &[String]) -> String = read_as_sheet_zh, read_as_sheet_en;
        other_sheet: "其他工作表", "Another sheet";
        read_sheet: "改读这张工作表", "Read this sheet";
        columns: "每一列是什么", "Which column is what";
        columns_hint: "已按列名推断，请核对前几行内容后再开始。", "Guessed by the names. Compare with the first rows before you start.";
        column: "列名", "Column";
        unnamed(number: usize): "第 {number} 列（无列名）", "Column {number} (no name)";
        samples: "前三行", "First three rows";
        /// Heading of the choices.
        is: "作为", "Is";

        // Choices for a column.
        id: "编号", "number";
        own: "照原列名保存", "keep under its own name";
        unused: "不用", "not used";
        unused_columns: fn(&[String]) -> String = unused_columns_zh, unused_columns_en;

        what: "做什么", "What to do";
        check: "只查重，不登记", "Only check, store nothing";
        register: "查重并登记", "Check and register";
        register_hint: "登记后各行成为库中的信访件。同一文件再次上传不会重复登记。",
            "Each row becomes a record. The same file again registers nothing twice.";
        start: "开始", "Start";
        wrong_plan(wrong: &WrongPlan) -> String: match wrong {
            WrongPlan::Twice(name) => "有两列都作为“{name}”。请只选其中一列。", "Two columns are “{name}”. Choose one of them.";
            WrongPlan::NoText => "没有一列作为标题或正文，无从比对。请选择正文所在的列。",
                "No column is a title or a text: there is nothing to compare. Choose the column with the text.";
        }
        progress(done: &str, rows: &str): "已处理 {done} 行，共 {rows} 行", "{done} of {rows} rows";
        stop: "停止", "Stop";
        /// Link that loads the page again, for browsers without scripts.
        refresh: "刷新进度", "Refresh";
        so_far: "结果", "Result";
        created: "新登记", "newly registered";
        no_data: "不是数据的行", "rows that are no data";
        refused_rows: "未处理的行", "Rows not taken";
        refused_more(named: usize, all: &str): "以上列出前 {named} 行，共 {all} 行；全部写在结果文件中。",
            "The first {named} of {all}; all of them are in the file.";
        row: "行号", "Row";
        download: "下载结果文件", "Download the result";
        download_part(rows: &str): "下载已处理的 {rows} 行", "Download the {rows} rows done";
        to_inbox: "下一步：认定重件", "Next step: decide the repeats";
        download_hint: "原有各列和行序不变，结论在最后四列。",
            "The file has all your columns and rows. The results are in the last four columns.";
        /// Suffix of the name of the resulting file.
        suffix: "-查重结果", "-checked";
        /// Suffix of the name of an incomplete resulting file, with the number of processed rows.
        suffix_part(rows: u64): "-查重结果-未完成-前{rows}行", "-checked-incomplete-first-{rows}-rows";
        remove: "删除此文件", "Delete this file";
        back: "返回文件列表", "Back to the files";
        why: "理由", "Reason";
    }
}

const _: () = assert!(MOST_BYTES == 64 << 20, "the texts of problems with files say so");

fn unused_columns_zh(names: &[String]) -> String {
    format!("没有用到的列：{}。", names.join("、"))
}

fn unused_columns_en(names: &[String]) -> String {
    format!("Columns not used: {}.", names.join(", "))
}

fn read_as_sheet_zh(rows: &str, sheet: &str, others: &[String]) -> String {
    let others =
        if others.is_empty() { String::new() } else { format!("不读取其他工作表：{}。", others.join("、")) };
    format!("共 {rows} 行。读取工作表“{sheet}”。{others}")
}

fn read_as_sheet_en(rows: &str, sheet: &str, others: &[String]) -> String {
    let others = if others.is_empty() { String::new() } else { format!(" Not read: {}.", others.join(", ")) };
    format!("{rows} rows. The sheet “{sheet}” is read.{others}")
}
