//! Sessions as lists show them.

use crate::sign_in::SessionFacts;
use crate::words::DeskWords;
use doppel_http::state::App;

#[derive(Clone, Debug)]
pub struct SessionLine {
    pub id: u64,
    /// The name of the key or the account.
    pub name: String,
    /// The name of the person or the key.
    pub who: String,
    /// The time of the sign-in.
    pub begun: String,
    /// The time of the last request.
    pub used: String,
    /// The address and the browser of the sign-in.
    pub place: String,
    /// True for the session of the asking browser.
    pub is_this: bool,
}

/// Returns the lines of the sessions whose key or account is still valid.
pub fn lines(app: &App, words: &DeskWords, sessions: &[SessionFacts]) -> Vec<SessionLine> {
    sessions.iter().filter_map(|session| line(app, words, session)).collect()
}

fn line(app: &App, words: &DeskWords, session: &SessionFacts) -> Option<SessionLine> {
    let rights = app.keys.rights_of(&session.key)?;
    let name = session.key.name.to_string();
    let address = session.place.address.map(|address| address.to_string()).unwrap_or_default();
    Some(SessionLine {
        id: session.id,
        who: rights.person.map_or_else(|| name.clone(), |person| person.label()),
        name,
        begun: (words.people.ago)(session.age.as_secs() / 60),
        used: (words.people.ago)(session.idle.as_secs() / 60),
        place: format!("{address} {}", session.place.browser).trim().to_owned(),
        is_this: session.is_this,
    })
}
