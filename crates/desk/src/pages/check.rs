//! The page for checking a letter that a person pastes or types. It shows the stored records that are similar to the letter. The service
//! stores the letter only if the person registers it.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, SeeOther};
use crate::pages::pair::PageContext;
use crate::pages::related::related;
use crate::tokens::BrowserSecret;
use crate::view::pair::{PairView, RecordCard};
use crate::view::row::{FormField, RowFacts};
use crate::visitor::WritingVisitor;
use crate::words::{CheckWords, RecordWords};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::Row;
use doppel_core::verdict::{Match, VerdictKind};
use doppel_engine::answers::SimilarList;
use doppel_engine::idempotency::{IdempotencyKey, RegistrationId};
use doppel_engine::{IfDuplicate, MatchFilter, SimilarSelection, arrivals};
use doppel_findings::percent;
use doppel_http::extract::{self, InCollection};
use doppel_http::problem::Problem;
use doppel_http::routes::records::{count_failure, count_registration};
use doppel_http::state::App;

/// Largest number of similar records: the best for the comparison, and some more to look at.
const MOST_SIMILAR: usize = 10;
/// Largest number of related cases below the similar records.
const MOST_RELATED: usize = 10;
/// Number of the latest records that are read to find the fields in use.
const LATEST: usize = 8;

#[derive(Template)]
#[template(path = "check.html")]
struct CheckPage {
    frame: PageFrame,
    words: &'static CheckWords,
    record: &'static RecordWords,
    paste: String,
    id: String,
    fields: Vec<FormField>,
    answer: Option<LetterFindings>,
    problem: Option<String>,
}

impl CheckPage {
    /// True if a field other than the paste field is filled in.
    fn has_values(&self) -> bool {
        !self.id.is_empty() || self.fields.iter().any(|field| !field.value.is_empty())
    }

    fn register_path(&self) -> String {
        self.frame.collection.as_ref().map(|collection| page::below(collection, "register")).unwrap_or_default()
    }
}

/// The findings about the letter.
struct LetterFindings {
    verdict: VerdictKind,
    pair: Option<PairView>,
    similar: Vec<(RecordCard, Vec<String>)>,
    related: Vec<(RecordCard, String)>,
    /// The reason why the list of related cases is empty although related cases may exist.
    no_related: Option<&'static str>,
    warns_of_time: bool,
    /// Names and values of the hidden fields with the row to register. `None` if the visitor may not register.
    register: Option<Vec<(String, String)>>,
}

/// Shows the empty form.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn show(context: PageContext) -> Result<Response, Problem> {
    page::html(StatusCode::OK, &page(&context, &FormFields::default(), None, None).await?)
}

/// Shows the findings about the letter in the form.
///
/// # Errors
/// 403; 404 for an unknown collection. The page shows errors in the letter.
pub async fn check(context: PageContext, form: FormFields) -> Result<Response, Problem> {
    let words = context.visitor.words();
    let fields = fields(&context).await?;
    let (status, problem, answer) = match row(&form, &fields) {
        Ok(None) => (StatusCode::OK, Some(words.check.nothing.to_owned()), None),
        Ok(Some(row)) => match answer(&context, row).await {
            Ok(answer) => (StatusCode::OK, None, Some(answer)),
            Err(problem) if problem.status().is_client_error() => {
                (problem.status(), Some(page::in_words(&problem, &words.problem).to_owned()), None)
            }
            Err(problem) => return Err(problem),
        },
        Err(problem) => (problem.status(), Some(page::in_words(&problem, &words.problem).to_owned()), None),
    };
    page::html(status, &page(&context, &form, answer, problem).await?)
}

async fn page(
    context: &PageContext,
    form: &FormFields,
    answer: Option<LetterFindings>,
    problem: Option<String>,
) -> Result<CheckPage, Problem> {
    let words = context.visitor.words();
    let mut fields = fields(context).await?;
    for field in &mut fields {
        field.value = form.raw(&format!("row.{}", field.name)).unwrap_or_default().to_owned();
    }
    Ok(CheckPage {
        frame: PageFrame::of(&context.visitor, &context.collection, DeskSection::Check, words.check.title),
        words: &words.check,
        record: &words.record,
        paste: form.raw("paste").unwrap_or_default().to_owned(),
        id: form.raw("id").unwrap_or_default().to_owned(),
        fields,
        answer,
        problem,
    })
}

/// Returns the fields of the form: the fields that the latest records contain.
async fn fields(context: &PageContext) -> Result<Vec<FormField>, Problem> {
    let latest =
        context.app.engine.arrivals(&context.collection, &arrivals::ArrivalFilter::default(), None, LATEST).await?;
    let rows = latest.items.iter().filter_map(|arrival| arrival.record.read());
    Ok(context.reader.form_fields(&rows.collect::<Vec<_>>()))
}

/// Returns the row of the form; `None` if the form is empty. The pasted text becomes the main text if the field of the main text is empty.
fn row(form: &FormFields, fields: &[FormField]) -> Result<Option<Row>, Problem> {
    let given = form.below("row.").filter(|(name, value)| !name.is_empty() && !value.trim().is_empty());
    let mut row: Map<String, Value> = given.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let main = fields.iter().find(|field| field.is_main);
    if let (Some(main), Some(pasted)) = (main, form.text("paste")) {
        row.entry(main.name.clone()).or_insert_with(|| pasted.into());
    }
    if row.is_empty() {
        return Ok(None);
    }
    if let Some(id) = form.text("id") {
        row.insert("id".into(), id.into());
    }
    extract::row(Value::Object(row).to_string().as_bytes()).map(Some)
}

async fn answer(context: &PageContext, row: Row) -> Result<LetterFindings, Problem> {
    let engine = &context.app.engine;
    let wanted = SimilarSelection { limit: MOST_SIMILAR, templates: true, filter: MatchFilter::default() };
    let mut found = engine.similar(&context.collection, row.clone(), wanted).await?;
    let verdict = verdict(&found, &context.settings);
    let is_repeat = matches!(verdict, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate);
    // If no text is kept, the best match cannot be compared with the letter, so it is listed with the others.
    let stands_beside = is_repeat && context.settings.keeps_text() && !found.similar.is_empty();
    let best = stands_beside.then(|| found.similar.remove(0));
    let pair = match best {
        Some(best) => context.given(row.clone(), &best.id, best.relation).await?,
        None => None,
    };
    let (related, no_related) = related_cases(context, &row, &found.similar, pair.as_ref()).await?;
    let mut facts = context.facts(found.similar.iter().map(|found| &found.id)).await?;
    let mut facts = |found: &Match| {
        facts.remove(&found.id).unwrap_or_else(|| context.reader.without_text(&found.id, found.time.as_deref()))
    };
    Ok(LetterFindings {
        verdict,
        pair,
        similar: found.similar.into_iter().map(|found| similar(context, facts(&found), &found)).collect(),
        related,
        no_related,
        warns_of_time: !found.warnings.is_empty(),
        register: context.visitor.may_write().then(|| hidden(&row)).transpose()?,
    })
}

/// Returns the verdict that the letter would get if it were registered before any other record arrives.
fn verdict(found: &SimilarList, settings: &Settings) -> VerdictKind {
    let matches: Vec<&Match> = found.similar.iter().filter(|found| !found.template).collect();
    match matches.first() {
        Some(_) if matches.iter().any(|found| found.is_exact()) => VerdictKind::ExactDuplicate,
        Some(_) => VerdictKind::NearDuplicate,
        None if found.fingerprint.is_none() && settings.simhash().is_some() => VerdictKind::TooShort,
        None => VerdictKind::Original,
    }
}

fn similar(context: &PageContext, facts: RowFacts, found: &Match) -> (RecordCard, Vec<String>) {
    let words = context.visitor.words();
    let mut notes: Vec<String> =
        found.probability.map(|probability| format!("{}%", percent(probability))).into_iter().collect();
    notes.extend(found.relation.map(|relation| (words.record.relation)(relation).to_owned()));
    notes.extend(found.template.then(|| words.case.template.to_owned()));
    (RecordCard::new(&context.collection, &found.id, facts), notes)
}

type RelatedCases = Vec<(RecordCard, String)>;

/// Returns the related cases that the page does not show elsewhere.
async fn related_cases(
    context: &PageContext,
    row: &Row,
    similar: &[Match],
    pair: Option<&PairView>,
) -> Result<(RelatedCases, Option<&'static str>), Problem> {
    let words = context.visitor.words();
    let found = match related(context, row.clone(), row.id().cloned(), MOST_RELATED).await {
        Ok(found) => found,
        Err(problem)
            if matches!(
                problem.code(),
                ErrorCode::SearchDisabled | ErrorCode::SearchOpening | ErrorCode::TextNotKept
            ) =>
        {
            return Ok((Vec::new(), Some(page::in_words(&problem, &words.problem))));
        }
        Err(problem) => return Err(problem),
    };
    let is_shown =
        |id: &str| similar.iter().any(|found| found.id.as_str() == id) || pair.is_some_and(|pair| pair.other.id == id);
    let found = found.into_iter().filter(|found| !is_shown(found.id.as_str()));
    Ok((
        found
            .map(|found: super::related::RelatedCase| {
                let terms = format!("{}{}", words.case.terms, found.terms.join(" "));
                (RecordCard::new(&context.collection, &found.id, found.facts), terms)
            })
            .collect(),
        None,
    ))
}

/// Returns the hidden fields: the row, and a token that prevents a second registration.
fn hidden(row: &Row) -> Result<Vec<(String, String)>, Problem> {
    Ok(vec![("row".into(), row.json().to_string()), ("once".into(), BrowserSecret::random()?.text())])
}

/// The code of the problem that other content is stored under an id.
const ID_TAKEN: ErrorCode = ErrorCode::IdempotencyKeyReused;

/// Registers the checked letter as a new record.
///
/// # Errors
/// 403, 404, 422; 409 if another record has this id; errors of the store.
pub async fn register(
    visitor: WritingVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    form: FormFields,
) -> Result<Response, Problem> {
    let row = extract::row(form.raw("row").unwrap_or_default().as_bytes())?;
    let has_id = row.id().is_some();
    // This page never replaces a record: an id that another record has is a mistake.
    let under = match (row.id(), form.text("once")) {
        (Some(id), _) => RegistrationId::Unused(id.clone()),
        (None, Some(once)) => RegistrationId::Key(IdempotencyKey::new(visitor.caller(), once)),
        (None, None) => RegistrationId::Own,
    };
    let engine = app.engine.clone();
    let name = collection.clone();
    let registering = async move { engine.register(&name, under, row, IfDuplicate::Keep).await };
    let registered = app.detached(registering).await.inspect(count_registration).inspect_err(count_failure);
    let registered = registered.map_err(|problem| match problem.code() {
        ID_TAKEN if has_id => {
            let detail = "another record is stored under this id; give this one an id of its own, or none";
            Problem::conflict(ErrorCode::IdTaken, detail)
        }
        _ => problem,
    })?;
    Ok(match registered.id {
        Some(id) => SeeOther::to(page::case(&collection, &id)).telling(&FlashMessage::Registered).into_response(),
        None => to_inbox(&collection),
    })
}

fn to_inbox(collection: &CollectionName) -> Response {
    SeeOther::to(page::below(collection, DeskSection::Inbox.path())).into_response()
}
