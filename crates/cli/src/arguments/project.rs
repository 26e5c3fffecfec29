//! `stead project …`.

use clap::{Args, Subcommand};
use stead_domain::principal::{PrincipalKind, Role};

use super::lists::ListArguments;
use super::words::one_of;
use crate::completion;

#[derive(Subcommand, Debug)]
pub enum ProjectCommand {
    /// List projects
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Make a project
    Create(Create),
    /// Use a project from now on
    Select(Handle),
    /// Delete a project with its environments and secrets
    #[command(visible_alias = "rm")]
    Delete(Delete),
    /// Who belongs to the project
    #[command(subcommand, alias = "member")]
    Members(MembersCommand),
}

#[derive(Args, Debug)]
pub struct Handle {
    /// The project's handle
    #[arg(add = completion::projects())]
    pub handle: String,
}

#[derive(Args, Debug)]
pub struct Create {
    /// Lower-case letters and digits, in groups joined by dashes
    pub handle: String,
    /// A name for people
    #[arg(long)]
    pub name: Option<String>,
}

#[derive(Args, Debug)]
pub struct Delete {
    #[command(flatten)]
    pub project: Handle,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Subcommand, Debug)]
pub enum MembersCommand {
    /// List members
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Admit somebody new by name, or a principal that exists by its id
    Add(AddMember),
    /// Take somebody out of the project
    #[command(visible_alias = "rm", alias = "delete")]
    Remove(RemoveMember),
    /// Give a member another role
    Role(SetRole),
}

#[derive(Args, Debug)]
pub struct AddMember {
    /// A name, or an id of the form prn_…
    pub member: String,
    /// What kind of thing it is
    #[arg(long, value_name = "KIND", default_value = "user", value_parser = one_of!(PrincipalKind))]
    pub kind: PrincipalKind,
    /// What it may do: a viewer reads, a member also writes, an owner also deletes and admits
    #[arg(long, value_name = "ROLE", default_value = "member", value_parser = one_of!(Role))]
    pub role: Role,
}

#[derive(Args, Debug)]
pub struct RemoveMember {
    /// A name, an id, or a prefix of either that fits only one
    pub member: String,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct SetRole {
    /// A name, an id, or a prefix of either that fits only one
    pub member: String,
    /// The new role
    #[arg(value_parser = one_of!(Role))]
    pub role: Role,
}
