//! GitHub, or a GitHub Enterprise Server: the tokens of an app's installations, and what their users see.
//!
//! A leaf: it implements [`stead_app::GitHost`] and nothing else of ours knows HTTP to GitHub. A connection is made for each call; there are
//! few, because tokens are kept for most of an hour.

mod address;
mod app_key;
mod calls;
mod exchange;
mod http;
mod replies;

pub use address::{Address, InvalidAddress};
pub use app_key::{AppKey, InvalidKey};
pub use http::LIMITS;

use stead_domain::Context;
use stead_domain::secret::SecretValue;

/// What an operator says of the app.
pub struct Options {
    /// The app's id, or its client id.
    pub app_id: String,
    pub key: AppKey,
    /// With which people sign in.
    pub login: Option<(String, SecretValue)>,
    /// Where the API is: `https://api.github.com`.
    pub api: Address,
    /// Where people and git go: `https://github.com`.
    pub web: Address,
    /// What asks it, and whom that trusts.
    pub client: stead_outbound::Client,
}

/// GitHub, as one app knows it.
pub struct Github {
    options: Options,
    /// The name that git knows it by.
    name: String,
    context: Context,
}

impl Github {
    pub fn new(options: Options, context: Context) -> Self {
        let name = options.web.authority();
        Self { options, name, context }
    }
}
