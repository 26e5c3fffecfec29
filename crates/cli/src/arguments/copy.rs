//! `stead cp`.

use std::ffi::OsString;

use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead cp notes.txt web:                     into the workspace
  stead cp src web:                           a directory, as web:src
  stead cp src/. web:app                      what a directory holds
  stead cp web:build/app.tar.gz .
  stead cp web:/var/log logs
  stead cp web:data other:data

ENVIRONMENT:PATH is in an environment, anything else here; write ./a:b for a file here whose name has a colon. Directories are copied with \
everything in them, links as links. Into a directory that is there, or a name that ends with `/`, the copy goes under its own name; else it \
gets the name that was given, and directories that are missing are made. A file takes the place of one that is there, in one step.

A connection that breaks, or a server that restarts, is waited for. A large file goes on where it was, also when the command itself was \
ended and is given again.")]
pub struct Cp {
    /// What is copied: a path here, or ENVIRONMENT:PATH
    #[arg(value_name = "FROM")]
    pub from: OsString,
    /// Where to: a path here, or ENVIRONMENT:PATH
    #[arg(value_name = "TO")]
    pub to: OsString,
}
