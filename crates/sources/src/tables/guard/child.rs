//! Reads workbooks in a separate process with limits of the operating system.
//!
//! The checks of this module examine the declarations of a workbook. A process with limits is safe even if the checks overlook a
//! declaration. To read a workbook, the running program starts itself once more ([`COMMAND`]). The child gets a [`ChildRequest`] on its
//! standard input and answers with [`AnswerFrame`]s on its standard output. The child has
//!
//! * an address space of [`ChildBudget::memory`] bytes, [`ChildBudget::seconds`] of processor time, and no core dump,
//! * no environment variables except one for the allocator, and no open file except the three standard files (all others are closed on
//!   execution),
//! * a file size limit of zero, so that it cannot write to any file.
//!
//! The child ends together with its parent. The parent kills the child if it is silent for too long, or if no more rows are wanted.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::super::sheet::{self, SheetChoice, SheetRequest};
use super::super::{TableError, TableRow, WorkbookKind, WorkbookLimits};

/// The command that makes the program read one workbook and end. People do not use it.
pub const COMMAND: &str = "read-workbook";
/// Address space of the program itself, its stack and its libraries, without a workbook.
const RUNTIME_BYTES: u64 = 256 << 20;
/// The variable that limits how much address space mimalloc reserves at once, and its value. Without it mimalloc takes 1 GiB before
/// [`ChildBudget::enforce`] runs. The system then refuses each further piece, and about one of 150 harmless workbooks cannot be read.
const ALLOCATOR_RESERVE: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "32MiB");
/// Address space for each byte of a workbook that is held in memory ([`WorkbookLimits::held`]). It covers the text itself, the data that
/// calamine allocates for it, and the second copy of a text that moves while it grows.
const MEMORY_PER_HELD: u64 = 4;
/// Seconds of processor time for a workbook that a person uploads at the desk. A workbook of 192 MiB (unpacked) takes 15 seconds on a slow
/// machine.
pub const DESK_SECONDS: u64 = 60;
/// Seconds of processor time for a workbook that is imported. Its sheets may have any number of bytes.
pub const IMPORT_SECONDS: u64 = 3600;
/// The time that a child may be silent, as a multiple of its processor time. A busy machine gives the child only a part of the time.
const SILENCE: u64 = 2;
/// The largest number of children of one process. The desk needs six: four for uploads and two for files in work.
pub const MOST_CHILDREN: usize = 8;
/// Longest time that a request to read a workbook waits for a free place. After this time it is refused.
const TURN: Duration = Duration::from_secs(30);
/// The largest number of open files of a child: the standard files, and the workbook, which is opened several times.
const MOST_OPEN: u64 = 16;
/// The largest request: a path and the name of a sheet.
const MOST_REQUEST: u64 = 1 << 20;
/// Number of bytes of a frame besides the text of a row: 512 cells with their numbers.
const FRAME_BYTES: usize = 1 << 20;
/// The largest number of bytes of JSON for one byte of text.
const JSON_BYTES: usize = 6;

/// The resources that a child may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildBudget {
    /// Address space, in bytes.
    pub memory: u64,
    /// Processor time, in seconds.
    pub seconds: u64,
}

impl ChildBudget {
    /// Returns the budget for a workbook that is read within `limits`.
    pub fn of(limits: WorkbookLimits) -> Self {
        let seconds = if limits.unpacked == u64::MAX { IMPORT_SECONDS } else { DESK_SECONDS };
        Self { memory: RUNTIME_BYTES + MEMORY_PER_HELD * limits.held, seconds }
    }

    /// Makes the operating system enforce the budget on this process from now on.
    ///
    /// # Errors
    /// The system refuses, for example because of a filter of system calls.
    pub fn enforce(self) -> io::Result<()> {
        limit_resource(Resource::Core, 0, 0)?;
        limit_resource(Resource::Fsize, 0, 0)?;
        limit_resource(Resource::Nofile, MOST_OPEN, MOST_OPEN)?;
        // At the first of the two limits the process gets a signal that shows the reason for its end.
        limit_resource(Resource::Cpu, self.seconds, self.seconds + 1)?;
        limit_resource(Resource::As, self.memory, self.memory)?;
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(())
    }
}

/// A lower inherited limit stays.
fn limit_resource(resource: Resource, current: u64, maximum: u64) -> Result<(), rustix::io::Errno> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    setrlimit(resource, Rlimit { current: Some(current.min(most)), maximum: Some(maximum.min(most)) })
}

/// The work for a child.
#[derive(Debug, Serialize, Deserialize)]
struct ChildRequest {
    path: PathBuf,
    work: ChildWork,
    budget: ChildBudget,
}

#[derive(Debug, Serialize, Deserialize)]
enum ChildWork {
    Kind,
    Each(SheetRequest),
}

/// A piece of an answer. Its length precedes it in four bytes, the lowest byte first.
#[derive(Debug, Serialize, Deserialize)]
enum AnswerFrame {
    Kind(WorkbookKind),
    Sheets(SheetChoice),
    /// A row, and the number of bytes of the file that have been read.
    Row(TableRow, u64),
    End,
    Failed(TableError),
}

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Makes children that run `program` with [`COMMAND`] read all workbooks, from now on and in the whole process.
pub fn read_by(program: PathBuf) {
    let _ = PROGRAM.set(program);
}

/// True if children read the workbooks.
pub(super) fn is_used() -> bool {
    PROGRAM.get().is_some()
}

/// Number of children that run.
static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// A place among the children that may run at the same time.
struct ChildSlot;

impl ChildSlot {
    fn wait() -> Result<Self, TableError> {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = ENDED.wait_timeout_while(running, TURN, |running| *running >= MOST_CHILDREN);
        let (mut running, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(TableError::Busy);
        }
        *running += 1;
        Ok(Self)
    }
}

impl Drop for ChildSlot {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

/// A child that reads a workbook. Dropping this value kills and reaps the child.
struct ReadingChild {
    child: Child,
    /// The frames of the answer. A separate thread reads them, since a read from a pipe cannot have a time limit.
    frames: Receiver<io::Result<Vec<u8>>>,
    budget: ChildBudget,
    _turn: ChildSlot,
}

/// Number of frames that are read ahead.
const FRAMES_AHEAD: usize = 16;

/// Reads frames of at most `most` bytes, until the answer ends or the receiver is gone.
fn read_frames(output: ChildStdout, most: usize, give: &SyncSender<io::Result<Vec<u8>>>) {
    let mut output = BufReader::with_capacity(1 << 16, output);
    loop {
        let frame = read_frame(&mut output, most);
        let is_last = frame.is_err();
        if give.send(frame).is_err() || is_last {
            return;
        }
    }
}

fn read_frame(output: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    output.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        return Err(io::Error::other("the process that reads workbooks sent a longer row than it may"));
    }
    let mut frame = vec![0; length];
    output.read_exact(&mut frame)?;
    Ok(frame)
}

impl Drop for ReadingChild {
    fn drop(&mut self) {
        // An error is ignored, because the child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ReadingChild {
    fn begin(path: &Path, work: ChildWork, budget: ChildBudget, max: usize) -> Result<Self, TableError> {
        let program = PROGRAM.get().ok_or_else(|| io::Error::other("no program reads workbooks"))?;
        let turn = ChildSlot::wait()?;
        let started = Command::new(program)
            .arg(COMMAND)
            .env_clear()
            .env(ALLOCATOR_RESERVE.0, ALLOCATOR_RESERVE.1)
            // A separate process group: keys of a terminal that stop the parent in an orderly way must not end the child first.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("the process that reads workbooks: {error}"));
        let mut child = started.map_err(failed)?;
        let input = child.stdin.take();
        let output = child.stdout.take();
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(io::Error::other("a process without its standard input and output").into());
        };
        let most = max.saturating_mul(JSON_BYTES).saturating_add(FRAME_BYTES);
        let (give, frames) = sync_channel(FRAMES_AHEAD);
        std::thread::spawn(move || read_frames(output, most, &give));
        let reading = Self { child, frames, budget, _turn: turn };
        let request = ChildRequest { path: path.to_owned(), work, budget };
        let request = serde_json::to_vec(&request).map_err(io::Error::other)?;
        input.write_all(&request).map_err(failed)?;
        Ok(reading)
    }

    /// Returns the next frame. If a child ends without [`AnswerFrame::End`], a limit has ended it.
    fn next(&mut self) -> Result<AnswerFrame, TableError> {
        let silence = Duration::from_secs(self.budget.seconds * SILENCE);
        let frame = self.frames.recv_timeout(silence).map_err(|_| self.too_slow())?;
        match frame {
            Ok(frame) => match serde_json::from_slice(&frame).map_err(io::Error::other)? {
                AnswerFrame::Failed(error) => Err(error),
                frame => Ok(frame),
            },
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let ended = self.child.wait()?;
                Err(self.reason(ended))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the error that explains why a child ended too early.
    fn reason(&self, ended: ExitStatus) -> TableError {
        // The exit code after a panic.
        const PANICKED: i32 = 101;
        let signal = ended.signal().and_then(Signal::from_named_raw);
        match signal {
            Some(Signal::XCPU) => self.too_slow(),
            // A failed allocation aborts the process. The system kills a process if the machine has no free memory.
            Some(Signal::ABORT | Signal::SEGV | Signal::BUS | Signal::KILL) => {
                TableError::TooMuchMemory(self.budget.memory)
            }
            _ if ended.code() == Some(PANICKED) => TableError::Damaged,
            _ => io::Error::other(format!("the process that reads workbooks ended with {ended}")).into(),
        }
    }

    fn too_slow(&self) -> TableError {
        TableError::TooSlow(self.budget.seconds)
    }
}

/// Returns the error for a frame that does not belong to the answer.
fn unexpected() -> TableError {
    io::Error::other("the process that reads workbooks gave another answer than was asked for").into()
}

pub(super) fn kind(path: &Path) -> Result<WorkbookKind, TableError> {
    match ReadingChild::begin(path, ChildWork::Kind, ChildBudget::of(WorkbookLimits::DESK), 0)?.next()? {
        AnswerFrame::Kind(kind) => Ok(kind),
        _ => Err(unexpected()),
    }
}

pub(super) fn each(
    path: &Path,
    wanted: &SheetRequest,
    count: &Arc<AtomicU64>,
    mut seen: impl FnMut(sheet::SheetEvent) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let budget = ChildBudget::of(wanted.limits.unwrap_or(WorkbookLimits::DESK));
    let mut reading = ReadingChild::begin(path, ChildWork::Each(wanted.clone()), budget, wanted.max)?;
    let mut counted = 0;
    loop {
        let event = match reading.next()? {
            AnswerFrame::Sheets(choice) => sheet::SheetEvent::Sheets(choice),
            AnswerFrame::Row(row, read) => {
                count.fetch_add(read.saturating_sub(counted), Ordering::Relaxed);
                counted = counted.max(read);
                sheet::SheetEvent::Row(row)
            }
            AnswerFrame::End => return Ok(()),
            _ => return Err(unexpected()),
        };
        if seen(event).is_break() {
            return Ok(());
        }
    }
}

/// Reads one workbook for a parent, which sends its request on standard input. The program calls this function for [`COMMAND`] before
/// anything else.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let mut request = Vec::new();
    io::stdin().take(MOST_REQUEST).read_to_end(&mut request)?;
    let request: ChildRequest = serde_json::from_slice(&request).map_err(io::Error::other)?;
    let mut answer = FrameWriter(BufWriter::with_capacity(1 << 16, io::stdout()));
    if let Err(error) = request.budget.enforce() {
        let error =
            io::Error::new(error.kind(), format!("the process that reads workbooks cannot limit itself: {error}"));
        let _ = answer.send(&AnswerFrame::Failed(error.into()));
        return answer.0.flush();
    }
    let path = &request.path;
    let done = match request.work {
        ChildWork::Kind => sheet::kind(path).map(|kind| answer.send(&AnswerFrame::Kind(kind))),
        ChildWork::Each(wanted) => {
            let count = Arc::new(AtomicU64::new(0));
            sheet::each(path, &wanted, &count, |event| match event {
                sheet::SheetEvent::Sheets(choice) => answer.send(&AnswerFrame::Sheets(choice)),
                sheet::SheetEvent::Row(row) => answer.send(&AnswerFrame::Row(row, count.load(Ordering::Relaxed))),
                sheet::SheetEvent::End => ControlFlow::Continue(()),
            })
            .map(|()| ControlFlow::Continue(()))
        }
    };
    let _ = match done {
        Ok(_) => answer.send(&AnswerFrame::End),
        Err(error) => answer.send(&AnswerFrame::Failed(error)),
    };
    answer.0.flush()
}

/// Writes the answer of a child.
struct FrameWriter<W: Write>(BufWriter<W>);

impl<W: Write> FrameWriter<W> {
    /// Sends a frame. Breaks if the parent does not read any more, because the child then does not need to read the rest.
    fn send(&mut self, frame: &AnswerFrame) -> ControlFlow<()> {
        match self.try_send(frame) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn try_send(&mut self, frame: &AnswerFrame) -> io::Result<()> {
        let frame = serde_json::to_vec(frame).map_err(io::Error::other)?;
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        self.0.write_all(&length.to_le_bytes())?;
        self.0.write_all(&frame)
    }
}

/// Serializes numbers of cells with all their bits.
pub(crate) mod exact {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        number.map(f64::to_bits).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(f64::from_bits))
    }
}

/// Serializes errors of files with their text.
pub(crate) mod error {
    use std::io;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(error: &io::Error, to: S) -> Result<S::Ok, S::Error> {
        (error.raw_os_error(), error.to_string()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<io::Error, D::Error> {
        let (number, text) = <(Option<i32>, String)>::deserialize(from)?;
        Ok(number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error))
    }
}
