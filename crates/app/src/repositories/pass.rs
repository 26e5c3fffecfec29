//! What git inside shows to be given a credential: which environment it runs in and by what right, signed. It opens nothing else, and is worth
//! nothing once somebody else holds the environment.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use stead_domain::ids::{EnvironmentId, LeaseId};
use stead_domain::repository::{GitCredential, GitCredentialRequest, GitOperation, without_suffix};
use stead_domain::{Code, Error, Result};

use super::not_configured;
use crate::App;
use crate::place::Warrant;

/// The variable that it stands in.
pub(crate) const VARIABLE: &str = "STEAD_GIT_PASS";
/// Where a place has what git asks, beside the socket that leads here.
pub const DIRECTORY: &str = "/run/stead/git";
/// How the program is called there.
pub const PROGRAM: &str = "git-credential-stead";
/// How the socket is called there.
pub const SOCKET: &str = "socket";

const ID: usize = 16;
const CONTENT: usize = ID + 1 + ID + 8;

impl App {
    /// For what is started in an environment under a warrant.
    pub(crate) fn git_pass(&self, environment: EnvironmentId, warrant: Warrant) -> Result<String> {
        let mut content = Vec::with_capacity(CONTENT + 32);
        content.extend(environment.as_bytes());
        content.push(u8::from(warrant.lease.is_some()));
        content.extend(warrant.lease.map_or([0; ID], |lease| *lease.as_bytes()));
        content.extend(warrant.fence.to_be_bytes());
        let signature = self.sealer.sign(&signed(&content))?;
        content.extend(signature);
        Ok(URL_SAFE_NO_PAD.encode(content))
    }

    /// How git inside is told whom to ask.
    pub(crate) fn git_variables(&self) -> Vec<(String, String)> {
        let Some(host) = self.git_host() else { return Vec::new() };
        let (web, program) = (host.web(), format!("{DIRECTORY}/{PROGRAM}"));
        // The first makes git forget whom it would have asked otherwise: a helper of the host's, or of an image's.
        let settings = [("helper", ""), ("helper", &program), ("useHttpPath", "true")];
        let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
        for (at, (name, value)) in settings.iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{at}"), format!("credential.{web}.{name}")));
            variables.push((format!("GIT_CONFIG_VALUE_{at}"), (*value).to_owned()));
        }
        variables
    }

    /// A credential for whoever shows a pass. Git does not say whether it means to push, so it may.
    pub async fn git_credential_by_pass(&self, pass: &str, scheme: &str, host: &str, path: &str) -> Result<GitCredential> {
        let (environment, warrant) = self.read_pass(pass)?;
        let web = self.git_host().ok_or_else(not_configured)?.web();
        let asked = format!("{scheme}://{host}");
        let inside = path.trim_start_matches('/');
        let Some(name) =
            web.strip_prefix(&asked).and_then(|base| format!("/{inside}").strip_prefix(&format!("{base}/")).map(str::to_owned))
        else {
            return Err(Error::new(Code::RepositoryNotAllowed, format!("`{asked}/{inside}` is not below {web}"))
                .suggestion(format!("only repositories of {web} have credentials here")));
        };
        let request = GitCredentialRequest { repo_full_name: without_suffix(&name).to_owned(), operation: GitOperation::Push };
        self.git_credential_inside(environment, warrant, request).await
    }

    fn read_pass(&self, pass: &str) -> Result<(EnvironmentId, Warrant)> {
        let refused = || {
            Error::new(Code::Unauthorized, "what was shown is no pass of this server's")
                .suggestion(format!("git inside an environment finds its own in {VARIABLE}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(pass).map_err(|_| refused())?;
        let (content, signature) = bytes.split_at_checked(CONTENT).ok_or_else(refused)?;
        if !self.sealer.is_signed(&signed(content), signature) {
            return Err(refused());
        }
        let id = |at: usize| -> Option<[u8; ID]> { content[at..at + ID].try_into().ok() };
        let fence = content[CONTENT - 8..].try_into().map(u64::from_be_bytes).map_err(|_| refused())?;
        let lease = if content[ID] == 1 { Some(LeaseId::from_bytes(id(ID + 1).ok_or_else(refused)?)) } else { None };
        Ok((EnvironmentId::from_bytes(id(0).ok_or_else(refused)?), Warrant { fence, lease }))
    }
}

/// What is signed says what it is for.
fn signed(content: &[u8]) -> Vec<u8> {
    [b"git pass, version 1/", content].concat()
}
