//! A place in memory. Its programs are words that the tests know, it outlives the servers that speak to it, and it does at each step what a
//! test planned for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use stead_app::{Activity, Barrier, Frame, Mark, Output, Place, PlaceError, Premises, Progress, StartProcess, Warrant};
use stead_domain::Timestamp;
use stead_domain::changes::{FileChange, RelativePath};
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::{ExitCause, OutputStream, ProcessExit, ProcessUsage, TerminalSize};
use tokio::sync::{Semaphore, watch};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Start,
    Progress,
    Further,
    Sleep,
    Forget,
}

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// It fails, and nothing was done.
    Fail,
    /// It was done, and the reply is lost.
    LoseReply,
    /// It never answers, and nothing was done: where a crash is put before the work.
    HangBefore,
    /// It was done and never answers: where a crash is put after the work.
    HangAfter,
}

#[derive(Debug)]
struct Program {
    environment: EnvironmentId,
    argv: Vec<String>,
    env: Vec<(String, String)>,
    frames: Vec<Frame>,
    end: u64,
    stdin: Vec<u8>,
    stdin_open: bool,
    exit: Option<ProcessExit>,
    size: Option<TerminalSize>,
}

/// Everything that runs, or did.
pub struct MemoryPlace {
    programs: Mutex<BTreeMap<ProcessId, Program>>,
    plan: Mutex<VecDeque<(Call, Mishap)>>,
    /// Every program that was really started, in order, however often.
    started: Mutex<Vec<ProcessId>>,
    slept: Mutex<Vec<EnvironmentId>>,
    /// Every definition that it was told of.
    told: Mutex<Vec<(EnvironmentId, u64)>>,
    /// What lies beside the workspaces.
    pub beside: Mutex<Vec<FileChange>>,
    /// How the next setup scripts end; without one they run until they are told otherwise.
    pub setups: Mutex<VecDeque<i32>>,
    changes: watch::Sender<u64>,
    hung: Semaphore,
}

impl MemoryPlace {
    pub fn new() -> Arc<Self> {
        let changes = watch::Sender::new(0);
        let hung = Semaphore::new(0);
        Arc::new(Self {
            programs: Mutex::default(),
            plan: Mutex::default(),
            started: Mutex::default(),
            slept: Mutex::default(),
            told: Mutex::default(),
            beside: Mutex::default(),
            setups: Mutex::default(),
            changes,
            hung,
        })
    }

    /// The next call of this kind goes wrong, after those that were planned before.
    pub fn plan(&self, call: Call, mishap: Mishap) {
        self.plan.lock().unwrap().push_back((call, mishap));
    }

    pub async fn until_hung(&self) {
        self.hung.acquire().await.unwrap().forget();
    }

    pub fn started(&self) -> Vec<ProcessId> {
        self.started.lock().unwrap().clone()
    }

    pub fn told(&self) -> Vec<(EnvironmentId, u64)> {
        self.told.lock().unwrap().clone()
    }

    pub fn slept(&self) -> Vec<EnvironmentId> {
        self.slept.lock().unwrap().clone()
    }

    pub fn knows(&self, id: ProcessId) -> bool {
        self.programs().contains_key(&id)
    }

    pub fn exit_of(&self, id: ProcessId) -> Option<ProcessExit> {
        self.programs()[&id].exit.clone()
    }

    pub fn variables_of(&self, id: ProcessId) -> Vec<(String, String)> {
        self.programs()[&id].env.clone()
    }

    pub fn size_of(&self, id: ProcessId) -> Option<TerminalSize> {
        self.programs()[&id].size
    }

    /// No trace of it is left, as after a disk was lost.
    pub fn lose(&self, id: ProcessId) {
        self.programs().remove(&id);
        self.changed();
    }

    pub fn print(&self, id: ProcessId, stream: OutputStream, bytes: &[u8]) {
        if let Some(program) = self.programs().get_mut(&id) {
            program.print(stream, bytes);
        }
        self.changed();
    }

    /// Bytes that came and are no longer kept.
    pub fn leave_gap(&self, id: ProcessId, length: u64) {
        let mut programs = self.programs();
        let program = programs.get_mut(&id).unwrap();
        program.frames.push(Frame::Gap { from: program.end, to: program.end + length });
        program.end += length;
    }

    pub fn exit(&self, id: ProcessId, code: i32) {
        if let Some(program) = self.programs().get_mut(&id) {
            program.end_with(ExitCause::Exited, Some(code), None);
        }
        self.changed();
    }

    fn programs(&self) -> MutexGuard<'_, BTreeMap<ProcessId, Program>> {
        self.programs.lock().unwrap()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    async fn call<T>(&self, call: Call, work: impl FnOnce() -> Result<T, PlaceError>) -> Result<T, PlaceError> {
        let mishap = {
            let mut plan = self.plan.lock().unwrap();
            let at = plan.iter().position(|(planned, _)| *planned == call);
            at.and_then(|at| plan.remove(at)).map(|(_, mishap)| mishap)
        };
        let failed = || PlaceError::Failed("planned".to_owned());
        match mishap {
            None => work(),
            Some(Mishap::Fail) => Err(failed()),
            Some(Mishap::LoseReply) => work().and_then(|_| Err(failed())),
            Some(Mishap::HangBefore) => self.hang().await,
            Some(Mishap::HangAfter) => {
                let _ = work();
                self.hang().await
            }
        }
    }

    async fn hang<T>(&self) -> T {
        self.hung.add_permits(1);
        std::future::pending().await
    }

    fn begin(&self, environment: EnvironmentId, start: &StartProcess) -> Result<(), PlaceError> {
        let mut programs = self.programs();
        if programs.contains_key(&start.id) {
            return Ok(());
        }
        let word = start.argv[0].as_str();
        if word == "missing" {
            return Err(PlaceError::Program { program: word.to_owned(), message: "there is no such program".to_owned(), missing: true });
        }
        self.started.lock().unwrap().push(start.id);
        let mut program = Program {
            environment,
            argv: start.argv.clone(),
            env: start.env.clone(),
            frames: Vec::new(),
            end: 0,
            stdin: Vec::new(),
            stdin_open: start.stdin_open,
            exit: None,
            size: start.terminal,
        };
        let argument = start.argv.get(1).cloned().unwrap_or_default();
        match word {
            "print" => {
                program.print(OutputStream::Stdout, argument.as_bytes());
                program.end_with(ExitCause::Exited, Some(0), None);
            }
            "complain" => {
                program.print(OutputStream::Stdout, b"out");
                program.print(OutputStream::Stderr, argument.as_bytes());
                program.end_with(ExitCause::Exited, Some(3), None);
            }
            "flood" => {
                let megabytes: usize = argument.parse().unwrap();
                (0..megabytes).for_each(|_| program.print(OutputStream::Stdout, &vec![b'x'; 1 << 20]));
                program.end_with(ExitCause::Exited, Some(0), None);
            }
            "sh" => {
                if let Some(code) = self.setups.lock().unwrap().pop_front() {
                    program.print(OutputStream::Stdout, b"one\ntwo\n");
                    program.end_with(ExitCause::Exited, Some(code), None);
                }
            }
            "slow" => program.end_with(ExitCause::Timeout, None, Some(9)),
            // Anything else runs until it is told otherwise.
            _ => {}
        }
        programs.insert(start.id, program);
        drop(programs);
        self.changed();
        Ok(())
    }
}

impl Program {
    fn print(&mut self, stream: OutputStream, bytes: &[u8]) {
        if !bytes.is_empty() {
            let at = Timestamp::from_microseconds(0);
            self.frames.push(Frame::Bytes { stream, offset: self.end, at, bytes: bytes.to_vec() });
            self.end += bytes.len() as u64;
        }
    }

    fn end_with(&mut self, cause: ExitCause, code: Option<i32>, signal: Option<i32>) {
        let ended_at = Timestamp::from_microseconds(1_777_888_999_000_000);
        let usage = ProcessUsage::default();
        self.exit.get_or_insert(ProcessExit { cause, code, signal, usage, duration_ms: 1, ended_at, limits_hit: Vec::new() });
    }

    fn progress(&self) -> Progress {
        Progress { end: self.end, stdin: self.stdin.len() as u64, exit: self.exit.clone(), closed: self.exit.is_some() }
    }
}

#[async_trait]
impl Place for MemoryPlace {
    async fn start(&self, environment: &Premises, process: &StartProcess) -> Result<(), PlaceError> {
        self.call(Call::Start, || self.begin(environment.environment, process)).await
    }

    async fn progress(&self, environment: EnvironmentId, process: ProcessId) -> Result<Option<Progress>, PlaceError> {
        let look = || Ok(self.programs().get(&process).filter(|program| program.environment == environment).map(Program::progress));
        self.call(Call::Progress, look).await
    }

    async fn further(&self, environment: EnvironmentId, process: ProcessId, seen: &Progress) -> Result<Progress, PlaceError> {
        self.call(Call::Further, || Ok(())).await?;
        let mut changes = self.changes.subscribe();
        loop {
            let progress = self.progress(environment, process).await?.ok_or(PlaceError::NoProcess)?;
            if progress != *seen {
                return Ok(progress);
            }
            changes.changed().await.map_err(|_| PlaceError::NoProcess)?;
        }
    }

    async fn read(
        &self,
        _environment: EnvironmentId,
        process: ProcessId,
        from: u64,
        _near: Option<Mark>,
        stream: Option<OutputStream>,
        at_most: usize,
    ) -> Result<Output, PlaceError> {
        let programs = self.programs();
        let program = programs.get(&process).ok_or(PlaceError::NoProcess)?;
        let mut output = Output { next: from, ..Output::default() };
        let mut room = at_most as u64;
        for frame in &program.frames {
            if room == 0 {
                break;
            }
            match frame {
                Frame::Gap { to, .. } if *to <= output.next => {}
                Frame::Gap { to, .. } => {
                    output.frames.push(Frame::Gap { from: output.next, to: *to });
                    output.next = *to;
                }
                Frame::Bytes { offset, bytes, .. } if offset + bytes.len() as u64 <= output.next => {}
                Frame::Bytes { stream: of, offset, at, bytes } => {
                    let skipped = output.next - offset;
                    let taken = (bytes.len() as u64 - skipped).min(room);
                    output.next += taken;
                    if stream.is_none_or(|wanted| wanted == *of) {
                        room -= taken;
                        let bytes = bytes[skipped as usize..(skipped + taken) as usize].to_vec();
                        output.frames.push(Frame::Bytes { stream: *of, offset: offset + skipped, at: *at, bytes });
                    }
                }
            }
        }
        Ok(output)
    }

    async fn write_stdin(
        &self,
        _environment: EnvironmentId,
        process: ProcessId,
        _warrant: Warrant,
        offset: u64,
        bytes: &[u8],
        end: bool,
    ) -> Result<u64, PlaceError> {
        let mut programs = self.programs();
        let program = programs.get_mut(&process).ok_or(PlaceError::NoProcess)?;
        let written = program.stdin.len() as u64;
        if offset > written {
            return Err(PlaceError::StdinOffset(written));
        }
        let new = bytes.get((written - offset) as usize..).unwrap_or_default().to_vec();
        if program.exit.is_some() {
            return Err(PlaceError::Over);
        }
        if !program.stdin_open && !new.is_empty() {
            return Err(PlaceError::StdinClosed);
        }
        program.stdin.extend_from_slice(&new);
        if program.argv[0] == "cat" {
            program.print(OutputStream::Stdout, &new);
        }
        if end {
            program.stdin_open = false;
            if program.argv[0] == "cat" {
                program.end_with(ExitCause::Exited, Some(0), None);
            }
        }
        let written = program.stdin.len() as u64;
        drop(programs);
        self.changed();
        Ok(written)
    }

    async fn signal(
        &self,
        _environment: EnvironmentId,
        process: ProcessId,
        _warrant: Option<Warrant>,
        signal: i32,
    ) -> Result<(), PlaceError> {
        let mut programs = self.programs();
        let program = programs.get_mut(&process).ok_or(PlaceError::NoProcess)?;
        if program.exit.is_some() {
            return Err(PlaceError::Over);
        }
        if matches!(signal, 2 | 9 | 15) {
            program.end_with(ExitCause::Signaled, None, Some(signal));
        }
        drop(programs);
        self.changed();
        Ok(())
    }

    async fn resize(
        &self,
        _environment: EnvironmentId,
        process: ProcessId,
        _warrant: Warrant,
        size: TerminalSize,
    ) -> Result<(), PlaceError> {
        let mut programs = self.programs();
        let program = programs.get_mut(&process).ok_or(PlaceError::NoProcess)?;
        program.size.as_mut().ok_or(PlaceError::NoTerminal).map(|known| *known = size)
    }

    async fn barrier(&self, barrier: &Barrier) -> Result<(), PlaceError> {
        for program in self.programs().values_mut().filter(|program| barrier.stop && barrier.environments.contains(&program.environment)) {
            program.end_with(ExitCause::Fenced, None, Some(9));
        }
        self.changed();
        Ok(())
    }

    async fn wake(&self, _environment: &Premises) -> Result<(), PlaceError> {
        Ok(())
    }

    async fn definition_changed(&self, environment: &Premises) -> Result<(), PlaceError> {
        self.told.lock().unwrap().push((environment.environment, environment.spec_version));
        Ok(())
    }

    async fn stored_output(&self) -> Result<Vec<(EnvironmentId, ProcessId, u64)>, PlaceError> {
        Ok(self.programs().iter().map(|(id, program)| (program.environment, *id, program.end)).collect())
    }

    async fn changes(
        &self,
        _environment: &Premises,
        below: Option<&RelativePath>,
        skip: u64,
        limit: usize,
    ) -> Result<Vec<FileChange>, PlaceError> {
        let held =
            |change: &FileChange| below.is_none_or(|below| below.holds(&RelativePath::parse("path", change.path.as_bytes()).unwrap()));
        Ok(self.beside.lock().unwrap().iter().filter(|change| held(change)).skip(skip as usize).take(limit).cloned().collect())
    }

    async fn keep_changes(&self, _environment: &Premises, paths: Option<&[RelativePath]>) -> Result<u64, PlaceError> {
        let mut beside = self.beside.lock().unwrap();
        let before = beside.len();
        beside.retain(|change| {
            let path = RelativePath::parse("path", change.path.as_bytes()).unwrap();
            paths.is_some_and(|paths| !paths.iter().any(|held| held.holds(&path)))
        });
        Ok((before - beside.len()) as u64)
    }

    async fn sleep(&self, environment: EnvironmentId, at_once: bool) -> Result<(), PlaceError> {
        let end = || {
            self.slept.lock().unwrap().push(environment);
            for program in self.programs().values_mut().filter(|program| program.environment == environment) {
                program.end_with(ExitCause::Signaled, None, Some(if at_once { 9 } else { 15 }));
            }
            self.changed();
            Ok(())
        };
        self.call(Call::Sleep, end).await
    }

    async fn activity(&self, environment: EnvironmentId) -> Result<Option<Activity>, PlaceError> {
        let programs = self.programs();
        let running = programs.values().filter(|program| program.environment == environment && program.exit.is_none()).count() as u64;
        Ok((running > 0).then_some(Activity { processes: running, ..Activity::default() }))
    }

    async fn running(&self) -> Result<Vec<(EnvironmentId, ProcessId)>, PlaceError> {
        let programs = self.programs();
        Ok(programs.iter().filter(|(_, program)| program.exit.is_none()).map(|(id, program)| (program.environment, *id)).collect())
    }

    async fn forget(&self, environment: EnvironmentId, process: Option<ProcessId>) -> Result<(), PlaceError> {
        let forget = || {
            self.programs().retain(|id, program| program.environment != environment || process.is_some_and(|process| process != *id));
            self.changed();
            Ok(())
        };
        self.call(Call::Forget, forget).await
    }
}
