mod copying;
mod differences;
mod hostile;
mod merging;
mod mount;
mod random;
mod seen;
mod views;
