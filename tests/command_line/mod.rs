//! The command line as a user meets it: what is on stdout, what is on stderr, and how the command ends.

pub mod desk;

mod archives;
mod backups;
mod care;
mod copy;
mod environments;
mod files;
mod help;
mod http;
mod keys;
mod leases;
mod local_server;
mod output;
mod pipes;
mod profiles;
mod projects;
mod providers;
mod references;
mod restarts;
mod run;
mod running;
mod secrets;
mod terminal;
mod upgrades;
