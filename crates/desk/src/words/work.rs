//! The texts of the page about tasks and generations, in both languages.

use serde::{Deserialize, Serialize};

use doppel_engine::generations::Standing;
use doppel_store::tasks::TaskStatus;

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

/// The texts of the page about tasks and generations.
pub struct WorkWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Heading of the running task.
    pub now: &'static str,
    /// Text if no task is running.
    pub nothing_runs: &'static str,
    /// Link that loads the page again.
    pub refresh: &'static str,
    /// Note that the page refreshes itself if scripts are allowed.
    pub refreshes: &'static str,
    /// Heading of the finished tasks.
    pub ended: &'static str,
    /// Text if there are no finished tasks.
    pub none_ended: &'static str,
    /// Note that the list is not complete, with the number of listed tasks.
    pub listed: fn(usize) -> String,
    /// The name of a kind of task.
    pub kind: fn(&str) -> &'static str,
    /// The name of a status.
    pub status: fn(TaskStatus) -> &'static str,
    /// The name of a phase.
    pub phase: fn(&str) -> &'static str,
    /// Progress: done and total.
    pub progress: fn(&str, &str) -> String,
    /// Number of steps per second, and number of seconds to the end of the phase if known.
    pub pace: fn(&str, Option<u64>) -> String,
    /// The label of a member of a result; `None` if the member is not shown.
    pub figure: fn(&str) -> Option<&'static str>,
    /// Note that the task does not activate the new generation.
    pub beside: &'static str,
    /// Note that the task deletes nothing.
    pub dry_run: &'static str,
    /// Label of the time of the request.
    pub asked: &'static str,
    /// Label of the time of the start.
    pub begun: &'static str,
    /// Label of the time of the end.
    pub finished: &'static str,
    /// Note that the task was told to stop.
    pub is_stopping: &'static str,
    /// Advice after the failure of a kind of task.
    pub failed: fn(&str) -> &'static str,
    /// Label of the error message.
    pub reason: &'static str,
    /// Button that cancels the task.
    pub cancel: &'static str,
    /// Description of cancelling.
    pub cancel_hint: &'static str,
    /// Heading of the generations.
    pub generations: &'static str,
    /// Explanation of generations.
    pub generations_hint: &'static str,
    /// Column with the numbers of generations.
    pub generation: &'static str,
    /// Column with the states of generations.
    pub standing: &'static str,
    /// The name of a state; the second argument is true if the generation is older than the live one.
    pub stands: fn(Standing, bool) -> &'static str,
    /// Column with the actions.
    pub actions: &'static str,
    /// Button that activates a generation older than the live one.
    pub go_back: &'static str,
    /// Button that activates a generation newer than the live one.
    pub activate: &'static str,
    /// Description of activating.
    pub activate_hint: &'static str,
    /// Button that discards a generation.
    pub discard: &'static str,
    /// Description of discarding.
    pub discard_hint: &'static str,
    /// Link to the comparison with the live generation.
    pub compare: &'static str,
    /// Description of the comparison.
    pub compare_hint: &'static str,
    /// Warning that the live generation was built with rules that have changed.
    pub outdated: &'static str,
    /// Button that rebuilds the index.
    pub rebuild: &'static str,
    /// Description of rebuilding.
    pub rebuild_hint: &'static str,
    /// Heading of the state of the service.
    pub health: &'static str,
    /// Message that the store accepts writes.
    pub takes_writes: &'static str,
    /// Message that the store accepts no writes, with advice.
    pub takes_none: &'static str,
    /// Note that the sizes are for all collections.
    pub of_all: &'static str,
    /// Label: number of records of the collection.
    pub records_here: &'static str,
    /// Label: number of records of all collections.
    pub records_in_all: &'static str,
    /// Label: memory of the index.
    pub index_memory: &'static str,
    /// Label: disk space of the store.
    pub disk_used: &'static str,
    /// Label: free disk space.
    pub disk_free: &'static str,
    /// Label: memory of cached texts.
    pub remembered: &'static str,
    /// Label: disk space of the search index.
    pub search_disk: &'static str,
    /// Label: memory of the search index.
    pub search_memory: &'static str,
    /// Label: number of changes that the search index has not read yet.
    pub search_behind: &'static str,
    /// Message that search is turned off.
    pub search_off: &'static str,
    /// Label of the statistics of text.
    pub statistics: &'static str,
    /// Version of the statistics, and number of records for which they were counted.
    pub counted: fn(u32, &str) -> String,
    /// Message that a channel cannot run, with its scheme and the reason.
    pub inactive: fn(&str, &str) -> String,
    /// Heading of a comparison, with the numbers of the generation and of the live generation.
    pub comparison: fn(u32, u32) -> String,
    /// Description of the compared pairs.
    pub comparison_hint: &'static str,
    /// Label of the pairs that both generations find.
    pub shared: &'static str,
    /// Label of the pairs that only the compared generation finds.
    pub gained: &'static str,
    /// Label of the pairs that only the live generation finds.
    pub lost: &'static str,
    /// Text if there are no such pairs.
    pub no_pairs: &'static str,
    /// Heading of the examples, with their number.
    pub examples: fn(usize) -> String,
    /// Link to the page of tasks.
    pub back: &'static str,
    /// Message about the outcome of an action.
    pub done: fn(WorkDone) -> String,
}

pub(super) const EN: WorkWords = WorkWords {
    title: "Work",
    now: "Running now",
    nothing_runs: "Nothing is running.",
    refresh: "Refresh",
    refreshes: "Refreshes by itself every two seconds where scripts are allowed.",
    ended: "Ended",
    none_ended: "No task of this collection has ended yet.",
    listed: |most| format!("The latest {most} are listed."),
    kind: |kind| match kind {
        "reindex" => "Rebuild the index",
        "activate" => "Activate another generation",
        "purge" => "Delete superfluous duplicates",
        "erase" => "Delete records of a petitioner or past their age",
        _ => "Other work",
    },
    status: |status| match status {
        TaskStatus::Enqueued => "waiting",
        TaskStatus::Processing => "running",
        TaskStatus::Succeeded => "done",
        TaskStatus::Failed => "failed",
        TaskStatus::Canceled => "cancelled",
    },
    phase: |phase| match phase {
        "waiting" => "waiting for its turn",
        "wait for the store" => "waiting for the store",
        "count" => "counting words",
        "announce" => "announcing the new generation",
        "load" => "loading",
        "index" => "signing and filing records",
        "activate" => "switching over",
        "catch up" => "catching up on what came in meanwhile",
        "find" => "looking for duplicates",
        "look through" => "looking through all records",
        "delete" => "deleting",
        _ => "working",
    },
    progress: |done, total| format!("{done} of {total}"),
    pace: |rate, seconds| match seconds {
        Some(seconds) => format!("{rate} a second, about {seconds} s left in this step"),
        None => format!("{rate} a second"),
    },
    figure: |name| match name {
        "generation" => Some("generation"),
        "records" => Some("records"),
        "pairs" => Some("pairs"),
        "unreadable" => Some("could not be read"),
        "deleted" => Some("deleted"),
        "found" => Some("found"),
        _ => None,
    },
    beside: "kept beside the active one",
    dry_run: "preview: deletes nothing",
    asked: "Asked for",
    begun: "Begun",
    finished: "Ended",
    is_stopping: "It stops at its next step.",
    failed: |kind| match kind {
        "purge" | "erase" => {
            "It failed. What it deleted before is deleted. Remove the cause and start it again: it continues with the rest."
        }
        "activate" => {
            "It failed. The list below shows the active generation. Remove the cause and activate the generation again."
        }
        _ => {
            "It failed; what was half built is thrown away, and the generation marked as answering goes on answering. Remove the \
             cause and rebuild again."
        }
    },
    reason: "It said:",
    cancel: "Cancel",
    cancel_hint: "A generation that is being built is thrown away; one that is complete, or is being switched to, is finished all \
                  the same. What was deleted stays deleted.",
    generations: "Generations of the index",
    generations_hint: "A generation is a complete index of all records, built with one set of settings. One of them is active and answers all requests.",
    generation: "Number",
    standing: "State",
    stands: |standing, is_older| match (standing, is_older) {
        (Standing::Live, _) => "active",
        (Standing::Building, _) => "being built",
        (Standing::Ready, true) => "earlier, complete and kept up to date",
        (Standing::Ready, false) => "complete, not active yet",
    },
    actions: "What can be done",
    go_back: "Go back to it",
    activate: "Activate it",
    activate_hint: "It becomes active within moments, with the settings with which it was built. The present active generation is kept.",
    discard: "Discard",
    discard_hint: "It is deleted, which frees its space. This cannot be undone.",
    compare: "Compare",
    compare_hint: "Shows the pairs that only this generation or only the active one finds.",
    outdated: "The index was built by rules that this version has changed: new records may miss earlier ones. Rebuild it.",
    rebuild: "Rebuild the index",
    rebuild_hint: "Signs all records again with the current settings, beside the active index, and then switches to it. The service \
                   continues meanwhile, and the earlier generation is kept.",
    health: "Space and health",
    takes_writes: "The store takes records.",
    takes_none: "The store takes no records now; looking things up goes on. Tell your administrator: make room on the disk, or \
                 bring the database back.",
    of_all: "Sizes are those of the whole service, all collections together.",
    records_here: "Records here",
    records_in_all: "Records in all collections",
    index_memory: "Index, in memory",
    disk_used: "Store, on disk",
    disk_free: "Free on its disk",
    remembered: "Remembered texts, in memory",
    search_disk: "Search index, on disk",
    search_memory: "Search index, in memory",
    search_behind: "Changes that search has not read yet",
    search_off: "Search is turned off.",
    statistics: "Statistics of text",
    counted: |version, sampled| match version {
        0 => "built in; not counted here yet".to_owned(),
        version => format!("version {version}, over {sampled} records"),
    },
    inactive: |scheme, reason| format!("The channel {scheme} cannot run: {reason}"),
    comparison: |generation, live| format!("Generation {generation} compared with {live}, the active one"),
    comparison_hint: "Pairs without a decision, of records that existed when the younger of the two was begun.",
    shared: "Pairs that both find",
    gained: "Pairs that only this one finds",
    lost: "Pairs that only the active one finds",
    no_pairs: "None.",
    examples: |shown| format!("The earliest {shown}:"),
    back: "Back to work",
    done: |done| match done {
        WorkDone::Rebuilding => "The index is being rebuilt.".into(),
        WorkDone::Trying => {
            "A generation with these numbers is being built. It is not active; compare it when it is complete.".into()
        }
        WorkDone::Activating => "The generation is being activated.".into(),
        WorkDone::Canceled => "The task is cancelled; it had not begun.".into(),
        WorkDone::Stopping => "The task stops at its next step.".into(),
        WorkDone::EndedBefore => "The task had ended before; nothing was done.".into(),
        WorkDone::Dropped(generation) => format!("Generation {generation} is discarded."),
        WorkDone::Busy => {
            "Nothing was done: another task of this collection is not finished. Wait for it, or cancel it.".into()
        }
        WorkDone::NoRoom => "Nothing was done: no more generations can be kept. Discard one first.".into(),
        WorkDone::Building => "Nothing was done: a task is building this generation. Cancel the task, or wait.".into(),
        WorkDone::Live => "Nothing was done: this generation is active.".into(),
        WorkDone::Gone => "Nothing was done: it does not exist any more.".into(),
    },
};

pub(super) const ZH: WorkWords = WorkWords {
    title: "任务",
    now: "正在进行",
    nothing_runs: "目前没有正在进行的任务。",
    refresh: "刷新",
    refreshes: "浏览器允许脚本时，每两秒自动刷新。",
    ended: "已结束",
    none_ended: "本数据集还没有已结束的任务。",
    listed: |most| format!("只列出最近 {most} 项。"),
    kind: |kind| match kind {
        "reindex" => "重建索引",
        "activate" => "切换索引版本",
        "purge" => "清理多余重件",
        "erase" => "按信访人或保存期限删除",
        _ => "其他任务",
    },
    status: |status| match status {
        TaskStatus::Enqueued => "等待中",
        TaskStatus::Processing => "进行中",
        TaskStatus::Succeeded => "完成",
        TaskStatus::Failed => "失败",
        TaskStatus::Canceled => "已取消",
    },
    phase: |phase| match phase {
        "waiting" => "排队等待",
        "wait for the store" => "等待存储恢复",
        "count" => "统计词语",
        "announce" => "登记新版本",
        "load" => "载入",
        "index" => "逐件编入索引",
        "activate" => "切换",
        "catch up" => "补齐其间来件",
        "find" => "查找重件",
        "look through" => "逐件检查",
        "delete" => "删除",
        _ => "处理中",
    },
    progress: |done, total| format!("{done} / {total}"),
    pace: |rate, seconds| match seconds {
        Some(seconds) => format!("每秒 {rate} 件，本步骤约剩 {seconds} 秒"),
        None => format!("每秒 {rate} 件"),
    },
    figure: |name| match name {
        "generation" => Some("版本"),
        "records" => Some("件数"),
        "pairs" => Some("对数"),
        "unreadable" => Some("无法读取"),
        "deleted" => Some("已删除"),
        "found" => Some("符合条件"),
        _ => None,
    },
    beside: "建成后只保留，不启用",
    dry_run: "只列出将删除的件，不删除",
    asked: "提出时间",
    begun: "开始时间",
    finished: "结束时间",
    is_stopping: "已通知停止，将在下一步停下。",
    failed: |kind| match kind {
        "purge" | "erase" => "任务失败；此前已删除的件不会恢复。排除原因后重新开始，会接着处理其余部分。",
        "activate" => "任务失败；当前启用的版本见下表。排除原因后请再次切换。",
        _ => "任务失败；未建成的部分已清除，表中标为“使用中”的版本照常工作。排除原因后请重新重建。",
    },
    reason: "原因：",
    cancel: "取消任务",
    cancel_hint: "正在建的版本会被清除；已建成或正在切换的会继续完成；已删除的件不会恢复。",
    generations: "索引版本",
    generations_hint: "一个版本就是按一套设置为全部信访件建成的完整索引；其中一个在使用。",
    generation: "编号",
    standing: "状态",
    stands: |standing, is_older| match (standing, is_older) {
        (Standing::Live, _) => "使用中",
        (Standing::Building, _) => "正在建",
        (Standing::Ready, true) => "较早版本，完整并同步更新",
        (Standing::Ready, false) => "已建成，尚未启用",
    },
    actions: "可做的操作",
    go_back: "退回此版本",
    activate: "启用此版本",
    activate_hint: "片刻后即由它工作，并采用它建立时的设置；原来的版本保留。",
    discard: "删除此版本",
    discard_hint: "删除后腾出空间，不能再退回。",
    compare: "比较",
    compare_hint: "看它比使用中的版本多找到、少找到哪些重件。",
    outdated: "索引是按旧规则建的，本程序的规则已有变化：新来件可能漏掉早先的重件。请重建索引。",
    rebuild: "重建索引",
    rebuild_hint: "按现有设置为全部信访件另建一套索引，建成后切换；期间照常工作，原版本保留。",
    health: "空间与状态",
    takes_writes: "可以正常登记。",
    takes_none: "目前不能登记，查询照常。请告知管理员：清理磁盘空间，或恢复数据库。",
    of_all: "以下大小是整个服务（全部数据集）的合计。",
    records_here: "本数据集件数",
    records_in_all: "全部数据集件数",
    index_memory: "索引占用内存",
    disk_used: "存储占用磁盘",
    disk_free: "磁盘剩余空间",
    remembered: "文本缓存占用内存",
    search_disk: "检索索引占用磁盘",
    search_memory: "检索索引占用内存",
    search_behind: "检索尚未跟上的变更",
    search_off: "检索未启用。",
    statistics: "语段统计",
    counted: |version, sampled| match version {
        0 => "内置，尚未统计本数据集".to_owned(),
        version => format!("第 {version} 版，统计了 {sampled} 件"),
    },
    inactive: |scheme, reason| format!("比对通道 {scheme} 不能运行：{reason}"),
    comparison: |generation, live| format!("版本 {generation} 与使用中的版本 {live} 比较"),
    comparison_hint: "只看无人认定过的重件对，且两件在较新的版本开始建立时都已登记。",
    shared: "两个版本都找到的对",
    gained: "只有此版本找到的对",
    lost: "只有使用中的版本找到的对",
    no_pairs: "没有。",
    examples: |shown| format!("最早的 {shown} 对："),
    back: "返回任务页",
    done: |done| match done {
        WorkDone::Rebuilding => "已开始重建索引。".into(),
        WorkDone::Trying => "正在按这些要求另建一个版本，不会启用；建成后可以比较。".into(),
        WorkDone::Activating => "正在切换到此版本。".into(),
        WorkDone::Canceled => "任务已取消，它还没有开始。".into(),
        WorkDone::Stopping => "已通知任务停止。".into(),
        WorkDone::EndedBefore => "任务早已结束，没有做任何事。".into(),
        WorkDone::Dropped(generation) => format!("版本 {generation} 已删除。"),
        WorkDone::Busy => "没有执行：本数据集还有未结束的任务，请等它结束或先取消。".into(),
        WorkDone::NoRoom => "没有执行：保留的版本已达上限，请先删除一个。".into(),
        WorkDone::Building => "没有执行：有任务正在建此版本，请先取消任务或等它结束。".into(),
        WorkDone::Live => "没有执行：此版本正在使用中。".into(),
        WorkDone::Gone => "没有执行：它已不存在。".into(),
    },
};
