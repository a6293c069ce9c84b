//! Which texts there are: a struct for each page, and one of all.

use doppel_core::collection::Role;
use doppel_core::verdict::{ObjectKind, Relation, VerdictKind};
use doppel_store::decisions::Judgement;

use super::files::FilesWords;
use super::groups::{GroupWords, GroupsWords, RegroupWords, StatisticsWords};
use super::quality::QualityWords;
use super::work::WorkWords;

/// All texts.
pub struct Words {
    /// What stands around every page.
    pub frame: FrameWords,
    /// Signing in.
    pub sign_in: SignInWords,
    /// What went wrong.
    pub problem: ProblemWords,
    /// What holds of records, wherever they are shown.
    pub record: RecordWords,
    /// Deciding about a pair.
    pub decide: DecideWords,
    /// The list of collections.
    pub collections: CollectionsWords,
    /// Searching.
    pub search: SearchWords,
    /// Two records beside each other.
    pub pair: PairWords,
    /// What came in.
    pub inbox: InboxWords,
    /// One record and those like it.
    pub case: CaseWords,
    /// A letter that is not stored.
    pub check: CheckWords,
    /// Files of letters.
    pub files: FilesWords,
    /// Lists of groups.
    pub groups: GroupsWords,
    /// One group.
    pub group: GroupWords,
    /// What would be decided about a group.
    pub regroup: RegroupWords,
    /// How much came in.
    pub statistics: StatisticsWords,
    /// Tasks and generations.
    pub work: WorkWords,
    /// What people decided against what was found.
    pub quality: QualityWords,
}

/// What stands around every page.
pub struct FrameWords {
    /// The name of the whole.
    pub product: &'static str,
    /// To the content, for who does not see the page.
    pub skip: &'static str,
    /// The languages.
    pub languages: &'static str,
    /// The parts of the desk.
    pub sections: &'static str,
    /// To the list of collections.
    pub collections: &'static str,
    /// Who is signed in.
    pub signed_in_as: &'static str,
    /// No keys are configured: everyone on this machine is let in.
    pub open_to_all: &'static str,
    /// The button.
    pub sign_out: &'static str,
    /// Keys of the keyboard.
    pub keyboard: &'static str,
    /// Opens this help.
    pub key_help: &'static str,
    /// What was just done.
    pub just_done: &'static str,
    /// Behind the one that went before.
    pub signed_out: &'static str,
    /// An action is taken back.
    pub undo: &'static str,
    /// To the reference of the API.
    pub api_reference: &'static str,
    /// Of a list.
    pub next_page: &'static str,
    /// Back to its beginning.
    pub first_page: &'static str,
}

/// Signing in.
pub struct SignInWords {
    /// The heading.
    pub title: &'static str,
    /// The field.
    pub key: &'static str,
    /// What a key is and who gives one.
    pub hint: &'static str,
    /// The button.
    pub button: &'static str,
    /// Whatever is wrong with the key.
    pub wrong: &'static str,
    /// Why one is here.
    pub ended: &'static str,
}

/// What went wrong, by what can be done about it.
pub struct ProblemWords {
    /// Shown beside the request id.
    pub reference: &'static str,
    /// Before the service's own words.
    pub details: &'static str,
    /// To the beginning.
    pub home: &'static str,
    /// 400, 406, 408, 413, 415: the request cannot be read.
    pub unreadable: &'static str,
    /// 422: what was given cannot be taken.
    pub invalid: &'static str,
    /// 403: the key lacks a scope.
    pub missing_scope: &'static str,
    /// 403: the form is not of this browser or older than the service.
    pub form_outdated: &'static str,
    /// 403, 421: another site asks.
    pub foreign: &'static str,
    /// 404: no such page.
    pub unknown_page: &'static str,
    /// 404: no such collection.
    pub unknown_collection: &'static str,
    /// 404: no such record.
    pub unknown_record: &'static str,
    /// 409: not as things stand.
    pub conflict: &'static str,
    /// 409: search is turned off.
    pub search_disabled: &'static str,
    /// 404: the record is in no group.
    pub ungrouped: &'static str,
    /// The collection keeps no text.
    pub text_not_kept: &'static str,
    /// 409: the group is too large to be decided about at once.
    pub group_too_large: &'static str,
    /// 409: another record has the id.
    pub id_taken: &'static str,
    /// 409: what was done together cannot be taken back together any more.
    pub nothing_to_undo: &'static str,
    /// What is wrong with a file that was given, by the code of the problem.
    pub file: fn(&str) -> &'static str,
    /// 503: the search index is being opened.
    pub search_opening: &'static str,
    /// 429: too often.
    pub too_often: &'static str,
    /// 503: not now.
    pub unavailable: &'static str,
    /// 507: the disk is full.
    pub disk_full: &'static str,
    /// 500: a bug.
    pub internal: &'static str,
}

/// What holds of records.
pub struct RecordWords {
    /// A verdict.
    pub verdict: fn(VerdictKind) -> &'static str,
    /// A person decided that it is the same matter as the one that it repeats.
    pub decided_same: &'static str,
    /// A person decided that it is not.
    pub decided_not_same: &'static str,
    /// Before the verdict that it was given when it came in.
    pub registered_as: &'static str,
    /// A verdict, said in a sentence.
    pub verdict_sentence: fn(VerdictKind) -> &'static str,
    /// Who submitted two records.
    pub relation: fn(Relation) -> &'static str,
    /// What found a match.
    pub via: fn(&str) -> &'static str,
    /// What something named is.
    pub object: fn(ObjectKind) -> &'static str,
    /// What fields are called whose names are those of the default settings.
    pub fields: &'static [(&'static str, &'static str)],
    /// What a field is, where its own name is not shown.
    pub role: fn(Role) -> &'static str,
    /// Between the name of something and what it is.
    pub colon: &'static str,
    /// Number.
    pub id: &'static str,
    /// Title.
    pub title: &'static str,
    /// Submitted.
    pub time: &'static str,
    /// Petitioner.
    pub petitioner: &'static str,
    /// When it came in here.
    pub stored_at: &'static str,
    /// A record without a title.
    pub untitled: &'static str,
    /// A record without a time.
    pub no_time: &'static str,
}

impl RecordWords {
    /// The word for how far a matter is handled.
    pub fn status(&self) -> &'static str {
        (self.role)(Role::Status)
    }

    /// The word for the unit that handles a matter.
    pub fn unit(&self) -> &'static str {
        (self.role)(Role::Unit)
    }

    /// The word for what the petitioner was answered.
    pub fn reply(&self) -> &'static str {
        (self.role)(Role::Reply)
    }

    /// What to call a field: its own name, or the word for it.
    pub fn field<'a>(&self, name: &'a str) -> &'a str {
        self.fields.iter().find(|(own, _)| *own == name).map_or(name, |(_, word)| word)
    }
}

/// Deciding about a pair.
pub struct DecideWords {
    /// The button.
    pub same: &'static str,
    /// The other button.
    pub not_same: &'static str,
    /// Takes a decision back.
    pub withdraw: &'static str,
    /// A decision.
    pub judgement: fn(Judgement) -> &'static str,
    /// A note.
    pub note: &'static str,
    /// Under which name, where there are no keys.
    pub by: &'static str,
    /// The history.
    pub history: &'static str,
    /// Nobody has.
    pub nobody: &'static str,
    /// Was just decided.
    pub done: fn(Judgement) -> &'static str,
    /// Somebody else decided in the meantime.
    pub meanwhile: &'static str,
    /// What to do then.
    pub meanwhile_advice: &'static str,
    /// Back to where one was.
    pub back: &'static str,
}

/// The list of collections.
pub struct CollectionsWords {
    /// The heading.
    pub title: &'static str,
    /// There is none.
    pub none: &'static str,
    /// A column.
    pub name: &'static str,
    /// A column.
    pub records: &'static str,
    /// A column.
    pub created: &'static str,
    /// A column.
    pub go_to: &'static str,
    /// There are more than are shown.
    pub more: &'static str,
}

/// Searching.
pub struct SearchWords {
    /// The heading, and the name of the section.
    pub title: &'static str,
    /// The field.
    pub question: &'static str,
    /// How questions are written.
    pub hint: &'static str,
    /// The button.
    pub button: &'static str,
    /// A filter.
    pub from: &'static str,
    /// A filter.
    pub to: &'static str,
    /// A filter.
    pub identity: &'static str,
    /// A filter.
    pub category: &'static str,
    /// A filter.
    pub verdict: &'static str,
    /// No filter.
    pub any: &'static str,
    /// How answers are ordered.
    pub order: &'static str,
    /// As fits the question.
    pub fitting: &'static str,
    /// By how well they fit.
    pub ranked: &'static str,
    /// By time.
    pub newest: &'static str,
    /// How many were found, and whether it is just so many.
    pub total: fn(&str, bool) -> String,
    /// Nothing was found.
    pub none: &'static str,
    /// The index has so many changes yet to read.
    pub behind: fn(&str) -> String,
    /// Parts of the question that were left out.
    pub ignored: fn(&[String]) -> String,
    /// Only those of one petitioner.
    pub of_petitioner: &'static str,
}

/// Two records beside each other.
pub struct PairWords {
    /// What this is.
    pub title: &'static str,
    /// The record asked about.
    pub this: &'static str,
    /// The other record.
    pub other: &'static str,
    /// Leads to where both begin to say the same.
    pub jump: &'static str,
    /// Both have the same text.
    pub same_text: &'static str,
    /// So many per cent of the shorter text stand in the longer one.
    pub contained: fn(u8) -> String,
    /// The similarity, in per cent.
    pub similarity: fn(u8) -> String,
    /// They do not match by the settings of today.
    pub no_match: &'static str,
    /// What proposed one for the other.
    pub found_by: fn(&[&str]) -> String,
    /// Before what one names otherwise than the other.
    pub differs: &'static str,
}

/// What came in.
pub struct InboxWords {
    /// The heading, and the name of the section.
    pub title: &'static str,
    /// What is shown.
    pub show: &'static str,
    /// Repeats that nobody decided about.
    pub undecided: &'static str,
    /// All repeats.
    pub repeats: &'static str,
    /// All that came in.
    pub all: &'static str,
    /// Received from.
    pub since: &'static str,
    /// The button.
    pub button: &'static str,
    /// `since` is no time.
    pub wrong_since: &'static str,
    /// Nothing to do.
    pub none: &'static str,
    /// Nothing so far back; there may be more.
    pub none_here: &'static str,
    /// To the next one.
    pub next: &'static str,
    /// To the one before.
    pub previous: &'static str,
    /// To the page of the record.
    pub open: &'static str,
    /// The list.
    pub queue: &'static str,
    /// Which of how many is shown.
    pub position: fn(usize, usize) -> String,
    /// A record repeats this one.
    pub repeats_this: &'static str,
    /// The record that it repeated is gone.
    pub original_gone: &'static str,
    /// It repeats nothing.
    pub no_repeat: &'static str,
}

/// One record and those like it.
pub struct CaseWords {
    /// What a record is called.
    pub title: &'static str,
    /// The tabs.
    pub tabs: &'static str,
    /// A tab.
    pub duplicates: &'static str,
    /// A tab.
    pub petitioner: &'static str,
    /// A tab.
    pub related: &'static str,
    /// Nothing in this tab.
    pub none: &'static str,
    /// The record names no petitioner.
    pub no_petitioner: &'static str,
    /// Came in before this one.
    pub earlier: &'static str,
    /// Came in after this one.
    pub later: &'static str,
    /// The same form, another matter.
    pub template: &'static str,
    /// What both have.
    pub terms: &'static str,
    /// The other fields.
    pub others: &'static str,
    /// There are more than are shown.
    pub more: &'static str,
    /// What is decided about it, or the verdict that it was given when it came in.
    pub verdict: &'static str,
}

/// A letter that is not stored.
pub struct CheckWords {
    /// The heading, and the name of the section.
    pub title: &'static str,
    /// Nothing is stored.
    pub hint: &'static str,
    /// The box for all of a letter.
    pub paste: &'static str,
    /// The fields.
    pub fields: &'static str,
    /// A field that the row may have, too: its id.
    pub id: &'static str,
    /// The button.
    pub button: &'static str,
    /// Nothing was written.
    pub nothing: &'static str,
    /// What was found.
    pub answer: &'static str,
    /// The other ones like it.
    pub similar: &'static str,
    /// Related cases.
    pub related: &'static str,
    /// The button that stores it.
    pub register: &'static str,
    /// What that does.
    pub register_hint: &'static str,
    /// Done.
    pub registered: &'static str,
    /// The time is none.
    pub unreadable_time: &'static str,
}
