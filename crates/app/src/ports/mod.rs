//! Ports of an environment: what listens inside, where it is reached, and who may.

mod guests;
mod signature;

use stead_domain::environment::{Environment, RuntimeUrls};
use stead_domain::ids::{EnvironmentId, ProjectId};
use stead_domain::port_origin::PortName;
use stead_domain::ports::{self, EnvironmentPorts, NewSignedUrl, SignedUrl};
use stead_domain::{Code, Error, Result};
use stead_store::{environments, sandboxes};
use tokio::net::TcpStream;

pub use self::guests::{PortCredential, PortGuest};
use self::signature::Token;
use crate::audit::{Act, record};
use crate::idempotency::{self, Claim, Outcome};
use crate::patience::within;
use crate::processes::{Ground, check_usable};
use crate::{App, Entered};

/// What a signed URL carries its token in.
pub const TOKEN_PARAMETER: &str = "__stead_token";

impl App {
    /// What listens and what is declared. An environment that is asleep is not woken for it.
    pub async fn list_ports(&self, entered: &Entered, id: EnvironmentId) -> Result<EnvironmentPorts> {
        let (environment, ground) = self.read_for_ports(entered.project, id).await?;
        let found = match check_usable(&environment) {
            Ok(()) => within(ground.place()?.listening(&self.premises(&environment)?)).await?,
            // What cannot be used now has its declared ports all the same.
            Err(error) if environment.status.is_live() => {
                tracing::debug!(environment = %id, %error, "nothing can listen");
                None
            }
            Err(error) => return Err(error),
        };
        let url = |port| self.port_url(&environment, port);
        Ok(ports::combine(&environment.spec, found.is_some(), found.unwrap_or_default(), url))
    }

    /// A connection to what listens on a port inside. Nobody is woken by it.
    pub async fn connect_to_port(&self, project: ProjectId, id: EnvironmentId, port: u16) -> Result<TcpStream> {
        // Only until it is made: whoever puts the environment to sleep does not wait for those that are open.
        let _passing = self.gates.pass(id).await;
        let (environment, ground) = self.read_for_ports(project, id).await?;
        check_usable(&environment)?;
        let connected = within(ground.place()?.connect(&self.premises(&environment)?, port)).await;
        connected.map_err(|error| Error::from(error).detail("port", port))
    }

    /// A URL that reaches one port until it expires, for whoever has it.
    pub async fn sign_port_url(&self, entered: &Entered, id: EnvironmentId, port: u16, new: &NewSignedUrl) -> Result<Outcome<SignedUrl>> {
        let life = new.life()?;
        let environment = self.get_environment(entered, id).await?;
        check_usable(&environment)?;
        let origin = self.port_url(&environment, port).ok_or_else(|| {
            Error::new(Code::Conflict, "this server serves no ports of that environment")
                .suggestion("start the server that has the environment without `--ports-listen off`; `stead port forward` needs none of it")
        })?;
        // Whole seconds, as the token has them.
        let until = self.context.now().plus(life.into());
        let token = Token::new(until, &entered.caller)?;
        let expires_at = token.expires_at();
        let name = PortName { environment: id, port };
        let url = format!("{origin}/?{TOKEN_PARAMETER}={}", token.write(&*self.sealer, name)?);
        let signed = SignedUrl { url, expires_at };
        let (context, sealer, entered) = (self.context.clone(), self.sealer.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    match idempotency::claim(unit, &context, &*sealer, &entered.caller).await? {
                        Claim::Answered(reply) => return Ok(Outcome::Again(reply)),
                        // One that was made before is not told any more: another one does no harm.
                        Claim::New | Claim::Unfinished(_) => {}
                    }
                    let details = vec![("port", port.into()), ("expires_at", expires_at.to_string().into())];
                    let act = Act {
                        project: entered.project,
                        action: "environment.ports.sign_url",
                        target_type: "environment",
                        target_id: id.to_string(),
                        details,
                    };
                    record(unit, &context, &entered.caller, act).await?;
                    idempotency::answer_sealed(unit, &context, &*sealer, &entered.caller, 201, &signed).await?;
                    Ok(Outcome::New(signed))
                })
            })
            .await
    }

    /// Where a port of an environment is reached; none when this server serves none of it.
    fn port_url(&self, environment: &Environment, port: u16) -> Option<String> {
        let is_here = environment.runtime.host.is_none_or(|host| host == self.host);
        let origin = self.settings.ports.as_ref().filter(|_| is_here && environment.status.is_live())?;
        Some(origin.url(PortName { environment: environment.id, port }))
    }

    /// The record with what is known only here.
    pub(crate) fn dress(&self, mut environment: Environment) -> Environment {
        let primary = ports::primary(&environment.spec).and_then(|port| self.port_url(&environment, port));
        environment.runtime.urls = primary.map(|primary| RuntimeUrls { primary: Some(primary) });
        environment
    }

    async fn read_for_ports(&self, project: ProjectId, id: EnvironmentId) -> Result<(Environment, Ground)> {
        let (environment, sandbox) = self
            .store
            .glance(move |unit| {
                Box::pin(async move {
                    let environment = environments::find(unit, project, id).await?.ok_or_else(|| crate::environments::unknown(id))?;
                    let sandbox = sandboxes::find(unit, environment.sandbox_id).await?;
                    let sandbox = sandbox.ok_or_else(|| Error::internal(format!("environment {id} has no sandbox row")))?;
                    Ok::<_, Error>((environment, sandbox))
                })
            })
            .await?;
        if !environment.status.is_live() {
            check_usable(&environment)?;
        }
        let ground = self.ground(sandbox.provider, sandbox.host_id)?;
        Ok((environment, ground))
    }
}
