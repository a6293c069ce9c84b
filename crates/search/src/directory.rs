//! The folder of an index. Files are written without waiting for the disk.
//!
//! An index is derived data, and opening it reads all files and compares checksums. The service therefore finds damage by a power failure,
//! and builds the index again. Syncing every file would have no advantage and would delay the journal of the records, which uses the same
//! disk. A process that is killed loses nothing, because the operating system keeps the bytes that the process wrote.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite, WatchCallback,
    WatchHandle, WritePtr,
};

/// A tantivy directory that does not sync files. Reading maps files into memory.
#[derive(Clone, Debug)]
pub(crate) struct UnsyncedDirectory {
    folder: PathBuf,
    files: MmapDirectory,
}

impl UnsyncedDirectory {
    /// Opens an existing folder.
    pub(crate) fn open(folder: &Path) -> tantivy::Result<Self> {
        Ok(Self { folder: folder.to_owned(), files: MmapDirectory::open(folder)? })
    }
}

/// A file that counts as complete after it is flushed.
struct UnsyncedFile(File);

impl Write for UnsyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for UnsyncedFile {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.0.flush()
    }
}

impl Directory for UnsyncedDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.files.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.files.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.files.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let opened = OpenOptions::new().write(true).create_new(true).open(self.folder.join(path));
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_owned()),
            _ => OpenWriteError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(BufWriter::new(Box::new(UnsyncedFile(file))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.files.atomic_read(path)
    }

    /// Only one writer may call this at a time. The lock on the index writer guarantees it.
    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let file = self.folder.join(path);
        let new = file.with_extension("new");
        fs::write(&new, data)?;
        fs::rename(new, file)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.files.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.files.watch(callback)
    }
}
