//! The pages for administrators: the accounts of people, and all sessions.

use std::sync::Arc;
use std::time::Instant;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use crate::DeskState;
use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::guard::BrowserToken;
use crate::page::{self, PageFrame, SeeOther};
use crate::sign_in::SessionScope;
use crate::view::session::{SessionLine, lines};
use crate::visitor::{PageVisitor, PeopleAdmin};
use crate::words::{DeskWords, PeopleWords};
use doppel_config::auth::{MAX_NAME_BYTES, PersonRole, is_name};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::violation::Violation;
use doppel_engine::accounts::AccountSettings;
use doppel_http::accounts::{self, MAX_DISPLAY_CHARS, NewPassword, is_display_name};
use doppel_http::extract::InAccount;
use doppel_http::problem::Problem;
use doppel_http::routes::keys::MOST_COLLECTIONS;
use doppel_http::state::App;
use doppel_store::accounts::PersonAccount;

/// The path of the list of accounts.
pub const PEOPLE: &str = "/console/-/people";

#[derive(Template)]
#[template(path = "people.html")]
struct PeoplePage {
    frame: PageFrame,
    words: &'static PeopleWords,
    accounts: Vec<AccountLine>,
    sessions: Vec<SessionLine>,
    roles: Vec<RoleChoice>,
    given: GivenAccount,
    wrong: Option<String>,
}

#[derive(Template)]
#[template(path = "person.html")]
struct PersonPage {
    frame: PageFrame,
    words: &'static PeopleWords,
    account: AccountLine,
    sessions: Vec<SessionLine>,
    roles: Vec<RoleChoice>,
    given: GivenAccount,
    is_disabled: bool,
    /// The time of the last change. The form sends it back, so that it does not undo a change that the administrator has not seen.
    changed_at: String,
    is_own: bool,
    wrong: Option<String>,
}

#[derive(Template)]
#[template(path = "new_password.html")]
struct NewPasswordPage {
    frame: PageFrame,
    words: &'static PeopleWords,
    password: String,
}

struct AccountLine {
    name: String,
    display_name: String,
    role: &'static str,
    collections: String,
    state: &'static str,
    href: String,
}

/// A role that an administrator can choose.
struct RoleChoice {
    value: &'static str,
    name: &'static str,
    means: &'static str,
    is_chosen: bool,
}

/// The content of the form for an account.
#[derive(Clone, Debug, Default)]
struct GivenAccount {
    name: String,
    display_name: String,
    collections: String,
}

fn account_line(account: &PersonAccount, words: &PeopleWords) -> AccountLine {
    let role = PersonRole::parse(&account.role).unwrap_or_default();
    AccountLine {
        name: account.name.clone(),
        display_name: account.display_name.clone(),
        role: (words.role_of)(role),
        collections: account.collections.as_deref().map_or_else(|| words.all_collections.to_owned(), listed),
        state: if account.is_disabled { words.disabled } else { words.enabled },
        href: format!("{PEOPLE}/{}", account.name),
    }
}

fn listed(collections: &[CollectionName]) -> String {
    collections.iter().map(CollectionName::as_str).collect::<Vec<_>>().join(", ")
}

fn role_choices(chosen: PersonRole, words: &PeopleWords) -> Vec<RoleChoice> {
    let choices = PersonRole::ALL.map(|role: PersonRole| RoleChoice {
        value: role.as_str(),
        name: (words.role_of)(role),
        means: (words.role_means)(role),
        is_chosen: role == chosen,
    });
    choices.into()
}

/// A request for a page about accounts, by a visitor who may manage people.
pub struct PeopleRequest {
    app: App,
    desk: Arc<DeskState>,
    browser: BrowserToken,
    visitor: PageVisitor,
}

impl FromRequestParts<App> for PeopleRequest {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let PeopleAdmin(visitor) = PeopleAdmin::from_request_parts(parts, app).await?;
        let missing = || Problem::internal("a page was asked for outside the desk");
        let desk = parts.extensions.get::<Arc<DeskState>>().cloned().ok_or_else(missing)?;
        let browser = parts.extensions.get::<BrowserToken>().cloned().ok_or_else(missing)?;
        Ok(Self { app: app.clone(), desk, browser, visitor })
    }
}

impl PeopleRequest {
    fn words(&self) -> &'static DeskWords {
        self.visitor.words()
    }

    fn sessions(&self, scope: SessionScope<'_>) -> Vec<SessionLine> {
        let BrowserToken(token) = &self.browser;
        lines(&self.app, self.words(), &self.desk.sessions.list(scope, token, Instant::now()))
    }

    async fn list(&self, form: &FormFields, refused: Option<&Problem>) -> Result<Response, Problem> {
        let words = &self.words().people;
        let accounts = self.app.engine.keys().await?.accounts;
        let given = GivenAccount {
            name: form.owned("name"),
            display_name: form.owned("display_name"),
            collections: form.owned("collections"),
        };
        let chosen = form.text("role").and_then(PersonRole::parse).unwrap_or(PersonRole::Clerk);
        let page = PeoplePage {
            frame: PageFrame::new(&self.visitor, words.title),
            words,
            accounts: accounts.iter().map(|account| account_line(account, words)).collect(),
            sessions: self.sessions(SessionScope::All),
            roles: role_choices(chosen, words),
            given,
            wrong: refused.map(|problem| self.said(problem)),
        };
        page::html(refused.map_or(StatusCode::OK, Problem::status), &page)
    }

    async fn person(&self, name: &str, refused: Option<&Problem>) -> Result<Response, Problem> {
        let words = &self.words().people;
        let ring = self.app.engine.keys().await?;
        let account = ring.accounts.iter().find(|account| account.name == name);
        let account = account.ok_or_else(|| doppel_engine::Error::UnknownAccount(name.to_owned()))?;
        let page = PersonPage {
            frame: PageFrame::new(&self.visitor, account.display_name.clone()),
            words,
            account: account_line(account, words),
            sessions: self.sessions(SessionScope::Of(name)),
            roles: role_choices(PersonRole::parse(&account.role).unwrap_or_default(), words),
            given: GivenAccount {
                name: account.name.clone(),
                display_name: account.display_name.clone(),
                collections: account.collections.as_deref().map(listed).unwrap_or_default(),
            },
            is_disabled: account.is_disabled,
            changed_at: account.changed_at.clone(),
            is_own: self.is_own(name),
            wrong: refused.map(|problem| self.said(problem)),
        };
        page::html(refused.map_or(StatusCode::OK, Problem::status), &page)
    }

    /// Returns the page with a random password, which is shown once.
    fn new_password(&self, name: &str, password: Option<String>) -> Result<Response, Problem> {
        let words = &self.words().people;
        let frame = PageFrame::new(&self.visitor, (words.password_of)(name));
        page::html(StatusCode::OK, &NewPasswordPage { frame, words, password: password.unwrap_or_default() })
    }

    fn is_own(&self, name: &str) -> bool {
        self.visitor.key.as_deref() == Some(name)
    }

    fn said(&self, problem: &Problem) -> String {
        let words = &self.words().people;
        if problem.code() == NOT_OWN {
            return words.not_own.to_owned();
        }
        let labels = [
            ("/name", words.name),
            ("/display_name", words.display_name),
            ("/role", words.role),
            ("/collections", words.collections),
        ];
        page::in_words_with_fields(problem, &self.words().problem, &labels)
    }

    /// Refuses a change that would lock administrators out of their own accounts.
    fn refuse_own(&self, name: &str) -> Result<(), Problem> {
        if !self.is_own(name) {
            return Ok(());
        }
        let detail = "another administrator can change the rights of your own account";
        Err(Problem::conflict(NOT_OWN, detail))
    }
}

/// The code of the refusal to change the rights of the own account.
const NOT_OWN: ErrorCode = ErrorCode::OwnAccount;

/// Reads the settings of an account from a form.
fn settings(form: &FormFields) -> Result<AccountSettings, Problem> {
    let mut wrong = Vec::new();
    let display_name = form.text("display_name").unwrap_or_default();
    if !is_display_name(display_name) {
        let detail = format!("give 1 to {MAX_DISPLAY_CHARS} visible characters");
        wrong.push(Violation::new("/display_name", ErrorCode::InvalidDisplayName, detail));
    }
    let role = form.text("role").and_then(PersonRole::parse);
    if role.is_none() {
        wrong.push(Violation::new("/role", ErrorCode::MissingRole, "give viewer, clerk, lead or administrator"));
    }
    let names = form.text("collections").unwrap_or_default().split([',', '，', '、', ' ']);
    let names = names.map(str::trim).filter(|name| !name.is_empty());
    let collections: Result<Vec<CollectionName>, _> = names.map(CollectionName::new).collect();
    let collections = collections.ok().filter(|collections| collections.len() <= MOST_COLLECTIONS);
    if collections.is_none() {
        let detail = format!("list 1 to {MOST_COLLECTIONS} names of collections, or leave it out for all");
        wrong.push(Violation::new("/collections", ErrorCode::InvalidCollections, detail));
    }
    if !wrong.is_empty() {
        return Err(Problem::invalid(wrong));
    }
    Ok(AccountSettings {
        display_name: display_name.to_owned(),
        role: role.unwrap_or_default().as_str().to_owned(),
        collections: collections.filter(|collections| !collections.is_empty()),
        is_disabled: form.text("disabled").is_some(),
    })
}

/// Shows the accounts, the form for a new one, and all sessions.
///
/// # Errors
/// 403; errors of the store.
pub async fn show(request: PeopleRequest) -> Result<Response, Problem> {
    request.list(&FormFields::default(), None).await
}

/// Creates an account, and shows its random password.
///
/// # Errors
/// 403. The page shows errors in the form.
pub async fn create(request: PeopleRequest, form: FormFields) -> Result<Response, Problem> {
    let name = form.text("name").unwrap_or_default().to_ascii_lowercase();
    let creation = async {
        if !is_name(&name) {
            let detail = format!("give 1 to {MAX_NAME_BYTES} of a-z, 0-9 and \"-\"");
            return Err(Problem::invalid_at("/name", ErrorCode::InvalidName, detail));
        }
        accounts::create(&request.app, request.visitor.caller(), &name, settings(&form)?, NewPassword::Random).await
    };
    match creation.await {
        Ok(password) => request.new_password(&name, password),
        Err(problem) => request.list(&form, Some(&problem)).await,
    }
}

/// Shows an account.
///
/// # Errors
/// 403; 404 for an unknown account.
pub async fn person(request: PeopleRequest, InAccount(name): InAccount) -> Result<Response, Problem> {
    request.person(&name, None).await
}

/// Changes an account.
///
/// # Errors
/// 403; 404 for an unknown account. The page shows other errors, also that somebody else changed the account meanwhile.
pub async fn change(request: PeopleRequest, InAccount(name): InAccount, form: FormFields) -> Result<Response, Problem> {
    let changing = async {
        request.refuse_own(&name)?;
        let seen = form.owned("changed_at");
        accounts::change(&request.app, request.visitor.caller(), &name, settings(&form)?, Some(seen)).await
    };
    match changing.await {
        Ok(()) => Ok(SeeOther::to(format!("{PEOPLE}/{name}")).telling(&FlashMessage::AccountChanged).into_response()),
        Err(problem) => request.person(&name, Some(&problem)).await,
    }
}

/// Gives an account a random password, and shows it.
///
/// # Errors
/// 403; 404 for an unknown account.
pub async fn reset_password(
    request: PeopleRequest,
    InAccount(name): InAccount,
    _: FormFields,
) -> Result<Response, Problem> {
    request.refuse_own(&name)?;
    let password = accounts::set_password(&request.app, request.visitor.caller(), &name, NewPassword::Random).await?;
    request.new_password(&name, password)
}

/// Removes an account.
///
/// # Errors
/// 403; 404 for an unknown account; 409 for the own account.
pub async fn remove(request: PeopleRequest, InAccount(name): InAccount, _: FormFields) -> Result<Response, Problem> {
    request.refuse_own(&name)?;
    accounts::remove(&request.app, request.visitor.caller(), &name).await?;
    Ok(SeeOther::to(PEOPLE).telling(&FlashMessage::AccountRemoved).into_response())
}
