//! Filters, scores and messages, as a table; then the loop on a server.
