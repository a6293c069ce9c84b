//! The language of the texts for people in an answer: title and details of problems, and details of warnings. Codes, pointers and names
//! are the same in every language.

use std::cell::Cell;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

use crate::problem::Problem;
use doppel_core::violation::Violation;
use doppel_texts::{self as texts, Language};

/// The language of the present request.
struct AnswerLanguage {
    language: Language,
    /// True if the answer contains a text in this language, not counting problems.
    has_text: Cell<bool>,
}

tokio::task_local! {
    static LANGUAGE: AnswerLanguage;
}

/// Returns the language that a request asks for, English by default.
pub fn wanted(headers: &HeaderMap) -> Language {
    accepted(headers).unwrap_or(Language::English)
}

/// Returns the supported language that the client prefers most.
pub fn accepted(headers: &HeaderMap) -> Option<Language> {
    Language::accepted(headers.get(header::ACCEPT_LANGUAGE)?.to_str().ok()?)
}

/// Makes an answer whose texts are in `language`, and adds the headers that name it if the answer has such texts.
///
/// # Errors
/// The errors of `answer`.
pub async fn in_language(
    language: Language,
    answer: impl Future<Output = Result<Response, Problem>>,
) -> Result<Response, Problem> {
    let answer = async {
        let mut response = answer.await?;
        if LANGUAGE.with(|present| present.has_text.get()) {
            name(response.headers_mut(), language);
        }
        Ok(response)
    };
    LANGUAGE.scope(AnswerLanguage { language, has_text: Cell::new(false) }, answer).await
}

/// Returns the language of the present request, for an answer with texts.
pub fn present() -> Language {
    let noted = LANGUAGE.try_with(|present| {
        present.has_text.set(true);
        present.language
    });
    noted.unwrap_or(Language::English)
}

/// Translates the details of warnings into the language of the present request.
pub fn translate(warnings: &mut [Violation]) {
    if !warnings.is_empty() {
        translate_into(present(), warnings);
    }
}

/// Translates the details of violations.
pub fn translate_into(language: Language, violations: &mut [Violation]) {
    for violation in violations {
        violation.detail = texts::in_language(language, &violation.detail).into_owned();
    }
}

/// Adds the headers for an answer with texts in `language`.
pub fn name(headers: &mut HeaderMap, language: Language) {
    headers.insert(header::CONTENT_LANGUAGE, HeaderValue::from_static(language.tag()));
    headers.append(header::VARY, HeaderValue::from_static("accept-language"));
}

/// Returns the words for a status.
pub fn title(language: Language, reason: &'static str) -> &'static str {
    match (language, texts::whole(reason)) {
        (Language::Chinese, Some(title)) => title,
        _ => reason,
    }
}
