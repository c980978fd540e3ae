//! Servers and clients of the tests' own.
