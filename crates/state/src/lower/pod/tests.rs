//! Lowering of pods.
