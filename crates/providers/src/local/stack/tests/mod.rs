mod copying;
mod differences;
mod hostile;
mod merging;
pub mod mount;
pub mod random;
mod seen;
pub mod views;
