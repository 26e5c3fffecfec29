//! Ports of an environment of the client's project.

use stead_domain::ids::EnvironmentId;
use stead_domain::ports::{EnvironmentPorts, NewSignedUrl, SignedUrl};

use crate::{Client, Request, Result, Tunnel};

impl Client {
    pub async fn list_ports(&self, environment: EnvironmentId) -> Result<EnvironmentPorts> {
        self.json(Request::get(self.environment_path(environment, "/ports"))).await
    }

    pub async fn sign_port_url(&self, environment: EnvironmentId, port: u16, new: &NewSignedUrl) -> Result<SignedUrl> {
        self.json(Request::post(self.environment_path(environment, &format!("/ports/{port}/signed-url"))).json(new)?).await
    }

    /// A connection to what listens on a port inside.
    pub async fn tunnel(&self, environment: EnvironmentId, port: u16) -> Result<Tunnel> {
        let request = Request::get(self.environment_path(environment, &format!("/ports/{port}/tunnel")));
        let request = request.header("connection", "upgrade")?.header("upgrade", "stead-tcp")?;
        Ok(Tunnel::new(self.become_something_else(&request).await?))
    }
}
