//! The texts of the interface. Each page has a table in which each text has all languages side by side. A text that is missing in a language is
//! therefore an error at compile time.
//!
//! Tables contain no data: a text with data is a function. `title` is the heading of a page, and in the navigation the name of its section.
//! The terms are those of the regulations (初件, 重件, 同人, 相同信访事项, 相关信访事项, 筛重).

mod batch;
mod check;
mod events;
mod evidence;
mod files;
mod frame;
mod groups;
mod inbox;
mod people;
mod quality;
mod record;
mod report;
mod search;
mod start;
mod statistics;
mod table;
mod work;

pub use batch::*;
pub use check::*;
pub use events::*;
pub use evidence::*;
pub use files::*;
pub use frame::*;
pub use groups::*;
pub use inbox::*;
pub use people::*;
pub use quality::*;
pub use record::*;
pub use report::*;
pub use search::*;
pub use start::*;
pub use statistics::*;
pub use work::*;

use doppel_texts::Language;

use table::words;

words! {
    /// All texts of a language.
    pub struct DeskWords {
        frame: FrameWords;
        sign_in: SignInWords;
        people: PeopleWords;
        problem: ProblemWords;
        record: RecordWords;
        decide: DecideWords;
        evidence: EvidenceWords;
        start: StartWords;
        search: SearchWords;
        pair: PairWords;
        inbox: InboxWords;
        batch: BatchWords;
        case: CaseWords;
        check: CheckWords;
        files: FilesWords;
        groups: GroupsWords;
        group: GroupWords;
        events: EventsWords;
        regroup: RegroupWords;
        statistics: StatisticsWords;
        report: ReportWords;
        work: WorkWords;
        quality: QualityWords;
    }
}

/// Returns the texts in a language.
pub fn of(language: Language) -> &'static DeskWords {
    match language {
        Language::Chinese => &DeskWords::ZH,
        Language::English => &DeskWords::EN,
    }
}
