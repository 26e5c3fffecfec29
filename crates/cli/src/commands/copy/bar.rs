//! How far a copy has come, where somebody sees it.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::invocation::Invocation;
use crate::printer::escape;

/// One of that many bytes, or without an end where that is not known.
pub fn bar(invocation: &Invocation<'_>, name: &str, size: Option<u64>) -> ProgressBar {
    if !invocation.printer.is_human() || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (template, bar) = match size {
        Some(size) => ("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}", ProgressBar::new(size)),
        None => ("{msg} {spinner} {bytes} {bytes_per_sec}", ProgressBar::no_length()),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(escape::line(name).into_owned());
    bar
}
