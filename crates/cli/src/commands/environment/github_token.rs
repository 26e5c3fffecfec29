//! A token of the caller's own at GitHub, by which it shows a server what it may use there. It goes to the server that is talked to, so it is
//! sent only where it was asked for: a definition in a checkout never has it sent.

use stead_domain::secret::SecretValue;
use stead_domain::{Code, Error};

use crate::arguments::github::TokenSource;
use crate::failure::Result;
use crate::invocation::Invocation;

/// The token of the source that was named; without one that of the environment where an installation is named on the command line.
pub async fn of(invocation: &Invocation<'_>, source: Option<TokenSource>, names_installation: bool) -> Result<Option<SecretValue>> {
    match source {
        None if names_installation => Ok(of_environment()),
        None => Ok(None),
        Some(TokenSource::Environment) => {
            let missing = || {
                Error::new(Code::Usage, "neither GH_TOKEN nor GITHUB_TOKEN is set")
                    .suggestion("set one to a token of your own, or say `--github-token gh`")
            };
            Ok(Some(of_environment().ok_or_else(missing)?))
        }
        Some(TokenSource::Gh) => {
            invocation.printer.note("asking gh for a token");
            Ok(Some(of_gh().await?))
        }
    }
}

/// In the order in which gh itself reads them.
fn of_environment() -> Option<SecretValue> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    variable("GH_TOKEN").or_else(|| variable("GITHUB_TOKEN")).map(|text| SecretValue::new(text.trim().as_bytes().to_vec()))
}

async fn of_gh() -> Result<SecretValue> {
    let failed = |why: String| Error::new(Code::LocalFile, format!("gh gave no token: {why}")).suggestion("sign in with `gh auth login`");
    let asked = tokio::task::spawn_blocking(|| std::process::Command::new("gh").args(["auth", "token"]).output());
    let output = asked.await.map_err(Error::internal)?.map_err(|error| failed(error.to_string()))?;
    let token = output.stdout.trim_ascii().to_vec();
    if !output.status.success() || token.is_empty() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().chars().take(200).collect()).into());
    }
    Ok(SecretValue::new(token))
}
