//! `stead sandbox …` and `stead provider …`.

use clap::{Args, Subcommand};
use stead_domain::provider::ProviderName;

use super::lists::ListArguments;
use super::words::one_of;

#[derive(Subcommand, Debug)]
pub enum SandboxCommand {
    /// List sandboxes
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show one sandbox
    View(SandboxReference),
    /// Make a sandbox that environments can share
    Create(CreateSandbox),
    /// Delete a sandbox that no environment uses
    #[command(visible_alias = "rm")]
    Delete(DeleteSandbox),
}

#[derive(Args, Debug)]
pub struct SandboxReference {
    /// An id, or a prefix that fits only one
    pub sandbox: String,
}

#[derive(Args, Debug)]
pub struct CreateSandbox {
    /// Who makes it
    #[arg(long, value_name = "PROVIDER", value_parser = one_of!(ProviderName))]
    pub provider: Option<ProviderName>,
}

#[derive(Args, Debug)]
pub struct DeleteSandbox {
    #[command(flatten)]
    pub reference: SandboxReference,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Subcommand, Debug)]
pub enum ProviderCommand {
    /// List providers and whether they can be used
    #[command(visible_alias = "ls")]
    List,
    /// Ask a provider whether it works
    Check(CheckProvider),
}

#[derive(Args, Debug)]
pub struct CheckProvider {
    /// The provider
    #[arg(value_parser = one_of!(ProviderName))]
    pub name: ProviderName,
}
