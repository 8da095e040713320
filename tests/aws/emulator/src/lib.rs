//! What AWS does and a [moto](https://docs.getmoto.org) server does not: eventual consistency, capacity with an end, partial fleets, tokens, IAM
//! policies, token buckets. Pure: requests, moto's answers and the time go in, answers come out. The proxy of the AWS tier is around it.
//!
//! Its tests quote the documentation that they follow, because nobody has compared it with AWS itself.

pub mod answer;
pub mod call;
pub mod capacity;
pub mod consistency;
pub mod fleet;
pub mod iam;
pub mod images;
pub mod rules;
pub mod settings;
pub(crate) mod templates;
pub mod throttle;
pub mod xml;
