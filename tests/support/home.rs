//! The place where a service of a test keeps its records: a folder or a database. Any number of services may use it one after another.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use tempfile::TempDir;

use crate::mongod;
use crate::support::{TestServer, run};

pub enum StoreHome {
    Folder(TempDir),
    /// MongoDB: the URI and the name of the database.
    Database(String, String),
}

impl StoreHome {
    /// Creates an empty folder.
    pub fn folder() -> Self {
        Self::Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    /// Creates a separate database.
    pub fn database(uri: &str) -> Self {
        Self::Database(uri.to_owned(), mongod::database("home"))
    }

    /// Returns the name of the kind of store.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Folder(_) => "embedded",
            Self::Database(..) => "mongodb",
        }
    }

    fn environment(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Folder(_) => Vec::new(),
            Self::Database(uri, name) => {
                vec![("DOPPEL_STORE__KIND", "mongodb"), ("DOPPEL_STORE__URI", uri), ("DOPPEL_STORE__DATABASE", name)]
            }
        }
    }

    /// Starts a service with these records.
    pub fn start(&self, more: &[(&str, &str)]) -> TestServer {
        let mut environment = self.environment();
        environment.extend(more);
        match self {
            Self::Folder(folder) => TestServer::start_with(folder.path(), &[], &environment),
            Self::Database(..) => {
                let nothing = tempfile::tempdir().expect("a temporary folder");
                TestServer::start_with(nothing.path(), &[], &environment)
            }
        }
    }

    /// Asserts that all records and index entries agree. No service may use the folder at this time.
    #[track_caller]
    pub fn doctor(&self) {
        let output = match self {
            Self::Folder(folder) => run(&["doctor", "--data", folder.path().to_str().expect("a plain path")], &[]),
            Self::Database(..) => run(&["doctor"], &self.environment()),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    /// Removes the database.
    pub async fn forget(self) {
        if let Self::Database(uri, name) = &self {
            mongod::drop_database(uri, name).await;
        }
    }
}
