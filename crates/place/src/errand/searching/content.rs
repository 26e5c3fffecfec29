//! By content.

use std::fs::OpenOptions;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use ignore::WalkState;
use stead_domain::files::{FilePath, FileProblem, FileWord, GrepLine, GrepOrder};

use super::lines::{Kind, Line, LineWriter};
use super::outlet::Outlet;
use super::{Globs, named, walk};
use crate::errand::reading::open;
use crate::errand::voice::{PIECE, Voice};
use crate::tree::trouble::{At, Result, failure};

/// What one line may take in memory; files with longer ones are skipped.
const HEAP: usize = 64 << 20;
/// What a pattern may take in memory.
const PATTERN: usize = 16 << 20;

pub fn grep(order: &GrepOrder, voice: &mut Voice) -> Result<FileWord> {
    let start = &order.path;
    let wrong = |error: grep_regex::Error| failure(start, FileProblem::Pattern, error);
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(order.ignore_case).fixed_strings(order.fixed).line_terminator(Some(b'\n'));
    let matcher = builder.size_limit(PATTERN).dfa_size_limit(PATTERN).build(&order.pattern).map_err(wrong)?;
    let globs = Globs::new(order.globs.iter().map(String::as_str), false)?;
    std::fs::metadata(crate::tree::trouble::as_path(start)).at(start)?;
    voice.say(&FileWord::Begun, &[]).at(start)?;
    let found = Found {
        outlet: Outlet::new(voice),
        limit: order.limit,
        matches: AtomicU64::new(0),
        files: AtomicU64::new(0),
        skipped: AtomicU64::new(0),
        truncated: AtomicBool::new(false),
    };
    let context = usize::try_from(order.context).unwrap_or(0);
    walk(start, order.all, |met| {
        if !met.file_type().is_some_and(|kind| kind.is_file()) || !(globs.is_empty() || globs.fit(start, met)) {
            return WalkState::Continue;
        }
        OWN.with_borrow_mut(|own| {
            let own = own.get_or_insert_with(|| Own { searcher: searcher_with(context), matcher: matcher.clone(), buffer: Vec::new() });
            found.search(own, named(start, met), &FilePath::found(path_bytes(met)))
        })
    })?;
    let end = GrepLine::End {
        matches: found.matches.into_inner().min(order.limit),
        files: found.files.into_inner(),
        skipped: found.skipped.into_inner(),
        truncated: found.truncated.into_inner(),
    };
    let mut last = serde_json::to_vec(&end).map_err(io::Error::from).at(start)?;
    last.push(b'\n');
    found.outlet.end(&last).at(start)?;
    Ok(FileWord::Done { size: 0, more: false, count: 0 })
}

/// What each thread has for itself: buffers are large, and those who share a matcher wait for each other.
struct Own {
    searcher: Searcher,
    matcher: RegexMatcher,
    buffer: Vec<u8>,
}

thread_local! {
    static OWN: std::cell::RefCell<Option<Own>> = const { std::cell::RefCell::new(None) };
}

fn searcher_with(context: usize) -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP))
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .build()
}

fn path_bytes(met: &ignore::DirEntry) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(met.path().as_os_str())
}

struct Found<'v> {
    outlet: Outlet<'v>,
    limit: u64,
    matches: AtomicU64,
    files: AtomicU64,
    skipped: AtomicU64,
    truncated: AtomicBool,
}

impl Found<'_> {
    fn search(&self, own: &mut Own, shown: FilePath, path: &FilePath) -> WalkState {
        if self.truncated.load(Ordering::Relaxed) {
            return WalkState::Quit;
        }
        let Own { searcher, matcher, buffer } = own;
        buffer.clear();
        let mut lines =
            Lines { found: self, matcher, writer: LineWriter::new(shown), ranges: Vec::new(), buffer, matched: false, gone: false };
        let searched = match open(path, OpenOptions::new().read(true)) {
            Ok((file, _)) => searcher.search_file(&*matcher, &file, &mut lines),
            Err(_) => Err(io::ErrorKind::NotFound.into()),
        };
        let sent = lines.flush();
        if lines.matched {
            self.files.fetch_add(1, Ordering::Relaxed);
        }
        if lines.gone || sent.is_err() {
            return WalkState::Quit;
        }
        if searched.is_err() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
        WalkState::Continue
    }
}

/// What is found in one file.
struct Lines<'f, 'v> {
    found: &'f Found<'v>,
    matcher: &'f RegexMatcher,
    writer: LineWriter,
    ranges: Vec<[u64; 2]>,
    /// Empty for each file.
    buffer: &'f mut Vec<u8>,
    matched: bool,
    gone: bool,
}

impl Lines<'_, '_> {
    fn line(&mut self, number: Option<u64>, offset: u64, bytes: &[u8], kind: Kind) -> io::Result<()> {
        let line = Line::new(number.unwrap_or(0), offset, bytes);
        self.ranges.clear();
        if kind == Kind::Match {
            let searched = self.matcher.find_iter(line.shown, |found| {
                self.ranges.push([found.start() as u64, found.end() as u64]);
                true
            });
            searched.map_err(io::Error::other)?;
        }
        self.writer.write(self.buffer, kind, &line, &self.ranges)?;
        if self.buffer.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    /// Whole lines, without those of another file in between.
    fn flush(&mut self) -> io::Result<()> {
        self.found.outlet.put(self.buffer).inspect_err(|_| self.gone = true)?;
        self.buffer.clear();
        Ok(())
    }
}

impl Sink for Lines<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found.matches.fetch_add(1, Ordering::Relaxed) >= self.found.limit {
            self.found.truncated.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        self.matched = true;
        self.line(found.line_number(), found.absolute_byte_offset(), found.bytes(), Kind::Match)?;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.line(found.line_number(), found.absolute_byte_offset(), found.bytes(), Kind::Context)?;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        // What is no text has no lines; those before its first NUL were an accident.
        if finish.binary_byte_offset().is_some() {
            self.buffer.clear();
            self.matched = false;
        }
        Ok(())
    }
}
