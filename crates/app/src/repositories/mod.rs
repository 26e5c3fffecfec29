//! Repositories of an environment: put into it, at a commit that is known.

mod checkout;
