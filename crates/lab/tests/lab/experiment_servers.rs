//! `doppel-lab experiment t5` and `all`, with a real MariaDB server and a real MongoDB replica set.
//!
//! For acceptance, `DOPPEL_TEST_EXPERIMENTS` names a file to which all experiments are written at the sizes of the documents.

use std::fs;
use std::process::{Command, Stdio};

use mongodb::bson::{Document, doc};

fn experiment(name: &str, mysql: &str, mongo: &str, database: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel-lab"));
    command.args(["experiment", name, "--mysql", mysql, "--mongo", mongo, "--mongo-database", database]);
    command
}

/// Returns the number of collections of records that remain in the database.
async fn left(uri: &str, database: &str) -> u64 {
    let client = mongodb::Client::with_uri_str(uri).await.expect("a client");
    let collections = client.database(database).collection::<Document>("collections");
    collections.count_documents(doc! {}).await.expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t5_asks_all_three_stores_alike_and_leaves_nothing_on_the_servers() {
    let mysql = crate::mariadb::MariadbServer::start().await;
    let mongo = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("t5");
    let folder = tempfile::tempdir().expect("a folder");
    let before = mysql.tables().await;
    let mut command = experiment("t5", mysql.url(), mongo.uri(), &database);
    let output = command.args(["--scale", "0.02", "--out"]).arg(folder.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("The three stores give the same answers for 40 of 40 new records."), "{text}");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| {
            ["| MySQL table", "| MongoDB store", "| embedded store"].iter().any(|name| line.starts_with(name))
        })
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 3, "{text}");
    for row in &rows {
        assert!(row[4..6] == rows[0][4..6] && row[4] != "0" && row[6] == "unknown", "{row:?}");
        let mean = |cell: &str| cell.split(' ').next().and_then(|mean| mean.replace(',', "").parse::<f64>().ok());
        assert!(row[1..4].iter().all(|cell| mean(cell).is_some_and(|ms| ms > 0.0)), "{row:?}");
    }
    assert!(folder.path().join("t5.svg").is_file() && folder.path().join("t5.md").is_file());

    // The command is stopped while it adds its stock of records.
    let mut command = experiment("t5", mysql.url(), mongo.uri(), &database);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).arg("--out").arg(folder.path()).spawn().expect("it runs");
    let said = std::io::BufReader::new(child.stderr.take().expect("piped"));
    let mut lines = std::io::BufRead::lines(said).map_while(Result::ok);
    assert!(lines.any(|line| line == "filing the stock"));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));

    let mut command = experiment("t5", "mysql://root@127.0.0.1:1/doppel", mongo.uri(), &database);
    let output = command.args(["--scale", "0.002"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("--mysql names a server that runs"), "{said}");

    assert_eq!((mysql.tables().await, left(mongo.uri(), &database).await), (before, 0));
    crate::mongod::drop_database(mongo.uri(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_experiments_are_written_to_one_file_that_says_how_it_was_made() {
    let mysql = crate::mariadb::MariadbServer::start().await;
    let mongo = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("experiments");
    let folder = tempfile::tempdir().expect("a folder");
    let wanted = std::env::var("DOPPEL_TEST_EXPERIMENTS").ok();
    let file = wanted.clone().map_or_else(|| folder.path().join("experiments.md"), Into::into);
    let mut command = experiment("all", mysql.url(), mongo.uri(), &database);
    if wanted.is_none() {
        command.args(["--scale", "0.003"]);
    }
    let output = command.stderr(Stdio::inherit()).arg("--write").arg(&file).output().expect("it runs");
    assert!(output.status.success());
    let written = fs::read_to_string(&file).expect("the file is written");
    for name in ["t2", "t3", "t4", "t5", "md5", "tianwang"] {
        assert!(written.contains(&format!("\n## {name}: ")), "{name} is missing");
        let pictures = fs::read_dir(file.with_extension("")).expect("a folder of charts");
        let names = pictures.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        assert!(
            names
                .filter(|file| file.starts_with(name) && file.ends_with(".svg"))
                .all(|file| written.contains(&format!("](experiments/{file})")))
        );
    }
    let said = ["The command `doppel-lab experiment all", "seed 1", "cores"];
    assert!(said.iter().all(|words| written.contains(words)), "{written}");
    assert!(
        !written.contains(mysql.url()) && !written.contains(mongo.uri()),
        "addresses of servers are nobody's business"
    );
    crate::mongod::drop_database(mongo.uri(), &database).await;
}
