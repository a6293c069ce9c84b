//! Connections to databases are encrypted if the URL demands it, and lead to the intended server or fail.

use rcgen::SanType;
use tokio::runtime::Runtime;

use crate::office::{DatabaseOffice, MAPPED, OfficeDatabase, PASSWORD, sample};
use crate::support::certificates::CertificateOffice as Authority;
use crate::support::{TestServer, run};
use doppel_sources::database::{ConnectionAccess, DatabaseConnection, DatabaseLocation, SqlValue};

/// Connects with these parameters. Returns the cipher that the server reports, or the error.
fn connect(office: &DatabaseOffice, parameters: &str) -> Result<String, String> {
    let location =
        DatabaseLocation::parse(&format!("{}?{parameters}", office.url())).map_err(|error| error.to_string())?;
    let cipher = office.say([
        "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'",
        "SELECT coalesce(cipher, '') FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        "",
    ]);
    Runtime::new().expect("a runtime").block_on(async {
        let opened = DatabaseConnection::open(&location, Some(PASSWORD), ConnectionAccess::ReadOnly).await;
        let mut connection = opened.map_err(|error| error.to_string())?;
        match connection.value(cipher.to_owned()).await {
            Ok(SqlValue::Text(cipher)) => Ok(cipher),
            other => panic!("{other:?}"),
        }
    })
}

#[track_caller]
fn refused(office: &DatabaseOffice, parameters: &str, because: &str) {
    let why = connect(office, parameters).expect_err(because);
    assert!(why.contains(because) && !why.contains(PASSWORD), "{parameters}: {why}");
}

fn the_server_that_is_meant_is_read_encrypted_and_no_other(kind: OfficeDatabase) {
    let authority = Authority::new();
    let stranger = Authority::new();
    let office = DatabaseOffice::open_with(kind, Some(&authority.sign(|_| ())));
    let [full, mode, ca] = office
        .say([
            "ssl-mode=VERIFY_IDENTITY ssl-mode=VERIFY_CA ssl-ca",
            "sslmode=verify-full sslmode=verify-ca sslrootcert",
            "",
        ])
        .split(' ')
        .collect::<Vec<_>>()[..]
    else {
        panic!("three words")
    };
    assert!(
        !connect(&office, &tls_parameters(full, &authority, ca)).expect("the server that is meant").is_empty(),
        "not encrypted"
    );
    refused(&office, &tls_parameters(full, &stranger, ca), "no trusted authority has signed its certificate");
    refused(&office, &tls_parameters(mode, &stranger, ca), "no trusted authority has signed its certificate");
    refused(&office, full, "no trusted authority has signed its certificate");
    refused(&office, &format!("{full}&{ca}={}", authority.file("nowhere.pem")), "nowhere.pem cannot be read");
    std::fs::write(authority.path("empty.pem"), "no certificate").expect("written");
    refused(&office, &format!("{full}&{ca}={}", authority.file("empty.pem")), "holds no certificate in PEM form");
    refused(&office, &format!("{ca}={}", authority.file("ca.pem")), "no certificate is checked");

    // The real program reads the database with these parameters.
    office.make_letters();
    office.fill(&sample(10), 60);
    let server = TestServer::start_in(office.path("data"));
    let (code, text) = import_with(&tls_parameters(full, &authority, ca), &office, &server);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = import_with(&tls_parameters(full, &stranger, ca), &office, &server);
    assert!(
        code == Some(1) && text.contains("cannot read ") && text.contains("give the file of the authority"),
        "{text}"
    );

    let elsewhere = authority.sign(|params| {
        params.subject_alt_names = vec![SanType::DnsName("db.office.example".try_into().expect("a name"))];
    });
    let office = DatabaseOffice::open_with(kind, Some(&elsewhere));
    refused(&office, &tls_parameters(full, &authority, ca), "its certificate names another host");
    assert!(!connect(&office, &tls_parameters(mode, &authority, ca)).expect("its name is not checked").is_empty());
}

fn tls_parameters(mode: &str, authority: &Authority, ca: &str) -> String {
    format!("{mode}&{ca}={}", authority.file("ca.pem"))
}

fn import_with(parameters: &str, office: &DatabaseOffice, server: &TestServer) -> (Option<i32>, String) {
    let from = format!("{}?{parameters}", office.url());
    let password = office.file("password");
    let fixed = ["import", "--to", server.url(), "--collection", "letters", "--from", &from];
    let more = ["--password-file", &password, "--table", "letters"];
    let output = run(&[&fixed[..], &more, &MAPPED].concat(), &[]);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_mariadb_that_is_meant_is_read_encrypted_and_no_other() {
    the_server_that_is_meant_is_read_encrypted_and_no_other(OfficeDatabase::Mariadb);
}

#[test]
fn the_postgres_that_is_meant_is_read_encrypted_and_no_other() {
    the_server_that_is_meant_is_read_encrypted_and_no_other(OfficeDatabase::Postgres);
}

#[test]
fn a_server_that_does_not_encrypt_is_not_read_where_the_url_asks_for_it() {
    for kind in [OfficeDatabase::Mariadb, OfficeDatabase::Postgres] {
        let office = DatabaseOffice::open(kind);
        let asked = office.say(["ssl-mode=REQUIRED", "sslmode=require", ""]);
        refused(&office, asked, "the server does not encrypt connections");
        assert_eq!(connect(&office, ""), Ok(String::new()), "{kind:?}");
    }
}
