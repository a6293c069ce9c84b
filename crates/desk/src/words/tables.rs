//! The types for the texts: a struct for each page, and a struct of all.

use doppel_core::collection::Role;
use doppel_core::error_code::ErrorCode;
use doppel_core::verdict::{Relation, VerdictKind};
use doppel_engine::queue::QueueOrder;
use doppel_findings::FindingWords;
use doppel_store::decisions::Judgement;

use super::batch::BatchWords;
use super::events::EventsWords;
use super::evidence::EvidenceWords;
use super::files::FilesWords;
use super::groups::{GroupWords, GroupsWords, RegroupWords};
use super::people::PeopleWords;
use super::quality::QualityWords;
use super::report::ReportWords;
use super::start::StartWords;
use super::statistics::StatisticsWords;
use super::work::WorkWords;

/// All texts of a language.
pub struct DeskWords {
    /// Texts around the content of every page.
    pub frame: FrameWords,
    /// Texts of the sign-in page.
    pub sign_in: SignInWords,
    /// Texts of the pages about accounts and sessions.
    pub people: PeopleWords,
    /// Texts of problems.
    pub problem: ProblemWords,
    /// Texts about records, for all pages that show records.
    pub record: RecordWords,
    /// Texts of the form for a decision about a pair.
    pub decide: DecideWords,
    /// Texts about the evidence for a pair.
    pub evidence: EvidenceWords,
    /// Texts of the start page.
    pub start: StartWords,
    /// Texts of the search page.
    pub search: SearchWords,
    /// Texts of the comparison of two records.
    pub pair: PairWords,
    /// Texts of the inbox.
    pub inbox: InboxWords,
    /// Texts of the page for a batch of decisions.
    pub batch: BatchWords,
    /// Texts of the page of one record.
    pub case: CaseWords,
    /// Texts of the page for checking a letter.
    pub check: CheckWords,
    /// Texts of the pages for files of letters.
    pub files: FilesWords,
    /// Texts of the lists of groups.
    pub groups: GroupsWords,
    /// Texts of the page of one group.
    pub group: GroupWords,
    /// Texts of the pages about events.
    pub events: EventsWords,
    /// Texts of the previews of actions on a group.
    pub regroup: RegroupWords,
    /// Texts of the statistics page.
    pub statistics: StatisticsWords,
    /// Texts of the report of a week or month.
    pub report: ReportWords,
    /// Texts of the page about tasks and generations.
    pub work: WorkWords,
    /// Texts of the page about quality.
    pub quality: QualityWords,
}

/// The texts around the content of every page.
pub struct FrameWords {
    /// Name of the product.
    pub product: &'static str,
    /// Link to the content, for screen readers.
    pub skip: &'static str,
    /// Label of the links to other languages.
    pub languages: &'static str,
    /// Label of the navigation.
    pub sections: &'static str,
    /// Link to the list of collections.
    pub collections: &'static str,
    /// Label of the name of the visitor's key.
    pub signed_in_as: &'static str,
    /// Label of the name of the visitor, if they signed in with an account.
    pub person: &'static str,
    /// Note that no keys are configured, so that everyone on this machine has access.
    pub open_to_all: &'static str,
    /// Button that signs out.
    pub sign_out: &'static str,
    /// Heading of the help about keyboard shortcuts.
    pub keyboard: &'static str,
    /// Description of the shortcut for this help.
    pub key_help: &'static str,
    /// Label of the message about the action that was just done.
    pub just_done: &'static str,
    /// Message after the sign-out.
    pub signed_out: &'static str,
    /// Button that takes an action back.
    pub undo: &'static str,
    /// Link to the API reference.
    pub api_reference: &'static str,
    /// Link to the next page of a list.
    pub next_page: &'static str,
    /// Link to the first page of a list.
    pub first_page: &'static str,
}

/// The texts of the sign-in page.
pub struct SignInWords {
    /// Heading of the page.
    pub title: &'static str,
    /// Label of the name of the account.
    pub name: &'static str,
    /// Label of the password.
    pub password: &'static str,
    /// Explanation of accounts, and of the person who creates them.
    pub account_hint: &'static str,
    /// Button that leads to the identity provider.
    pub with_provider: &'static str,
    /// Summary of the folded form for a key.
    pub with_key: &'static str,
    /// Message for every wrong name or password.
    pub wrong_password: &'static str,
    /// Label of the key field.
    pub key: &'static str,
    /// Explanation of keys, and of the person who issues them.
    pub hint: &'static str,
    /// Button that signs in.
    pub button: &'static str,
    /// Message for every invalid key.
    pub wrong: &'static str,
    /// The reason why the visitor must sign in.
    pub ended: &'static str,
}

/// The texts of problems. Problems with the same remedy have the same text.
pub struct ProblemWords {
    /// Label of the request id.
    pub reference: &'static str,
    /// Heading of the details from the service.
    pub details: &'static str,
    /// Link to the start page.
    pub home: &'static str,
    /// 400, 406, 408, 413, 415: the request cannot be read.
    pub unreadable: &'static str,
    /// 422: the input is invalid.
    pub invalid: &'static str,
    /// 403: the key lacks a scope.
    pub missing_scope: &'static str,
    /// 403: the form belongs to another browser or is older than the service.
    pub form_outdated: &'static str,
    /// 403, 421: another site sent the request.
    pub foreign: &'static str,
    /// 404: the page does not exist.
    pub unknown_page: &'static str,
    /// 404: the collection does not exist.
    pub unknown_collection: &'static str,
    /// 404: the record does not exist.
    pub unknown_record: &'static str,
    /// 403: the role of the visitor does not allow the page or the action.
    pub missing_role: &'static str,
    /// 403: a sign-in at the identity provider was refused.
    pub sign_in_refused: &'static str,
    /// 403: a sign-in at the identity provider is too old, or of another browser.
    pub sign_in_outdated: &'static str,
    /// 409: an account or a key has the name.
    pub name_taken: &'static str,
    /// Somebody else changed the account meanwhile.
    pub account_changed: &'static str,
    /// 404: the account does not exist.
    pub unknown_account: &'static str,
    /// 409: the current state forbids the action.
    pub conflict: &'static str,
    /// 409: search is turned off.
    pub search_disabled: &'static str,
    /// 404: the record is in no group.
    pub ungrouped: &'static str,
    /// The collection keeps no text.
    pub text_not_kept: &'static str,
    /// 409: the group is too large for one decision.
    pub group_too_large: &'static str,
    /// 409: another record has the id.
    pub id_taken: &'static str,
    /// 409: the decisions of the action cannot be taken back together any more.
    pub nothing_to_undo: &'static str,
    /// The text for the code of a problem with an uploaded file.
    pub file: fn(ErrorCode) -> &'static str,
    /// 503: the search index is being opened.
    pub search_opening: &'static str,
    /// 429: there are too many requests.
    pub too_often: &'static str,
    /// 503: the service is not available at the moment.
    pub unavailable: &'static str,
    /// 507: the disk is full.
    pub disk_full: &'static str,
    /// 500: there is a bug.
    pub internal: &'static str,
}

/// The texts about records.
pub struct RecordWords {
    /// The words of findings.
    pub finding: FindingWords,
    /// Decision: the record and the record that it repeats are the same matter.
    pub decided_same: &'static str,
    /// Decision: the record and the record that it repeats report one event, but neither repeats the other.
    pub decided_same_event: &'static str,
    /// Decision: the record and the record that it repeats are different matters.
    pub decided_not_same: &'static str,
    /// Label of the verdict at the registration.
    pub registered_as: &'static str,
    /// A verdict as a sentence.
    pub verdict_sentence: fn(VerdictKind) -> &'static str,
    /// The relation between the petitioners of two records.
    pub relation: fn(Relation) -> &'static str,
    /// The name of the method that found a match.
    pub via: fn(&str) -> &'static str,
    /// The labels of fields that have the names of the default settings: name and label.
    pub fields: &'static [(&'static str, &'static str)],
    /// The name of a role, for fields whose own names are not shown.
    pub role: fn(Role) -> &'static str,
    /// The colon between a label and its value.
    pub colon: &'static str,
    /// Label of the id.
    pub id: &'static str,
    /// Label of the title.
    pub title: &'static str,
    /// Label of the time of the submission.
    pub time: &'static str,
    /// Label of the petitioner.
    pub petitioner: &'static str,
    /// Label of the time at which the record was stored.
    pub stored_at: &'static str,
    /// Title of a record without a title.
    pub untitled: &'static str,
    /// Text for a record without a time.
    pub no_time: &'static str,
}

impl RecordWords {
    /// Returns the label of the status of a matter.
    pub fn status(&self) -> &'static str {
        (self.role)(Role::Status)
    }

    /// Returns the label of the unit that handles a matter.
    pub fn unit(&self) -> &'static str {
        (self.role)(Role::Unit)
    }

    /// Returns the label of the reply to the petitioner.
    pub fn reply(&self) -> &'static str {
        (self.role)(Role::Reply)
    }

    /// Returns the label of a field, or its own name if it has no label.
    pub fn field<'a>(&self, name: &'a str) -> &'a str {
        self.fields.iter().find(|(own, _)| *own == name).map_or(name, |(_, word)| word)
    }
}

/// The texts of the form for a decision about a pair.
pub struct DecideWords {
    /// Button: the two records are the same matter.
    pub same: &'static str,
    /// Button: the two records report one event, but neither repeats the other.
    pub same_event: &'static str,
    /// Button: the two records are different matters.
    pub not_same: &'static str,
    /// Button that withdraws the decision.
    pub withdraw: &'static str,
    /// The name of a judgement.
    pub judgement: fn(Judgement) -> &'static str,
    /// Label of the note.
    pub note: &'static str,
    /// Label of the visitor's name, if no keys are configured.
    pub by: &'static str,
    /// Heading of the history of decisions.
    pub history: &'static str,
    /// Text if there is no decision.
    pub nobody: &'static str,
    /// Message after a decision.
    pub done: fn(Judgement) -> &'static str,
    /// Message that another person has decided in the meantime.
    pub meanwhile: &'static str,
    /// Advice for this case.
    pub meanwhile_advice: &'static str,
    /// Message that a record was replaced in the meantime.
    pub replaced: &'static str,
    /// Advice for this case.
    pub replaced_advice: &'static str,
    /// Link to the page from which the visitor came.
    pub back: &'static str,
}

/// The texts of the search page.
pub struct SearchWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Label of the search field.
    pub question: &'static str,
    /// Explanation of the syntax of searches.
    pub hint: &'static str,
    /// Button that searches.
    pub button: &'static str,
    /// Filter: start of the time.
    pub from: &'static str,
    /// Filter: end of the time.
    pub to: &'static str,
    /// Filter: petitioner.
    pub identity: &'static str,
    /// Filter: category.
    pub category: &'static str,
    /// Filter: verdict.
    pub verdict: &'static str,
    /// Choice that does not filter.
    pub any: &'static str,
    /// Label of the choice of the order.
    pub order: &'static str,
    /// Order: by rank or by time, as fits the search.
    pub fitting: &'static str,
    /// Order: best matches first.
    pub ranked: &'static str,
    /// Order: latest records first.
    pub newest: &'static str,
    /// Number of found records, and true if this number is exact.
    pub total: fn(&str, bool) -> String,
    /// Text if nothing was found.
    pub none: &'static str,
    /// Number of changes that the search index has not read yet.
    pub behind: fn(&str) -> String,
    /// Parts of the search that were ignored.
    pub ignored: fn(&[String]) -> String,
    /// Link to all records of the petitioner.
    pub of_petitioner: &'static str,
}

/// The texts of the comparison of two records.
pub struct PairWords {
    /// Heading of the comparison.
    pub title: &'static str,
    /// Heading of the record of the page.
    pub this: &'static str,
    /// Heading of the other record.
    pub other: &'static str,
    /// Link to the first shared passage.
    pub jump_shared: &'static str,
    /// Link to the first difference.
    pub jump_different: &'static str,
    /// Note: text that both records have is marked.
    pub marks_shared: &'static str,
    /// Note: text that only one of the records has is marked.
    pub marks_different: &'static str,
    /// Note: no text differs, so that nothing is marked.
    pub marks_none: &'static str,
    /// Figure: both records have the same text.
    pub same_text: &'static str,
    /// Figure: share of the shorter text that the longer text contains, in per cent.
    pub contained: fn(u8) -> String,
    /// Figure: the probability of one matter, in per cent.
    pub probability: fn(u8) -> String,
    /// Figure: the two do not match by the current settings.
    pub no_match: &'static str,
    /// Figure: names of the methods that found the match.
    pub found_by: fn(&[&str]) -> String,
    /// Label of the differences.
    pub differs: &'static str,
}

/// The texts of the inbox.
pub struct InboxWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Label of the filter.
    pub show: &'static str,
    /// Filter: repeats without a decision.
    pub undecided: &'static str,
    /// Filter: all repeats.
    pub repeats: &'static str,
    /// Filter: all records.
    pub all: &'static str,
    /// The name of an order.
    pub order_name: fn(QueueOrder) -> &'static str,
    /// Summary of the folded conditions.
    pub conditions: &'static str,
    /// Link to the queue without conditions.
    pub clear: &'static str,
    /// Label of the choice of a probability.
    pub band: &'static str,
    /// Probability of 95 % and more.
    pub band_high: &'static str,
    /// Probability of 80 % to 95 %.
    pub band_middle: &'static str,
    /// Probability below 80 %.
    pub band_low: &'static str,
    /// Numbers of records, of exact duplicates and of near duplicates.
    pub total: fn(&str, &str, &str) -> String,
    /// Note that the numbers belong to a part of the queue, with the largest number of seqs of the part.
    pub part: fn(&str) -> String,
    /// Last row of a file that does not have all records.
    pub not_in_file: &'static str,
    /// Label of the choice of a batch.
    pub batch: &'static str,
    /// Batch: exact copies.
    pub batch_exact: &'static str,
    /// Batch: a probability of so many per cent and more.
    pub batch_above: fn(u8) -> String,
    /// Batch: the same petitioner.
    pub batch_petitioner: &'static str,
    /// Button that shows the preview of a batch.
    pub preview: &'static str,
    /// Link to the part of the queue with earlier arrivals.
    pub earlier: &'static str,
    /// Label of the start of the time.
    pub since: &'static str,
    /// Button that applies the filter.
    pub button: &'static str,
    /// Message that the start of the time is invalid.
    pub wrong_since: &'static str,
    /// Text if the queue is empty.
    pub none: &'static str,
    /// Text if this part of the queue is empty but there may be earlier records.
    pub none_here: &'static str,
    /// Link to the next record.
    pub next: &'static str,
    /// Link to the previous record.
    pub previous: &'static str,
    /// Link to the page of the record.
    pub open: &'static str,
    /// Heading of the list of records.
    pub queue: &'static str,
    /// Position of the shown record on the page, and number of records on the page.
    pub position: fn(usize, usize) -> String,
    /// Text between a record and the record that it repeats.
    pub repeats_this: &'static str,
    /// Message that the repeated record does not exist any more.
    pub original_gone: &'static str,
    /// Message that the record repeats no other record.
    pub no_repeat: &'static str,
}

/// The texts of the page of one record.
pub struct CaseWords {
    /// Title of a record without a title.
    pub title: &'static str,
    /// Link to the record in the office's own system.
    pub own_system: &'static str,
    /// Label of the tabs.
    pub tabs: &'static str,
    /// Tab with the duplicates.
    pub duplicates: &'static str,
    /// Tab with records of the same petitioner.
    pub petitioner: &'static str,
    /// Tab with related records.
    pub related: &'static str,
    /// Text if the tab is empty.
    pub none: &'static str,
    /// Message that the record contains no petitioner.
    pub no_petitioner: &'static str,
    /// Note on a record that arrived before the shown record.
    pub earlier: &'static str,
    /// Note on a record that arrived after the shown record.
    pub later: &'static str,
    /// Note on a record with the same form and another matter.
    pub template: &'static str,
    /// Label of the terms that both records contain.
    pub terms: &'static str,
    /// Heading of the other fields.
    pub others: &'static str,
    /// Note that the list is not complete.
    pub more: &'static str,
    /// Label of the decision about the record, or of its verdict at the registration.
    pub verdict: &'static str,
    /// Label of the event of the record.
    pub event: &'static str,
}

/// The texts of the page for checking a letter.
pub struct CheckWords {
    /// Heading of the page, and name of the section.
    pub title: &'static str,
    /// Note that nothing is stored.
    pub hint: &'static str,
    /// Label of the field for the whole letter.
    pub paste: &'static str,
    /// Heading of the single fields.
    pub fields: &'static str,
    /// Label of the id field.
    pub id: &'static str,
    /// Button that checks the letter.
    pub button: &'static str,
    /// Message that the form is empty.
    pub nothing: &'static str,
    /// Heading of the findings.
    pub answer: &'static str,
    /// Heading of the other similar records.
    pub similar: &'static str,
    /// Heading of the related cases.
    pub related: &'static str,
    /// Button that registers the letter.
    pub register: &'static str,
    /// Description of registering.
    pub register_hint: &'static str,
    /// Message after the registration.
    pub registered: &'static str,
    /// Warning that the time is invalid.
    pub unreadable_time: &'static str,
}
