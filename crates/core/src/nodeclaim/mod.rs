//! One NodeClaim and its Node become the next step of its life: pure decisions from views and time.
