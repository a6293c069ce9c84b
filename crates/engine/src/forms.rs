//! Forms: the text that the records of a group share, for a person who declares the group a form; and proposals of groups that look like a form.
//!
//! A form is a part of the settings (`verify.forms`), so that exports and snapshots contain it. A reindex with the form builds a generation that
//! can be compared with the live generation, activated, and replaced again by the former one.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use utoipa::ToSchema;

use crate::boxed;
use crate::context::Context;
use crate::rebuild::{on_pool, pool};
use crate::tasks::{Reindex, Task, Work};
use crate::{Engine, Error, READ_AT_ONCE, Result};
use doppel_core::collection::{CollectionName, Form, MAX_FORM_PASSAGES, MAX_PASSAGE_CHARS, Settings};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::{RecordId, Row};
use doppel_core::similarity::{FormText, MIN_FORM_CHARS};
use doppel_core::text::shingles::counted;
use doppel_core::violation::Violation;
use doppel_store::{Seq, StoredRecord};

/// Largest number of members of a group that are read, the earliest members.
const MEMBERS_READ: usize = 200;
/// Number of bytes of a member's text that are read: a form is at the beginning of a text.
const TEXT_BYTES: usize = 64 << 10;
/// Smallest group that is proposed as a form.
const MIN_MEMBERS: usize = 10;
/// Largest number of groups that are read for proposals, the largest groups.
const GROUPS_READ: usize = 100;
/// Share of the members that contain a shingle of the form: the others may have typing errors.
const COMMON_SHARE: f64 = 0.9;
/// Smallest share of the members' text that a proposed form has.
const MIN_SHARE: f64 = 0.6;
/// Smallest share of different fillings among the members of a proposed form. If fewer are different, the group consists of copies.
const MIN_DIFFERENT: f64 = 0.5;
/// Number of members whose filling is shown.
const EXAMPLES: usize = 5;
/// Largest length of a shown filling in characters.
const EXAMPLE_CHARS: usize = 100;

/// The text that the records of a group share.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct GroupForm {
    /// The id of the first record of the group.
    pub group: RecordId,
    /// Number of records in the group.
    pub size: usize,
    /// Number of records that were read: the earliest members of the group.
    #[schema(maximum = 200)]
    pub read: usize,
    /// The passages that nine tenths of the read records share, in the order of the first record.
    #[schema(max_items = 64)]
    pub passages: Vec<String>,
    /// Mean share of the text of a record that these passages cover, 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub share: f64,
    /// Number of different texts that people filled in.
    pub fillings: usize,
    /// The fillings of some records.
    #[schema(max_items = 5)]
    pub examples: Vec<FormFilling>,
}

/// The text of a record outside the passages of a form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FormFilling {
    /// The id of the record.
    pub id: RecordId,
    /// The text, at most 100 characters.
    pub text: String,
}

/// The groups of a collection that look like forms.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProposedForms {
    /// Number of groups that were read: the largest groups of ten or more records.
    pub groups: usize,
    /// The groups whose records differ only in the text that people filled in, the largest first. Letters that many people signed look the same, so
    /// a person must decide whether a group is a form.
    #[schema(max_items = 100)]
    pub proposals: Vec<GroupForm>,
    /// True if the collection has more groups of ten or more records than were read.
    pub truncated: bool,
}

impl GroupForm {
    /// True if the records seem to be different fillings of one form.
    fn is_proposed(&self) -> bool {
        self.size >= MIN_MEMBERS && self.share >= MIN_SHARE && self.fillings as f64 >= MIN_DIFFERENT * self.read as f64
    }
}

impl Engine {
    /// Returns the text that the records of a group share. O(text of [`MEMBERS_READ`] records).
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Ungrouped`] if the record is in no group; [`Error::Invalid`] if the
    /// collection does not verify.
    #[boxed]
    pub async fn group_form(&self, collection: &CollectionName, id: &RecordId) -> Result<GroupForm> {
        self.stored(collection, id).await?;
        let members = self.group_members(collection, id).await?;
        self.form_of(collection, &members).await?.ok_or_else(|| Error::Ungrouped(collection.clone()))
    }

    /// Returns the groups that look like forms. Reads the [`GROUPS_READ`] largest groups.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] if the collection does not verify.
    #[boxed]
    pub async fn proposed_forms(&self, collection: &CollectionName) -> Result<ProposedForms> {
        let mut groups = self.near_groups(collection).await?;
        groups.retain(|members| members.len() >= MIN_MEMBERS);
        groups.sort_by_key(|members| (std::cmp::Reverse(members.len()), members[0]));
        let truncated = groups.len() > GROUPS_READ;
        groups.truncate(GROUPS_READ);
        let mut proposals = Vec::new();
        for members in &groups {
            let form = self.form_of(collection, members).await?;
            proposals.extend(form.filter(GroupForm::is_proposed));
        }
        Ok(ProposedForms { groups: groups.len(), proposals, truncated })
    }

    /// Begins a reindex with a form, in the place of an earlier form with this name.
    ///
    /// # Errors
    /// The errors of [`Engine::begin_task`].
    #[boxed]
    pub async fn teach_form(&self, collection: &CollectionName, form: Form, activate: bool) -> Result<Task> {
        let mut settings = self.latest_settings(collection).await?;
        let forms = forms_of(&mut settings)?;
        match forms.iter_mut().find(|known| known.name == form.name) {
            Some(known) => *known = form,
            None => forms.push(form),
        }
        self.begin_task(collection, reindex(settings, activate)).await
    }

    /// Begins a reindex without a form.
    ///
    /// # Errors
    /// [`Error::UnknownForm`]; the errors of [`Engine::begin_task`].
    #[boxed]
    pub async fn forget_form(&self, collection: &CollectionName, name: &str, activate: bool) -> Result<Task> {
        let mut settings = self.latest_settings(collection).await?;
        let forms = forms_of(&mut settings)?;
        let count = forms.len();
        forms.retain(|form| form.name != name);
        if forms.len() == count {
            return Err(Error::UnknownForm(collection.clone()));
        }
        self.begin_task(collection, reindex(settings, activate)).await
    }

    /// Returns the settings of the live generation.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a later generation has not been activated: a reindex with the settings of the live one would lose its
    /// changes.
    pub(super) async fn latest_settings(&self, collection: &CollectionName) -> Result<Settings> {
        let context = self.context(collection).await?;
        let state = &context.state;
        match state.others.iter().map(|other| other.id).find(|other| *other > state.generation) {
            Some(waiting) => Err(Error::Conflict(format!(
                "generation {waiting} of the collection is not activated; activate it or delete it first, because its settings would be lost"
            ))),
            None => Ok(state.settings.clone()),
        }
    }

    /// Returns the text that some records share; `None` if all of these records are deleted.
    async fn form_of(&self, collection: &CollectionName, members: &[Seq]) -> Result<Option<GroupForm>> {
        let context = self.context(collection).await?;
        let read = &members[..members.len().min(MEMBERS_READ)];
        let mut texts = Vec::new();
        for seqs in read.chunks(READ_AT_ONCE) {
            let records = self.store.records_at(collection, seqs).await?;
            texts.extend(records.iter().filter_map(|record| text_of(&context, record)));
        }
        let size = members.len();
        on_pool(pool()?, move || shared_form(&context, &texts, size)).await?
    }
}

fn forms_of(settings: &mut Settings) -> Result<&mut Vec<Form>> {
    settings.verify.as_mut().map(|verify| &mut verify.forms).ok_or_else(without_verification)
}

pub(super) fn without_verification() -> Error {
    let detail = "the collection does not verify (\"verify\": null), so that text is not compared";
    Error::Invalid(vec![Violation::new("", ErrorCode::NoVerification, detail)])
}

pub(super) fn reindex(mut settings: Settings, activate: bool) -> Work {
    // A reindex does not change the retention.
    settings.retention = None;
    Work::Reindex(Reindex {
        settings: Some(Box::new(settings)),
        activate,
        keep_previous: true,
        records_per_second: None,
        counts_all: true,
    })
}

fn shared_form(context: &Context, texts: &[(RecordId, String)], size: usize) -> Result<Option<GroupForm>> {
    if context.verifier.is_none() {
        return Err(without_verification());
    }
    let Some((first, first_text)) = texts.first() else { return Ok(None) };
    let common = FormText::of_codes(common_codes(texts));
    let passages = cut_passages(&common, first_text);
    let form = FormText::new(&[Form { name: String::new(), passages: passages.clone() }]);
    let mut examples = Vec::new();
    let mut fillings = BTreeSet::new();
    let mut share = 0.0;
    for (id, text) in texts {
        let filling = form.strip(text);
        let filling = filling.split_whitespace().collect::<Vec<_>>().join(" ");
        share += 1.0 - counted(&filling) as f64 / counted(text).max(1) as f64;
        if fillings.insert(filling.clone()) && examples.len() < EXAMPLES {
            let text = filling.chars().take(EXAMPLE_CHARS).collect();
            examples.push(FormFilling { id: id.clone(), text });
        }
    }
    Ok(Some(GroupForm {
        group: first.clone(),
        size,
        read: texts.len(),
        passages,
        share: share / texts.len() as f64,
        fillings: fillings.len(),
        examples,
    }))
}

/// Returns the beginning of the normalised text of a record; `None` if it cannot be read.
fn text_of(context: &Context, record: &StoredRecord) -> Option<(RecordId, String)> {
    let row = Row::parse(record.content.row()?.as_bytes()).ok()?;
    let mut text = context.read(&row).ok()?.joined();
    text.truncate(text.floor_char_boundary(TEXT_BYTES));
    Some((record.id.clone(), text))
}

/// Returns the shingles that [`COMMON_SHARE`] of the texts contain.
fn common_codes(texts: &[(RecordId, String)]) -> HashSet<u64> {
    let mut holders: HashMap<u64, usize> = HashMap::new();
    for (_, text) in texts {
        let own: HashSet<u64> = FormText::codes(text).into_iter().collect();
        own.into_iter().for_each(|code| *holders.entry(code).or_default() += 1);
    }
    let least = (COMMON_SHARE * texts.len() as f64).ceil() as usize;
    holders.into_iter().filter(|(_, count)| *count >= least).map(|(code, _)| code).collect()
}

/// Returns the passages of a text that are on the form, as settings may contain them.
fn cut_passages(form: &FormText, text: &str) -> Vec<String> {
    let passages = form.passages(text).into_iter().flat_map(|range| {
        let chars: Vec<char> = text[range].chars().collect();
        let pieces: Vec<String> = chars.chunks(MAX_PASSAGE_CHARS).map(|piece| piece.iter().collect()).collect();
        pieces
    });
    passages.filter(|passage| counted(passage) >= MIN_FORM_CHARS).take(MAX_FORM_PASSAGES).collect()
}
