//! What only the Linux kernel can say or do. The one crate of Stead with unsafe code, and usable without the rest of it.

pub mod peer;
