//! The texts of the page about tasks and generations.

use serde::{Deserialize, Serialize};

use doppel_engine::generations::Standing;
use doppel_store::tasks::TaskStatus;

use super::table::words;

/// The outcome of an action on the page of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkDone {
    /// The index is being rebuilt.
    Rebuilding,
    /// A generation with another threshold is being built. The live generation stays live.
    Trying,
    /// A generation is being activated.
    Activating,
    /// A task was cancelled before it began.
    Canceled,
    /// A task was told to stop.
    Stopping,
    /// The task had already ended.
    EndedBefore,
    /// The generation with this number was discarded.
    Dropped(u32),
    /// Refused: another task is running.
    Busy,
    /// Refused: the largest number of generations is reached.
    NoRoom,
    /// Refused: the generation is being built.
    Building,
    /// Refused: the generation is live.
    Live,
    /// Refused: the generation or task does not exist.
    Gone,
}

words! {
    /// The texts of the page about tasks and generations.
    pub struct WorkWords {
        title: "任务", "Work";
        now: "正在进行", "Running now";
        nothing_runs: "目前没有正在进行的任务。", "Nothing is running.";
        refresh: "刷新", "Refresh";
        refreshes: "浏览器允许脚本时，每两秒自动刷新。", "Refreshes by itself every two seconds where scripts are allowed.";
        ended: "已结束", "Ended";
        none_ended: "本数据集还没有已结束的任务。", "No task of this collection has ended yet.";
        listed(most: usize): "只列出最近 {most} 项。", "The latest {most} are listed.";
        kind(kind: &str) -> &'static str: match kind {
            "reindex" => "重建索引", "Rebuild the index";
            "activate" => "切换索引版本", "Activate another generation";
            "purge" => "清理多余重件", "Delete superfluous duplicates";
            "erase" => "按信访人或保存期限删除", "Delete records of a petitioner or past their age";
            _ => "其他任务", "Other work";
        }
        status(status: TaskStatus) -> &'static str: match status {
            TaskStatus::Enqueued => "等待中", "waiting";
            TaskStatus::Processing => "进行中", "running";
            TaskStatus::Succeeded => "完成", "done";
            TaskStatus::Failed => "失败", "failed";
            TaskStatus::Canceled => "已取消", "cancelled";
        }
        phase(phase: &str) -> &'static str: match phase {
            "waiting" => "排队等待", "waiting for its turn";
            "wait for the store" => "等待存储恢复", "waiting for the store";
            "count" => "统计词语", "counting words";
            "announce" => "登记新版本", "announcing the new generation";
            "load" => "载入", "loading";
            "index" => "逐件编入索引", "signing and filing records";
            "activate" => "切换", "switching over";
            "catch up" => "补齐其间来件", "catching up on what came in meanwhile";
            "find" => "查找重件", "looking for duplicates";
            "look through" => "逐件检查", "looking through all records";
            "delete" => "删除", "deleting";
            _ => "处理中", "working";
        }
        progress(done: &str, total: &str): "{done} / {total}", "{done} of {total}";
        pace(rate: &str, seconds: Option<u64>) -> String: match seconds {
            Some(seconds) => "每秒 {rate} 件，本步骤约剩 {seconds} 秒", "{rate} a second, about {seconds} s left in this step";
            None => "每秒 {rate} 件", "{rate} a second";
        }
        /// The label of a member of a result; `None` if the member is not shown.
        figure(name: &str) -> Option<&'static str>: match name {
            "generation" => Some("版本"), Some("generation");
            "records" => Some("件数"), Some("records");
            "pairs" => Some("对数"), Some("pairs");
            "unreadable" => Some("无法读取"), Some("could not be read");
            "deleted" => Some("已删除"), Some("deleted");
            "found" => Some("符合条件"), Some("found");
            _ => None, None;
        }
        beside: "建成后只保留，不启用", "kept beside the active one";
        dry_run: "只列出将删除的件，不删除", "preview: deletes nothing";
        asked: "提出时间", "Asked for";
        begun: "开始时间", "Begun";
        finished: "结束时间", "Ended";
        is_stopping: "已通知停止，将在下一步停下。", "It stops at its next step.";
        /// Advice after the failure of a kind of task.
        failed(kind: &str) -> &'static str: match kind {
            "purge" | "erase" => "任务失败；此前已删除的件不会恢复。排除原因后重新开始，会接着处理其余部分。",
                "It failed. What it deleted before is deleted. Remove the cause and start it again: it continues with the rest.";
            "activate" => "任务失败；当前启用的版本见下表。排除原因后请再次切换。",
                "It failed. The list below shows the active generation. Remove the cause and activate the generation again.";
            _ => "任务失败；未建成的部分已清除，表中标为“使用中”的版本照常工作。排除原因后请重新重建。",
                "It failed; what was half built is thrown away, and the generation marked as answering goes on answering. Remove the \
                 cause and rebuild again.";
        }
        /// Label of the error message.
        reason: "原因：", "It said:";
        cancel: "取消任务", "Cancel";
        cancel_hint: "正在建的版本会被清除；已建成或正在切换的会继续完成；已删除的件不会恢复。",
            "A generation that is being built is thrown away; one that is complete, or is being switched to, is finished all the same. \
             What was deleted stays deleted.";
        generations: "索引版本", "Generations of the index";
        generations_hint: "一个版本就是按一套设置为全部信访件建成的完整索引；其中一个在使用。",
            "A generation is a complete index of all records, built with one set of settings. One of them is active and answers all \
             requests.";
        generation: "编号", "Number";
        standing: "状态", "State";
        stands(standing: Standing, is_older: bool) -> &'static str: match (standing, is_older) {
            (Standing::Live, _) => "使用中", "active";
            (Standing::Building, _) => "正在建", "being built";
            (Standing::Ready, true) => "较早版本，完整并同步更新", "earlier, complete and kept up to date";
            (Standing::Ready, false) => "已建成，尚未启用", "complete, not active yet";
        }
        actions: "可做的操作", "What can be done";
        /// Button that activates a generation older than the live one.
        go_back: "退回此版本", "Go back to it";
        /// Button that activates a generation newer than the live one.
        activate: "启用此版本", "Activate it";
        activate_hint: "片刻后即由它工作，并采用它建立时的设置；原来的版本保留。",
            "It becomes active within moments, with the settings with which it was built. The present active generation is kept.";
        discard: "删除此版本", "Discard";
        discard_hint: "删除后腾出空间，不能再退回。", "It is deleted, which frees its space. This cannot be undone.";
        compare: "比较", "Compare";
        compare_hint: "看它比使用中的版本多找到、少找到哪些重件。",
            "Shows the pairs that only this generation or only the active one finds.";
        outdated: "索引是按旧规则建的，本程序的规则已有变化：新来件可能漏掉早先的重件。请重建索引。",
            "The index was built by rules that this version has changed: new records may miss earlier ones. Rebuild it.";
        rebuild: "重建索引", "Rebuild the index";
        rebuild_hint: "按现有设置为全部信访件另建一套索引，建成后切换；期间照常工作，原版本保留。",
            "Signs all records again with the current settings, beside the active index, and then switches to it. The service continues \
             meanwhile, and the earlier generation is kept.";
        health: "空间与状态", "Space and health";
        takes_writes: "可以正常登记。", "The store takes records.";
        takes_none: "目前不能登记，查询照常。请告知管理员：清理磁盘空间，或恢复数据库。",
            "The store takes no records now; looking things up goes on. Tell your administrator: make room on the disk, or bring the \
             database back.";
        of_all: "以下大小是整个服务（全部数据集）的合计。", "Sizes are those of the whole service, all collections together.";
        records_here: "本数据集件数", "Records here";
        records_in_all: "全部数据集件数", "Records in all collections";
        index_memory: "索引占用内存", "Index, in memory";
        disk_used: "存储占用磁盘", "Store, on disk";
        disk_free: "磁盘剩余空间", "Free on its disk";
        remembered: "文本缓存占用内存", "Remembered texts, in memory";
        search_disk: "检索索引占用磁盘", "Search index, on disk";
        search_memory: "检索索引占用内存", "Search index, in memory";
        search_behind: "检索尚未跟上的变更", "Changes that search has not read yet";
        search_off: "检索未启用。", "Search is turned off.";
        statistics: "语段统计", "Statistics of text";
        counted(version: u32, sampled: &str) -> String: match version {
            0 => "内置，尚未统计本数据集", "built in; not counted here yet";
            version => "第 {version} 版，统计了 {sampled} 件", "version {version}, over {sampled} records";
        }
        inactive(scheme: &str, reason: &str): "比对通道 {scheme} 不能运行：{reason}", "The channel {scheme} cannot run: {reason}";
        comparison(generation: u32, live: u32): "版本 {generation} 与使用中的版本 {live} 比较",
            "Generation {generation} compared with {live}, the active one";
        comparison_hint: "只看无人认定过的重件对，且两件在较新的版本开始建立时都已登记。",
            "Pairs without a decision, of records that existed when the younger of the two was begun.";
        shared: "两个版本都找到的对", "Pairs that both find";
        gained: "只有此版本找到的对", "Pairs that only this one finds";
        lost: "只有使用中的版本找到的对", "Pairs that only the active one finds";
        no_pairs: "没有。", "None.";
        examples(shown: usize): "最早的 {shown} 对：", "The earliest {shown}:";
        back: "返回任务页", "Back to work";
        done(done: WorkDone) -> String: match done {
            WorkDone::Rebuilding => "已开始重建索引。", "The index is being rebuilt.";
            WorkDone::Trying => "正在按这些要求另建一个版本，不会启用；建成后可以比较。",
                "A generation with these numbers is being built. It is not active; compare it when it is complete.";
            WorkDone::Activating => "正在切换到此版本。", "The generation is being activated.";
            WorkDone::Canceled => "任务已取消，它还没有开始。", "The task is cancelled; it had not begun.";
            WorkDone::Stopping => "已通知任务停止。", "The task stops at its next step.";
            WorkDone::EndedBefore => "任务早已结束，没有做任何事。", "The task had ended before; nothing was done.";
            WorkDone::Dropped(generation) => "版本 {generation} 已删除。", "Generation {generation} is discarded.";
            WorkDone::Busy => "没有执行：本数据集还有未结束的任务，请等它结束或先取消。",
                "Nothing was done: another task of this collection is not finished. Wait for it, or cancel it.";
            WorkDone::NoRoom => "没有执行：保留的版本已达上限，请先删除一个。",
                "Nothing was done: no more generations can be kept. Discard one first.";
            WorkDone::Building => "没有执行：有任务正在建此版本，请先取消任务或等它结束。",
                "Nothing was done: a task is building this generation. Cancel the task, or wait.";
            WorkDone::Live => "没有执行：此版本正在使用中。", "Nothing was done: this generation is active.";
            WorkDone::Gone => "没有执行：它已不存在。", "Nothing was done: it does not exist any more.";
        }
    }
}
