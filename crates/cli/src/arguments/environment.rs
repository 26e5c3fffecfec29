//! `stead env …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stead_domain::definition::{Mount, NetworkAccess};
use stead_domain::environment::{EnvironmentStatus, Purpose, TemplateId};
use stead_domain::provider::ProviderName;

use super::changes::{Changes, Drop, Keep, Setup};
use super::checkout::Checkout;
use super::egress::Egress;
use super::github::TokenSource;
use super::lists::ListArguments;
use super::secret::{BindSecret, UnbindSecret};
use super::words::{mount, one_of, pair};
use crate::completion;

#[derive(Subcommand, Debug)]
pub enum EnvironmentCommand {
    /// List environments
    #[command(visible_alias = "ls")]
    List(List),
    /// Show one environment
    #[command(aliases = ["show", "get"])]
    View(Reference),
    /// Make an environment
    Create(Create),
    /// Change an environment
    Update(Update),
    /// Delete an environment and the sandbox that was made for it
    #[command(visible_alias = "rm")]
    Delete(Delete),
    /// Show the versions of an environment's definition
    History(History),
    /// Make an earlier version of the definition the present one
    Rollback(Rollback),
    /// Create or update environments from definition files
    Apply(Apply),
    /// Print an environment's definition as a file, or carry all of it away in an archive
    Export(Export),
    /// Make an environment out of an archive
    Import(Import),
    /// Make it ready for a command without one
    Wake(Reference),
    /// Leave nothing of it but its files; it wakes for the next command
    Sleep(Sleep),
    /// End everything that runs in it, and let it sleep
    Stop(Reference),
    /// Show what its definition declares, and how far that is enforced
    Posture(Reference),
    /// Run the definition's setup script
    Setup(Setup),
    /// Put a repository into it, at one commit
    Checkout(Checkout),
    /// Show what was written beside the workspace
    Changes(Changes),
    /// Carry what was written beside the workspace into it
    Keep(Keep),
    /// Throw away what was written beside the workspace
    Drop(Drop),
    /// Show what left it, or wanted to
    Egress(Egress),
    /// Let it use a secret, by name
    BindSecret(BindSecret),
    /// Let it use a secret no more
    UnbindSecret(UnbindSecret),
    /// Ask the provider how the sandbox is, and mend the record
    Reconcile(Reference),
}

#[derive(Args, Debug)]
pub struct Reference {
    /// A name, an id, or a prefix of either that fits only one
    #[arg(value_name = "ENVIRONMENT", add = completion::environments())]
    pub environment: String,
}

#[derive(Args, Debug)]
pub struct Sleep {
    #[command(flatten)]
    pub reference: Reference,
    /// Also end what runs in it
    #[arg(long)]
    pub force: bool,
}

#[derive(Args, Debug)]
pub struct List {
    /// Only those of this provider
    #[arg(long, value_name = "PROVIDER", value_parser = one_of!(ProviderName))]
    pub provider: Option<ProviderName>,
    /// Only those in this state
    #[arg(long, value_name = "STATUS", value_parser = one_of!(EnvironmentStatus))]
    pub status: Option<EnvironmentStatus>,
    /// Only those for this purpose
    #[arg(long, value_name = "PURPOSE", value_parser = one_of!(Purpose))]
    pub purpose: Option<Purpose>,
    /// Also the records of deleted ones
    #[arg(long)]
    pub include_destroyed: bool,
    #[command(flatten)]
    pub list: ListArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env create web --repo acme/web --secret OPENAI_API_KEY
  stead env create review --template coding-default --purpose review --tag team=core
  stead env create quiet --network disabled --allow-unenforced
  stead env create api --network allowlist --allow-host api.github.com --allow-unenforced
  stead env create big --spec big.json

Without --spec, a definition file .stead/environments/NAME.json here or above is used when there is one.")]
pub struct Create {
    /// The name, unique in the project
    pub name: String,
    /// Who makes the sandbox
    #[arg(long, value_name = "PROVIDER", value_parser = one_of!(ProviderName))]
    pub provider: Option<ProviderName>,
    /// The built-in definition that what is left out is taken from
    #[arg(long, value_name = "TEMPLATE", value_parser = one_of!(TemplateId))]
    pub template: Option<TemplateId>,
    /// What it is for
    #[arg(long, value_name = "PURPOSE", value_parser = one_of!(Purpose))]
    pub purpose: Option<Purpose>,
    /// A JSON file with the definition, whole or in part; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// A label
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = pair)]
    pub tags: Vec<(String, String)>,
    /// A repository that may be used in it; the first is the default
    #[arg(long = "repo", value_name = "OWNER/NAME")]
    pub repositories: Vec<String>,
    /// Put the default repository into it at once
    #[arg(long)]
    pub checkout: bool,
    /// The installation of the server's GitHub App that tokens for the repositories are made by; GH_TOKEN or GITHUB_TOKEN is sent along, if it is set
    #[arg(long, value_name = "ID")]
    pub github_installation: Option<u64>,
    /// Show by a token of your own that you may use the installation: `env` takes that of GH_TOKEN or GITHUB_TOKEN, `gh` asks `gh auth token`
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub github_token: Option<TokenSource>,
    /// The name of a secret that must be there
    #[arg(long = "secret", value_name = "NAME")]
    pub secrets: Vec<String>,
    /// The name of a secret that is used when it is there
    #[arg(long = "optional-secret", value_name = "NAME")]
    pub optional_secrets: Vec<String>,
    /// What of the network it reaches
    #[arg(long, value_name = "ACCESS", value_parser = one_of!(NetworkAccess))]
    pub network: Option<NetworkAccess>,
    /// A host that it reaches with `--network allowlist`: host, host:port or *.suffix
    #[arg(long = "allow-host", value_name = "HOST")]
    pub allowed_hosts: Vec<String>,
    /// A directory of the host, seen inside at that path, read-only unless rw is said
    #[arg(long = "mount", value_name = "host:DIR:PATH[:ro|rw]", value_parser = mount)]
    pub mounts: Vec<Mount>,
    /// Accept a posture that the provider does not enforce
    #[arg(long)]
    pub allow_unenforced: bool,
    /// Use a sandbox that is there already
    #[arg(long, value_name = "SANDBOX")]
    pub sandbox: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env update web --set sandbox.network_access=disabled
  stead env update web --set sandbox.resources.memory_mb=4096 --set setup=null
  stead env update web --name site --tag team=core
  stead env update web --mount host:/opt/tool:/opt/tool:ro

A value is JSON where it can be read as JSON, and text otherwise; null takes the template's value again.")]
pub struct Update {
    #[command(flatten)]
    pub reference: Reference,
    /// Another name
    #[arg(long)]
    pub name: Option<String>,
    /// Another purpose
    #[arg(long, value_name = "PURPOSE", value_parser = one_of!(Purpose))]
    pub purpose: Option<Purpose>,
    /// Labels that replace those it has
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = pair)]
    pub tags: Vec<(String, String)>,
    /// A JSON merge patch of the definition; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// A directory of the host, seen inside at that path, read-only unless rw is said; besides those that are there
    #[arg(long = "mount", value_name = "host:DIR:PATH[:ro|rw]", value_parser = mount)]
    pub mounts: Vec<Mount>,
    /// The installation of the server's GitHub App that tokens for the repositories are made by; GH_TOKEN or GITHUB_TOKEN is sent along, if it is set
    #[arg(long, value_name = "ID")]
    pub github_installation: Option<u64>,
    /// Show by a token of your own that you may use the installation: `env` takes that of GH_TOKEN or GITHUB_TOKEN, `gh` asks `gh auth token`
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub github_token: Option<TokenSource>,
    /// One field of the definition
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// Accept a posture that the provider does not enforce
    #[arg(long)]
    pub allow_unenforced: bool,
}

#[derive(Args, Debug)]
pub struct Delete {
    /// Names, ids or prefixes that fit only one
    #[arg(value_name = "ENVIRONMENT", required = true, add = completion::environments())]
    pub environments: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct History {
    #[command(flatten)]
    pub reference: Reference,
    /// What changed between two versions
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub diff: Option<Vec<u64>>,
    #[command(flatten)]
    pub list: ListArguments,
}

#[derive(Args, Debug)]
pub struct Rollback {
    #[command(flatten)]
    pub reference: Reference,
    /// The version to go back to, as `history` shows it
    pub version: u64,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env apply -f .stead/environments/web.json
  stead env apply -f .stead/environments
  stead env apply -f .

Every file is read and checked before the first is applied. One that then fails keeps none of the others from being applied.")]
pub struct Apply {
    /// A definition file, or a directory of them
    #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
    pub files: Vec<PathBuf>,
    /// Show by a token of your own that you may use the installation: `env` takes that of GH_TOKEN or GITHUB_TOKEN, `gh` asks `gh auth token`
    #[arg(long, value_name = "SOURCE", value_enum)]
    pub github_token: Option<TokenSource>,
    /// Accept a posture that the provider does not enforce
    #[arg(long)]
    pub allow_unenforced: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env export web                                      the definition
  stead env export web --archive web.tar                    definition, files and checkpoints
  stead env export web --archive - | zstd > web.tar.zst
  stead env export web --archive - | ssh host stead env import --archive -

For an archive, what is there now is sealed first, as a checkpoint of its own. Neither secrets nor processes nor what they printed are in \
it, nor what lies in the runtime directory.")]
pub struct Export {
    #[command(flatten)]
    pub reference: Reference,
    /// Write to a new file instead of stdout
    #[arg(short, long, value_name = "FILE", conflicts_with = "archive")]
    pub output: Option<PathBuf>,
    /// Everything, with files and checkpoints, into a new file; `-` for stdout
    #[arg(long, value_name = "FILE")]
    pub archive: Option<PathBuf>,
    /// For an archive, end what runs in it
    #[arg(long, requires = "archive")]
    pub stop: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env import --archive web.tar
  stead env import --archive web.tar --name web-2
  zstd -dc web.tar.zst | stead env import --archive -

The environment has the definition, the files and the checkpoints of the one that was exported, and an identity of its own. An archive is \
trusted with nothing: its definition must be one that could be created here, and directories of this host are mounted only where the \
operator allowed it, or with --allow-mounts.")]
pub struct Import {
    /// What `env export --archive` wrote; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub archive: PathBuf,
    /// Another name than the one in the archive
    #[arg(long)]
    pub name: Option<String>,
    /// Accept a posture that the provider does not enforce
    #[arg(long)]
    pub allow_unenforced: bool,
    /// Mount what the definition names of your own directories
    #[arg(long)]
    pub allow_mounts: bool,
}
