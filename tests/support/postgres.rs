//! A real PostgreSQL server for tests: on a loopback port, with data in a temporary folder.
//!
//! The tests use the programs that `scripts/get-postgres` finds or, as root, installs. On a machine without these programs the tests fail,
//! and the message names the command to run. The server refuses to run as root; in this case it runs as the user `postgres` of Debian's
//! package.

#![allow(dead_code, unreachable_pub, reason = "as in the other files of this folder")]

#[allow(clippy::duplicate_mod, reason = "each file of this folder is included by itself")]
#[path = "ports.rs"]
mod ports;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

/// Longest wait for the server on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The paths where Debian's package `odbc-postgresql` installs its driver.
const ODBC_DRIVERS: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so", "/usr/lib/aarch64-linux-gnu/odbc/psqlodbcw.so"];

/// A server. Dropping this value stops the server and removes its folder. Its user `office` may do everything.
pub struct PostgresServer {
    port: u16,
    password: String,
    child: Child,
    _folder: tempfile::TempDir,
}

impl PostgresServer {
    /// Starts a server whose user `office` has this password.
    pub async fn start(password: &str) -> Self {
        Self::start_with(password, None).await
    }

    /// Starts a server that uses this certificate and its key (PEM), if they are given.
    pub async fn start_with(password: &str, certificate: Option<&(String, String)>) -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new().prefix("doppel-postgres").tempdir().expect("a temporary folder");
        let pwfile = folder.path().join("password");
        std::fs::write(&pwfile, password).expect("a file");
        let tls = certificate.map(|(certificate, key)| {
            let settings = [("cert", certificate), ("key", key)].map(|(what, text)| {
                let file = folder.path().join(what);
                std::fs::write(&file, text).expect("a file");
                // The server accepts no key that other users may read.
                std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("changed");
                format!("ssl_{what}_file={}", file.display())
            });
            settings.into_iter().chain(["ssl=on".into()]).flat_map(|setting| ["-c".into(), setting])
        });
        if is_root() {
            run(Command::new("chown").args(["-R", "postgres:postgres"]).arg(folder.path()));
        }
        let data = folder.path().join("data");
        let initdb = [
            format!("--pgdata={}", data.display()),
            "--username=office".into(),
            "--auth=scram-sha-256".into(),
            format!("--pwfile={}", pwfile.display()),
            "--encoding=UTF8".into(),
            "--locale=C".into(),
            "--no-sync".into(),
        ];
        run(as_user(&programs.join("initdb")).args(initdb));
        let port = ports::free_port();
        let log = std::fs::File::create(folder.path().join("log")).expect("a log file");
        let child = as_user(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-F"])
            .arg("-k")
            .arg(folder.path())
            .args(tls.into_iter().flatten())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres starts");
        let server = Self { port, password: password.into(), child, _folder: folder };
        server.wait().await;
        server
    }

    /// Returns the URL `postgres://office@…/postgres`, without the password.
    pub fn url(&self) -> String {
        format!("postgres://office@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the options of a connection with the password.
    pub fn options(&self) -> PgConnectOptions {
        let options: PgConnectOptions = self.url().parse().expect("a URL");
        options.password(&self.password)
    }

    /// Returns the location through Debian's ODBC driver, without the password.
    pub fn odbc_url(&self) -> String {
        let driver = ODBC_DRIVERS.into_iter().find(|driver| Path::new(driver).exists());
        let driver = driver
            .expect("Debian's ODBC driver of PostgreSQL: as root, apt-get install -y odbc-postgresql unixodbc-dev");
        format!("odbc:Driver={driver};Server=127.0.0.1;Port={};Database=postgres;UID=office", self.port)
    }

    /// Sends a signal to the server and to all its processes.
    pub fn signal(&self, name: &str) {
        let own = self.child.id().to_string();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        for process in std::iter::once(&*own).chain(children.split_whitespace()) {
            // The process of a connection may have ended meanwhile.
            let _ = Command::new("kill").args(["-s", name, process]).stderr(Stdio::null()).status();
        }
    }

    async fn wait(&self) {
        let start = Instant::now();
        while let Err(error) = PgConnection::connect_with(&self.options()).await {
            let log = std::fs::read_to_string(self._folder.path().join("log"));
            assert!(start.elapsed() < PATIENCE, "postgres does not answer: {error}\n{log:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // The server stops its processes, unless the server itself is suspended.
        self.signal("CONT");
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    String::from_utf8_lossy(&Command::new("id").arg("-u").output().expect("id runs").stdout).trim() == "0"
}

fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program).current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn programs() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("scripts/get-postgres"))
        .find(|script| script.exists())
        .expect("the repository's scripts");
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("scripts/get-postgres can be run");
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    assert!(
        output.status.success() && path.join("postgres").is_file(),
        "no PostgreSQL on this machine: as root, apt-get update && apt-get install -y postgresql"
    );
    path
}
