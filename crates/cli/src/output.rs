//! The files that commands write. All commands use [`CommandOutputs`], which makes sure that no output is also an input or another
//! output, even under another name, and that a file gets its name only when it is complete.
//!
//! An incomplete file has the name `NAME.XXXXXX.part` in the same folder. A command that fails or is stopped removes this file, and an
//! earlier file of the same name stays unchanged. Devices and pipes are written directly.

#![expect(clippy::disallowed_methods, reason = "this is where files are written")]

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{BufWriter, IsTerminal as _, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use tempfile::TempPath;

use super::scratch::ScratchFolder;
use super::usage;
use doppel_service::shutdown;
use doppel_texts as texts;

/// Number of bytes that are collected before they are passed to the system.
const BUFFER_BYTES: usize = 1 << 18;
/// Largest number of symbolic links to follow: as many as Linux follows.
const MAX_LINKS: usize = 40;
/// The permissions of a new file before the umask is applied.
const MODE: u32 = 0o666;

/// The permissions of a new file with a secret.
const PRIVATE: u32 = 0o600;

/// The inputs and outputs of a command. Cloning is cheap, and all clones share their state.
#[derive(Clone)]
pub struct CommandOutputs(Arc<Mutex<OutputState>>);

#[derive(Default)]
struct OutputState {
    /// The files that are read or written, with the names in which the person named them.
    taken: Vec<(FileIdentity, String)>,
    /// Folders of which every file is in use.
    folders: Vec<PathBuf>,
    /// The incomplete files: the temporary path and the final name.
    open: Vec<(PathBuf, PathBuf)>,
    /// The names of the complete files.
    done: Vec<PathBuf>,
    /// Temporary folders, which are removed with the command.
    scratch: Vec<ScratchFolder>,
    /// Other work to do when the command is stopped, by number.
    cleanups: BTreeMap<u64, CleanupTask>,
    next_cleanup: u64,
}

/// Work that is done if a signal stops the command.
type CleanupTask = Box<dyn FnOnce() + Send>;

/// The identity of a file, which does not depend on its name.
#[derive(PartialEq)]
enum FileIdentity {
    /// The device and number of an existing file.
    There { device: u64, number: u64 },
    /// The path of a file that does not exist yet.
    Later(PathBuf),
}

impl FileIdentity {
    fn of(path: &Path) -> Self {
        match path.metadata() {
            Ok(found) => Self::There { device: found.dev(), number: found.ino() },
            Err(_) => Self::Later(real(path)),
        }
    }

    /// Returns the identity of a stream that is redirected from or to a file.
    fn of_stream(stream: impl AsFd) -> Option<Self> {
        let found = rustix::fs::fstat(stream).ok()?;
        let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode).is_file();
        is_file.then_some(Self::There { device: found.st_dev, number: found.st_ino })
    }
}

impl Default for CommandOutputs {
    fn default() -> Self {
        Self::new()
    }
}

impl CommandOutputs {
    /// Makes the set that contains only the standard streams.
    pub fn new() -> Self {
        let streams = [
            (FileIdentity::of_stream(std::io::stdout()), "standard output"),
            (FileIdentity::of_stream(std::io::stderr()), "standard error"),
        ];
        let taken = streams.into_iter().filter_map(|(stream, name)| Some((stream?, name.to_owned()))).collect();
        Self(Arc::new(Mutex::new(OutputState { taken, ..OutputState::default() })))
    }

    /// Makes the set that contains the standard streams, the inputs `names` and these other files that the command reads.
    pub(super) fn of_inputs<'f>(
        names: impl IntoIterator<Item = &'f String>,
        others: impl IntoIterator<Item = Option<&'f Path>>,
    ) -> Self {
        let outputs = Self::new();
        names.into_iter().for_each(|name| outputs.reads(name));
        others.into_iter().flatten().for_each(|file| outputs.reads(file));
        outputs
    }

    /// Registers `file` as an input; `-` is standard input.
    pub fn reads(&self, file: impl AsRef<Path>) {
        let file = file.as_ref();
        let identity = match file.to_str() {
            Some("-") => FileIdentity::of_stream(std::io::stdin()),
            _ => Some(FileIdentity::of(file)),
        };
        self.0.lock().taken.extend(identity.map(|identity| (identity, file.display().to_string())));
    }

    /// Registers every file in `folder` and below it as used.
    pub fn uses(&self, folder: &Path) {
        self.0.lock().folders.push(real(folder));
    }

    /// Checks that `path` may be written, for an output that is written only at the end.
    ///
    /// # Errors
    /// Wrong usage: the file is in use or is a folder.
    pub fn check(&self, path: &Path) -> anyhow::Result<()> {
        if is_special(path) {
            return Ok(());
        }
        if path.as_os_str() == "-" {
            return Err(usage("\"-\" is no output here; name a file".to_owned()));
        }
        let identity = FileIdentity::of(path);
        let place = real(path);
        let shown = path.display();
        if place.is_dir() {
            return Err(usage(format!("{shown} is a folder; name a file in it")));
        }
        let state = self.0.lock();
        let other = state.taken.iter().find(|(taken, _)| *taken == identity).map(|(_, name)| name.clone());
        let within = state.folders.iter().find(|folder| place.starts_with(folder));
        match other.or_else(|| within.map(|folder| folder.display().to_string())) {
            None => Ok(()),
            Some(other) => Err(usage(format!(
                "{shown} is in use and would be overwritten ({other}); give each output a file of its own"
            ))),
        }
    }

    /// Creates a file.
    ///
    /// # Errors
    /// The file must not or cannot be written.
    pub fn create(&self, path: &Path) -> anyhow::Result<OutputFile> {
        self.check(path)?;
        let (file, part) = match is_special(path) {
            true => (File::options().write(true).open(path).with_context(|| cannot_write(path))?, None),
            false => self.begin(path).map(|(file, part)| (file, Some(part))).with_context(|| cannot_write(path))?,
        };
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(OutputFile { outputs: self.clone(), path: path.to_owned(), part, writer })
    }

    /// Creates a file that only its owner may read. The file must not exist yet.
    ///
    /// # Errors
    /// The file exists, or it must not or cannot be written.
    pub fn create_private(&self, path: &Path) -> anyhow::Result<OutputFile> {
        self.check(path)?;
        if path.symlink_metadata().is_ok() {
            return Err(usage(format!("{} is there already; name a new file", path.display())));
        }
        let (file, part) = self.begin_with(path, PRIVATE).with_context(|| cannot_write(path))?;
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(OutputFile { outputs: self.clone(), path: path.to_owned(), part: Some(part), writer })
    }

    fn begin(&self, path: &Path) -> std::io::Result<(File, PartFile)> {
        self.begin_with(path, MODE)
    }

    fn begin_with(&self, path: &Path, mode: u32) -> std::io::Result<(File, PartFile)> {
        let to = real(path);
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&name).suffix(".part").permissions(Permissions::from_mode(mode));
        let mut state = self.0.lock();
        let (file, at) = builder.tempfile_in(folder_of(&to))?.into_parts();
        // A file that only its owner may read keeps its permissions.
        if let Ok(before) = to.metadata() {
            file.set_permissions(before.permissions())?;
        }
        state.open.push((at.to_path_buf(), path.to_owned()));
        state.taken.push((FileIdentity::of(path), path.display().to_string()));
        Ok((file, PartFile { at, to }))
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// The file must not or cannot be written.
    pub fn write(&self, path: &Path, text: &str) -> anyhow::Result<()> {
        let mut output = self.create(path)?;
        output.put(text.as_bytes())?;
        output.finish()
    }

    /// Makes a temporary folder inside `folder`, which is created if it is missing. The temporary folder is removed when the guard is
    /// dropped or a signal arrives, together with the folders that were created for it, if they are empty.
    ///
    /// # Errors
    /// The folder cannot be created. Nothing is left then.
    pub fn scratch(&self, folder: &Path) -> anyhow::Result<ScratchGuard> {
        // The lock prevents a signal between the creation and the registration.
        let mut state = self.0.lock();
        let scratch = ScratchFolder::within(folder).with_context(|| format!("cannot write {}", folder.display()))?;
        state.scratch.push(scratch.clone());
        Ok(ScratchGuard { outputs: self.clone(), scratch })
    }

    /// Runs `work` if a signal stops the command before the returned guard is dropped.
    pub fn when_stopped(&self, work: impl FnOnce() + Send + 'static) -> CleanupGuard {
        let mut state = self.0.lock();
        let number = state.next_cleanup;
        state.next_cleanup += 1;
        state.cleanups.insert(number, Box::new(work));
        CleanupGuard { outputs: self.clone(), number }
    }

    /// Handles SIGTERM, SIGHUP and Ctrl-C from now on: they remove incomplete files with a message and end the process with status 130.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub fn abandon_on_signal(&self) -> anyhow::Result<()> {
        let outputs = self.clone();
        shutdown::exit_on_signal(move || outputs.abandon()).context("waiting for signals")
    }

    /// Removes incomplete files with a message. No file gets its name afterwards, so that the process must end.
    pub(super) fn abandon(&self) {
        let mut state = self.0.lock();
        std::mem::take(&mut state.cleanups).into_values().for_each(|work| work());
        for (part, _) in &state.open {
            // The file may be gone already.
            let _ = std::fs::remove_file(part);
        }
        state.scratch.iter().for_each(ScratchFolder::remove);
        let open = joined(state.open.iter().map(|(_, name)| name));
        let done = joined(state.done.iter());
        // The message must not be on the line of the progress bar.
        let begin = if std::io::stderr().is_terminal() { "\n" } else { "" };
        let mut said = "doppel: stopped by a signal".to_owned();
        if !open.is_empty() {
            said += &format!("; not written (an earlier file stays): {open}");
        }
        if !done.is_empty() {
            said += &format!("; complete: {done}");
        }
        crate::print_error(&format!("{begin}{}", texts::said(&said)));
        // The lock is held until the process ends, so that no file gets its name any more.
        std::mem::forget(state);
    }
}

fn joined<'a>(names: impl Iterator<Item = &'a PathBuf>) -> String {
    names.map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// See [`CommandOutputs::when_stopped`].
pub struct CleanupGuard {
    outputs: CommandOutputs,
    number: u64,
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        self.outputs.0.lock().cleanups.remove(&self.number);
    }
}

/// See [`CommandOutputs::scratch`].
pub struct ScratchGuard {
    outputs: CommandOutputs,
    scratch: ScratchFolder,
}

impl ScratchGuard {
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }
}

impl Drop for ScratchGuard {
    fn drop(&mut self) {
        // After a signal this waits for the end of the process.
        let mut state = self.outputs.0.lock();
        state.scratch.retain(|scratch| *scratch != self.scratch);
        self.scratch.remove();
    }
}

/// A file that is being written. It is removed if it is dropped without [`OutputFile::finish`].
pub struct OutputFile {
    outputs: CommandOutputs,
    path: PathBuf,
    /// `None` for devices and pipes.
    part: Option<PartFile>,
    writer: BufWriter<File>,
}

struct PartFile {
    at: TempPath,
    to: PathBuf,
}

impl OutputFile {
    /// Returns the name of the file on the command line.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if a file of this name exists, which will be replaced.
    pub fn replaces(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.to.exists())
    }

    /// Writes the content of the existing file of this name, up to the last line end.
    pub fn put_what_is_there(&mut self) -> anyhow::Result<()> {
        let Some(before) = self.part.as_ref().and_then(|part| File::open(&part.to).ok()) else { return Ok(()) };
        let mut before = std::io::BufReader::new(before);
        let mut line = Vec::new();
        while std::io::BufRead::read_until(&mut before, b'\n', &mut line)
            .with_context(|| format!("cannot read {}", self.path.display()))?
            > 0
        {
            if line.last() != Some(&b'\n') {
                break;
            }
            self.writer.write_all(&line).with_context(|| cannot_write(&self.path))?;
            line.clear();
        }
        Ok(())
    }

    /// Writes `bytes`.
    ///
    /// # Errors
    /// The bytes cannot be written. The error names the file.
    pub fn put(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.writer.write_all(bytes).with_context(|| cannot_write(&self.path))
    }

    /// Writes `line` as JSON, with a line end.
    ///
    /// # Errors
    /// The line cannot be written. The error names the file.
    pub fn put_json(&mut self, line: &impl serde::Serialize) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.writer, line).with_context(|| cannot_write(&self.path))?;
        self.put(b"\n")
    }

    /// Passes buffered data to the operating system.
    ///
    /// # Errors
    /// The file cannot be written. The error names the file.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.writer.flush().with_context(|| cannot_write(&self.path))
    }

    /// Completes the file: waits until it is on disk and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written. An earlier file of the same name stays.
    pub fn finish(self) -> anyhow::Result<()> {
        finish_all([self])
    }

    /// Waits until the content is on disk. A device or a pipe only gets the buffered data.
    fn sync(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        if self.part.is_some() {
            self.writer.get_ref().sync_all().with_context(|| cannot_write(&self.path))?;
        }
        Ok(())
    }

    fn give_name(mut self) -> anyhow::Result<()> {
        let Some(PartFile { at, to }) = self.part.take() else { return Ok(()) };
        let mut state = self.outputs.0.lock();
        state.open.retain(|(part, _)| *part != *at);
        at.persist(&to).map_err(|error| error.error).with_context(|| cannot_write(&self.path))?;
        state.done.push(self.path.clone());
        Ok(())
    }

    /// Keeps the incomplete file under its temporary name, and returns this name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_apart(mut self) -> anyhow::Result<PathBuf> {
        self.flush()?;
        let Some(PartFile { at, .. }) = self.part.take() else { return Ok(self.path.clone()) };
        self.outputs.0.lock().open.retain(|(part, _)| *part != *at);
        at.keep().map_err(|error| error.error).with_context(|| format!("cannot keep {}", self.path.display()))
    }
}

/// Completes files: waits until all of them are on disk, and only then gives them their names.
///
/// # Errors
/// A file cannot be written. If its content cannot be put on disk, none of the files gets its name.
pub fn finish_all(files: impl IntoIterator<Item = OutputFile>) -> anyhow::Result<()> {
    let mut files: Vec<OutputFile> = files.into_iter().collect();
    files.iter_mut().try_for_each(OutputFile::sync)?;
    files.into_iter().try_for_each(OutputFile::give_name)
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            self.outputs.0.lock().open.retain(|(open, _)| *open != *part.at);
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.writer.seek(to)
    }
}

/// Returns the context of an error of writing.
fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// True for devices, pipes and files that the process has already opened. The command may write them any number of times and does not rename them.
/// Other files below `/dev` and `/proc` may be ordinary files (`/dev/shm`).
fn is_special(path: &Path) -> bool {
    let is_open = ["/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
        || path.parent().is_some_and(|folder| {
            folder == Path::new("/dev/fd") || (folder.starts_with("/proc") && folder.ends_with("fd"))
        });
    is_open || path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Resolves the symbolic links of `path`. The file and its folders do not need to exist.
fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if let Ok(found) = path.canonicalize() {
            return found;
        }
        let Ok(target) = path.read_link() else { break };
        path = folder_of(&path).join(target);
    }
    let there = path.ancestors().skip(1).find_map(|folder| {
        let named = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Some((named.canonicalize().ok()?, path.strip_prefix(folder).ok()?))
    });
    let Some((folder, rest)) = there else { return path };
    rest.components().fold(folder, |folder, part| match part {
        Component::ParentDir => folder.parent().unwrap_or(&folder).to_owned(),
        part => folder.join(part),
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_in_use_is_not_written_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::create_dir(dir.join("data")).unwrap();
        fs::write(dir.join("in"), "kept").unwrap();
        symlink(dir.join("in"), dir.join("symbolic")).unwrap();
        symlink(dir.join("later"), dir.join("dangling")).unwrap();
        symlink(dir.join("data"), dir.join("way")).unwrap();
        fs::hard_link(dir.join("in"), dir.join("hard")).unwrap();
        let outputs = CommandOutputs::new();
        outputs.reads(dir.join("in"));
        outputs.uses(&dir.join("data"));
        let later = outputs.create(&dir.join("later")).unwrap();
        let names = [
            "in",
            "symbolic",
            "hard",
            "data/../in",
            "later",
            "dangling",
            "data/version",
            "data/a/b",
            "way/a/b",
            "data",
            ".",
        ];
        for name in names {
            assert!(outputs.create(&dir.join(name)).is_err(), "{name}");
        }
        assert!(outputs.create(Path::new("/dev/null")).is_ok() && outputs.create(Path::new("/dev/null")).is_ok());
        // Below /proc and /dev there are also ordinary files.
        for special in ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(is_special(Path::new(special)), "{special}");
        }
        assert!(!is_special(Path::new("/proc/self/cwd/in")) && !is_special(Path::new("/dev/shm/in")));
        later.finish().unwrap();
        assert_eq!(fs::read_to_string(dir.join("in")).unwrap(), "kept");
    }

    /// Begins to write the file `a` of a folder by its link `link`.
    fn begin(folder: &Path) -> OutputFile {
        let mut output = CommandOutputs::new().create(&folder.join("link")).unwrap();
        output.put(b"after").unwrap();
        output.flush().unwrap();
        assert_eq!((fs::read_to_string(folder.join("a")).unwrap(), names(folder).len()), ("before".into(), 3));
        output
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_complete_and_what_was_there_stays_until_then() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let link = folder.path().join("link");
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        drop(begin(folder.path()));
        assert_eq!(names(folder.path()), ["a", "link"]);
        let kept = begin(folder.path()).keep_apart().unwrap();
        assert_eq!(
            (fs::read_to_string(&kept).unwrap(), fs::read_to_string(&file).unwrap()),
            ("after".into(), "before".into())
        );
        fs::remove_file(kept).unwrap();
        begin(folder.path()).finish().unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap(), names(folder.path()).len()), ("after".into(), 2));
        assert!(link.is_symlink(), "a link goes on leading to the file");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "others may not read it now");
    }

    #[test]
    fn after_a_signal_nothing_is_left_and_nothing_gets_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = CommandOutputs::new();
        outputs.write(&folder.path().join("done"), "x").unwrap();
        let begun = outputs.create(&folder.path().join("begun")).unwrap();
        outputs.abandon();
        assert_eq!(names(folder.path()), ["done"]);
        // Dropping the guard would wait for the end of the process.
        std::mem::forget(begun);
    }
}
