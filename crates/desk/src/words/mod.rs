//! The texts of the interface. Each language has a table, which is a constant of the same type. A text that is missing in a language is
//! therefore an error at compile time.
//!
//! Tables contain no data: a text with data is a function. The terms are those of the regulations (初件, 重件, 同人, 相同信访事项, 相关信访事项, 筛重).

mod batch;
mod en;
mod events;
mod evidence;
mod files;
mod groups;
mod people;
mod quality;
mod report;
mod start;
mod statistics;
mod tables;
mod work;
mod zh;

pub use batch::*;
pub use events::*;
pub use evidence::*;
pub use files::*;
pub use groups::*;
pub use people::*;
pub use quality::*;
pub use report::*;
pub use start::*;
pub use statistics::*;
pub use tables::*;
pub use work::*;

use doppel_texts::Language;

/// Returns the texts in a language.
pub fn of(language: Language) -> &'static DeskWords {
    match language {
        Language::Chinese => &zh::WORDS,
        Language::English => &en::WORDS,
    }
}
