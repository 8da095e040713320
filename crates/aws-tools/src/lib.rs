//! Read-only tools around the AWS provider: which IAM actions a policy is missing, who owns what in the account, and the prices of
//! a region as a file. The provider does not depend on this crate.

pub mod audit;
pub mod iam;
pub mod live;
pub mod prices;

use comfy_table::{Table, presets};

/// A table without borders, as all tables of the command line are.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}
