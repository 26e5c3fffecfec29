//! How often one key may call.

use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::{HeaderMap, HeaderValue};
use stead_domain::ids::ApiKeyId;
use stead_domain::{Code, Error, Timestamp};

type Limiter = RateLimiter<ApiKeyId, HashMapStateStore<ApiKeyId>, DefaultClock, StateInformationMiddleware>;

/// A limit per key, refilled evenly over a minute. None at all when the operator set 0.
pub struct Limits {
    limiter: Option<(Limiter, u32)>,
    clock: DefaultClock,
}

/// What the caller is told of its limit.
pub struct Allowance {
    limit: u32,
    remaining: u32,
    /// Until the next request is let through, or the whole allowance is back.
    reset_seconds: u64,
}

impl Limits {
    pub fn per_minute(limit: u32) -> Self {
        let limiter = NonZeroU32::new(limit).map(|limit| {
            let limiter = RateLimiter::hashmap(Quota::per_minute(limit)).with_middleware::<StateInformationMiddleware>();
            (limiter, limit.get())
        });
        Self { limiter, clock: DefaultClock::default() }
    }

    /// Counts a request of this key.
    pub fn count(&self, key: ApiKeyId) -> Result<Option<Allowance>, (Error, Allowance)> {
        let Some((limiter, limit)) = &self.limiter else { return Ok(None) };
        if limiter.len() > 10_000 {
            limiter.retain_recent();
        }
        match limiter.check_key(&key) {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let missing = u64::from(limit.saturating_sub(remaining));
                Ok(Some(Allowance { limit: *limit, remaining, reset_seconds: (missing * 60).div_ceil(u64::from(*limit)) }))
            }
            Err(not_until) => {
                let wait = not_until.wait_time_from(self.clock.now());
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                let error = Error::new(Code::RateLimitExceeded, format!("more than {limit} requests in a minute with one key"))
                    .detail("retry_after_seconds", seconds)
                    .suggestion("wait as long as Retry-After says, or ask the operator for a higher --rate-limit");
                Err((error, Allowance { limit: *limit, remaining: 0, reset_seconds: seconds }))
            }
        }
    }
}

impl Allowance {
    /// The headers of every reply, and `Retry-After` on the one that was refused.
    pub fn write(&self, headers: &mut HeaderMap, now: Timestamp, refused: bool) {
        let reset = u64::try_from(now.microseconds() / 1_000_000).unwrap_or(0) + self.reset_seconds;
        headers.insert("x-ratelimit-limit", HeaderValue::from(self.limit));
        headers.insert("x-ratelimit-remaining", HeaderValue::from(self.remaining));
        headers.insert("x-ratelimit-reset", HeaderValue::from(reset));
        headers.insert("x-ratelimit-scope", HeaderValue::from_static("key"));
        if let Ok(policy) = HeaderValue::from_str(&format!("{};w=60", self.limit)) {
            headers.insert("x-ratelimit-policy", policy);
        }
        if refused {
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from(self.reset_seconds.max(1)));
        }
    }
}
