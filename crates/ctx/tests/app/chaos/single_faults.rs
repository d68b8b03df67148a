//! One fault at a time: wrong passwords, too many connections, other schemas, a wrong clock.
