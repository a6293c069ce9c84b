//! A real MariaDB server for tests: on a loopback port, with data in a temporary folder.
//!
//! `DOPPEL_TEST_MYSQL_URL` names a database to use instead. Otherwise the tests start the mariadbd that `scripts/get-mariadbd` finds or, as
//! root, installs. On a machine without mariadbd the tests fail, and the message names the command to run.

#![allow(dead_code, unreachable_pub, reason = "as in the other files of this folder")]

#[allow(clippy::duplicate_mod, reason = "each file of this folder is included by itself")]
#[path = "ports.rs"]
mod ports;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection as _, MySqlConnection};

/// Longest wait for the server on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server. If the tests started it, dropping this value kills the server and removes its folder; otherwise it is the server of
/// `DOPPEL_TEST_MYSQL_URL`.
pub struct MariadbServer {
    url: String,
    running: Option<(Child, tempfile::TempDir)>,
}

impl MariadbServer {
    /// Starts a server, or uses the given one.
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// Starts a server that shows this certificate and its key (PEM). Without a certificate, uses the given server if there is one.
    pub async fn start_with(certificate: Option<&(String, String)>) -> Self {
        if let (Ok(url), None) = (std::env::var("DOPPEL_TEST_MYSQL_URL"), certificate) {
            return Self { url, running: None };
        }
        let program = mariadbd();
        let folder = tempfile::Builder::new().prefix("doppel-mariadb").tempdir().expect("a temporary folder");
        let port = ports::free_port();
        let child = launch(&program, folder.path(), port, certificate);
        let server = Self { url: format!("mysql://root@127.0.0.1:{port}/doppel"), running: Some((child, folder)) };
        server.wait().await;
        server
    }

    /// Returns the URL `mysql://…/DATABASE`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the names of the tables of the database.
    pub async fn tables(&self) -> Vec<String> {
        let mut connection = MySqlConnection::connect(&self.url).await.expect("the server answers");
        sqlx::query_scalar("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
            .fetch_all(&mut connection)
            .await
            .expect("the tables are listed")
    }

    /// Sends a signal to the server. Returns `None` for a server that the tests did not start.
    pub fn signal(&self, name: &str) -> Option<()> {
        let (child, _) = self.running.as_ref()?;
        let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        Some(())
    }

    async fn wait(&self) {
        let start = Instant::now();
        while let Err(error) = MySqlConnection::connect(&self.url).await {
            let log = self.running.as_ref().map(|(_, folder)| std::fs::read_to_string(folder.path().join("log")));
            assert!(start.elapsed() < PATIENCE, "mariadbd does not answer: {error}\n{log:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for MariadbServer {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn mariadbd() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("scripts/get-mariadbd"))
        .find(|script| script.exists())
        .expect("the repository's scripts");
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("scripts/get-mariadbd can be run");
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(
        output.status.success() && Path::new(&path).is_file(),
        "no mariadbd on this machine: as root, apt-get update && apt-get install -y mariadb-server; or set \
         DOPPEL_TEST_MYSQL_URL to a database in which tests may create tables"
    );
    path
}

/// Creates a data directory in which root needs no password, and starts the server on it.
fn launch(program: &str, folder: &Path, port: u16, certificate: Option<&(String, String)>) -> Child {
    let own = Command::new("id").arg("-un").output().expect("id runs").stdout;
    let user = format!("--user={}", String::from_utf8_lossy(&own).trim());
    let data = format!("--datadir={}", folder.join("data").display());
    // At its start, a server removes files from the temporary folder that seem to be left over, but these may be tables that another server
    // is using. Therefore each server has its own temporary folder.
    let temporary = ("TMPDIR", folder);
    let install = Command::new("mariadb-install-db")
        .env(temporary.0, temporary.1)
        .args(["--no-defaults", &user, &data, "--auth-root-authentication-method=normal", "--skip-test-db"])
        .output()
        .expect("mariadb-install-db runs");
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    let init = folder.join("init.sql");
    std::fs::write(&init, "CREATE DATABASE doppel;\n").expect("a file");
    let log = std::fs::File::create(folder.join("log")).expect("a log file");
    let tls = certificate.map(|(certificate, key)| {
        [("cert", certificate), ("key", key)].map(|(what, text)| {
            let file = folder.join(what);
            std::fs::write(&file, text).expect("a file");
            format!("--ssl-{what}={}", file.display())
        })
    });
    Command::new(program)
        .env(temporary.0, temporary.1)
        .args(["--no-defaults", &user, &data, "--bind-address=127.0.0.1", &format!("--port={port}")])
        .arg(format!("--socket={}", folder.join("socket").display()))
        .arg(format!("--pid-file={}", folder.join("pid").display()))
        .arg(format!("--init-file={}", init.display()))
        .args(tls.into_iter().flatten())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("mariadbd starts")
}
