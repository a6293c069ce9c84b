//! What a form is, and which there are.

use super::names::Slot;
use super::{forms_service, forms_street};

/// A form that operators fill in.
#[derive(Debug)]
pub(super) struct Form {
    /// Its name, which records have as their label.
    pub(super) name: &'static str,
    /// What tells one matter on this form from another. The first is what the district belongs to.
    pub(super) slots: &'static [Slot],
    /// What `{问}` may be; empty where there is no such slot.
    pub(super) questions: &'static [&'static str],
    /// Who is to deal with it, parted by `|`.
    pub(super) offices: &'static str,
    /// What may have happened: the subject, for titles, and the text.
    pub(super) facts: &'static [(&'static str, &'static str)],
    /// Whether it asks a question rather than reports a fault.
    pub(super) enquiry: bool,
}

const FORMS: [&[Form]; 2] = [forms_street::FORMS, forms_service::FORMS];

/// How many forms there are.
pub(super) fn count() -> usize {
    FORMS.iter().map(|forms| forms.len()).sum()
}

/// The form at `index`, below [`count`].
pub(super) fn form(index: usize) -> &'static Form {
    let [street, service] = FORMS;
    street.get(index).unwrap_or_else(|| &service[index - street.len()])
}
