//! The binary as its users call it: what it prints in each format, its help, its exit status.
//!
//! The input is `tests/cli/`, and so are the golden outputs. `UPDATE_SCENARIOS=1 cargo test --test cli` writes them again.

#![cfg(all(feature = "lab", feature = "ec2"))]

#[cfg(test)]
mod commit;
#[cfg(test)]
mod goldens;
#[cfg(test)]
mod house;
#[cfg(test)]
mod process;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod statuses;
