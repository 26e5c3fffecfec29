mod differences;
mod hostile;
mod mount;
mod random;
mod seen;
mod views;
