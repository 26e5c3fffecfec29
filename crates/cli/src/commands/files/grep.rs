use std::collections::HashSet;

use stead_domain::files::{GrepLine, GrepOrder, LineFound};

use super::inside;
use crate::arguments::files::Grep;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::printer::{Printer, escape};
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Grep) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let order = GrepOrder {
        path: inside(&arguments.path)?,
        pattern: arguments.pattern.clone(),
        fixed: arguments.fixed,
        ignore_case: arguments.ignore_case,
        globs: arguments.globs.clone(),
        all: arguments.all,
        context: arguments.context,
        limit: arguments.limit,
    };
    let printer = invocation.printer;
    let mut search = client.grep_files(environment.id, &order).await?;
    let mut told = HashSet::new();
    while let Some(line) = search.next().await? {
        if printer.is_json() {
            printer.json_line(&line)?;
        }
        match line {
            GrepLine::Match(found) if printer.is_human() => show(printer, &found, ':')?,
            GrepLine::Context(found) if printer.is_human() => show(printer, &found, '-')?,
            GrepLine::Match(found) if !printer.is_json() => {
                let path = found.exact_path();
                if !told.contains(&path) {
                    printer.name(&path)?;
                    told.insert(path);
                }
            }
            GrepLine::Match(_) | GrepLine::Context(_) => {}
            GrepLine::End { matches, skipped, truncated, .. } => {
                if truncated {
                    printer.hint("there is more: raise --limit, or say more with the pattern");
                }
                if skipped > 0 {
                    printer.hint(&format!("{skipped} of the files could not be read"));
                }
                if matches == 0 {
                    return Err(Failure::Told(ExitStatus::Failed));
                }
            }
        }
    }
    Ok(())
}

/// As every such program prints it.
fn show(printer: &Printer, found: &LineFound, mark: char) -> Result<()> {
    let rest = if found.cut { "…" } else { "" };
    let number = found.line_number;
    printer.styled(&format!("{}{mark}{number}{mark}{}{rest}", escape::line(&found.path), escape::line(&found.text).replace("\\t", "\t")))
}
