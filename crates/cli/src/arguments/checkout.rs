//! `stead env checkout`.

use clap::Args;
use stead_domain::checkout::OnChanges;

use super::environment::Reference;
use super::words::one_of;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  stead env checkout web
  stead env checkout web acme/lib --ref release-2
  stead env checkout web --commit 8a54f0cdb0a5a1dcb0c7e0f6c6c1e2b3d4e5f607

The commit that is there afterwards is printed; progress goes to stderr. A repository lands in a directory of its name below the workspace.")]
pub struct Checkout {
    #[command(flatten)]
    pub reference: Reference,
    /// One that the definition allows; its default one when none is named
    #[arg(value_name = "OWNER/NAME")]
    pub repository: Option<String>,
    /// A branch, or a full name such as refs/tags/v1; the default branch when none is named
    #[arg(long = "ref", value_name = "REF")]
    pub git_reference: Option<String>,
    /// The exact commit, in full
    #[arg(long, value_name = "COMMIT")]
    pub commit: Option<String>,
    /// Where, below the workspace; `.` is the workspace itself
    #[arg(long = "directory", value_name = "PATH")]
    pub directory: Option<String>,
    /// With its submodules, also when the definition does not say so
    #[arg(long)]
    pub submodules: bool,
    /// Fetch what files hold only when it is needed
    #[arg(long)]
    pub partial: bool,
    /// What becomes of changes that are there [default: fail]
    #[arg(long, value_name = "WHAT", value_parser = one_of!(OnChanges))]
    pub on_changes: Option<OnChanges>,
}
