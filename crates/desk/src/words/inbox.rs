//! The texts of the inbox.

use doppel_engine::queue::QueueOrder;

use super::table::words;

words! {
    /// The texts of the inbox.
    pub struct InboxWords {
        title: "筛重", "Inbox";
        show: "显示", "Show";
        undecided: "待认定的重件", "Repeats to decide";
        repeats: "全部重件", "All repeats";
        all: "全部来件", "All records";
        order_name(order: QueueOrder) -> &'static str: match order {
            QueueOrder::Newest => "最新收件在前", "latest received first";
            QueueOrder::Uncertain => "最难判断在前", "most uncertain first";
            QueueOrder::Probable => "概率最高在前", "highest probability first";
            QueueOrder::RecordTime => "信访时间最近在前", "latest submitted first";
        }
        conditions: "更多条件", "More conditions";
        clear: "清除条件", "Clear conditions";
        band: "概率", "Probability";
        band_high: "95% 以上", "95 % and more";
        band_middle: "80%～95%", "80 % to 95 %";
        band_low: "80% 以下", "below 80 %";
        total(all: &str, exact: &str, near: &str): "共 {all} 件，其中与初件全文相同 {exact} 件，内容相近 {near} 件。",
            "Records: {all}; with the text of the earlier record: {exact}; similar: {near}.";
        part(most: &str): "以上只是一段来件（每段最多 {most} 个登记号），其余在“更早的来件”中。",
            " These are a part of the records (at most {most} numbers); the others are under “Earlier records”.";
        /// Last row of a file that does not have all records.
        not_in_file: "还有记录未列入本文件，请增加条件。", "There are more records than this file has. Add conditions.";
        batch: "批量认定", "Decide in bulk";

        // Batches.
        batch_exact: "与初件全文相同的重件", "repeats with the text of the earlier record";
        batch_above(percent: u8): "概率 {percent}% 以上的重件", "repeats with {percent} % and more";
        batch_petitioner: "同一信访人的重件", "repeats of the same petitioner";

        preview: "预览", "Preview";
        earlier: "更早的来件", "Earlier records";
        since: "收件时间从", "Received from";
        button: "显示", "Show";
        wrong_since: "时间请写成 2024-03-01 这样的形式。", "Give a time such as 2024-03-01.";
        wrong_order: "结束时间要晚于开始时间。", "Give an end that is later than the beginning.";
        none: "没有需要处理的信访件。", "Nothing to do here.";
        none_here: "这一段时间里没有；可以继续往前看。", "Nothing here. Continue with earlier records.";
        next: "下一件", "Next";
        previous: "上一件", "Previous";
        open: "打开此件", "Open the record";
        queue: "来件列表", "What came in";
        position(at: usize, of: usize): "第 {at} 件，本页共 {of} 件", "{at} of {of} on this page";
        /// Text between a record and the record that it repeats.
        repeats_this: "疑似重复于", "seems to repeat";
        original_gone: "它所重复的信访件已被删除或更换。", "The record that it repeated was deleted or replaced.";
        no_repeat: "没有找到相同的信访事项。", "The same matter was not found.";
    }
}
