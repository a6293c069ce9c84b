//! The texts of the pages for files of letters, in all languages.

use crate::files::MOST_BYTES;
use crate::files::plan::WrongPlan;
use doppel_core::error_code::ErrorCode;

/// The texts of the pages for files of letters.
pub struct FilesWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Description of the page.
    pub hint: &'static str,
    /// Label of the file field.
    pub file: &'static str,
    /// Description of the accepted files, with the largest size in MiB.
    pub file_hint: fn(u64) -> String,
    /// Button that uploads the file.
    pub give: &'static str,
    /// Heading of the list of files.
    pub given: &'static str,
    /// Time for which files are kept.
    pub kept: &'static str,
    /// Text instead of an empty list.
    pub none: &'static str,
    /// Column with the names of files.
    pub name: &'static str,
    /// Column with the numbers of rows.
    pub rows: &'static str,
    /// Column with the progress.
    pub how_far: &'static str,
    /// Progress: the columns are not chosen yet.
    pub is_new: &'static str,
    /// Progress: the file waits for other files.
    pub is_waiting: &'static str,
    /// Progress: the work is running.
    pub is_running: &'static str,
    /// Progress: all rows are processed.
    pub is_whole: &'static str,
    /// Progress: the work was stopped.
    pub is_stopped: &'static str,
    /// Progress: an error ended the work.
    pub is_failed: &'static str,
    /// Format of a text file, with the number of rows, the encoding and the separator.
    pub read_as_text: fn(&str, &str, &str) -> String,
    /// Format of a workbook, with the number of rows, the sheet and the other sheets.
    pub read_as_sheet: fn(&str, &str, &[String]) -> String,
    /// Label of the choice of another sheet.
    pub other_sheet: &'static str,
    /// Button that reads the other sheet.
    pub read_sheet: &'static str,
    /// Heading of the form for the columns.
    pub columns: &'static str,
    /// Instructions for the form for the columns.
    pub columns_hint: &'static str,
    /// Heading of the column names.
    pub column: &'static str,
    /// Name of a column without a name, with the number of the column.
    pub unnamed: fn(usize) -> String,
    /// Heading of the example values.
    pub samples: &'static str,
    /// Heading of the choices.
    pub is: &'static str,
    /// Choice: the column contains the id.
    pub id: &'static str,
    /// Choice: the column is stored under its own name.
    pub own: &'static str,
    /// Choice: the column is not used.
    pub unused: &'static str,
    /// Heading of the choice between checking and registering.
    pub what: &'static str,
    /// Choice: rows are only checked.
    pub check: &'static str,
    /// Choice: rows are also registered.
    pub register: &'static str,
    /// Description of registering.
    pub register_hint: &'static str,
    /// Button that starts the work.
    pub start: &'static str,
    /// Message for a choice of fields that is refused.
    pub wrong_plan: fn(&WrongPlan) -> String,
    /// Progress, with the number of processed rows and of all rows.
    pub progress: fn(&str, &str) -> String,
    /// Button that stops the work.
    pub stop: &'static str,
    /// Link that loads the page again, for browsers without scripts.
    pub refresh: &'static str,
    /// Heading of the counts.
    pub so_far: &'static str,
    /// Count of rows that became new records.
    pub created: &'static str,
    /// Heading of the list of refused rows.
    pub refused_rows: &'static str,
    /// Message if the list is not complete, with the number of listed rows and of all refused rows.
    pub refused_more: fn(usize, &str) -> String,
    /// Heading of row numbers.
    pub row: &'static str,
    /// Link to the resulting file.
    pub download: &'static str,
    /// Link to an incomplete resulting file, with the number of processed rows.
    pub download_part: fn(&str) -> String,
    /// Link to the inbox, after rows were registered.
    pub to_inbox: &'static str,
    /// Description of the resulting file.
    pub download_hint: &'static str,
    /// Suffix of the name of the resulting file.
    pub suffix: &'static str,
    /// Suffix of the name of an incomplete resulting file, with the number of processed rows.
    pub suffix_part: fn(u64) -> String,
    /// Button that deletes the file.
    pub remove: &'static str,
    /// Link to the list of files.
    pub back: &'static str,
    /// Heading of the reasons for refusals.
    pub why: &'static str,
}

pub(super) const ZH: FilesWords = FilesWords {
    title: "批量查重",
    hint: "交来一个表格文件，逐行查重，原表加上“结论、重复于、相似度、理由”四列后取回。",
    file: "表格文件",
    file_hint: |mib| {
        format!("Excel 工作簿（.xlsx）或 CSV，最大 {mib} MB。CSV 的编码（UTF-8、GBK、UTF-16）和分隔符自动识别。")
    },
    give: "上传",
    given: "交来的文件",
    kept: "文件只有您这把密钥看得到，保留 24 小时；服务重新启动后即清除。",
    none: "还没有文件。",
    name: "文件",
    rows: "行数",
    how_far: "进度",
    is_new: "待选列",
    is_waiting: "排队中",
    is_running: "处理中",
    is_whole: "已完成",
    is_stopped: "已停止",
    is_failed: "未能完成",
    read_as_text: |rows, encoding, separator| format!("共 {rows} 行。CSV 文件，编码 {encoding}，分隔符 {separator}。"),
    read_as_sheet: |rows, sheet, others| {
        let others = if others.is_empty() {
            String::new()
        } else {
            format!("不读取其他工作表：{}。", others.join("、"))
        };
        format!("共 {rows} 行。读取工作表“{sheet}”。{others}")
    },
    other_sheet: "其他工作表",
    read_sheet: "改读这张工作表",
    columns: "每一列是什么",
    columns_hint: "已按列名推断，请核对前几行内容后再开始。",
    column: "列名",
    unnamed: |number| format!("第 {number} 列（无列名）"),
    samples: "前三行",
    is: "作为",
    id: "编号",
    own: "照原列名保存",
    unused: "不用",
    what: "做什么",
    check: "只查重，不登记",
    register: "查重并登记",
    register_hint: "登记后各行成为库中的信访件。同一文件再次上传不会重复登记。",
    start: "开始",
    wrong_plan: |wrong| match wrong {
        WrongPlan::Twice(name) => format!("有两列都作为“{name}”。请只选其中一列。"),
        WrongPlan::NoText => "没有一列作为内容，无从比对。请选择内容所在的列。".into(),
    },
    progress: |done, rows| format!("已处理 {done} 行，共 {rows} 行"),
    stop: "停止",
    refresh: "刷新进度",
    so_far: "结果",
    created: "新登记",
    refused_rows: "未处理的行",
    refused_more: |named, all| format!("以上列出前 {named} 行，共 {all} 行；全部写在结果文件中。"),
    row: "行号",
    download: "下载结果文件",
    download_part: |rows| format!("下载已处理的 {rows} 行"),
    to_inbox: "下一步：认定重件",
    download_hint: "原有各列和行序不变，结论在最后四列。",
    suffix: "-查重结果",
    suffix_part: |rows| format!("-查重结果-未完成-前{rows}行"),
    remove: "删除此文件",
    back: "返回文件列表",
    why: "理由",
};

pub(super) const EN: FilesWords = FilesWords {
    title: "Check a file",
    hint: "Upload a table of letters. Each row is checked, and you get the table back with four more columns: verdict, repeats, similarity, reason.",
    file: "Table",
    file_hint: |mib| {
        format!(
            "An Excel workbook (.xlsx) or CSV, at most {mib} MB. Encoding (UTF-8, GBK, UTF-16) and separator of CSV are found."
        )
    },
    give: "Upload",
    given: "Your files",
    kept: "Only you see them. They are kept for 24 hours, or until the service restarts.",
    none: "No files yet.",
    name: "File",
    rows: "Rows",
    how_far: "Progress",
    is_new: "columns to be chosen",
    is_waiting: "waiting",
    is_running: "at work",
    is_whole: "done",
    is_stopped: "stopped",
    is_failed: "failed",
    read_as_text: |rows, encoding, separator| format!("{rows} rows. CSV in {encoding}, separated by {separator}."),
    read_as_sheet: |rows, sheet, others| {
        let others = if others.is_empty() { String::new() } else { format!(" Not read: {}.", others.join(", ")) };
        format!("{rows} rows. The sheet “{sheet}” is read.{others}")
    },
    other_sheet: "Another sheet",
    read_sheet: "Read this sheet",
    columns: "Which column is what",
    columns_hint: "Guessed by the names. Compare with the first rows before you start.",
    column: "Column",
    unnamed: |number| format!("Column {number} (no name)"),
    samples: "First three rows",
    is: "Is",
    id: "number",
    own: "keep under its own name",
    unused: "not used",
    what: "What to do",
    check: "Only check, store nothing",
    register: "Check and register",
    register_hint: "Each row becomes a record. The same file again registers nothing twice.",
    start: "Start",
    wrong_plan: |wrong| match wrong {
        WrongPlan::Twice(name) => format!("Two columns are “{name}”. Choose one of them."),
        WrongPlan::NoText => {
            "No column is a title or a content: there is nothing to compare. Choose the column with the text.".into()
        }
    },
    progress: |done, rows| format!("{done} of {rows} rows"),
    stop: "Stop",
    refresh: "Refresh",
    so_far: "Result",
    created: "newly registered",
    refused_rows: "Rows not taken",
    refused_more: |named, all| format!("The first {named} of {all}; all of them are in the file."),
    row: "Row",
    download: "Download the result",
    download_part: |rows| format!("Download the {rows} rows done"),
    to_inbox: "Next step: decide the repeats",
    download_hint: "The file has all your columns and rows. The results are in the last four columns.",
    suffix: "-checked",
    suffix_part: |rows| format!("-checked-incomplete-first-{rows}-rows"),
    remove: "Delete this file",
    back: "Back to the files",
    why: "Reason",
};

pub(super) fn problem_zh(code: ErrorCode) -> &'static str {
    const _: () = assert!(MOST_BYTES == 64 << 20, "the texts say so");
    match code {
        ErrorCode::FileTooLarge => {
            "文件太大（最大 64 MB，工作簿解压后最大 192 MB）。请分成几个文件，或者请管理员导入。"
        }
        ErrorCode::FileMissing => "没有选择文件，或者文件是空的。请选择文件后再上传。",
        ErrorCode::FileEmpty => "文件里没有数据。第一行须是列名，下面须有内容。",
        ErrorCode::FileColumns => "列太多（最多 512 列）。请删去不用的列。",
        ErrorCode::FileOld => "这是旧式工作簿（.xls）或加了密码的工作簿。请在 Excel 中另存为不带密码的 .xlsx。",
        ErrorCode::FileUnknownKind => "认不出这种文件。请交 Excel 工作簿（.xlsx）或 CSV。",
        ErrorCode::FileDamaged => "工作簿已损坏，读不出来。请在 Excel 中打开并重新保存。",
        ErrorCode::FileOverLimit => {
            "工作簿里的文字、单元格、工作表或文件太多，或者单元格太长。请只把有信件的工作表另存为 CSV，或者分成几个文件。"
        }
        ErrorCode::FileBusy => "正在处理的文件太多。请过一分钟再试。",
        ErrorCode::FileNoSheet => "工作簿里没有这张工作表。请返回上一页重新选择。",
        ErrorCode::FileBegun => "这个文件已经开始处理，不能改读其他工作表。请重新上传。",
        ErrorCode::FileUnfinished => "这个文件还没有结果。",
        _ => "没有这个文件，或者已过保留时间。请重新上传。",
    }
}

pub(super) fn problem_en(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::FileTooLarge => {
            "The file is too large (64 MB at most, 192 MB for an unpacked workbook). Divide it, or ask an administrator to import it."
        }
        ErrorCode::FileMissing => "No file was chosen, or it is empty. Choose one and upload it.",
        ErrorCode::FileEmpty => "The file holds no data. Its first row names the columns, rows follow.",
        ErrorCode::FileColumns => "Too many columns (512 at most). Remove those that are not used.",
        ErrorCode::FileOld => {
            "An old workbook (.xls), or one with a password. Save it in Excel as .xlsx without a password."
        }
        ErrorCode::FileUnknownKind => "This kind of file is not known. Give an Excel workbook (.xlsx) or CSV.",
        ErrorCode::FileDamaged => "The workbook is damaged. Open it in Excel and save it again.",
        ErrorCode::FileOverLimit => {
            "The workbook has too many texts, cells, sheets or parts, or too long a cell. Save the sheet with the letters as CSV, or divide it."
        }
        ErrorCode::FileBusy => "Too many files are being processed. Try again in a minute.",
        ErrorCode::FileNoSheet => "The workbook has no such sheet. Go back and choose again.",
        ErrorCode::FileBegun => "Processing of this file has begun, so no other sheet can be read. Upload it again.",
        ErrorCode::FileUnfinished => "There is no result of this file yet.",
        _ => "There is no such file, or it has expired. Upload it again.",
    }
}
