// Package e2e holds the tests of the whole: the real binary in its own process, with its broker on disk and its
// Postgres, real sockets, devices on SQLite, and a model server that speaks HTTP. It holds nothing else.
package e2e
