//! Reads the files of a repository, which other programs may have changed. It reads only regular files, and no more bytes than the file may
//! have.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file to read it.
///
/// # Errors
/// If it cannot be opened, or is a pipe, a device or something else that may have no end.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    // Without this flag, opening a pipe would wait for a writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is no regular file; put back the file that was here, or remove it"))
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open_regular`], or if the file has more bytes.
pub(crate) fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes, which no such file has")));
    }
    Ok(bytes)
}
