//! Who may come to a port from outside: a caller with a key, or whoever holds a signed URL.

use std::time::Duration;

use stead_domain::ids::{EnvironmentId, ProjectId};
use stead_domain::port_origin::PortName;
use stead_domain::principal::{Caller, Credential, Role};
use stead_domain::{Code, Error, Result};
use stead_store::{environments, settings};

use super::signature::Token;
use crate::identity::access::{Access, Admitted, Arrival, OPERATOR, Presented, Verdict, recheck};
use crate::{App, Entered};

/// What somebody brought who wants to reach a port.
#[derive(Clone, Debug)]
pub enum PortCredential {
    Key(String),
    /// Tokens of signed URLs; any good one suffices.
    Tokens(Vec<String>),
}

/// Somebody who may reach one port.
#[derive(Clone, Debug)]
pub struct PortGuest {
    pub project: ProjectId,
    caller: Caller,
    /// The token that was good, and for how long it still is.
    pub token: Option<(String, Duration)>,
}

impl App {
    /// Lets somebody to a port, or says why not. A port of nobody, or of a project that the caller may not see, is not there.
    pub async fn admit_to_port(
        &self,
        name: PortName,
        shown: PortCredential,
        arrival: Arrival,
    ) -> Result<(Option<stead_domain::ids::ApiKeyId>, Result<PortGuest>)> {
        match shown {
            PortCredential::Key(key) => {
                let id = name.environment;
                let project = self.project_of(id).await?;
                // Whoever asks for what is not there is told whether the key is good, and no more.
                let reference = project.map(|project| project.to_string()).unwrap_or_default();
                let verdict = self.judge(Access::Project(Role::Member), Presented::Key(key), Some(reference), arrival).await?;
                let Verdict { key, outcome } = verdict;
                let guest = match outcome {
                    Ok(Admitted::Entered(Entered { caller, project, .. })) => Ok(PortGuest { project, caller, token: None }),
                    Ok(_) => Err(Error::internal("the door let somebody into no project")),
                    Err(error) if error.code() == Code::NotFound => Err(crate::environments::unknown(id)),
                    Err(error) => Err(error),
                };
                Ok((key, guest))
            }
            PortCredential::Tokens(texts) => Ok((None, self.admit_token(name, texts, arrival).await)),
        }
    }

    async fn admit_token(&self, name: PortName, texts: Vec<String>, arrival: Arrival) -> Result<PortGuest> {
        let now = self.context.now();
        let mut refusal = "the signed URL is not one of this port";
        for text in texts {
            let Some(token) = Token::read(&*self.sealer, name, &text) else { continue };
            if token.is_over(now) {
                refusal = "the signed URL has expired";
                continue;
            }
            // Signed here, so there was such an environment.
            let project = self.project_of(name.environment).await?.ok_or_else(|| crate::environments::unknown(name.environment))?;
            let credential = match token.key {
                Some(id) => Credential::Key { id, project: None },
                None => Credential::Socket,
            };
            let caller = Caller {
                principal: token.principal,
                credential,
                operator: false,
                source: arrival.source,
                request_id: arrival.request_id,
                let_into: Some((project, Role::Member)),
                idempotency: None,
                lease: None,
                lease_ended: None,
                github: None,
            };
            let left = token.left(now);
            let guest = PortGuest { project, caller: self.as_operator(caller).await?, token: Some((text, left)) };
            return self.may_still_reach(&guest).await.map(|()| guest);
        }
        Err(Error::new(Code::Unauthorized, refusal).suggestion("ask for another one: `stead port url ENVIRONMENT PORT` makes one"))
    }

    /// Asks again whether somebody may still reach a port: connections stay open for long.
    pub async fn may_still_reach(&self, guest: &PortGuest) -> Result<()> {
        let (caller, now) = (guest.caller.clone(), self.context.now());
        let checked: Result<()> = self.store.glance(move |unit| Box::pin(async move { recheck(unit, &caller, now).await })).await;
        checked.map_err(|error| match error.code() {
            Code::Unauthorized | Code::Forbidden if guest.token.is_some() => {
                Error::new(Code::Unauthorized, "the signed URL is no longer good: whoever made it may not reach the port any more")
                    .suggestion("ask for another one: `stead port url ENVIRONMENT PORT` makes one")
            }
            _ => error,
        })
    }

    /// Who made it is the operator, and belongs to every project.
    async fn as_operator(&self, caller: Caller) -> Result<Caller> {
        let operator = self.store.glance(move |unit| Box::pin(async move { Ok::<_, Error>(settings::get(unit, OPERATOR).await?) })).await?;
        Ok(Caller { operator: operator.is_some_and(|id| id == caller.principal.to_string()), ..caller })
    }

    async fn project_of(&self, id: EnvironmentId) -> Result<Option<ProjectId>> {
        let found = self.store.glance(move |unit| Box::pin(async move { Ok::<_, Error>(environments::find_any(unit, id).await?) })).await?;
        Ok(found.filter(|environment| environment.status.is_live()).map(|environment| environment.project_id))
    }
}
