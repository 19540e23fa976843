// Package postgres runs a private Postgres cluster: it initialises it, starts it as an unprivileged user
// on a unix socket and a free port, supervises it and stops it. It never touches a cluster that it did
// not make, and it is no client library: callers connect by DSN.
package postgres
