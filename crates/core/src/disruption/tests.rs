//! Disruption on small clusters.
