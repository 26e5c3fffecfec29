//! The providers that Stead knows by name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::posture::Capabilities;

text_enum! {
    /// Who makes the sandbox.
    pub enum ProviderName {
        Local = "local",
        Worker = "worker",
        Sprites = "sprites" | "sprite",
        Daytona = "daytona",
        Docker = "docker",
        CloudflareContainers = "cloudflare_containers",
    }
}

impl ProviderName {
    /// The secret or setting without which it cannot work; none for those that need nothing.
    pub fn needs(self) -> Option<&'static str> {
        match self {
            Self::Local | Self::Worker => None,
            Self::Sprites => Some("the project secret SPRITES_TOKEN"),
            Self::Daytona => Some("DAYTONA_API_KEY and DAYTONA_API_URL in the server's environment"),
            Self::Docker => Some("the setting `docker_socket` of the server"),
            Self::CloudflareContainers => {
                Some("the setting `provider_alias` of the server, because this version has no adapter of its own for it")
            }
        }
    }
}

/// One provider as a project sees it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProviderView {
    pub name: ProviderName,
    pub configured: bool,
    /// The provider that really serves this name, when the operator set an alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_by: Option<ProviderName>,
    /// What is missing, when it is not configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// The outcome of a check of a provider.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProviderCheck {
    pub name: ProviderName,
    pub ok: bool,
    pub message: String,
}
